/* Matrix products on one core: C (M, N) = A B + bias, or C += A B.
 *
 * A tile of C, HIGH rows of BROAD columns, stays in registers while the depth goes by.  B is repacked into panels of BROAD
 * columns, which the tiles of all rows then read from the nearest cache; A is read where it lies.  A library that
 * must take matrices of any size repacks both and passes over C once more; for the narrow matrices of a
 * Transformer that is a tenth of the time.
 */
#pragma once
#include "vectors.h"

#ifdef __AVX512F__
#define LANES 16
#define HIGH 12
#else
#define LANES 8
#define HIGH 6
#endif
#define BROAD (2 * LANES)
#define DEEP 256 /* rows of a panel that are used at a time: 16 KiB, half of the nearest cache */

typedef float lanes __attribute__((vector_size(4 * LANES)));
typedef float loose_lanes __attribute__((vector_size(4 * LANES), aligned(4)));

INLINE lanes take(const float *p) { return *(const loose_lanes *)p; }
INLINE void put(float *p, lanes x) { *(loose_lanes *)p = x; }

/* Where a matrix lies: element (i, j) is at[i · row + j · column]; one of the two strides is 1. */
typedef struct {
    const float *at;
    int64_t row, column;
} matrix;

static inline int64_t panels(int64_t columns) { return (columns + BROAD - 1) / BROAD * BROAD; }

/* B (K, N) as panels of BROAD columns, (N / BROAD, K, BROAD), the last one filled up with zeros. */
static void pack(float *to, matrix B, int64_t K, int64_t N) {
    for (int64_t n = 0; n < N; n += BROAD, to += K * BROAD) {
        int64_t wide = MIN(BROAD, N - n), even = wide == BROAD && B.row == 1 ? K / WIDE * WIDE : 0;
        if (wide == BROAD && B.column == 1) {
            for (int64_t k = 0; k < K; k++)
                for (int64_t w = 0; w < BROAD; w += LANES) put(to + k * BROAD + w, take(B.at + k * B.row + n + w));
            continue;
        }
        for (int64_t k = 0; k < even; k += WIDE)
            for (int64_t w = 0; w < BROAD; w += WIDE) {
                v8 block[WIDE];
                for (int r = 0; r < WIDE; r++) block[r] = load(B.at + (n + w + r) * B.column + k);
                turn(block);
                for (int r = 0; r < WIDE; r++) store(to + (k + r) * BROAD + w, block[r]);
            }
        for (int64_t k = even; k < K; k++)
            for (int64_t w = 0; w < BROAD; w++)
                to[k * BROAD + w] = w < wide ? B.at[k * B.row + (n + w) * B.column] : 0.0f;
    }
}

/* A panel (K, BROAD) is added to `wide` rows of K numbers. */
static inline void add_panel(float *to, const float *panel, int64_t K, int64_t wide) {
    int64_t even = wide == BROAD ? K / WIDE * WIDE : 0;
    for (int64_t k = 0; k < even; k += WIDE)
        for (int64_t w = 0; w < BROAD; w += WIDE) {
            v8 block[WIDE];
            for (int r = 0; r < WIDE; r++) block[r] = load(panel + (k + r) * BROAD + w);
            turn(block);
            for (int r = 0; r < WIDE; r++) store(to + (w + r) * K + k, load(to + (w + r) * K + k) + block[r]);
        }
    for (int64_t w = 0; w < wide; w++)
        for (int64_t k = even; k < K; k++) to[w * K + k] += panel[k * BROAD + w];
}

/* One tile of `rows` rows: C = A B + bias, or C += A B where `more`.  A goes on for `run` columns at a time, and then `jump`
 * numbers further on. */
INLINE void fill_tile(float *C, int64_t width, const float *A, int64_t row, int64_t column, int64_t run, int64_t jump,
                      const float *panel, int64_t K, const float *bias, int more, int rows) {
    lanes left[HIGH], right[HIGH];
    for (int r = 0; r < rows; r++) {
        left[r] = bias ? take(bias) : (lanes){0};
        right[r] = bias ? take(bias + LANES) : (lanes){0};
    }
    for (int64_t from = 0; from < K; from += run, A += jump)
        for (int64_t k = 0; k < run; k++, panel += BROAD) {
            lanes b = take(panel), c = take(panel + LANES);
#pragma GCC unroll 12
            for (int r = 0; r < rows; r++) {
                float a = A[r * row + k * column];
                left[r] += a * b;
                right[r] += a * c;
            }
        }
    for (int r = 0; r < rows; r++) {
        float *c = C + r * width;
        put(c, more ? take(c) + left[r] : left[r]);
        put(c + LANES, more ? take(c + LANES) + right[r] : right[r]);
    }
}

/* How the A of a tile lies: rows of a matrix, `stride` apart; a strip (K, HIGH) as `turn_strip` makes it; or panels
 * (K / BROAD, stride, BROAD) as `pack` makes them. */
enum lie { ROWS_APART, STRIP, PANELS };

/* The same for a number of rows that is known only now. */
static void tile(float *C, int64_t width, const float *A, enum lie lie, int64_t stride, const float *panel, int64_t K,
                 const float *bias, int more, int64_t rows) {
#define TALL(n)                                                                                       \
    case n:                                                                                           \
        if (lie == STRIP)                                                                             \
            fill_tile(C, width, A, 1, HIGH, K, 0, panel, K, bias, more, n);                           \
        else if (lie == ROWS_APART)                                                                   \
            fill_tile(C, width, A, stride, 1, K, 0, panel, K, bias, more, n);                         \
        else                                                                                          \
            fill_tile(C, width, A, BROAD, 1, BROAD, stride * BROAD, panel, K, bias, more, n);         \
        break;
    switch (rows) {
        TALL(1) TALL(2) TALL(3) TALL(4) TALL(5) TALL(6)
#if HIGH == 12
        TALL(7) TALL(8) TALL(9) TALL(10) TALL(11) TALL(12)
#endif
    }
#undef TALL
}

/* A tile at the right edge, where C has fewer than BROAD columns. */
static void edge_tile(float *C, int64_t width, const float *A, enum lie lie, int64_t stride, const float *panel, int64_t K,
                      const float *bias, int more, int64_t rows, int64_t wide) {
    float whole[HIGH * BROAD], shift[BROAD] = {0};
    if (bias) memcpy(shift, bias, sizeof(float) * (size_t)wide);
    tile(whole, BROAD, A, lie, stride, panel, K, shift, 0, rows);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t w = 0; w < wide; w++)
            C[r * width + w] = whole[r * BROAD + w] + (more ? C[r * width + w] : 0.0f);
}

/* HIGH columns of A as a strip (K, HIGH).  Writes whole vectors; the next row overwrites what is too much. */
static void turn_strip(float *strip, const float *A, int64_t stride, int64_t K, int64_t rows, int64_t behind) {
    if (behind >= LANES)
        for (int64_t k = 0; k < K; k++) put(strip + k * HIGH, take(A + k * stride));
    else
        for (int64_t k = 0; k < K; k++)
            for (int64_t r = 0; r < rows; r++) strip[k * HIGH + r] = A[k * stride + r];
}

/* C (M, N) = A B + bias, or C += A B where `more`; rows of C are `width` apart; B is packed. */
__attribute__((unused)) static void multiply(float *C, int64_t width, matrix A, const float *packed, int64_t M, int64_t K, int64_t N,
                     const float *bias, int more) {
    float strip[DEEP * HIGH + LANES];
    for (int64_t k = 0; k < K || k == 0; k += DEEP) {
        int64_t deep = MIN(DEEP, K - k);
        enum lie lie = A.column == 1 ? ROWS_APART : STRIP;
        const float *start = k ? NULL : bias;
        more |= k > 0;
#define TILE(m, n, from)                                                                                              \
    do {                                                                                                              \
        const float *panel = packed + (n) * K + k * BROAD, *shift = start ? start + (n) : NULL;                       \
        if (N - (n) >= BROAD)                                                                                         \
            tile(C + (m) * width + (n), width, from, lie, A.row, panel, deep, shift, more, MIN(HIGH, M - (m)));    \
        else                                                                                                          \
            edge_tile(C + (m) * width + (n), width, from, lie, A.row, panel, deep, shift, more, MIN(HIGH, M - (m)), \
                      N - (n));                                                                                       \
    } while (0)
        if (lie == STRIP) {
            for (int64_t m = 0; m < M; m += HIGH) {
                turn_strip(strip, A.at + m + k * A.column, A.column, deep, MIN(HIGH, M - m), M - m);
                for (int64_t n = 0; n < N; n += BROAD) TILE(m, n, strip);
            }
        } else {
            int64_t ahead = (deep * BROAD * 4 / ((M + HIGH - 1) / HIGH) + 63) / 64 * 64; /* bytes of the next panel, a tile */
            for (int64_t n = 0; n < N; n += BROAD) {
                const char *next = (const char *)(packed + (n + BROAD) * K + k * BROAD);
                for (int64_t m = 0; m < M; m += HIGH, next += ahead) {
                    for (int64_t i = 0; i < ahead && n + BROAD < N; i += 64) __builtin_prefetch(next + i);
                    TILE(m, n, A.at + m * A.row + k);
                }
            }
        }
#undef TILE
    }
}
