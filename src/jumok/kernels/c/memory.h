/* The only place where the kernels allocate memory.
 *
 * An allocation that fails ends the process with one line on stderr and exit code 74: most callers are threads inside a
 * parallel loop, which have nobody to return an error to (docs/decisions/0015). */
#pragma once
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define CACHE_LINE ((size_t)64)     /* bytes */
#define TOO_LARGE ((size_t)1 << 62) /* bytes that are asked for, in vain, where a size is negative or overflows */

__attribute__((cold, noreturn)) void jk_fail_allocation(size_t bytes);

/* Bytes of `count` elements, at least one. */
static inline size_t bytes_of(int64_t count, size_t size) {
    size_t bytes;
    if (count < 0 || __builtin_mul_overflow(count ? (size_t)count : 1, size, &bytes) || bytes > TOO_LARGE)
        return TOO_LARGE;
    return bytes;
}

static inline void *checked(void *memory, size_t bytes) {
    if (__builtin_expect(memory == NULL, 0)) jk_fail_allocation(bytes);
    return memory;
}

static inline void *new_array(int64_t count, size_t size) {
    size_t bytes = bytes_of(count, size);
    return checked(malloc(bytes), bytes);
}

static inline void *new_zero_array(int64_t count, size_t size) {
    size_t bytes = bytes_of(count, size);
    return checked(calloc(1, bytes), bytes);
}

static inline int64_t *new_integers(int64_t count) { return new_array(count, sizeof(int64_t)); }

/* Floats begin at a cache line. */
static inline float *new_floats(int64_t count) {
    size_t bytes = (bytes_of(count, sizeof(float)) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    return checked(aligned_alloc(CACHE_LINE, bytes), bytes);
}

static inline float *new_zero_floats(int64_t count) {
    float *floats = new_floats(count);
    memset(floats, 0, bytes_of(count, sizeof(float)));
    return floats;
}
