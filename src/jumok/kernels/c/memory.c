/* What happens when an allocation fails. */
#include "memory.h"
#include <stdio.h>
#include <unistd.h>

#define OUT_OF_MEMORY 74 /* exit code: the machine is at fault, and a run can be resumed once there is memory */

/* stdio may allocate, so the line is written without it.  The first of several threads that fail writes it; the others
 * wait for the process to end. */
void jk_fail_allocation(size_t bytes) {
    static int failed = 0;
    char line[256];
    int length = snprintf(line, sizeof line,
                          "jumok: out of memory: the kernels could not allocate %zu bytes; try: smaller batches, a "
                          "smaller beam, shorter sentences, or a machine with more free memory\n",
                          bytes);
    while (__atomic_exchange_n(&failed, 1, __ATOMIC_SEQ_CST)) pause();
    if (write(STDERR_FILENO, line, (size_t)length) < 0) _exit(OUT_OF_MEMORY);
    _exit(OUT_OF_MEMORY);
}
