/* Attention for long sentences, which keeps one number per query instead of one weight per query and key.
 *
 * The forward pass computes the scores of a few queries at a time and keeps the logarithm of each softmax's denominator.  The
 * backward pass computes the weights again from it, block of keys by block of keys, so that memory grows with the length of a
 * sentence and not with its square.  Short sentences keep their weights (attention.c), which is faster for them. */
#include "kernels.h"
#include "products.h"

#define SCORES 49152 /* scores of a block of queries in the forward pass: 192 KiB, a part of a core's own cache */
#define QUERIES 96   /* queries and keys of a block in the backward pass */
#define KEYS 256
#define APART LANES  /* numbers between rows of scores, so that rows do not compete for the same lines of the cache */

typedef int32_t whole_lanes __attribute__((vector_size(4 * LANES)));

INLINE lanes pick(whole_lanes mask, lanes yes, lanes no) {
    return (lanes)((mask & (whole_lanes)yes) | (~mask & (whole_lanes)no));
}

/* e^x for x of at most 88, to about 1e-7; below -87 it is 0.  The polynomial is that of `exponential` in vectors.h. */
INLINE lanes power_of_e(lanes x) {
    const lanes low = (lanes){0} - 87.0f, round = (lanes){0} + 12582912.0f;
    lanes held = pick(x < low, low, x);
    lanes n = held * 1.44269504088896341f + round - round;
    lanes r = held - n * 0.693359375f + n * 2.12194440e-4f;
    lanes p = 1.9875691500e-4f * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    lanes scale = (lanes)((__builtin_convertvector(n, whole_lanes) + 127) << 23);
    return pick(x < low, (lanes){0}, p * scale);
}

INLINE float total_of(lanes x) {
    float sum = 0.0f;
    for (int i = 0; i < LANES; i++) sum += x[i];
    return sum;
}

static inline float dot(const float *a, const float *b, int64_t n) { /* n is a multiple of 8 */
    v8 sum = {0};
    for (int64_t i = 0; i < n; i += WIDE) sum += load(a + i) * load(b + i);
    return sum_of(sum);
}

/* The first `open` scores of a row become e^(score - largest), the others up to `end` zero; the sum goes to *total.  Returns the
 * largest.  `end` is a multiple of LANES. */
static float raise(float *row, int64_t open, int64_t end, float *total) {
    int64_t stop = (open + LANES - 1) / LANES * LANES;
    lanes top = (lanes){0} - INFINITY, sum = {0};
    for (int64_t s = open; s < stop; s++) row[s] = -INFINITY;
    for (int64_t s = 0; s < stop; s += LANES) top = pick(take(row + s) > top, take(row + s), top);
    float most = -INFINITY;
    for (int i = 0; i < LANES; i++) most = MAX(most, top[i]);
    for (int64_t s = 0; s < stop; s += LANES) {
        lanes e = power_of_e(take(row + s) - most);
        put(row + s, e);
        sum += e;
    }
    for (int64_t s = stop; s < end; s++) row[s] = 0.0f;
    *total = total_of(sum);
    return most;
}

/* Rows of queries or keys, one behind the other, turned by their positions and multiplied by `factor`. */
static void gather_rows(float *to, const float *from, int64_t stride, const float *turns, int64_t rows, int64_t K, float factor) {
    if (turns)
        rotate(to, K, from, stride, turns, rows, K, 1.0f);
    else
        for (int64_t r = 0; r < rows; r++) memcpy(to + r * K, from + r * stride, sizeof(float) * (size_t)K);
    for (int64_t i = 0; factor != 1.0f && i < rows * K; i++) to[i] *= factor;
}

static void scatter_rows(float *to, int64_t stride, const float *from, const float *turns, int64_t rows, int64_t K) {
    for (int64_t r = 0; r < rows; r++) memcpy(to + r * stride, from + r * K, sizeof(float) * (size_t)K);
    if (turns) rotate(to, stride, to, stride, turns, rows, K, -1.0f);
}

/* C (M, N) = A B, or C += A B where `more`; B is rows from … from + K - 1 of a matrix of `all` rows that was packed whole. */
static void multiply_rows(float *C, int64_t width, matrix A, const float *packed, int64_t all, int64_t from, int64_t M, int64_t K,
                          int64_t N, int more) {
    for (int64_t n = 0; n < N; n += BROAD)
        multiply(C + n, width, A, packed + n * all + from * BROAD, M, K, MIN(BROAD, N - n), NULL, more);
}

/* How many keys the queries before `t` see. */
static inline int64_t seen_before(const head *h, int64_t t) { return h->causal ? MIN(t, h->seen) : h->seen; }

void long_attention(float *out, float *logs, const float *q, const float *k, const float *v, const head *h) {
    int64_t T = h->T, S = h->S, K = h->K, E = h->E, ld = panels(S) + APART;
    int64_t most = MAX(HIGH, MIN(QUERIES, SCORES / ld / HIGH * HIGH));
    float *rows = room(S * K), *turned = room(panels(S) * K), *values = room(S * panels(E));
    float *queries = room(most * K), *scores = room(most * ld);
    gather_rows(rows, k, h->k_stride, h->turns, S, K, 1.0f);
    pack(turned, (matrix){rows, 1, K}, K, S);
    pack(values, (matrix){v, h->v_stride, 1}, S, E);
    for (int64_t from = 0; from < T; from += most) {
        int64_t count = MIN(most, T - from), open = seen_before(h, from + count), end = panels(open);
        float shares[QUERIES];
        gather_rows(queries, q + from * h->q_stride, h->q_stride, h->turns ? h->turns + from * 2 * K : NULL, count, K, h->factor);
        multiply(scores, ld, (matrix){queries, K, 1}, turned, count, K, end, NULL, 0);
        for (int64_t r = 0; r < count; r++) {
            float total, largest = raise(scores + r * ld, seen_before(h, from + r + 1), end, &total);
            shares[r] = total > 0.0f || total != total ? 1.0f / total : 0.0f;
            logs[from + r] = total > 0.0f || total != total ? largest + logf(total) : INFINITY;
        }
        float *to = out + from * h->out_stride;
        multiply_rows(to, h->out_stride, (matrix){scores, ld, 1}, values, S, 0, count, open, E, 0);
        for (int64_t r = 0; r < count; r++)
            for (int64_t e = 0; e < E; e += WIDE) store(to + r * h->out_stride + e, load(to + r * h->out_stride + e) * shares[r]);
    }
    free(rows), free(turned), free(values), free(queries), free(scores);
}

/* What the backward pass reads and writes of one head: rows as they are used, packed whole, and gradients so far. */
typedef struct {
    float *queries, *packed_queries, *gradient, *packed_gradient, *along; /* (T, K), its panels; (T, E), its panels; (T) */
    float *keys, *turned, *turned_values, *packed_keys; /* of one block of keys */
    float *weights, *ds;                                /* (QUERIES, KEYS + APART) */
    float *dq, *dk, *dv;                                /* (T, K), and of one block of keys */
} workspace;

/* Weights and gradients of scores of some queries and the `keys` keys from `first` on. */
static void recompute(const workspace *b, const head *h, const float *logs, int64_t from, int64_t count, int64_t first,
                      int64_t keys) {
    int64_t ld = KEYS + APART, end = panels(keys);
    multiply(b->weights, ld, (matrix){b->queries + from * h->K, h->K, 1}, b->turned, count, h->K, end, NULL, 0);
    multiply(b->ds, ld, (matrix){b->gradient + from * h->E, h->E, 1}, b->turned_values, count, h->E, end, NULL, 0);
    for (int64_t r = 0; r < count; r++) {
        float *w = b->weights + r * ld, *d = b->ds + r * ld, log = logs[from + r], along = b->along[from + r];
        int64_t open = MAX(0, MIN(keys, seen_before(h, from + r + 1) - first));
        for (int64_t s = 0; s < open; s += LANES) {
            lanes share = power_of_e(take(w + s) - log);
            put(w + s, share);
            put(d + s, share * (take(d + s) - along));
        }
        for (int64_t s = open; s < end; s++) w[s] = d[s] = 0.0f;
    }
}

static workspace workspace_for(const head *h) {
    int64_t T = h->T, K = h->K, E = h->E, ld = KEYS + APART;
    return (workspace){room(T * K),        room(T * panels(K)), room(T * E),    room(T * panels(E)),   room(T),
                       room(KEYS * K),     room(KEYS * K),      room(KEYS * E), room(KEYS * panels(K)),
                       room(QUERIES * ld), room(QUERIES * ld),  zeros(T * K),   room(KEYS * K),        room(KEYS * E)};
}

static void clear(workspace b) {
    free(b.queries), free(b.packed_queries), free(b.gradient), free(b.packed_gradient), free(b.along), free(b.keys);
    free(b.turned), free(b.turned_values), free(b.packed_keys), free(b.weights), free(b.ds), free(b.dq), free(b.dk), free(b.dv);
}

void long_attention_backward(float *dq, float *dk, float *dv, const float *gradient, const float *out, const float *logs,
                             const float *q, const float *k, const float *v, const head *h) {
    int64_t T = h->T, K = h->K, E = h->E, ld = KEYS + APART;
    workspace b = workspace_for(h);
    gather_rows(b.queries, q, h->q_stride, h->turns, T, K, h->factor);
    pack(b.packed_queries, (matrix){b.queries, K, 1}, T, K);
    gather_rows(b.gradient, gradient, h->out_stride, NULL, T, E, 1.0f);
    pack(b.packed_gradient, (matrix){b.gradient, E, 1}, T, E);
    for (int64_t t = 0; t < T; t++) b.along[t] = dot(b.gradient + t * E, out + t * h->out_stride, E);
    for (int64_t first = 0; first < h->S; first += KEYS) {
        int64_t all = MIN(KEYS, h->S - first), keys = MAX(0, MIN(all, h->seen - first));
        const float *turns = h->turns ? h->turns + first * 2 * K : NULL;
        gather_rows(b.keys, k + first * h->k_stride, h->k_stride, turns, all, K, 1.0f);
        pack(b.turned, (matrix){b.keys, 1, K}, K, all);
        pack(b.turned_values, (matrix){v + first * h->v_stride, 1, h->v_stride}, E, all);
        pack(b.packed_keys, (matrix){b.keys, K, 1}, all, K);
        memset(b.dk, 0, sizeof(float) * (size_t)(all * K));
        memset(b.dv, 0, sizeof(float) * (size_t)(all * E));
        for (int64_t from = h->causal ? first / QUERIES * QUERIES : 0; keys && from < T; from += QUERIES) {
            int64_t count = MIN(QUERIES, T - from), open = MIN(keys, seen_before(h, from + count) - first);
            if (open <= 0) continue;
            recompute(&b, h, logs, from, count, first, open);
            multiply_rows(b.dq + from * K, K, (matrix){b.ds, ld, 1}, b.packed_keys, all, 0, count, open, K, 1);
            multiply_rows(b.dk, K, (matrix){b.ds, 1, ld}, b.packed_queries, T, from, open, count, K, 1);
            multiply_rows(b.dv, E, (matrix){b.weights, 1, ld}, b.packed_gradient, T, from, open, count, E, 1);
        }
        scatter_rows(dk + first * h->k_stride, h->k_stride, b.dk, turns, all, K);
        scatter_rows(dv + first * h->v_stride, h->v_stride, b.dv, NULL, all, E);
    }
    for (int64_t i = 0; i < T * K; i++) b.dq[i] *= h->factor;
    scatter_rows(dq, h->q_stride, b.dq, h->turns, T, K);
    clear(b);
}
