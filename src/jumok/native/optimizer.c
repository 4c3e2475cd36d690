/* How gradients move weights.  Several threads share this work: thread `part` of `parts` takes its share of the numbers of
 * every tensor. */
#include "vectors.h"

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
