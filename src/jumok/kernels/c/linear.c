/* Linear layers with what precedes and follows them, a few rows at a time, so that all of it stays in a core's cache:
 *
 *     y = residual + dropout(relu(norm(x) Wᵀ + b))          each of residual, dropout, relu and norm may be missing
 *
 * and the backward pass.  W is (O, I).  Norm is layer norm; the backward pass computes its output again. */
#include "kernels.h"
#include "products.h"

/* Rows at a time: a few hundred KiB of vectors, the size of a core's second-level cache; more where the weights exceed
 * it, so that they are read less often. */
static inline int64_t rows_at_once(int64_t I, int64_t O) { return I * O > 1 << 17 ? 192 : 96; }

/* The backward pass of `normalize_row`: writes dx and adds to the gradients of weight and bias. */
INLINE void norm_row_backward(float *dx, float *dweight, float *dbias, const float *g, const float *x, float m, float r,
                              const float *weight, int64_t D) {
    float along = 0.0f, sum = 0.0f;
#pragma omp simd reduction(+ : along, sum)
    for (int64_t d = 0; d < D; d++) {
        float hat = (x[d] - m) * r, gw = g[d] * weight[d];
        dweight[d] += g[d] * hat;
        dbias[d] += g[d];
        along += gw * hat;
        sum += gw;
    }
    along /= (float)D;
    sum /= (float)D;
#pragma omp simd
    for (int64_t d = 0; d < D; d++) dx[d] = (g[d] * weight[d] - sum - (x[d] - m) * r * along) * r;
}

/* y = (x - mean) / sqrt(variance + eps) · weight + bias; also writes mean and 1 / sqrt(…) for the backward pass. */
void jk_norm(float *y, float *mean, float *scale, const float *x, const float *weight, const float *bias, int64_t N,
             int64_t D, float eps) {
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < N; i++) normalize_row(y + i * D, mean + i, scale + i, x + i * D, weight, bias, D, eps);
}

/* Gradients of `jk_norm`: dx is written, dweight and dbias are added to. */
void jk_norm_backward(float *dx, float *dweight, float *dbias, const float *gradient, const float *x, const float *mean,
                      const float *scale, const float *weight, int64_t N, int64_t D) {
    int64_t others = omp_get_max_threads() - 1;
    float *partial = new_zero_floats(2 * D * others);
#pragma omp parallel
    {
        float *own = partial_sums_of(partial, 2 * D), *to_weight = own ? own : dweight,
              *to_bias = own ? own + D : dbias;
#pragma omp for schedule(static)
        for (int64_t i = 0; i < N; i++)
            norm_row_backward(dx + i * D, to_weight, to_bias, gradient + i * D, x + i * D, mean[i], scale[i], weight,
                              D);
    }
    add_partial_sums(dweight, D, partial, 2 * D, others);
    add_partial_sums(dbias, D, partial + D, 2 * D, others);
    free(partial);
}

/* out = x + dropout(y); x may be NULL (no residual).  Whether element i of the whole tensor is dropped depends only on
 * the key and on i; `start` is the i of the first element here. */
INLINE void dropout_range(float *out, const float *x, const float *y, int64_t start, int64_t n, uint64_t key,
                          float rate) {
    const uint32_t first = (uint32_t)key, second = (uint32_t)(key >> 32), count = (uint32_t)n, at = (uint32_t)start;
    const uint32_t threshold = (uint32_t)((double)rate * 4294967296.0);
    const float scale = 1.0f / (1.0f - rate);
    if (x) {
#pragma omp simd
        for (uint32_t i = 0; i < count; i++)
            out[i] = x[i] + (random_bits(at + i, first, second) >= threshold ? scale : 0.0f) * y[i];
    } else {
#pragma omp simd
        for (uint32_t i = 0; i < count; i++)
            out[i] = (random_bits(at + i, first, second) >= threshold ? scale : 0.0f) * y[i];
    }
}

void jk_dropout(float *out, const float *x, int64_t n, uint64_t key, float rate) {
    const int64_t part = 1 << 15;
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i += part) dropout_range(out + i, NULL, x + i, i, MIN(part, n - i), key, rate);
}

/* y (N, O) of x (N, I).  NULL for norm_weight, bias or residual leaves that part out; so does rate 0. */
void jk_linear(float *y, const float *x, const float *weight, const float *bias, const float *residual, float *mean,
               float *scale, const float *norm_weight, const float *norm_bias, int64_t N, int64_t I, int64_t O,
               float eps, int relu, uint64_t key, float rate) {
    int64_t most = rows_at_once(I, O);
    float *packed = new_floats(I * panel_columns(O));
    pack_panels(packed, (matrix){weight, 1, I}, I, O);
#pragma omp parallel
    {
        float *normed = norm_weight ? new_floats(most * I) : NULL;
#pragma omp for schedule(static)
        for (int64_t from = 0; from < N; from += most) {
            int64_t rows = MIN(most, N - from), size = rows * O;
            float *out = y + from * O;
            const float *in = x + from * I;
            for (int64_t r = 0; norm_weight && r < rows; r++)
                normalize_row(normed + r * I, mean + from + r, scale + from + r, in + r * I, norm_weight, norm_bias, I,
                              eps);
            multiply(out, O, (matrix){normed ? normed : in, I, 1}, packed, rows, I, O, bias, 0);
            if (relu)
                for (int64_t i = 0; i < size; i++) out[i] = out[i] > 0.0f ? out[i] : 0.0f;
            if (rate > 0.0f)
                dropout_range(out, residual ? residual + from * O : NULL, out, from * O, size, key, rate);
            else if (residual)
                for (int64_t i = 0; i < size; i++) out[i] += residual[from * O + i];
        }
        free(normed);
    }
    free(packed);
}

/* Gradients of `jk_linear`: dx is written, the others are added to.  The gradient of the residual is `gradient` itself.
 * `active` is y if there was a relu, else NULL; `also`, if any, is another gradient of x, which is added to dx.  dx and
 * dbias may be NULL, and without norm so may its gradients, weights and statistics. */
void jk_linear_backward(float *dx, float *dweight, float *dbias, float *dnorm_weight, float *dnorm_bias,
                        const float *gradient, const float *also, const float *x, const float *active,
                        const float *weight, const float *mean, const float *scale, const float *norm_weight,
                        const float *norm_bias, int64_t N, int64_t I, int64_t O, uint64_t key, float rate) {
    int64_t others = omp_get_max_threads() - 1, change = active || rate > 0.0f, size = O * I + O + 2 * I;
    int64_t most = rows_at_once(I, O);
    float *packed = dx ? new_floats(O * panel_columns(I)) : NULL, *partial = new_zero_floats(size * others);
    if (dx) pack_panels(packed, (matrix){weight, I, 1}, O, I);
#pragma omp parallel
    {
        float *own = partial_sums_of(partial, size), *to_weight = own ? own : dweight,
              *to_bias = own ? own + O * I : dbias;
        float *to_gain = own ? own + O * I + O : dnorm_weight, *to_shift = own ? own + O * I + O + I : dnorm_bias;
        float *left = change ? new_floats(most * O) : NULL, *columns = new_floats(most * panel_columns(I));
        float *normed = norm_weight ? new_floats(2 * most * I) : NULL, *back = normed + most * I;
#pragma omp for schedule(static)
        for (int64_t from = 0; from < N; from += most) {
            int64_t rows = MIN(most, N - from), count = rows * O;
            const float *in = x + from * I, *g = gradient + from * O;
            if (rate > 0.0f) dropout_range(left, NULL, g, from * O, count, key, rate);
            if (active) {
                const float *dropped = rate > 0.0f ? left : g, *open = active + from * O;
                for (int64_t i = 0; i < count; i++) left[i] = open[i] > 0.0f ? dropped[i] : 0.0f;
            }
            if (change) g = left;
            for (int64_t r = 0; dbias && r < rows; r++)
                for (int64_t o = 0; o < O; o++) to_bias[o] += g[r * O + o];
            for (int64_t r = 0; norm_weight && r < rows; r++) {
                float m = mean[from + r], s = scale[from + r];
                for (int64_t i = 0; i < I; i++)
                    normed[r * I + i] = (in[r * I + i] - m) * s * norm_weight[i] + norm_bias[i];
            }
            pack_panels(columns, (matrix){normed ? normed : in, I, 1}, rows, I);
            multiply(to_weight, I, (matrix){g, 1, O}, columns, O, rows, I, NULL, 1);
            if (!dx) continue;
            multiply(normed ? back : dx + from * I, I, (matrix){g, O, 1}, packed, rows, O, I, NULL, 0);
            for (int64_t r = 0; norm_weight && r < rows; r++)
                norm_row_backward(dx + (from + r) * I, to_gain, to_shift, back + r * I, in + r * I, mean[from + r],
                                  scale[from + r], norm_weight, I);
            for (int64_t i = 0; also && i < rows * I; i++) dx[from * I + i] += also[from * I + i];
        }
        free(left);
        free(columns);
        free(normed);
    }
    add_partial_sums(dweight, O * I, partial, size, others);
    if (dbias) add_partial_sums(dbias, O, partial + O * I, size, others);
    if (norm_weight) {
        add_partial_sums(dnorm_weight, I, partial + O * I + O, size, others);
        add_partial_sums(dnorm_bias, I, partial + O * I + O + I, size, others);
    }
    free(packed);
    free(partial);
}
