/* Attention between short sentences, straight from packed projections, and the way back. */
#include "vectors.h"

/* C (M, n) = factor · A (M, k) B (k, n), small enough for the nearest cache; A is read by two strides, so that it may be
 * transposed; n is a multiple of 8; rows of B and C are ldb and ldc apart. */
INLINE void tile(float *C, int64_t ldc, const float *A, int64_t row, int64_t column, const float *B, int64_t ldb, int64_t k,
                 float factor, int rows, int wide) {
    v8 sum[4][2];
    for (int r = 0; r < rows; r++)
        for (int w = 0; w < wide; w++) sum[r][w] = (v8){0};
    for (int64_t i = 0; i < k; i++) {
        v8 b[2];
        for (int w = 0; w < wide; w++) b[w] = load(B + i * ldb + w * WIDE);
        for (int r = 0; r < rows; r++) {
            float a = A[r * row + i * column];
            for (int w = 0; w < wide; w++) sum[r][w] += a * b[w];
        }
    }
    for (int r = 0; r < rows; r++)
        for (int w = 0; w < wide; w++) store(C + r * ldc + w * WIDE, sum[r][w] * factor);
}

static void product(float *C, int64_t ldc, const float *A, int64_t row, int64_t column, const float *B, int64_t ldb,
                    int64_t M, int64_t n, int64_t k, float factor) {
#define TILE(rows, wide) tile(C + m * ldc + j, ldc, A + m * row, row, column, B + j, ldb, k, factor, rows, wide)
    for (int64_t j = 0; j < n; j += 2 * WIDE)
        for (int64_t m = 0; m < M; m += 4)
            switch (MIN(M - m, 4) * 2 - (n - j < 2 * WIDE)) {
            case 8: TILE(4, 2); break;
            case 7: TILE(4, 1); break;
            case 6: TILE(3, 2); break;
            case 5: TILE(3, 1); break;
            case 4: TILE(2, 2); break;
            case 3: TILE(2, 1); break;
            case 2: TILE(1, 2); break;
            default: TILE(1, 1);
            }
#undef TILE
}

/* Rows of `width` numbers, `stride` apart, become columns; `ld` is the padded number of rows. */
static inline void transpose(float *to, int64_t ld, const float *from, int64_t stride, int64_t rows, int64_t width) {
    for (int64_t i = 0; i < ld; i += WIDE)
        for (int64_t c = 0; c < width; c += WIDE) {
            v8 block[8];
            for (int r = 0; r < WIDE; r++) block[r] = i + r < rows ? load(from + (i + r) * stride + c) : (v8){0};
            turn(block);
            for (int r = 0; r < WIDE; r++) store(to + (c + r) * ld + i, block[r]);
        }
}

/* Rows of queries or keys and how far apart they are: where they lie, or, turned, in `scratch`. */
typedef struct {
    const float *at;
    int64_t stride;
} lines;

static lines placed(float *scratch, const float *from, int64_t stride, const float *turns, int64_t rows, int64_t K) {
    if (!turns) return (lines){from, stride};
    rotate(scratch, K, from, stride, turns, rows, K, 1.0f);
    return (lines){scratch, K};
}

/* out (B, T, H·E) = softmax(factor q kᵀ) v over the first lengths[b] keys, or, with causal, over keys 0 … t; with
 * `turns`, q and k have rotary positions 0, 1, ….
 * weights (B, H, T, padded S) are kept for the way back.  A query that may look nowhere gets zeros. */
void attention(float *out, float *weights, const float *q, int64_t q_stride, const float *k, int64_t k_stride,
               const float *v, int64_t v_stride, const int64_t *lengths, const float *turns, int64_t B, int64_t H,
               int64_t T, int64_t S, int64_t K, int64_t E, float factor, int causal) {
    int64_t P = padded(S);
#pragma omp parallel
    {
        float *turned = room(K * P), *scratch = room((T + S) * K);
#pragma omp for schedule(static)
        for (int64_t bh = 0; bh < B * H; bh++) {
            int64_t b = bh / H, h = bh % H, seen = lengths ? lengths[b] : S;
            const float *values = v + b * S * v_stride + h * E;
            float *w = weights + bh * T * P;
            lines queries = placed(scratch, q + b * T * q_stride + h * K, q_stride, turns, T, K);
            lines keys = placed(scratch + T * K, k + b * S * k_stride + h * K, k_stride, turns, S, K);
            transpose(turned, P, keys.at, keys.stride, S, K);
            product(w, P, queries.at, queries.stride, 1, turned, P, T, P, K, factor);
            for (int64_t t = 0; t < T; t++) softmax(w + t * P, causal ? MIN(t + 1, seen) : seen, P);
            product(out + b * T * H * E + h * E, H * E, w, P, 1, values, v_stride, T, E, S, 1.0f);
        }
        free(turned);
        free(scratch);
    }
}

/* Gradients of `attention`: dq, dk, dv are written with the strides of q, k, v. */
void attention_backward(float *dq, float *dk, float *dv, const float *gradient, const float *weights, const float *q,
                        int64_t q_stride, const float *k, int64_t k_stride, const float *v, int64_t v_stride,
                        const float *turns, int64_t B, int64_t H, int64_t T, int64_t S, int64_t K, int64_t E,
                        float factor) {
    int64_t P = padded(S);
#pragma omp parallel
    {
        float *turned = room(E * P), *ds = room(T * P), *scratch = room((T + S) * K);
#pragma omp for schedule(static)
        for (int64_t bh = 0; bh < B * H; bh++) {
            int64_t b = bh / H, h = bh % H;
            const float *g = gradient + b * T * H * E + h * E, *w = weights + bh * T * P;
            int64_t at_q = b * T * q_stride + h * K, at_k = b * S * k_stride + h * K, at_v = b * S * v_stride + h * E;
            transpose(turned, P, v + at_v, v_stride, S, E);
            product(ds, P, g, H * E, 1, turned, P, T, P, E, 1.0f);
            for (int64_t t = 0; t < T; t++) {
                float *row = ds + t * P;
                const float *p = w + t * P;
                v8 sum = {0};
                for (int64_t s = 0; s < P; s += WIDE) sum += load(row + s) * load(p + s);
                float along = sum_of(sum);
                for (int64_t s = 0; s < P; s += WIDE) store(row + s, load(p + s) * (load(row + s) - along));
            }
            lines queries = placed(scratch, q + at_q, q_stride, turns, T, K);
            lines keys = placed(scratch + T * K, k + at_k, k_stride, turns, S, K);
            product(dq + at_q, q_stride, ds, P, 1, keys.at, keys.stride, T, K, S, factor);
            product(dk + at_k, k_stride, ds, 1, P, queries.at, queries.stride, S, K, T, factor);
            if (turns) {
                rotate(dq + at_q, q_stride, dq + at_q, q_stride, turns, T, K, -1.0f);
                rotate(dk + at_k, k_stride, dk + at_k, k_stride, turns, S, K, -1.0f);
            }
            product(dv + at_v, v_stride, w, 1, P, g, H * E, S, E, T, 1.0f);
        }
        free(turned);
        free(ds);
        free(scratch);
    }
}
