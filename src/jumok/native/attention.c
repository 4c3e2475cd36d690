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

static inline int64_t padded(int64_t n) { return (n + WIDE - 1) / WIDE * WIDE; }

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

/* The first `open` of P scores become weights that sum to 1, the others 0; all 0 where none is open. */
static inline void softmax(float *row, int64_t open, int64_t P) {
    for (int64_t s = open; s < P; s++) row[s] = -INFINITY;
    v8 top = load(row), total = {0};
    for (int64_t s = WIDE; s < P; s += WIDE) top = larger(load(row + s), top);
    float most = largest(top);
    if (most == -INFINITY) most = 0.0f; /* may look nowhere */
    for (int64_t s = 0; s < P; s += WIDE) {
        v8 e = exponential(load(row + s) - most);
        store(row + s, e);
        total += e;
    }
    float all = sum_of(total), share = all > 0.0f ? 1.0f / all : all;
    for (int64_t s = 0; s < P; s += WIDE) store(row + s, load(row + s) * share);
}

/* out (B, T, H·E) = softmax(factor q kᵀ) v over the first lengths[b] keys, or, with causal, over keys 0 … t.
 * weights (B, H, T, padded S) are kept for the way back.  A query that may look nowhere gets zeros. */
void attention(float *out, float *weights, const float *q, int64_t q_stride, const float *k, int64_t k_stride,
               const float *v, int64_t v_stride, const int64_t *lengths, int64_t B, int64_t H, int64_t T, int64_t S,
               int64_t K, int64_t E, float factor, int causal) {
    int64_t P = padded(S);
#pragma omp parallel
    {
        float *turned = malloc(sizeof(float) * (size_t)(K * P));
#pragma omp for schedule(static)
        for (int64_t bh = 0; bh < B * H; bh++) {
            int64_t b = bh / H, h = bh % H, seen = lengths ? lengths[b] : S;
            const float *queries = q + b * T * q_stride + h * K, *values = v + b * S * v_stride + h * E;
            float *w = weights + bh * T * P;
            transpose(turned, P, k + b * S * k_stride + h * K, k_stride, S, K);
            product(w, P, queries, q_stride, 1, turned, P, T, P, K, factor);
            for (int64_t t = 0; t < T; t++) softmax(w + t * P, causal ? MIN(t + 1, seen) : seen, P);
            product(out + b * T * H * E + h * E, H * E, w, P, 1, values, v_stride, T, E, S, 1.0f);
        }
        free(turned);
    }
}

/* Gradients of `attention`: dq, dk, dv are written with the strides of q, k, v. */
void attention_backward(float *dq, float *dk, float *dv, const float *gradient, const float *weights, const float *q,
                        int64_t q_stride, const float *k, int64_t k_stride, const float *v, int64_t v_stride, int64_t B,
                        int64_t H, int64_t T, int64_t S, int64_t K, int64_t E, float factor) {
    int64_t P = padded(S);
#pragma omp parallel
    {
        float *turned = malloc(sizeof(float) * (size_t)(E * P)), *ds = malloc(sizeof(float) * (size_t)(T * P));
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
            product(dq + at_q, q_stride, ds, P, 1, k + at_k, k_stride, T, K, S, factor);
            product(dk + at_k, k_stride, ds, 1, P, q + at_q, q_stride, S, K, T, factor);
            product(dv + at_v, v_stride, w, 1, P, g, H * E, S, E, T, 1.0f);
        }
        free(turned);
        free(ds);
    }
}
