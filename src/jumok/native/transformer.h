/* What the encoder and the decoder are made of, and what the search (search.c) may call. */
#pragma once
#include "products.h"

#define ROWS 96

/* x Wᵀ + b with W packed; b may be NULL. */
typedef struct {
    const float *packed, *bias;
    int64_t in, out;
} dense;

/* Layer norm; no gain, no norm. */
typedef struct {
    const float *gain, *shift;
} norming;

typedef struct {
    dense qkv, own, query, remember, other, inner, outer; /* in an encoder, query, remember and other are not there */
    norming norms[3]; /* of self-attention, of attention over the source, of the feed-forward net */
    float *cache;     /* (slots, room, H·K keys + H·E values) */
    float *memory;    /* (sentences, S, H·K keys + H·E values) */
} layer;

typedef struct {
    int64_t layers, D, H, K, E, pre;
    const float *table, *turns; /* embeddings; rotary angles or NULL */
    norming last;
    dense output;
    const layer *each;
    float factor, scale, eps; /* of scores, of embeddings, of norms */
} stack;

/* N rows at position t: their tokens, where their past is, which sentence they translate and how long it is. */
typedef struct {
    int64_t N, t, room, S;
    const int64_t *tokens, *origin, *sentence, *lengths; /* (N,), (N, room), (N,), (sentences,) */
    const float *position;                               /* (D,) or NULL */
} moment;

/* What one core works on: rows of vectors, and places to put what they become. */
typedef struct {
    float *x, *normed, *wide, *mixed, *scores;
    const float **past;
} desk;

/* Rows first … first + rows - 1 of a step through all layers: their logits (rows, V); extends the caches. */
void decoder_rows(float *logits, const stack *d, const moment *m, const desk *at, int64_t first, int64_t rows);

/* Sentences first … last - 1 (of tokens (·, S), without padding) through the encoder, and what the decoder's layers keep. */
void read_sentences(const stack *e, const stack *d, const desk *at, const int64_t *tokens, const int64_t *lengths, int64_t S,
                    const float *positions, int64_t first, int64_t last);

/* Places for `rows` rows that look at `most` others. */
desk desk_for(const stack *d, int64_t rows, int64_t most);
void clear(desk at);

void likeliest(float *best, int64_t *which, float *row, const int64_t *never, int64_t nevers, int64_t V, int64_t C);
