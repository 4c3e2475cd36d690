/* What one kernel may call of another. */
#pragma once
#include <stdint.h>

/* Who looks at whom: sentence b has queries queries[b] … queries[b + 1] - 1 and keys keys[b] … keys[b + 1] - 1, of which the first
 * lengths[b] are seen, or, where that is NULL, all; with causal, query t sees keys 0 … t.  With `turns`, queries and keys have
 * rotary positions 0, 1, ….  A sentence with more than `longest` queries or keys is a long one (long_attention.c). */
typedef struct {
    int64_t B, H, K, E;
    const int64_t *queries, *keys, *lengths; /* (B + 1), (B + 1), (B) */
    const float *turns;                      /* (longest, 2, K) */
    int64_t q_stride, k_stride, v_stride, causal, longest;
    float factor;
} attending;

int64_t attention_kept(const attending *a); /* how many numbers `attention` keeps for the backward pass */
void attention(float *out, float *kept, const float *q, const float *k, const float *v, const attending *a);
void attention_backward(float *dq, float *dk, float *dv, const float *gradient, const float *out, const float *kept,
                        const float *q, const float *k, const float *v, const attending *a);

/* One head of one long sentence; `logs` (T) is all that the backward pass needs besides input and output.  dq, dk and dv are
 * written with the strides of q, k and v.  A query that sees no key gets zeros. */
typedef struct {
    int64_t T, S, seen, K, E, q_stride, k_stride, v_stride, out_stride, causal;
    const float *turns;
    float factor;
} head;

void long_attention(float *out, float *logs, const float *q, const float *k, const float *v, const head *h);
void long_attention_backward(float *dq, float *dk, float *dv, const float *gradient, const float *out, const float *logs,
                             const float *q, const float *k, const float *v, const head *h);

void embed(float *out, const float *table, const int64_t *ids, const int64_t *places, const float *positions, int64_t N,
           int64_t D, float scale, uint64_t key, float rate);
void embed_backward(float *table, const float *gradient, const int64_t *ids, int64_t N, int64_t D, float scale,
                    uint64_t key, float rate);

void norm(float *y, float *mean, float *scale, const float *x, const float *weight, const float *bias, int64_t N,
          int64_t D, float eps);
void norm_backward(float *dx, float *dweight, float *dbias, const float *gradient, const float *x, const float *mean,
                   const float *scale, const float *weight, int64_t N, int64_t D);
void linear(float *y, const float *x, const float *weight, const float *bias, const float *residual, float *mean,
            float *scale, const float *norm_weight, const float *norm_bias, int64_t N, int64_t I, int64_t O, float eps,
            int relu, uint64_t key, float rate);
void linear_backward(float *dx, float *dweight, float *dbias, float *dnorm_weight, float *dnorm_bias,
                     const float *gradient, const float *beside, const float *x, const float *active,
                     const float *weight, const float *mean, const float *scale, const float *norm_weight,
                     const float *norm_bias, int64_t N, int64_t I, int64_t O, uint64_t key, float rate);
