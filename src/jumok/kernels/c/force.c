/* Given translations: the log-probability of every token, and the attention over the source that one layer gives.
 *
 * Sentences go through the decoder together, one position after the other, as in a search: the numbers are those that
 * the search computes for the same tokens, bit for bit. */
#include "transformer.h"

#define PAIRS_AT_ONCE 32    /* most sentences of a group */
#define TOKENS_AT_ONCE 8192 /* most positions of a group whose keys and values are in memory */

/* The decoder with memories and caches of its own for G sources of at most S tokens and T positions. */
static stack copy_decoder(const stack *d, int64_t G, int64_t S, int64_t T) {
    int64_t width = d->H * (d->K + d->E);
    stack own = *d;
    layer_weights *layers = new_array(d->layers, sizeof(layer_weights));
    memcpy(layers, d->each, sizeof(layer_weights) * (size_t)d->layers);
    for (int64_t l = 0; l < d->layers; l++)
        layers[l].memory = new_floats(G * S * width), layers[l].cache = new_floats(G * T * width);
    own.each = layers;
    return own;
}

static void free_decoder(stack *d) {
    for (int64_t l = 0; l < d->layers; l++) free(d->each[l].memory), free(d->each[l].cache);
    free((void *)d->each);
}

/* Write what is asked for of the first rows at position t; row r is sentence begin + r. */
static void write_rows(const force_task *q, const stack *d, const row_buffers *at, float *logits, int64_t begin,
                       int64_t t, int64_t rows) {
    int64_t V = d->output.out, heads = q->head < 0 ? d->H : 1;
    for (int64_t r = 0; r < rows; r++) {
        int64_t b = begin + r, place = q->target_begins[b] + t, S = q->begins[b + 1] - q->begins[b];
        if (q->gains) q->gains[place] = logits[r * V + q->targets[place]] - jk_row_log_sum_exp(logits + r * V, V);
        for (int64_t h = 0; q->weights && h < heads; h++)
            memcpy(q->weights + q->weight_begins[b] + (t * heads + h) * S,
                   at->weights + (r * d->H + (q->head < 0 ? h : q->head)) * at->weights_width,
                   sizeof(float) * (size_t)S);
    }
}

/* Force sentences begin … end - 1, those with the longest targets first. */
static void force_group(const stack *e, const stack *decoder, const force_task *q, int64_t begin, int64_t end) {
    int64_t G = end - begin, S = 0, T = q->target_begins[begin + 1] - q->target_begins[begin], V = decoder->output.out;
    int64_t *lengths = new_integers(G), *sentence = new_integers(G), *tokens = new_integers(G);
    for (int64_t b = 0; b < G; b++) {
        lengths[b] = q->begins[begin + b + 1] - q->begins[begin + b], sentence[b] = b;
        S = MAX(S, lengths[b]);
    }
    int64_t *source = new_integers(G * S), *origin = new_integers(G * T);
    for (int64_t b = 0; b < G; b++) {
        memcpy(source + b * S, q->tokens + q->begins[begin + b], sizeof(int64_t) * (size_t)lengths[b]);
        for (int64_t t = 0; t < T; t++) origin[b * T + t] = b;
    }
    stack d = copy_decoder(decoder, G, S, T);
    row_buffers at = jk_new_row_buffers(e, MAX(ROWS_AT_ONCE, S), S);
    for (int64_t b = 0; b < G; b++) jk_encode_sentences(e, &d, &at, source, lengths, S, q->source_positions, b, b + 1);
    jk_free_row_buffers(at);
    at = jk_new_row_buffers(&d, G, MAX(T, S));
    if (q->weights) at.weights = new_floats(G * d.H * S), at.weights_width = S, at.weights_layer = q->layer;
    float *logits = q->gains ? new_floats(G * V) : NULL;
    for (int64_t t = 0, rows = G; t < T; t++) {
        while (q->target_begins[begin + rows] - q->target_begins[begin + rows - 1] <= t) rows--;
        for (int64_t b = 0; b < rows; b++) tokens[b] = t ? q->targets[q->target_begins[begin + b] + t - 1] : q->start;
        const float *position = q->target_positions ? q->target_positions + t * d.D : NULL;
        step_task m = {rows, t, T, S, tokens, origin, sentence, lengths, position};
        jk_decode_rows(logits, &d, &m, &at, 0, rows);
        write_rows(q, &d, &at, logits, begin, t, rows);
    }
    free(at.weights), free(logits);
    jk_free_row_buffers(at);
    free_decoder(&d);
    free(lengths), free(sentence), free(tokens), free(source), free(origin);
}

/* Divide the pairs into groups that begin at `starts`: few enough sentences that their keys and values fit in memory.
 */
static int64_t divide_pairs(const force_task *q, int64_t *starts) {
    int64_t groups = 0, S = 0, T = 0;
    for (int64_t b = 0, in_group = 0; b < q->B; b++, in_group++) {
        S = MAX(S, q->begins[b + 1] - q->begins[b]);
        if (!b || in_group == PAIRS_AT_ONCE || (in_group + 1) * (S + T) > TOKENS_AT_ONCE) {
            starts[groups++] = b, in_group = 0;
            S = q->begins[b + 1] - q->begins[b], T = q->target_begins[b + 1] - q->target_begins[b];
        }
    }
    starts[groups] = q->B;
    return groups;
}

/* Force all pairs in groups. */
void jk_force(const stack *e, const stack *d, const force_task *q) {
    int64_t *starts = new_integers(q->B + 1), groups = divide_pairs(q, starts);
#pragma omp parallel for schedule(dynamic) num_threads((int)MAX(1, MIN(omp_get_max_threads(), q->threads)))
    for (int64_t g = 0; g < groups; g++) force_group(e, d, q, starts[g], starts[g + 1]);
    free(starts);
}
