/* The parts of an update that are not matrix products, one pass over memory each.  Called from nn/fused.py.
 *
 * torch multiplies matrices at the speed of the machine; what is left of its time goes into many small passes
 * (masks, copies, sums).  Each function here is one such chain in one pass.  All numbers are float32, rows are
 * contiguous, sums over rows go through one partial sum a thread, so that a result depends on nothing but its
 * input and the number of threads.  Every function has an equal in plain torch beside its caller.
 *
 * Letters  N rows (tokens) · D width · V vocabulary · B batch · H heads · T queries · S keys · K width of a head
 */
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef float v8 __attribute__((vector_size(32)));
typedef float loose __attribute__((vector_size(32), aligned(4)));
typedef int32_t i8 __attribute__((vector_size(32)));
#define WIDE 8
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

static inline v8 load(const float *p) { return *(const loose *)p; }
static inline void store(float *p, v8 x) { *(loose *)p = x; }

static inline v8 choose(i8 mask, v8 yes, v8 no) { return (v8)((mask & (i8)yes) | (~mask & (i8)no)); }

static inline v8 larger(v8 x, v8 y) { return choose(x > y, x, y); }

static inline float largest(v8 x) {
    float top = x[0];
    for (int i = 1; i < WIDE; i++) top = x[i] > top ? x[i] : top;
    return top;
}

static inline float sum_of(v8 x) { return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7])); }

/* e^x to about 1e-7: 2^n times a polynomial on [-ln 2 / 2, ln 2 / 2].  NaN stays NaN; below -87 it is 0. */
static inline v8 exponential(v8 x) {
    const v8 low = (v8){0} - 87.0f, high = (v8){0} + 88.0f, round = (v8){0} + 12582912.0f; /* 1.5 · 2^23 drops fractions */
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

/* ------------------------------------------------------------------------------------------------ dropout */

/* 32 random bits from a key and a counter (two rounds of multiply and shift, Wang and Ettinger's constants). */
static inline uint32_t random_bits(uint32_t counter, uint32_t first, uint32_t second) {
    uint32_t x = counter ^ first;
    x ^= x >> 16;
    x *= 0x7feb352dU;
    x ^= (x >> 15) ^ second;
    x *= 0x846ca68bU;
    return x ^ (x >> 16);
}

/* out = x + y / (1 - rate) where the element's random bits say so, else x.  x may be NULL (no residual). */
void drop_add(float *out, const float *x, const float *y, int64_t n, uint64_t key, float rate) {
    const uint32_t first = (uint32_t)key, second = (uint32_t)(key >> 32);
    const uint32_t threshold = (uint32_t)((double)rate * 4294967296.0);
    const float scale = 1.0f / (1.0f - rate);
    if (x) {
#pragma omp parallel for simd schedule(static)
        for (int64_t i = 0; i < n; i++)
            out[i] = x[i] + (random_bits((uint32_t)i, first, second) >= threshold ? y[i] * scale : 0.0f);
    } else {
#pragma omp parallel for simd schedule(static)
        for (int64_t i = 0; i < n; i++)
            out[i] = random_bits((uint32_t)i, first, second) >= threshold ? y[i] * scale : 0.0f;
    }
}

/* --------------------------------------------------------------------------------------------- embeddings */

/* out[i] = drop(table[id] * scale + position[i % T]); position may be NULL. */
void embed(float *out, const float *table, const int64_t *ids, const float *position, int64_t N, int64_t T, int64_t D,
           float scale, uint64_t key, float rate) {
    const uint32_t first = (uint32_t)key, second = (uint32_t)(key >> 32);
    const uint32_t threshold = (uint32_t)((double)rate * 4294967296.0);
    const float up = 1.0f / (1.0f - rate);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < N; i++) {
        const float *row = table + ids[i] * D, *where = position ? position + i % T * D : NULL;
        float *o = out + i * D;
        for (int64_t d = 0; d < D; d++) {
            float value = row[d] * scale + (where ? where[d] : 0.0f);
            o[d] = random_bits((uint32_t)(i * D + d), first, second) >= threshold ? value * up : 0.0f;
        }
    }
}

/* table_gradient[id] += gradient * scale through the same mask; each thread owns some columns, so nothing collides. */
void embed_backward(float *table, const float *gradient, const int64_t *ids, int64_t N, int64_t D, float scale,
                    uint64_t key, float rate) {
    const uint32_t first = (uint32_t)key, second = (uint32_t)(key >> 32);
    const uint32_t threshold = (uint32_t)((double)rate * 4294967296.0);
    const float up = scale / (1.0f - rate);
#pragma omp parallel
    {
        int64_t threads = omp_get_num_threads(), me = omp_get_thread_num();
        int64_t from = D * me / threads, to = D * (me + 1) / threads;
        for (int64_t i = 0; i < N; i++) {
            float *row = table + ids[i] * D;
            const float *g = gradient + i * D;
#pragma omp simd
            for (int64_t d = from; d < to; d++)
                row[d] += random_bits((uint32_t)(i * D + d), first, second) >= threshold ? g[d] * up : 0.0f;
        }
    }
}

/* ------------------------------------------------------------------------------------------------- norm */

/* y = (x - mean) / sqrt(variance + eps) * weight + bias; keeps mean and 1 / sqrt a row for the way back. */
void norm(float *y, float *mean, float *scale, const float *x, const float *weight, const float *bias, int64_t N,
          int64_t D, float eps) {
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < N; i++) {
        const float *row = x + i * D;
        float sum = 0.0f, square = 0.0f;
#pragma omp simd reduction(+ : sum)
        for (int64_t d = 0; d < D; d++) sum += row[d];
        float m = sum / (float)D;
#pragma omp simd reduction(+ : square)
        for (int64_t d = 0; d < D; d++) square += (row[d] - m) * (row[d] - m);
        float r = 1.0f / sqrtf(square / (float)D + eps);
        mean[i] = m;
        scale[i] = r;
#pragma omp simd
        for (int64_t d = 0; d < D; d++) y[i * D + d] = (row[d] - m) * r * weight[d] + bias[d];
    }
}

/* dx of `norm`; dweight and dbias are sums over rows. */
void norm_backward(float *dx, float *dweight, float *dbias, const float *gradient, const float *x, const float *mean,
                   const float *scale, const float *weight, int64_t N, int64_t D) {
    int threads = 1;
    float *partial = malloc(sizeof(float) * (size_t)(2 * D * omp_get_max_threads()));
#pragma omp parallel
    {
#pragma omp single
        threads = omp_get_num_threads();
        float *mine = partial + (int64_t)omp_get_thread_num() * 2 * D, *other = mine + D;
        memset(mine, 0, sizeof(float) * 2 * D);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < N; i++) {
            const float *g = gradient + i * D, *row = x + i * D;
            float m = mean[i], r = scale[i], along = 0.0f, sum = 0.0f;
#pragma omp simd reduction(+ : along, sum)
            for (int64_t d = 0; d < D; d++) {
                float hat = (row[d] - m) * r, gw = g[d] * weight[d];
                mine[d] += g[d] * hat;
                other[d] += g[d];
                along += gw * hat;
                sum += gw;
            }
            along /= (float)D;
            sum /= (float)D;
#pragma omp simd
            for (int64_t d = 0; d < D; d++) {
                float hat = (row[d] - m) * r;
                dx[i * D + d] = (g[d] * weight[d] - sum - hat * along) * r;
            }
        }
    }
    memcpy(dweight, partial, sizeof(float) * D);
    memcpy(dbias, partial + D, sizeof(float) * D);
    for (int t = 1; t < threads; t++)
        for (int64_t d = 0; d < D; d++) {
            dweight[d] += partial[t * 2 * D + d];
            dbias[d] += partial[t * 2 * D + D + d];
        }
    free(partial);
}

/* ------------------------------------------------------------------------------------ linear layers' edges */

/* sum[d] = sum over rows of x; where `active` is given, x counts as 0 where active is not positive (relu's way back),
 * and what is left of it is written to `left`. */
void column_sum(float *sum, float *left, const float *x, const float *active, int64_t N, int64_t D) {
    int threads = 1;
    float *partial = malloc(sizeof(float) * (size_t)(D * omp_get_max_threads()));
#pragma omp parallel
    {
#pragma omp single
        threads = omp_get_num_threads();
        float *mine = partial + (int64_t)omp_get_thread_num() * D;
        memset(mine, 0, sizeof(float) * D);
#pragma omp for schedule(static)
        for (int64_t i = 0; i < N; i++) {
            const float *row = x + i * D, *a = active + i * D;
            float *o = left + i * D;
            if (active) {
#pragma omp simd
                for (int64_t d = 0; d < D; d++) {
                    float value = a[d] > 0.0f ? row[d] : 0.0f;
                    o[d] = value;
                    mine[d] += value;
                }
            } else {
#pragma omp simd
                for (int64_t d = 0; d < D; d++) mine[d] += row[d];
            }
        }
    }
    memcpy(sum, partial, sizeof(float) * D);
    for (int t = 1; t < threads; t++)
        for (int64_t d = 0; d < D; d++) sum[d] += partial[t * D + d];
    free(partial);
}

/* --------------------------------------------------------------------------------------- output and loss */

/* Logits (N, V) become the gradient of the cross-entropy, softmax - (1 - smoothing) one-hot, in place; the sum over
 * rows of log sum exp - (1 - smoothing) logit[label] is returned.  The uniform part of the target is the caller's. */
double softmax_gradient(float *logits, const int64_t *labels, int64_t N, int64_t V, float smoothing) {
    double loss = 0.0;
    double *losses = malloc(sizeof(double) * (size_t)MAX(N, 1));
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < N; i++) {
        float *row = logits + i * V;
        int64_t even = V / WIDE * WIDE;
        float wanted = row[labels[i]], tail[WIDE];
        for (int64_t v = 0; v < WIDE; v++) tail[v] = even + v < V ? row[even + v] : -INFINITY;
        v8 tops = load(tail), totals = {0};
        for (int64_t v = 0; v < even; v += WIDE) tops = larger(load(row + v), tops);
        float top = largest(tops);
        for (int64_t v = 0; v < even; v += WIDE) {
            v8 e = exponential(load(row + v) - top);
            store(row + v, e);
            totals += e;
        }
        v8 e = exponential(load(tail) - top);
        float total = sum_of(totals + e), share = 1.0f / total;
        for (int64_t v = 0; v < even; v += WIDE) store(row + v, load(row + v) * share);
        for (int64_t v = even; v < V; v++) row[v] = e[v - even] * share;
        row[labels[i]] -= 1.0f - smoothing;
        losses[i] = (double)logf(total) + top - (1.0 - smoothing) * wanted;
    }
    for (int64_t i = 0; i < N; i++) loss += losses[i];
    free(losses);
    return loss;
}

/* ------------------------------------------------------------------------------------------------ attention */

/* C (M, n) = factor · A (M, k) B (k, n), small enough for the nearest cache; A is read by two strides, so that it may be
 * transposed; n is a multiple of 8; rows of B and C are ldb and ldc apart. */
static inline __attribute__((always_inline)) void tile(float *C, int64_t ldc, const float *A, int64_t row, int64_t column,
                                                       const float *B, int64_t ldb, int64_t k, float factor, int rows, int wide) {
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

#ifdef __clang__
#define MIX(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define MIX(a, b, ...) __builtin_shuffle(a, b, (i8){__VA_ARGS__})
#endif

/* Eight rows of eight numbers become eight columns. */
static inline void turn(v8 r[8]) {
    v8 t[8], u[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = MIX(r[i], r[i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        t[i + 1] = MIX(r[i], r[i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            u[i + 2 * j] = MIX(t[i + j], t[i + j + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            u[i + 2 * j + 1] = MIX(t[i + j], t[i + j + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int i = 0; i < 4; i++) {
        r[i] = MIX(u[i], u[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        r[i + 4] = MIX(u[i], u[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
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

/* ------------------------------------------------------------------------------------------------ optimiser
 *
 * Several threads share this work: thread `part` of `parts` takes its share of the numbers of every tensor. */

#define BLOCK 4096 /* numbers whose squares are summed in float32 before they go into the double */

/* into[c] += every other replica's from[r · count + c]; the sum of the squares of the result. */
double gather(float *const *into, const float *const *from, const int64_t *sizes, int64_t count, int64_t replicas,
              int64_t part, int64_t parts) {
    double all = 0.0;
    for (int64_t c = 0; c < count; c++) {
        int64_t end = sizes[c] * (part + 1) / parts;
        float *sum = into[c];
        for (int64_t i = sizes[c] * part / parts; i < end; i += BLOCK) {
            int64_t to = MIN(end, i + BLOCK);
            for (int64_t r = 0; r < replicas; r++) {
                const float *other = from[r * count + c];
#pragma omp simd
                for (int64_t j = i; j < to; j++) sum[j] += other[j];
            }
            float square = 0.0f;
#pragma omp simd reduction(+ : square)
            for (int64_t j = i; j < to; j++) square += sum[j] * sum[j];
            all += square;
        }
    }
    return all;
}

/* One step of Adam (decay decoupled) on all tensors; gradients are first multiplied by `scale` (clipping). */
void adam(float *const *weights, const float *const *gradients, float *const *means, float *const *squares,
          const int64_t *sizes, int64_t count, double rate, double beta1, double beta2, double epsilon, double decay,
          double step, double scale, int64_t part, int64_t parts) {
    const float b1 = (float)beta1, b2 = (float)beta2, c1 = (float)(1.0 - beta1), c2 = (float)(1.0 - beta2);
    const float size = (float)(rate / (1.0 - pow(beta1, step))), eps = (float)epsilon, s = (float)scale;
    const float correct = (float)(1.0 / sqrt(1.0 - pow(beta2, step))), keep = (float)(1.0 - rate * decay);
    for (int64_t c = 0; c < count; c++) {
        float *w = weights[c], *m = means[c], *v = squares[c];
        const float *gradient = gradients[c];
        int64_t end = sizes[c] * (part + 1) / parts;
#pragma omp simd
        for (int64_t i = sizes[c] * part / parts; i < end; i++) {
            float g = gradient[i] * s;
            float mean = b1 * m[i] + c1 * g, square = b2 * v[i] + c2 * g * g;
            m[i] = mean;
            v[i] = square;
            w[i] = w[i] * keep - size * mean / (sqrtf(square) * correct + eps);
        }
    }
}
