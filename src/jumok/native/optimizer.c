/* How gradients move weights.  Several threads share this work: thread `part` of `parts` takes its share of the numbers of
 * every tensor. */
#include "products.h"

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

/* C (M, M) = A B where the product is its own transpose: tiles on and above the diagonal are computed, the others mirrored. */
static void symmetric(float *C, matrix A, const float *packed, int64_t M, int64_t K) {
    for (int64_t n = 0; n < M; n += BROAD)
        multiply(C + n, M, A, packed + n * K, MIN(M, n + BROAD), K, MIN(BROAD, M - n), NULL, 0);
    for (int64_t n = 0; n < M; n += BROAD)
        for (int64_t m = n + BROAD; m < M; m += WIDE)
            for (int64_t w = n; w < n + BROAD; w += WIDE) {
                if (m + WIDE > M) {
                    for (int64_t i = m; i < M; i++)
                        for (int64_t j = w; j < w + WIDE; j++) C[i * M + j] = C[j * M + i];
                    continue;
                }
                v8 block[WIDE];
                for (int r = 0; r < WIDE; r++) block[r] = load(C + (w + r) * M + m);
                turn(block);
                for (int r = 0; r < WIDE; r++) store(C + (m + r) * M + w, block[r]);
            }
}

/* n matrices (low, high) with their singular values brought near 1, in place: divided by their length, then
 * X = a X + (b G + c G²) X with G = X Xᵀ, some rounds of it. */
void orthogonal(float *matrices, int64_t n, int64_t low, int64_t high, int64_t rounds, float a, float b, float c) {
#pragma omp parallel
    {
        float *square = room(low * low), *fourth = room(low * low), *moved = room(low * high);
        float *packed = room(MAX(high * panels(low), low * panels(MAX(low, high))));
#pragma omp for schedule(static)
        for (int64_t each = 0; each < n; each++) {
            float *x = matrices + each * low * high, length = 0.0f;
#pragma omp simd reduction(+ : length)
            for (int64_t i = 0; i < low * high; i++) length += x[i] * x[i];
            float scale = 1.0f / (sqrtf(length) + 1e-7f);
            for (int64_t i = 0; i < low * high; i++) x[i] *= scale;
            for (int64_t round = 0; round < rounds; round++) {
                pack(packed, (matrix){x, 1, high}, high, low);
                symmetric(square, (matrix){x, high, 1}, packed, low, high);
                pack(packed, (matrix){square, low, 1}, low, low);
                symmetric(fourth, (matrix){square, low, 1}, packed, low, low);
                for (int64_t i = 0; i < low * low; i++) square[i] = b * square[i] + c * fourth[i];
                pack(packed, (matrix){x, high, 1}, low, high);
                multiply(moved, high, (matrix){square, low, 1}, packed, low, low, high, NULL, 0);
                for (int64_t i = 0; i < low * high; i++) x[i] = a * x[i] + moved[i];
            }
        }
        free(square);
        free(fourth);
        free(moved);
        free(packed);
    }
}
