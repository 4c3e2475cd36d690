/* Embeddings: look up, scale, add positions and drop out in one pass; and the backward pass. */
#include "kernels.h"
#include "vectors.h"

/* out[i] = dropout(table[ids[i]] · scale + positions[places[i]]); without positions, `places` is not read. */
void jk_embed(float *out, const float *table, const int64_t *ids, const int64_t *places, const float *positions,
              int64_t N, int64_t D, float scale, uint64_t key, float rate) {
    const uint32_t first = (uint32_t)key, second = (uint32_t)(key >> 32);
    const uint32_t threshold = (uint32_t)((double)rate * 4294967296.0);
    const float up = 1.0f / (1.0f - rate);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < N; i++) {
        const float *row = table + ids[i] * D, *where = positions ? positions + places[i] * D : NULL;
        float *o = out + i * D;
        for (int64_t d = 0; d < D; d++) {
            float value = row[d] * scale + (where ? where[d] : 0.0f);
            o[d] = random_bits((uint32_t)(i * D + d), first, second) >= threshold ? value * up : 0.0f;
        }
    }
}

/* table[id] += gradient · scale with the same dropout mask; each thread has its own columns, so no two write to one
 * place. */
void jk_embed_backward(float *table, const float *gradient, const int64_t *ids, int64_t N, int64_t D, float scale,
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
