/* What Python asks about the compiled file: the sizes of the structures it fills, and who compiled it. */
#include "kernels.h"
#include <string.h>

int64_t jk_struct_size(const char *name) {
#define SIZE_OF(type) \
    if (strcmp(name, #type) == 0) return (int64_t)sizeof(type);
    SIZE_OF(attention_task)
    SIZE_OF(pass_task)
    SIZE_OF(dense)
    SIZE_OF(norm_weights)
    SIZE_OF(layer_weights)
    SIZE_OF(stack)
    SIZE_OF(step_task)
    SIZE_OF(automaton)
    SIZE_OF(search_rules)
    SIZE_OF(search_task)
    SIZE_OF(force_task)
    SIZE_OF(edit)
    SIZE_OF(edit_list)
    SIZE_OF(read_task)
    SIZE_OF(edited_step)
#undef SIZE_OF
    return -1;
}

const char *jk_compiler(void) {
#ifdef __clang__
    return "clang " __clang_version__;
#else
    return "gcc " __VERSION__;
#endif
}
