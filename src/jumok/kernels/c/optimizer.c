/* Optimizers.  Several threads of Python share the work: each calls with another `part` of `parts` and updates that
 * part of every tensor. */
#include "kernels.h"
#include "products.h"

#define SUM_BLOCK 4096 /* numbers whose squares are summed in float32 before the sum is added to a double */

/* Add the gradients of all replicas: into[c] += from[r · count + c] for every r.  Returns the sum of the squares. */
double jk_reduce_gradients(float *const *into, const float *const *from, const int64_t *sizes, int64_t count,
                           int64_t replicas, int64_t part, int64_t parts) {
    double all = 0.0;
    for (int64_t c = 0; c < count; c++) {
        int64_t end = sizes[c] * (part + 1) / parts;
        float *sum = into[c];
        for (int64_t i = sizes[c] * part / parts; i < end; i += SUM_BLOCK) {
            int64_t to = MIN(end, i + SUM_BLOCK);
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

/* One step of Adam with decoupled weight decay; gradients are first multiplied by `scale` (clipping). */
void jk_adam(float *const *weights, const float *const *gradients, float *const *means, float *const *squares,
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

/* C (M, M) = A B where C is symmetric: tiles on and above the diagonal are computed, the others are mirrored. */
static void multiply_symmetric(float *C, matrix A, const float *packed, int64_t M, int64_t K) {
    for (int64_t n = 0; n < M; n += PANEL)
        multiply(C + n, M, A, packed + n * K, MIN(M, n + PANEL), K, MIN(PANEL, M - n), NULL, 0);
    for (int64_t n = 0; n < M; n += PANEL)
        for (int64_t m = n + PANEL; m < M; m += WIDTH)
            for (int64_t w = n; w < n + PANEL; w += WIDTH) {
                if (m + WIDTH > M) {
                    for (int64_t i = m; i < M; i++)
                        for (int64_t j = w; j < w + WIDTH; j++) C[i * M + j] = C[j * M + i];
                    continue;
                }
                v8 block[WIDTH];
                for (int r = 0; r < WIDTH; r++) block[r] = load(C + (w + r) * M + m);
                transpose_8x8(block);
                for (int r = 0; r < WIDTH; r++) store(C + (m + r) * M + w, block[r]);
            }
}

/* Buffers of Muon: the matrix X, G = X Xᵀ, G², the update of X, and a packed factor. */
typedef struct {
    float *x, *square, *fourth, *moved, *packed;
} muon_buffers;

/* Bring the singular values of x (low, high) close to 1, in place: divide it by its norm, then repeat
 * X = a X + (b G + c G²) X with G = X Xᵀ. */
static void orthogonalise(const muon_buffers *b, int64_t low, int64_t high, int64_t rounds, const float *abc) {
    float *x = b->x, length = 0.0f;
#pragma omp simd reduction(+ : length)
    for (int64_t i = 0; i < low * high; i++) length += x[i] * x[i];
    float scale = 1.0f / (sqrtf(length) + 1e-7f);
    for (int64_t i = 0; i < low * high; i++) x[i] *= scale;
    for (int64_t round = 0; round < rounds; round++) {
        pack_panels(b->packed, (matrix){x, 1, high}, high, low);
        multiply_symmetric(b->square, (matrix){x, high, 1}, b->packed, low, high);
        pack_panels(b->packed, (matrix){b->square, low, 1}, low, low);
        multiply_symmetric(b->fourth, (matrix){b->square, low, 1}, b->packed, low, low);
        for (int64_t i = 0; i < low * low; i++) b->square[i] = abc[1] * b->square[i] + abc[2] * b->fourth[i];
        pack_panels(b->packed, (matrix){x, high, 1}, low, high);
        multiply(b->moved, high, (matrix){b->square, low, 1}, b->packed, low, low, high, NULL, 0);
        for (int64_t i = 0; i < low * high; i++) x[i] = abc[0] * x[i] + b->moved[i];
    }
}

/* One step of Muon on every `parts`-th matrix (rows, columns) from number `part` on: Nesterov momentum, orthogonalised,
 * times `size` and the root of the longer side.  Gradients are first multiplied by `scale`; tall matrices are
 * transposed for the orthogonalisation. */
void jk_muon(float *const *weights, const float *const *gradients, float *const *means, const int64_t *rows,
             const int64_t *columns, int64_t count, float momentum, float scale, float rate, float decay, float size,
             int64_t rounds, const float *abc, int64_t part, int64_t parts) {
    int64_t most_low = 0, most = 0;
    for (int64_t c = part; c < count; c += parts)
        most_low = MAX(most_low, MIN(rows[c], columns[c])),
        most = MAX(most, rows[c] * panel_columns(MAX(rows[c], columns[c])));
    for (int64_t c = part; c < count; c += parts)
        most = MAX(most, columns[c] * panel_columns(MAX(rows[c], columns[c])));
    muon_buffers b = {new_floats(most), new_floats(most_low * most_low), new_floats(most_low * most_low),
                      new_floats(most), new_floats(most)};
    for (int64_t c = part; c < count; c += parts) {
        int64_t R = rows[c], C = columns[c], tall = R > C, low = MIN(R, C), high = MAX(R, C);
        float *w = weights[c], *m = means[c], move = rate * size * sqrtf((float)high), keep = 1.0f - rate * decay;
        const float *gradient = gradients[c];
        for (int64_t r = 0; r < R; r++)
            for (int64_t i = 0; i < C; i++) {
                float g = gradient[r * C + i] * scale, mean = m[r * C + i] + (g - m[r * C + i]) * (1.0f - momentum);
                m[r * C + i] = mean;
                b.x[tall ? i * R + r : r * C + i] = mean + (g - mean) * (1.0f - momentum);
            }
        orthogonalise(&b, low, high, rounds, abc);
        for (int64_t r = 0; r < R; r++)
            for (int64_t i = 0; i < C; i++)
                w[r * C + i] = w[r * C + i] * keep - move * b.x[tall ? i * R + r : r * C + i];
    }
    free(b.x), free(b.square), free(b.fourth), free(b.moved), free(b.packed);
}
