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

/* What orthogonalising takes: the matrix, its square, the square of that, what comes next, and a packed side. */
typedef struct {
    float *x, *square, *fourth, *moved, *packed;
} bench;

/* x (low, high) with its singular values brought near 1, in place: divided by its length, then X = a X + (b G + c G²) X with
 * G = X Xᵀ, some rounds of it. */
static void orthogonalise(const bench *on, int64_t low, int64_t high, int64_t rounds, const float *abc) {
    float *x = on->x, length = 0.0f;
#pragma omp simd reduction(+ : length)
    for (int64_t i = 0; i < low * high; i++) length += x[i] * x[i];
    float scale = 1.0f / (sqrtf(length) + 1e-7f);
    for (int64_t i = 0; i < low * high; i++) x[i] *= scale;
    for (int64_t round = 0; round < rounds; round++) {
        pack(on->packed, (matrix){x, 1, high}, high, low);
        symmetric(on->square, (matrix){x, high, 1}, on->packed, low, high);
        pack(on->packed, (matrix){on->square, low, 1}, low, low);
        symmetric(on->fourth, (matrix){on->square, low, 1}, on->packed, low, low);
        for (int64_t i = 0; i < low * low; i++) on->square[i] = abc[1] * on->square[i] + abc[2] * on->fourth[i];
        pack(on->packed, (matrix){x, high, 1}, low, high);
        multiply(on->moved, high, (matrix){on->square, low, 1}, on->packed, low, low, high, NULL, 0);
        for (int64_t i = 0; i < low * high; i++) x[i] = abc[0] * x[i] + on->moved[i];
    }
}

/* One step of Muon on every `parts`-th matrix (rows, columns) from number `part` on: momentum looked at from one gradient ahead,
 * made orthogonal, times `size` and the root of its longer side.  Gradients are first multiplied by `scale`; tall matrices lie
 * down meanwhile. */
void muon(float *const *weights, const float *const *gradients, float *const *means, const int64_t *rows,
          const int64_t *columns, int64_t count, float momentum, float scale, float rate, float decay, float size,
          int64_t rounds, const float *abc, int64_t part, int64_t parts) {
    int64_t most_low = 0, most = 0;
    for (int64_t c = part; c < count; c += parts)
        most_low = MAX(most_low, MIN(rows[c], columns[c])), most = MAX(most, rows[c] * panels(MAX(rows[c], columns[c])));
    for (int64_t c = part; c < count; c += parts) most = MAX(most, columns[c] * panels(MAX(rows[c], columns[c])));
    bench on = {room(most), room(most_low * most_low), room(most_low * most_low), room(most), room(most)};
    for (int64_t c = part; c < count; c += parts) {
        int64_t R = rows[c], C = columns[c], tall = R > C, low = MIN(R, C), high = MAX(R, C);
        float *w = weights[c], *m = means[c], move = rate * size * sqrtf((float)high), keep = 1.0f - rate * decay;
        const float *gradient = gradients[c];
        for (int64_t r = 0; r < R; r++)
            for (int64_t i = 0; i < C; i++) {
                float g = gradient[r * C + i] * scale, mean = m[r * C + i] + (g - m[r * C + i]) * (1.0f - momentum);
                m[r * C + i] = mean;
                on.x[tall ? i * R + r : r * C + i] = mean + (g - mean) * (1.0f - momentum);
            }
        orthogonalise(&on, low, high, rounds, abc);
        for (int64_t r = 0; r < R; r++)
            for (int64_t i = 0; i < C; i++) w[r * C + i] = w[r * C + i] * keep - move * on.x[tall ? i * R + r : r * C + i];
    }
    free(on.x), free(on.square), free(on.fourth), free(on.moved), free(on.packed);
}
