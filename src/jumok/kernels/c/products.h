/* Matrix products on one core: C (M, N) = A B + bias, or C += A B.
 *
 * A tile of C, TILE_ROWS × PANEL, stays in registers during the loop over the depth.  B is packed into panels of PANEL
 * columns, which the tiles of all rows then read from the first-level cache; A is read in place.  A library for
 * matrices of any size packs both and passes over C once more, which for the narrow matrices of a Transformer takes a
 * tenth of the time. */
#pragma once
#include "vectors.h"

#ifdef __AVX512F__
#define LANES 16
#define TILE_ROWS 12
#else
#define LANES 8
#define TILE_ROWS 6
#endif
#define PANEL (2 * LANES)
#define DEPTH 256 /* rows of a panel used at a time: 16 KiB with AVX, half of the first-level cache */

typedef float lanes __attribute__((vector_size(4 * LANES)));
typedef float lanes_unaligned __attribute__((vector_size(4 * LANES), aligned(4)));

INLINE lanes load_lanes(const float *p) { return *(const lanes_unaligned *)p; }
INLINE void store_lanes(float *p, lanes x) { *(lanes_unaligned *)p = x; }

/* A matrix in memory: element (i, j) is at[i · row + j · column]; one of the two strides is 1. */
typedef struct {
    const float *at;
    int64_t row, column;
} matrix;

/* Columns of all panels of a matrix. */
static inline int64_t panel_columns(int64_t columns) { return (columns + PANEL - 1) / PANEL * PANEL; }

/* Copy B (K, N) into panels (N / PANEL, K, PANEL), the last one padded with zeros. */
static inline void pack_panels(float *to, matrix B, int64_t K, int64_t N) {
    for (int64_t n = 0; n < N; n += PANEL, to += K * PANEL) {
        int64_t wide = MIN(PANEL, N - n), even = wide == PANEL && B.row == 1 ? K / WIDTH * WIDTH : 0;
        if (wide == PANEL && B.column == 1) {
            for (int64_t k = 0; k < K; k++)
                for (int64_t w = 0; w < PANEL; w += LANES)
                    store_lanes(to + k * PANEL + w, load_lanes(B.at + k * B.row + n + w));
            continue;
        }
        for (int64_t k = 0; k < even; k += WIDTH)
            for (int64_t w = 0; w < PANEL; w += WIDTH) {
                v8 block[WIDTH];
                for (int r = 0; r < WIDTH; r++) block[r] = load(B.at + (n + w + r) * B.column + k);
                transpose_8x8(block);
                for (int r = 0; r < WIDTH; r++) store(to + (k + r) * PANEL + w, block[r]);
            }
        for (int64_t k = even; k < K; k++)
            for (int64_t w = 0; w < PANEL; w++)
                to[k * PANEL + w] = w < wide ? B.at[k * B.row + (n + w) * B.column] : 0.0f;
    }
}

/* Add the transpose of a panel (K, PANEL) to `wide` rows of K numbers. */
static inline void add_panel(float *to, const float *panel, int64_t K, int64_t wide) {
    int64_t even = wide == PANEL ? K / WIDTH * WIDTH : 0;
    for (int64_t k = 0; k < even; k += WIDTH)
        for (int64_t w = 0; w < PANEL; w += WIDTH) {
            v8 block[WIDTH];
            for (int r = 0; r < WIDTH; r++) block[r] = load(panel + (k + r) * PANEL + w);
            transpose_8x8(block);
            for (int r = 0; r < WIDTH; r++) store(to + (w + r) * K + k, load(to + (w + r) * K + k) + block[r]);
        }
    for (int64_t w = 0; w < wide; w++)
        for (int64_t k = even; k < K; k++) to[w * K + k] += panel[k * PANEL + w];
}

/* One tile of `rows` rows: C = A B + bias, or C += A B with `more`.  A is read in runs of `run` columns that begin
 * `jump` numbers apart. */
INLINE void fill_tile(float *C, int64_t width, const float *A, int64_t row, int64_t column, int64_t run, int64_t jump,
                      const float *panel, int64_t K, const float *bias, int more, int rows) {
    lanes left[TILE_ROWS], right[TILE_ROWS];
    for (int r = 0; r < rows; r++) {
        left[r] = bias ? load_lanes(bias) : (lanes){0};
        right[r] = bias ? load_lanes(bias + LANES) : (lanes){0};
    }
    for (int64_t from = 0; from < K; from += run, A += jump)
        for (int64_t k = 0; k < run; k++, panel += PANEL) {
            lanes b = load_lanes(panel), c = load_lanes(panel + LANES);
#pragma GCC unroll 12
            for (int r = 0; r < rows; r++) {
                float a = A[r * row + k * column];
                left[r] += a * b;
                right[r] += a * c;
            }
        }
    for (int r = 0; r < rows; r++) {
        float *c = C + r * width;
        store_lanes(c, more ? load_lanes(c) + left[r] : left[r]);
        store_lanes(c + LANES, more ? load_lanes(c + LANES) + right[r] : right[r]);
    }
}

/* Layout of the A of a tile: rows of a matrix, `stride` apart; a strip (K, TILE_ROWS) made by `copy_strip`; or panels
 * (K / PANEL, stride, PANEL) as `pack_panels` makes them. */
enum layout { LAYOUT_ROWS, LAYOUT_STRIP, LAYOUT_PANELS };

/* `fill_tile` for a number of rows that is not a constant. */
static void multiply_tile(float *C, int64_t width, const float *A, enum layout layout, int64_t stride,
                          const float *panel, int64_t K, const float *bias, int more, int64_t rows) {
#define TILE_CASE(n)                                                                         \
    case n:                                                                                  \
        if (layout == LAYOUT_STRIP)                                                          \
            fill_tile(C, width, A, 1, TILE_ROWS, K, 0, panel, K, bias, more, n);             \
        else if (layout == LAYOUT_ROWS)                                                      \
            fill_tile(C, width, A, stride, 1, K, 0, panel, K, bias, more, n);                \
        else                                                                                 \
            fill_tile(C, width, A, PANEL, 1, PANEL, stride *PANEL, panel, K, bias, more, n); \
        break;
    switch (rows) {
        TILE_CASE(1)
        TILE_CASE(2)
        TILE_CASE(3)
        TILE_CASE(4)
        TILE_CASE(5)
        TILE_CASE(6)
#if TILE_ROWS == 12
        TILE_CASE(7)
        TILE_CASE(8)
        TILE_CASE(9)
        TILE_CASE(10)
        TILE_CASE(11)
        TILE_CASE(12)
#endif
    }
#undef TILE_CASE
}

/* A tile at the right edge, where C has fewer than PANEL columns left. */
static void multiply_edge_tile(float *C, int64_t width, const float *A, enum layout layout, int64_t stride,
                               const float *panel, int64_t K, const float *bias, int more, int64_t rows, int64_t wide) {
    float whole[TILE_ROWS * PANEL], shift[PANEL] = {0};
    if (bias) memcpy(shift, bias, sizeof(float) * (size_t)wide);
    multiply_tile(whole, PANEL, A, layout, stride, panel, K, shift, 0, rows);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t w = 0; w < wide; w++) C[r * width + w] = whole[r * PANEL + w] + (more ? C[r * width + w] : 0.0f);
}

/* Copy TILE_ROWS columns of A into a strip (K, TILE_ROWS).  With at least LANES columns left (`left`) it copies whole
 * vectors: each row overwrites the excess of the row before, and the strip has LANES numbers more at its end. */
static void copy_strip(float *strip, const float *A, int64_t stride, int64_t K, int64_t rows, int64_t left) {
    if (left >= LANES)
        for (int64_t k = 0; k < K; k++) store_lanes(strip + k * TILE_ROWS, load_lanes(A + k * stride));
    else
        for (int64_t k = 0; k < K; k++)
            for (int64_t r = 0; r < rows; r++) strip[k * TILE_ROWS + r] = A[k * stride + r];
}

/* C (M, N) = A B + bias, or C += A B with `more`; rows of C are `width` apart; B is packed. */
static __attribute__((unused)) void multiply(float *C, int64_t width, matrix A, const float *packed, int64_t M,
                                             int64_t K, int64_t N, const float *bias, int more) {
    float strip[DEPTH * TILE_ROWS + LANES];
    for (int64_t k = 0; k < K || k == 0; k += DEPTH) {
        int64_t deep = MIN(DEPTH, K - k);
        enum layout layout = A.column == 1 ? LAYOUT_ROWS : LAYOUT_STRIP;
        const float *start = k ? NULL : bias;
        more |= k > 0;
#define MULTIPLY_TILE(m, n, from)                                                                           \
    do {                                                                                                    \
        const float *panel = packed + (n) * K + k * PANEL, *shift = start ? start + (n) : NULL;             \
        if (N - (n) >= PANEL)                                                                               \
            multiply_tile(C + (m) * width + (n), width, from, layout, A.row, panel, deep, shift, more,      \
                          MIN(TILE_ROWS, M - (m)));                                                         \
        else                                                                                                \
            multiply_edge_tile(C + (m) * width + (n), width, from, layout, A.row, panel, deep, shift, more, \
                               MIN(TILE_ROWS, M - (m)), N - (n));                                           \
    } while (0)
        if (layout == LAYOUT_STRIP) {
            for (int64_t m = 0; m < M; m += TILE_ROWS) {
                copy_strip(strip, A.at + m + k * A.column, A.column, deep, MIN(TILE_ROWS, M - m), M - m);
                for (int64_t n = 0; n < N; n += PANEL) MULTIPLY_TILE(m, n, strip);
            }
        } else {
            /* Bytes of the next panel to prefetch per tile; without rows there are no tiles. */
            int64_t tiles = MAX(1, (M + TILE_ROWS - 1) / TILE_ROWS), ahead = (deep * PANEL * 4 / tiles + 63) / 64 * 64;
            for (int64_t n = 0; n < N; n += PANEL) {
                const char *next = (const char *)(packed + (n + PANEL) * K + k * PANEL);
                for (int64_t m = 0; m < M; m += TILE_ROWS, next += ahead) {
                    for (int64_t i = 0; i < ahead && n + PANEL < N; i += 64) __builtin_prefetch(next + i);
                    MULTIPLY_TILE(m, n, A.at + m * A.row + k);
                }
            }
        }
#undef MULTIPLY_TILE
    }
}
