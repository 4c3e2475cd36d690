/* Attention straight from packed projections, and its backward pass.
 *
 * Short sentences keep their weights for the backward pass; long ones are handed to long_attention.c. */
#include "kernels.h"
#include "vectors.h"

#define TALL 6 /* rows of a tile at most */

/* C (M, n) = factor · A (M, k) B (k, n), small enough for the nearest cache; A is read by two strides, so that it may be
 * transposed; n is a multiple of 8; rows of B and C are ldb and ldc apart. */
INLINE void tile(float *C, int64_t ldc, const float *A, int64_t row, int64_t column, const float *B, int64_t ldb, int64_t k,
                 float factor, int rows, int wide) {
    v8 sum[TALL][2];
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

/* Tiles of rows as equal as can be, for a short one keeps the core waiting: 14 rows are 5, 5 and 4. */
static void product(float *C, int64_t ldc, const float *A, int64_t row, int64_t column, const float *B, int64_t ldb,
                    int64_t M, int64_t n, int64_t k, float factor) {
#define TILE(rows, wide)                                                                                \
    case 2 * rows + wide - 1:                                                                           \
        tile(C + m * ldc + j, ldc, A + m * row, row, column, B + j, ldb, k, factor, rows, wide);        \
        break;
    int64_t tiles = (M + TALL - 1) / TALL;
    for (int64_t j = 0; j < n; j += 2 * WIDE)
        for (int64_t t = 0; t < tiles; t++) {
            int64_t m = M * t / tiles, rows = M * (t + 1) / tiles - m;
            switch (2 * rows + (n - j >= 2 * WIDE)) {
                TILE(1, 1) TILE(2, 1) TILE(3, 1) TILE(4, 1) TILE(5, 1) TILE(6, 1)
                TILE(1, 2) TILE(2, 2) TILE(3, 2) TILE(4, 2) TILE(5, 2) TILE(6, 2)
            }
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

/* One head of one sentence: how many queries and keys it has, how many of the keys are seen, whether it is a long one, and where
 * all of it is. */
typedef struct {
    int64_t T, S, P, seen, is_long, to_q, to_k, to_v, to_out, to_kept;
} place;

static inline int is_long(const attending *a, int64_t queries, int64_t keys) { return MAX(queries, keys) > a->longest; }

/* Where what is kept of each sentence begins (B + 1), and the largest numbers of queries and keys of the short sentences. */
static int64_t *kept_of(const attending *a, int64_t *T, int64_t *S) {
    int64_t *begin = malloc(sizeof(int64_t) * (size_t)(a->B + 1));
    *T = *S = begin[0] = 0;
    for (int64_t b = 0; b < a->B; b++) {
        int64_t queries = a->queries[b + 1] - a->queries[b], keys = a->keys[b + 1] - a->keys[b];
        int apart = is_long(a, queries, keys);
        begin[b + 1] = begin[b] + a->H * queries * (apart ? 1 : padded(keys));
        if (!apart) *T = MAX(*T, queries), *S = MAX(*S, keys);
    }
    return begin;
}

int64_t attention_kept(const attending *a) {
    int64_t T, S, *begin = kept_of(a, &T, &S), size = begin[a->B];
    free(begin);
    return size;
}

static place find(const attending *a, const int64_t *begin, int64_t bh) {
    int64_t b = bh / a->H, h = bh % a->H, q = a->queries[b], k = a->keys[b];
    int64_t T = a->queries[b + 1] - q, S = a->keys[b + 1] - k, P = padded(S), apart = is_long(a, T, S);
    return (place){T, S, P, a->lengths ? a->lengths[b] : S, apart, q * a->q_stride + h * a->K, k * a->k_stride + h * a->K,
                   k * a->v_stride + h * a->E, (q * a->H + h) * a->E, begin[b] + h * T * (apart ? 1 : P)};
}

static head head_of(const attending *a, const place *p) {
    return (head){p->T, p->S, p->seen, a->K, a->E, a->q_stride, a->k_stride, a->v_stride, a->H * a->E, a->causal, a->turns,
                  a->factor};
}

/* out (N, H·E) = softmax(factor q kᵀ) v, every sentence by itself; of each short sentence the weights (H, T, padded S) are kept
 * for the backward pass, of each long one what long_attention.c keeps (H, T).  A query that may look nowhere gets zeros. */
void attention(float *out, float *kept, const float *q, const float *k, const float *v, const attending *a) {
    int64_t T, S, *begin = kept_of(a, &T, &S), K = a->K, E = a->E;
#pragma omp parallel
    {
        float *turned = room(K * padded(S)), *scratch = room((T + S) * K);
#pragma omp for schedule(static)
        for (int64_t bh = 0; bh < a->B * a->H; bh++) {
            place p = find(a, begin, bh);
            float *w = kept + p.to_kept;
            if (p.is_long) {
                head h = head_of(a, &p);
                long_attention(out + p.to_out, w, q + p.to_q, k + p.to_k, v + p.to_v, &h);
                continue;
            }
            lines queries = placed(scratch, q + p.to_q, a->q_stride, a->turns, p.T, K);
            lines keys = placed(scratch + p.T * K, k + p.to_k, a->k_stride, a->turns, p.S, K);
            transpose(turned, p.P, keys.at, keys.stride, p.S, K);
            product(w, p.P, queries.at, queries.stride, 1, turned, p.P, p.T, p.P, K, a->factor);
            for (int64_t t = 0; p.S && t < p.T; t++) softmax(w + t * p.P, a->causal ? MIN(t + 1, p.seen) : p.seen, p.P);
            product(out + p.to_out, a->H * E, w, p.P, 1, v + p.to_v, a->v_stride, p.T, E, p.S, 1.0f);
        }
        free(turned);
        free(scratch);
    }
    free(begin);
}

/* Gradients of `attention`: dq, dk, dv are written with the strides of q, k, v; `out` is what it gave. */
void attention_backward(float *dq, float *dk, float *dv, const float *gradient, const float *out, const float *kept,
                        const float *q, const float *k, const float *v, const attending *a) {
    int64_t T, S, *begin = kept_of(a, &T, &S), K = a->K, E = a->E;
#pragma omp parallel
    {
        float *turned = room(E * padded(S)), *ds = room(T * padded(S)), *scratch = room((T + S) * K);
#pragma omp for schedule(static)
        for (int64_t bh = 0; bh < a->B * a->H; bh++) {
            place p = find(a, begin, bh);
            const float *g = gradient + p.to_out, *w = kept + p.to_kept;
            if (p.is_long) {
                head h = head_of(a, &p);
                long_attention_backward(dq + p.to_q, dk + p.to_k, dv + p.to_v, g, out + p.to_out, w, q + p.to_q, k + p.to_k,
                                        v + p.to_v, &h);
                continue;
            }
            transpose(turned, p.P, v + p.to_v, a->v_stride, p.S, E);
            product(ds, p.P, g, a->H * E, 1, turned, p.P, p.T, p.P, E, 1.0f);
            for (int64_t t = 0; t < p.T; t++) {
                float *row = ds + t * p.P;
                const float *share = w + t * p.P;
                v8 sum = {0};
                for (int64_t s = 0; s < p.P; s += WIDE) sum += load(row + s) * load(share + s);
                float along = sum_of(sum);
                for (int64_t s = 0; s < p.P; s += WIDE) store(row + s, load(share + s) * (load(row + s) - along));
            }
            lines queries = placed(scratch, q + p.to_q, a->q_stride, a->turns, p.T, K);
            lines keys = placed(scratch + p.T * K, k + p.to_k, a->k_stride, a->turns, p.S, K);
            product(dq + p.to_q, a->q_stride, ds, p.P, 1, keys.at, keys.stride, p.T, K, p.S, a->factor);
            product(dk + p.to_k, a->k_stride, ds, 1, p.P, queries.at, queries.stride, p.S, K, p.T, a->factor);
            if (a->turns) {
                rotate(dq + p.to_q, a->q_stride, dq + p.to_q, a->q_stride, a->turns, p.T, K, -1.0f);
                rotate(dk + p.to_k, a->k_stride, dk + p.to_k, a->k_stride, a->turns, p.S, K, -1.0f);
            }
            product(dv + p.to_v, a->v_stride, w, 1, p.P, g, a->H * E, p.S, E, p.T, 1.0f);
        }
        free(turned);
        free(ds);
        free(scratch);
    }
    free(begin);
}
