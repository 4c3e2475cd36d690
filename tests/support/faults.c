/* What a disk and a power cut can do, between a program and the system: loaded before libc (LD_PRELOAD).
 *
 * A rule is "call|pattern|nth|action": the nth call (from 1; "3+" is every one from the third on) of open, write, fsync,
 * rename, unlink, mkdir or truncate on a path that fits the pattern of fnmatch.  Actions: kill-before and kill-after
 * (SIGKILL), short (half of a write is done), or the number of an error.  Several rules stand one a line; `faults_set`
 * takes them while the program runs, and counts from nothing again.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { NOTHING = 0, KILL_BEFORE = -1, KILL_AFTER = -2, SHORT = -3 };

static struct rule {
    char call[16], pattern[512];
    long nth, seen;
    int onwards, action;
} rules[16];
static int count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void faults_set(const char *text) {
    pthread_mutex_lock(&lock);
    count = 0;
    while (text && *text && count < 16) {
        struct rule *one = &rules[count];
        char number[32], action[32];
        int used = 0;
        memset(one, 0, sizeof *one);
        if (sscanf(text, "%15[^|]|%511[^|]|%31[^|]|%31[^\n]%n", one->call, one->pattern, number, action, &used) == 4) {
            one->nth = atol(number);
            one->onwards = strchr(number, '+') != NULL;
            one->action = !strcmp(action, "kill-before")  ? KILL_BEFORE
                          : !strcmp(action, "kill-after") ? KILL_AFTER
                          : !strcmp(action, "short")      ? SHORT
                                                          : atoi(action);
            count++;
        }
        text += used;
        while (*text && *text++ != '\n') {}
    }
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void begin(void) { faults_set(getenv("FAULTS")); }

static int decide(const char *call, const char *path) {
    int action = NOTHING;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < count; i++) {
        struct rule *one = &rules[i];
        if (strcmp(one->call, call) || fnmatch(one->pattern, path, 0)) continue;
        one->seen++;
        if (action == NOTHING && (one->seen == one->nth || (one->onwards && one->seen > one->nth))) action = one->action;
    }
    pthread_mutex_unlock(&lock);
    if (action == KILL_BEFORE) kill(getpid(), SIGKILL);
    return action;
}

static void after(int action) {
    if (action == KILL_AFTER) kill(getpid(), SIGKILL);
}

static void of_file(int file, char *path, size_t size) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, size - 1);
    path[length < 0 ? 0 : length] = 0;
}

static void of_place(int folder, const char *name, char *path, size_t size) {
    char base[2048] = "";
    if (name[0] == '/') snprintf(path, size, "%s", name);
    else {
        if (folder == AT_FDCWD) { if (!getcwd(base, sizeof base)) base[0] = 0; }
        else of_file(folder, base, sizeof base);
        snprintf(path, size, "%s/%s", base, name);
    }
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)
#define AT(call, folder, name) \
    char path[4096]; \
    of_place(folder, name, path, sizeof path); \
    int action = count ? decide(call, path) : NOTHING; \
    if (action > 0) { errno = action; return -1; }
#define ON(call, file) \
    char path[4096] = ""; \
    int action = NOTHING; \
    if (count && file > 2) { of_file(file, path, sizeof path); action = decide(call, path); } \
    if (action > 0) { errno = action; return -1; }
#define DONE(type, value) \
    type result = value; \
    int kept = errno; \
    after(action); \
    errno = kept; \
    return result

#define OPENS(name, ...) \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { va_list list; va_start(list, flags); mode = va_arg(list, mode_t); va_end(list); } \
    REAL(name); \
    int writes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT);

int open(const char *name, int flags, ...) { OPENS(open) if (!writes) return real(name, flags, mode); AT("open", AT_FDCWD, name) DONE(int, real(name, flags, mode)); }
int open64(const char *name, int flags, ...) { OPENS(open64) if (!writes) return real(name, flags, mode); AT("open", AT_FDCWD, name) DONE(int, real(name, flags, mode)); }
int openat(int folder, const char *name, int flags, ...) { OPENS(openat) if (!writes) return real(folder, name, flags, mode); AT("open", folder, name) DONE(int, real(folder, name, flags, mode)); }
int openat64(int folder, const char *name, int flags, ...) { OPENS(openat64) if (!writes) return real(folder, name, flags, mode); AT("open", folder, name) DONE(int, real(folder, name, flags, mode)); }

#define HALF(size) (action == SHORT && (size) > 1 ? (size) / 2 : (size))
ssize_t write(int file, const void *from, size_t size) { REAL(write); ON("write", file) DONE(ssize_t, real(file, from, HALF(size))); }
ssize_t pwrite(int file, const void *from, size_t size, off_t at) { REAL(pwrite); ON("write", file) DONE(ssize_t, real(file, from, HALF(size), at)); }
ssize_t pwrite64(int file, const void *from, size_t size, off64_t at) { REAL(pwrite64); ON("write", file) DONE(ssize_t, real(file, from, HALF(size), at)); }
ssize_t writev(int file, const struct iovec *from, int parts) { REAL(writev); ON("write", file) DONE(ssize_t, real(file, from, HALF(parts))); }
int fsync(int file) { REAL(fsync); ON("fsync", file) DONE(int, real(file)); }
int fdatasync(int file) { REAL(fdatasync); ON("fsync", file) DONE(int, real(file)); }
int ftruncate(int file, off_t size) { REAL(ftruncate); ON("truncate", file) DONE(int, real(file, size)); }
int ftruncate64(int file, off64_t size) { REAL(ftruncate64); ON("truncate", file) DONE(int, real(file, size)); }
int truncate(const char *name, off_t size) { REAL(truncate); AT("truncate", AT_FDCWD, name) DONE(int, real(name, size)); }
int truncate64(const char *name, off64_t size) { REAL(truncate64); AT("truncate", AT_FDCWD, name) DONE(int, real(name, size)); }
int rename(const char *from, const char *to) { REAL(rename); AT("rename", AT_FDCWD, to) DONE(int, real(from, to)); }
int renameat(int a, const char *from, int b, const char *to) { REAL(renameat); AT("rename", b, to) DONE(int, real(a, from, b, to)); }
int unlink(const char *name) { REAL(unlink); AT("unlink", AT_FDCWD, name) DONE(int, real(name)); }
int unlinkat(int folder, const char *name, int flags) { REAL(unlinkat); AT("unlink", folder, name) DONE(int, real(folder, name, flags)); }
int rmdir(const char *name) { REAL(rmdir); AT("unlink", AT_FDCWD, name) DONE(int, real(name)); }
int mkdir(const char *name, mode_t mode) { REAL(mkdir); AT("mkdir", AT_FDCWD, name) DONE(int, real(name, mode)); }
int mkdirat(int folder, const char *name, mode_t mode) { REAL(mkdirat); AT("mkdir", folder, name) DONE(int, real(folder, name, mode)); }
