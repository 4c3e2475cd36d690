/* What the search (search.c) calls of the encoder and the decoder (transformer.c). */
#pragma once
#include "kernels.h"
#include "vectors.h"

#define ROWS_AT_ONCE 96 /* rows that go through the layers together */

/* What one core works with: rows of vectors, and buffers for what is computed from them.  Where `weights` is not NULL,
 * layer `weights_layer` of a decoder writes its attention over the source there: (rows, H, weights_width). */
typedef struct {
    float *x, *normed, *wide, *mixed, *scores;
    const float **past;
    float *weights;
    int64_t weights_width, weights_layer;
} row_buffers;

/* Buffers for `rows` rows that attend to at most `most` others. */
row_buffers jk_new_row_buffers(const stack *d, int64_t rows, int64_t most);
void jk_free_row_buffers(row_buffers at);

/* Take rows first … first + rows - 1 of a step through all layers: writes their logits (rows, V) unless that is NULL,
 * and extends the caches. */
void jk_decode_rows(float *logits, const stack *d, const step_task *m, const row_buffers *at, int64_t first,
                    int64_t rows);

/* Take sentences first … last - 1 (of tokens (·, S), without padding) through the encoder and write the memories of the
 * decoder's layers. */
void jk_encode_sentences(const stack *e, const stack *d, const row_buffers *at, const int64_t *tokens,
                         const int64_t *lengths, int64_t S, const float *positions, int64_t first, int64_t last);

/* Write the C largest logits of a row (V,), as log-probabilities, and their tokens: largest first, and of equal ones
 * the lowest token first.  Tokens in `never` count in the softmax but are not chosen; -inf is chosen last. */
void jk_top_tokens(float *best, int64_t *which, float *row, const int64_t *never, int64_t nevers, int64_t V, int64_t C);

/* The logarithm of the sum of e^x over a row (V,); the order of summation depends on V alone. */
float jk_row_log_sum_exp(const float *row, int64_t V);

/* `jk_top_tokens` of logits whose `jk_row_log_sum_exp` is known. */
void jk_largest(float *best, int64_t *which, const float *row, float all, int64_t V, int64_t C);
