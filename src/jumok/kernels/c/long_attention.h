/* Attention of one head of one long sentence, called by attention.c. */
#pragma once
#include <stdint.h>

typedef struct {
    int64_t T, S, visible, K, E, q_stride, k_stride, v_stride, out_stride, causal;
    const float *rotary;
    float factor;
} long_head;

/* `logs` (T) is all that the backward pass needs besides input and output.  dq, dk and dv are written with the strides
 * of q, k and v.  A query that sees no key gets zeros. */
void jk_long_attention(float *out, float *logs, const float *q, const float *k, const float *v, const long_head *h);
void jk_long_attention_backward(float *dq, float *dk, float *dv, const float *gradient, const float *out,
                                const float *logs, const float *q, const float *k, const float *v, const long_head *h);
