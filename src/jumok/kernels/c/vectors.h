/* What every kernel is made of: vectors of eight floats, exp, softmax, layer norm, random bits, and sums over threads.
 *
 * Sums over rows go through one partial sum per thread, so that a result depends only on its input and the number of
 * threads.  The letters of the shapes are explained in kernels.h. */
#pragma once
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <string.h>

#include "memory.h"

typedef float v8 __attribute__((vector_size(32)));
typedef float v8_unaligned __attribute__((vector_size(32), aligned(4)));
typedef int32_t i8 __attribute__((vector_size(32)));
#define WIDTH 8
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define INLINE static inline __attribute__((always_inline))

INLINE v8 load(const float *p) { return *(const v8_unaligned *)p; }
INLINE void store(float *p, v8 x) { *(v8_unaligned *)p = x; }
INLINE v8 choose(i8 mask, v8 yes, v8 no) { return (v8)((mask & (i8)yes) | (~mask & (i8)no)); }
INLINE v8 maximum(v8 x, v8 y) { return choose(x > y, x, y); }

/* Whether any of eight comparisons was true. */
INLINE int any_of(i8 mask) {
    int64_t parts[4];
    memcpy(parts, &mask, sizeof parts);
    return ((parts[0] | parts[1]) | (parts[2] | parts[3])) != 0;
}

INLINE float horizontal_max(v8 x) {
    float top = x[0];
    for (int i = 1; i < WIDTH; i++) top = x[i] > top ? x[i] : top;
    return top;
}

INLINE float horizontal_sum(v8 x) { return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7])); }

/* e^x to about 1e-7: 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2].  NaN stays NaN; below -87 it is 0. */
INLINE v8 exp_v8(v8 x) {
    const v8 low = (v8){0} - 87.0f, high = (v8){0} + 88.0f,
             round = (v8){0} + 12582912.0f; /* adding 1.5 · 2^23 rounds */
    v8 held = choose(x < low, low, choose(x > high, high, x));
    v8 n = held * 1.44269504088896341f + round - round;
    v8 r = held - n * 0.693359375f + n * 2.12194440e-4f;
    v8 p = 1.9875691500e-4f * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    v8 power = (v8)((__builtin_convertvector(n, i8) + 127) << 23);
    return choose(x < low, (v8){0}, p * power);
}

#ifdef __clang__
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (i8){__VA_ARGS__})
#endif

/* Transpose eight rows of eight numbers. */
INLINE void transpose_8x8(v8 r[8]) {
    v8 t[8], u[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = SHUFFLE(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        t[i + 1] = SHUFFLE(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            u[i + 2 * j] = SHUFFLE(t[i + j], t[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            u[i + 2 * j + 1] = SHUFFLE(t[i + j], t[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int i = 0; i < 4; i++) {
        r[i] = SHUFFLE(u[i], u[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        r[i + 4] = SHUFFLE(u[i], u[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

static inline int64_t padded(int64_t n) { return (n + WIDTH - 1) / WIDTH * WIDTH; }

/* Turn the first `visible` of P scores into weights that sum to 1 and the others into 0; all are 0 if none is visible.
 */
static inline void softmax(float *row, int64_t visible, int64_t P) {
    for (int64_t s = visible; s < P; s++) row[s] = -INFINITY;
    v8 top = load(row), total = {0};
    for (int64_t s = WIDTH; s < P; s += WIDTH) top = maximum(load(row + s), top);
    float most = horizontal_max(top);
    if (most == -INFINITY) most = 0.0f; /* no key is visible */
    for (int64_t s = 0; s < P; s += WIDTH) {
        v8 e = exp_v8(load(row + s) - most);
        store(row + s, e);
        total += e;
    }
    float all = horizontal_sum(total), share = all > 0.0f ? 1.0f / all : all;
    for (int64_t s = 0; s < P; s += WIDTH) store(row + s, load(row + s) * share);
}

/* Rotary positions: rotate pairs of numbers of row t by the angles in row t of `rotary` (K cosines, then K sines with
 * the sign that each number needs); sign -1 rotates back. */
static inline void rotate(float *to, int64_t to_stride, const float *from, int64_t stride, const float *rotary,
                          int64_t rows, int64_t K, float sign) {
    for (int64_t t = 0; t < rows; t++)
        for (int64_t i = 0; i < K; i += WIDTH) {
            v8 x = load(from + t * stride + i), other = SHUFFLE(x, x, 1, 0, 3, 2, 5, 4, 7, 6);
            const float *angles = rotary + t * 2 * K + i;
            store(to + t * to_stride + i, x * load(angles) + other * (sign * load(angles + K)));
        }
}

/* Layer norm of one row; also writes its mean and 1 / standard deviation. */
INLINE void normalize_row(float *y, float *mean, float *scale, const float *x, const float *weight, const float *bias,
                          int64_t D, float eps) {
    float sum = 0.0f, square = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t d = 0; d < D; d++) sum += x[d];
    float m = sum / (float)D;
#pragma omp simd reduction(+ : square)
    for (int64_t d = 0; d < D; d++) square += (x[d] - m) * (x[d] - m);
    float r = 1.0f / sqrtf(square / (float)D + eps);
    *mean = m;
    *scale = r;
#pragma omp simd
    for (int64_t d = 0; d < D; d++) y[d] = (x[d] - m) * r * weight[d] + bias[d];
}

/* 32 random bits from a key and a counter (two rounds of multiply and shift, Wang and Ettinger's constants). */
INLINE uint32_t random_bits(uint32_t counter, uint32_t first, uint32_t second) {
    uint32_t x = counter ^ first;
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= (x >> 15) ^ second;
    x *= 0x846ca68bU;
    return x ^ (x >> 16);
}

/* Sums over rows: the first thread adds to the sum itself (NULL here), every other thread to its own `size` numbers of
 * `partial`; `add_partial_sums` then adds the first `count` numbers of each, in order. */
static inline float *partial_sums_of(float *partial, int64_t size) {
    int64_t me = omp_get_thread_num();
    return me ? partial + (me - 1) * size : NULL;
}

static inline void add_partial_sums(float *sum, int64_t count, const float *partial, int64_t size, int64_t others) {
    for (int64_t t = 0; t < others; t++)
        for (int64_t i = 0; i < count; i++) sum[i] += partial[t * size + i];
}
