/* Attention straight from packed projections, and its backward pass.
 *
 * The attention weights of short sentences are saved for the backward pass; long sentences go to long_attention.c. */
#include "kernels.h"
#include "long_attention.h"
#include "vectors.h"

#define SMALL_TILE_ROWS 6 /* at most */

/* C (M, n) = factor · A (M, k) B (k, n), small enough for the first-level cache; A has two strides, so that it may be
 * transposed; n is a multiple of 8; rows of B and C are ldb and ldc apart. */
INLINE void small_tile(float *C, int64_t ldc, const float *A, int64_t row, int64_t column, const float *B, int64_t ldb,
                       int64_t k, float factor, int rows, int wide) {
    v8 sum[SMALL_TILE_ROWS][2];
    for (int r = 0; r < rows; r++)
        for (int w = 0; w < wide; w++) sum[r][w] = (v8){0};
    for (int64_t i = 0; i < k; i++) {
        v8 b[2];
        for (int w = 0; w < wide; w++) b[w] = load(B + i * ldb + w * WIDTH);
        for (int r = 0; r < rows; r++) {
            float a = A[r * row + i * column];
            for (int w = 0; w < wide; w++) sum[r][w] += a * b[w];
        }
    }
    for (int r = 0; r < rows; r++)
        for (int w = 0; w < wide; w++) store(C + r * ldc + w * WIDTH, sum[r][w] * factor);
}

/* Divide the rows into tiles of about equal height, because a low tile stalls: 14 rows are 5, 5 and 4. */
static void small_product(float *C, int64_t ldc, const float *A, int64_t row, int64_t column, const float *B,
                          int64_t ldb, int64_t M, int64_t n, int64_t k, float factor) {
#define SMALL_TILE_CASE(rows, wide)                                                                    \
    case 2 * rows + wide - 1:                                                                          \
        small_tile(C + m * ldc + j, ldc, A + m * row, row, column, B + j, ldb, k, factor, rows, wide); \
        break;
    int64_t tiles = (M + SMALL_TILE_ROWS - 1) / SMALL_TILE_ROWS;
    for (int64_t j = 0; j < n; j += 2 * WIDTH)
        for (int64_t t = 0; t < tiles; t++) {
            int64_t m = M * t / tiles, rows = M * (t + 1) / tiles - m;
            switch (2 * rows + (n - j >= 2 * WIDTH)) {
                SMALL_TILE_CASE(1, 1)
                SMALL_TILE_CASE(2, 1)
                SMALL_TILE_CASE(3, 1)
                SMALL_TILE_CASE(4, 1)
                SMALL_TILE_CASE(5, 1)
                SMALL_TILE_CASE(6, 1)
                SMALL_TILE_CASE(1, 2)
                SMALL_TILE_CASE(2, 2)
                SMALL_TILE_CASE(3, 2)
                SMALL_TILE_CASE(4, 2)
                SMALL_TILE_CASE(5, 2)
                SMALL_TILE_CASE(6, 2)
            }
        }
#undef SMALL_TILE_CASE
}

/* Transpose rows of `width` numbers, `stride` apart; `ld` is the padded number of rows. */
static inline void transpose(float *to, int64_t ld, const float *from, int64_t stride, int64_t rows, int64_t width) {
    for (int64_t i = 0; i < ld; i += WIDTH)
        for (int64_t c = 0; c < width; c += WIDTH) {
            v8 block[8];
            for (int r = 0; r < WIDTH; r++) block[r] = i + r < rows ? load(from + (i + r) * stride + c) : (v8){0};
            transpose_8x8(block);
            for (int r = 0; r < WIDTH; r++) store(to + (c + r) * ld + i, block[r]);
        }
}

/* Rows of queries or keys and their stride: in place, or rotated in `scratch`. */
typedef struct {
    const float *at;
    int64_t stride;
} row_view;

static row_view rotated_rows(float *scratch, const float *from, int64_t stride, const float *rotary, int64_t rows,
                             int64_t K) {
    if (!rotary) return (row_view){from, stride};
    rotate(scratch, K, from, stride, rotary, rows, K, 1.0f);
    return (row_view){scratch, K};
}

/* One head of one sentence: its numbers of queries and keys, how many keys are visible, whether the sentence is long,
 * and the offsets of its data. */
typedef struct {
    int64_t T, S, P, visible, is_long, to_q, to_k, to_v, to_out, to_saved;
} head_place;

static inline int is_long(const attention_task *a, int64_t queries, int64_t keys) {
    return MAX(queries, keys) > a->longest;
}

/* Offsets (B + 1) of what is saved of each sentence, and the largest numbers of queries and keys of the short ones. */
static int64_t *saved_offsets(const attention_task *a, int64_t *T, int64_t *S) {
    int64_t *offsets = new_integers(a->B + 1);
    *T = *S = offsets[0] = 0;
    for (int64_t b = 0; b < a->B; b++) {
        int64_t queries = a->queries[b + 1] - a->queries[b], keys = a->keys[b + 1] - a->keys[b];
        int apart = is_long(a, queries, keys);
        offsets[b + 1] = offsets[b] + a->H * queries * (apart ? 1 : padded(keys));
        if (!apart) *T = MAX(*T, queries), *S = MAX(*S, keys);
    }
    return offsets;
}

int64_t jk_attention_saved_size(const attention_task *a) {
    int64_t T, S, *offsets = saved_offsets(a, &T, &S), size = offsets[a->B];
    free(offsets);
    return size;
}

static head_place place_of_head(const attention_task *a, const int64_t *offsets, int64_t bh) {
    int64_t b = bh / a->H, h = bh % a->H, q = a->queries[b], k = a->keys[b];
    int64_t T = a->queries[b + 1] - q, S = a->keys[b + 1] - k, P = padded(S), apart = is_long(a, T, S);
    return (head_place){
        .T = T,
        .S = S,
        .P = P,
        .visible = a->lengths ? a->lengths[b] : S,
        .is_long = apart,
        .to_q = q * a->q_stride + h * a->K,
        .to_k = k * a->k_stride + h * a->K,
        .to_v = k * a->v_stride + h * a->E,
        .to_out = (q * a->H + h) * a->E,
        .to_saved = offsets[b] + h * T * (apart ? 1 : P),
    };
}

static long_head long_head_of(const attention_task *a, const head_place *p) {
    return (long_head){
        .T = p->T,
        .S = p->S,
        .visible = p->visible,
        .K = a->K,
        .E = a->E,
        .q_stride = a->q_stride,
        .k_stride = a->k_stride,
        .v_stride = a->v_stride,
        .out_stride = a->H * a->E,
        .causal = a->causal,
        .rotary = a->rotary,
        .factor = a->factor,
    };
}

/* out (N, H·E) = softmax(factor q kᵀ) v, every sentence by itself.  Saves for the backward pass the weights
 * (H, T, padded S) of each short sentence and the logarithms (H, T) of each long one (long_attention.c).  A query that
 * sees no key gets zeros. */
void jk_attention(float *out, float *saved, const float *q, const float *k, const float *v, const attention_task *a) {
    int64_t T, S, *offsets = saved_offsets(a, &T, &S), K = a->K, E = a->E;
#pragma omp parallel
    {
        float *transposed = new_floats(K * padded(S)), *scratch = new_floats((T + S) * K);
#pragma omp for schedule(static)
        for (int64_t bh = 0; bh < a->B * a->H; bh++) {
            head_place p = place_of_head(a, offsets, bh);
            float *w = saved + p.to_saved;
            if (p.is_long) {
                long_head h = long_head_of(a, &p);
                jk_long_attention(out + p.to_out, w, q + p.to_q, k + p.to_k, v + p.to_v, &h);
                continue;
            }
            row_view queries = rotated_rows(scratch, q + p.to_q, a->q_stride, a->rotary, p.T, K);
            row_view keys = rotated_rows(scratch + p.T * K, k + p.to_k, a->k_stride, a->rotary, p.S, K);
            transpose(transposed, p.P, keys.at, keys.stride, p.S, K);
            small_product(w, p.P, queries.at, queries.stride, 1, transposed, p.P, p.T, p.P, K, a->factor);
            for (int64_t t = 0; p.S && t < p.T; t++)
                softmax(w + t * p.P, a->causal ? MIN(t + 1, p.visible) : p.visible, p.P);
            small_product(out + p.to_out, a->H * E, w, p.P, 1, v + p.to_v, a->v_stride, p.T, E, p.S, 1.0f);
        }
        free(transposed);
        free(scratch);
    }
    free(offsets);
}

/* Gradients of `jk_attention`, whose output is `out`: dq, dk, dv are written with the strides of q, k, v. */
void jk_attention_backward(float *dq, float *dk, float *dv, const float *gradient, const float *out, const float *saved,
                           const float *q, const float *k, const float *v, const attention_task *a) {
    int64_t T, S, *offsets = saved_offsets(a, &T, &S), K = a->K, E = a->E;
#pragma omp parallel
    {
        float *transposed = new_floats(E * padded(S)), *ds = new_floats(T * padded(S)),
              *scratch = new_floats((T + S) * K);
#pragma omp for schedule(static)
        for (int64_t bh = 0; bh < a->B * a->H; bh++) {
            head_place p = place_of_head(a, offsets, bh);
            const float *g = gradient + p.to_out, *w = saved + p.to_saved;
            if (p.is_long) {
                long_head h = long_head_of(a, &p);
                jk_long_attention_backward(dq + p.to_q, dk + p.to_k, dv + p.to_v, g, out + p.to_out, w, q + p.to_q,
                                           k + p.to_k, v + p.to_v, &h);
                continue;
            }
            transpose(transposed, p.P, v + p.to_v, a->v_stride, p.S, E);
            small_product(ds, p.P, g, a->H * E, 1, transposed, p.P, p.T, p.P, E, 1.0f);
            for (int64_t t = 0; t < p.T; t++) {
                float *row = ds + t * p.P;
                const float *share = w + t * p.P;
                v8 sum = {0};
                for (int64_t s = 0; s < p.P; s += WIDTH) sum += load(row + s) * load(share + s);
                float along = horizontal_sum(sum);
                for (int64_t s = 0; s < p.P; s += WIDTH) store(row + s, load(share + s) * (load(row + s) - along));
            }
            row_view queries = rotated_rows(scratch, q + p.to_q, a->q_stride, a->rotary, p.T, K);
            row_view keys = rotated_rows(scratch + p.T * K, k + p.to_k, a->k_stride, a->rotary, p.S, K);
            small_product(dq + p.to_q, a->q_stride, ds, p.P, 1, keys.at, keys.stride, p.T, K, p.S, a->factor);
            small_product(dk + p.to_k, a->k_stride, ds, 1, p.P, queries.at, queries.stride, p.S, K, p.T, a->factor);
            if (a->rotary) {
                rotate(dq + p.to_q, a->q_stride, dq + p.to_q, a->q_stride, a->rotary, p.T, K, -1.0f);
                rotate(dk + p.to_k, a->k_stride, dk + p.to_k, a->k_stride, a->rotary, p.S, K, -1.0f);
            }
            small_product(dv + p.to_v, a->v_stride, w, 1, p.P, g, a->H * E, p.S, E, p.T, 1.0f);
        }
        free(transposed);
        free(ds);
        free(scratch);
    }
    free(offsets);
}
