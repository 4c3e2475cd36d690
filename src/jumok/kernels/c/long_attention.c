/* Attention for long sentences, which saves one number per query instead of one weight per query and key.
 *
 * The forward pass computes the scores of a few queries at a time and saves the logarithm of each softmax's
 * denominator.  The backward pass computes the weights again from it, one block of keys after the other, so that memory
 * grows with the length of a sentence and not with its square.  For short sentences saving the weights is faster
 * (attention.c). */
#include "long_attention.h"
#include "products.h"

#define SCORE_BLOCK 49152 /* scores of a block of queries in the forward pass: 192 KiB */
#define QUERY_BLOCK 96    /* queries of a block in the backward pass, and at most in the forward pass */
#define KEY_BLOCK 256     /* keys of a block in the backward pass */
#define ROW_GAP LANES     /* numbers between rows of scores, so that rows do not compete for the same cache lines */

typedef int32_t int_lanes __attribute__((vector_size(4 * LANES)));

INLINE lanes choose_lanes(int_lanes mask, lanes yes, lanes no) {
    return (lanes)((mask & (int_lanes)yes) | (~mask & (int_lanes)no));
}

/* e^x for x of at most 88, to about 1e-7; below -87 it is 0.  The polynomial is that of `exp_v8` in vectors.h. */
INLINE lanes exp_lanes(lanes x) {
    const lanes low = (lanes){0} - 87.0f, round = (lanes){0} + 12582912.0f;
    lanes held = choose_lanes(x < low, low, x);
    lanes n = held * 1.44269504088896341f + round - round;
    lanes r = held - n * 0.693359375f + n * 2.12194440e-4f;
    lanes p = 1.9875691500e-4f * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    lanes scale = (lanes)((__builtin_convertvector(n, int_lanes) + 127) << 23);
    return choose_lanes(x < low, (lanes){0}, p * scale);
}

INLINE float sum_of_lanes(lanes x) {
    float sum = 0.0f;
    for (int i = 0; i < LANES; i++) sum += x[i];
    return sum;
}

static inline float dot(const float *a, const float *b, int64_t n) { /* n is a multiple of 8 */
    v8 sum = {0};
    for (int64_t i = 0; i < n; i += WIDTH) sum += load(a + i) * load(b + i);
    return horizontal_sum(sum);
}

/* Replace the first `visible` scores of a row by e^(score - largest) and the others up to `end` by zero.  Writes the
 * sum to *total and returns the largest score.  `end` is a multiple of LANES. */
static float exponentiate_row(float *row, int64_t visible, int64_t end, float *total) {
    int64_t stop = (visible + LANES - 1) / LANES * LANES;
    lanes top = (lanes){0} - INFINITY, sum = {0};
    for (int64_t s = visible; s < stop; s++) row[s] = -INFINITY;
    for (int64_t s = 0; s < stop; s += LANES) top = choose_lanes(load_lanes(row + s) > top, load_lanes(row + s), top);
    float most = -INFINITY;
    for (int i = 0; i < LANES; i++) most = MAX(most, top[i]);
    for (int64_t s = 0; s < stop; s += LANES) {
        lanes e = exp_lanes(load_lanes(row + s) - most);
        store_lanes(row + s, e);
        sum += e;
    }
    for (int64_t s = stop; s < end; s++) row[s] = 0.0f;
    *total = sum_of_lanes(sum);
    return most;
}

/* Copy rows of queries or keys to contiguous memory, rotated by their positions and multiplied by `factor`. */
static void gather_rows(float *to, const float *from, int64_t stride, const float *rotary, int64_t rows, int64_t K,
                        float factor) {
    if (rotary)
        rotate(to, K, from, stride, rotary, rows, K, 1.0f);
    else
        for (int64_t r = 0; r < rows; r++) memcpy(to + r * K, from + r * stride, sizeof(float) * (size_t)K);
    for (int64_t i = 0; factor != 1.0f && i < rows * K; i++) to[i] *= factor;
}

/* Copy contiguous rows back to where they belong, rotated back. */
static void scatter_rows(float *to, int64_t stride, const float *from, const float *rotary, int64_t rows, int64_t K) {
    for (int64_t r = 0; r < rows; r++) memcpy(to + r * stride, from + r * K, sizeof(float) * (size_t)K);
    if (rotary) rotate(to, stride, to, stride, rotary, rows, K, -1.0f);
}

/* C (M, N) = A B, or C += A B with `more`; B is rows from … from + K - 1 of a packed matrix of `all` rows. */
static void multiply_rows(float *C, int64_t width, matrix A, const float *packed, int64_t all, int64_t from, int64_t M,
                          int64_t K, int64_t N, int more) {
    for (int64_t n = 0; n < N; n += PANEL)
        multiply(C + n, width, A, packed + n * all + from * PANEL, M, K, MIN(PANEL, N - n), NULL, more);
}

/* How many keys are visible to the queries before `t`. */
static inline int64_t visible_before(const long_head *h, int64_t t) {
    return h->causal ? MIN(t, h->visible) : h->visible;
}

void jk_long_attention(float *out, float *logs, const float *q, const float *k, const float *v, const long_head *h) {
    int64_t T = h->T, S = h->S, K = h->K, E = h->E, ld = panel_columns(S) + ROW_GAP;
    int64_t most = MAX(TILE_ROWS, MIN(QUERY_BLOCK, SCORE_BLOCK / ld / TILE_ROWS * TILE_ROWS));
    float *rows = new_floats(S * K), *transposed = new_floats(panel_columns(S) * K),
          *values = new_floats(S * panel_columns(E));
    float *queries = new_floats(most * K), *scores = new_floats(most * ld);
    gather_rows(rows, k, h->k_stride, h->rotary, S, K, 1.0f);
    pack_panels(transposed, (matrix){rows, 1, K}, K, S);
    pack_panels(values, (matrix){v, h->v_stride, 1}, S, E);
    for (int64_t from = 0; from < T; from += most) {
        int64_t count = MIN(most, T - from), open = visible_before(h, from + count), end = panel_columns(open);
        float shares[QUERY_BLOCK];
        gather_rows(queries, q + from * h->q_stride, h->q_stride, h->rotary ? h->rotary + from * 2 * K : NULL, count, K,
                    h->factor);
        multiply(scores, ld, (matrix){queries, K, 1}, transposed, count, K, end, NULL, 0);
        for (int64_t r = 0; r < count; r++) {
            float total, top = exponentiate_row(scores + r * ld, visible_before(h, from + r + 1), end, &total);
            shares[r] = total > 0.0f || total != total ? 1.0f / total : 0.0f;
            logs[from + r] = total > 0.0f || total != total ? top + logf(total) : INFINITY;
        }
        float *to = out + from * h->out_stride;
        multiply_rows(to, h->out_stride, (matrix){scores, ld, 1}, values, S, 0, count, open, E, 0);
        for (int64_t r = 0; r < count; r++)
            for (int64_t e = 0; e < E; e += WIDTH)
                store(to + r * h->out_stride + e, load(to + r * h->out_stride + e) * shares[r]);
    }
    free(rows), free(transposed), free(values), free(queries), free(scores);
}

/* Buffers of the backward pass of one head: rows contiguous and packed, weights, and gradients so far. */
typedef struct {
    float *queries, *packed_queries, *gradient, *packed_gradient,
        *along;                                                 /* (T, K), its panels; (T, E), its panels; (T) */
    float *keys, *transposed, *transposed_values, *packed_keys; /* of one block of keys */
    float *weights, *ds;                                        /* (QUERY_BLOCK, KEY_BLOCK + ROW_GAP) */
    float *dq, *dk, *dv;                                        /* (T, K), and of one block of keys */
} backward_buffers;

/* Compute the weights and the gradients of the scores of some queries and the `keys` keys from `first` on. */
static void recompute(const backward_buffers *b, const long_head *h, const float *logs, int64_t from, int64_t count,
                      int64_t first, int64_t keys) {
    int64_t ld = KEY_BLOCK + ROW_GAP, end = panel_columns(keys);
    multiply(b->weights, ld, (matrix){b->queries + from * h->K, h->K, 1}, b->transposed, count, h->K, end, NULL, 0);
    multiply(b->ds, ld, (matrix){b->gradient + from * h->E, h->E, 1}, b->transposed_values, count, h->E, end, NULL, 0);
    for (int64_t r = 0; r < count; r++) {
        float *w = b->weights + r * ld, *d = b->ds + r * ld, log = logs[from + r], along = b->along[from + r];
        int64_t open = MAX(0, MIN(keys, visible_before(h, from + r + 1) - first));
        for (int64_t s = 0; s < open; s += LANES) {
            lanes share = exp_lanes(load_lanes(w + s) - log);
            store_lanes(w + s, share);
            store_lanes(d + s, share * (load_lanes(d + s) - along));
        }
        for (int64_t s = open; s < end; s++) w[s] = d[s] = 0.0f;
    }
}

static backward_buffers new_backward_buffers(const long_head *h) {
    int64_t T = h->T, K = h->K, E = h->E, ld = KEY_BLOCK + ROW_GAP;
    return (backward_buffers){
        .queries = new_floats(T * K),
        .packed_queries = new_floats(T * panel_columns(K)),
        .gradient = new_floats(T * E),
        .packed_gradient = new_floats(T * panel_columns(E)),
        .along = new_floats(T),
        .keys = new_floats(KEY_BLOCK * K),
        .transposed = new_floats(KEY_BLOCK * K),
        .transposed_values = new_floats(KEY_BLOCK * E),
        .packed_keys = new_floats(KEY_BLOCK * panel_columns(K)),
        .weights = new_floats(QUERY_BLOCK * ld),
        .ds = new_floats(QUERY_BLOCK * ld),
        .dq = new_zero_floats(T * K),
        .dk = new_floats(KEY_BLOCK * K),
        .dv = new_floats(KEY_BLOCK * E),
    };
}

static void free_backward_buffers(backward_buffers b) {
    free(b.queries), free(b.packed_queries), free(b.gradient), free(b.packed_gradient), free(b.along), free(b.keys);
    free(b.transposed), free(b.transposed_values), free(b.packed_keys), free(b.weights), free(b.ds), free(b.dq),
        free(b.dk), free(b.dv);
}

void jk_long_attention_backward(float *dq, float *dk, float *dv, const float *gradient, const float *out,
                                const float *logs, const float *q, const float *k, const float *v, const long_head *h) {
    int64_t T = h->T, K = h->K, E = h->E, ld = KEY_BLOCK + ROW_GAP;
    backward_buffers b = new_backward_buffers(h);
    gather_rows(b.queries, q, h->q_stride, h->rotary, T, K, h->factor);
    pack_panels(b.packed_queries, (matrix){b.queries, K, 1}, T, K);
    gather_rows(b.gradient, gradient, h->out_stride, NULL, T, E, 1.0f);
    pack_panels(b.packed_gradient, (matrix){b.gradient, E, 1}, T, E);
    for (int64_t t = 0; t < T; t++) b.along[t] = dot(b.gradient + t * E, out + t * h->out_stride, E);
    for (int64_t first = 0; first < h->S; first += KEY_BLOCK) {
        int64_t all = MIN(KEY_BLOCK, h->S - first), keys = MAX(0, MIN(all, h->visible - first));
        const float *rotary = h->rotary ? h->rotary + first * 2 * K : NULL;
        gather_rows(b.keys, k + first * h->k_stride, h->k_stride, rotary, all, K, 1.0f);
        pack_panels(b.transposed, (matrix){b.keys, 1, K}, K, all);
        pack_panels(b.transposed_values, (matrix){v + first * h->v_stride, 1, h->v_stride}, E, all);
        pack_panels(b.packed_keys, (matrix){b.keys, K, 1}, all, K);
        memset(b.dk, 0, sizeof(float) * (size_t)(all * K));
        memset(b.dv, 0, sizeof(float) * (size_t)(all * E));
        for (int64_t from = h->causal ? first / QUERY_BLOCK * QUERY_BLOCK : 0; keys && from < T; from += QUERY_BLOCK) {
            int64_t count = MIN(QUERY_BLOCK, T - from), open = MIN(keys, visible_before(h, from + count) - first);
            if (open <= 0) continue;
            recompute(&b, h, logs, from, count, first, open);
            multiply_rows(b.dq + from * K, K, (matrix){b.ds, ld, 1}, b.packed_keys, all, 0, count, open, K, 1);
            multiply_rows(b.dk, K, (matrix){b.ds, 1, ld}, b.packed_queries, T, from, open, count, K, 1);
            multiply_rows(b.dv, E, (matrix){b.weights, 1, ld}, b.packed_gradient, T, from, open, count, E, 1);
        }
        scatter_rows(dk + first * h->k_stride, h->k_stride, b.dk, rotary, all, K);
        scatter_rows(dv + first * h->v_stride, h->v_stride, b.dv, NULL, all, E);
    }
    for (int64_t i = 0; i < T * K; i++) b.dq[i] *= h->factor;
    scatter_rows(dq, h->q_stride, b.dq, h->rotary, T, K);
    free_backward_buffers(b);
}
