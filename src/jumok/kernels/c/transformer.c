/* A Transformer that translates: all layers of the encoder in one call, one step of all layers of the decoder in one
 * call, and the most probable tokens.
 *
 * A row goes through all layers on one core, and nothing is shared between rows: the result for a hypothesis depends on
 * its own tokens and its own source, and not on the rest of the batch.  Keys and values stay where they were written:
 * position s of row n is in slot origin[n][s], so that nothing is moved when hypotheses branch or end. */
#include "transformer.h"
#include "products.h"

static void apply_dense(float *to, const float *x, const dense *by, int64_t rows) {
    multiply(to, by->out, (matrix){x, by->in, 1}, by->packed, rows, by->in, by->out, by->bias, 0);
}

static const float *apply_norm(const row_buffers *at, norm_weights by, int64_t rows, int64_t D, float eps, float *to) {
    float mean, scale;
    if (!by.gain) return at->x;
    for (int64_t r = 0; r < rows; r++)
        normalize_row(to + r * D, &mean, &scale, at->x + r * D, by.gain, by.shift, D, eps);
    return to;
}

/* x += the last matrix of a sub-layer applied to y, then norm in a post-norm model. */
static void add_residual(const stack *d, const row_buffers *at, const float *y, const dense *last, norm_weights norm,
                         int64_t rows) {
    apply_dense(at->normed, y, last, rows);
    for (int64_t i = 0; i < rows * d->D; i++) at->x[i] += at->normed[i];
    if (!d->pre) apply_norm(at, norm, rows, d->D, d->eps, at->x);
}

/* The input of the first matrix of a sub-layer: x, or norm(x) in a pre-norm model. */
static const float *sublayer_input(const stack *d, const row_buffers *at, norm_weights norm, int64_t rows) {
    return d->pre ? apply_norm(at, norm, rows, d->D, d->eps, at->normed) : at->x;
}

/* The feed-forward network of a layer. */
static void feed_forward(const stack *d, const layer_weights *l, const row_buffers *at, int64_t rows) {
    apply_dense(at->wide, sublayer_input(d, at, l->norms[2], rows), &l->inner, rows);
    for (int64_t i = 0; i < rows * l->inner.out; i++) at->wide[i] = at->wide[i] > 0.0f ? at->wide[i] : 0.0f;
    add_residual(d, at, at->wide, &l->outer, l->norms[2], rows);
}

row_buffers jk_new_row_buffers(const stack *d, int64_t rows, int64_t most) {
    int64_t wide = MAX(d->H * (2 * d->K + d->E), d->each->inner.out);
    return (row_buffers){
        .x = new_floats(rows * d->D),
        .normed = new_floats(rows * d->D),
        .wide = new_floats(rows * wide),
        .mixed = new_floats(rows * d->H * d->E),
        .scores = new_floats(padded(most)),
        .past = new_array(padded(most), sizeof(float *)),
    };
}

void jk_free_row_buffers(row_buffers at) {
    free(at.x), free(at.normed), free(at.wide), free(at.mixed), free(at.scores), free(at.past);
}

static void embed_row(const stack *d, float *x, int64_t token, const float *position) {
    for (int64_t i = 0; i < d->D; i++) x[i] = d->table[token * d->D + i] * d->scale + (position ? position[i] : 0.0f);
}

/* Rotate queries or keys (H·K) by the angles of position t. */
static void rotate_heads(const stack *d, float *x, int64_t t) {
    for (int64_t h = 0; d->rotary && h < d->H; h++)
        rotate(x + h * d->K, 0, x + h * d->K, 0, d->rotary + t * 2 * d->K, 1, d->K, 1.0f);
}

/* The weighted sum over rows of the `wide` vectors that begin at offset `at` of each row. */
INLINE void weighted_sum(float *out, const float *weights, const float **rows, int64_t at, int64_t count, int wide) {
    v8 sum[4];
    for (int w = 0; w < wide; w++) sum[w] = (v8){0};
    for (int64_t s = 0; s < count; s++)
        for (int w = 0; w < wide; w++) sum[w] += weights[s] * load(rows[s] + at + w * WIDTH);
    for (int w = 0; w < wide; w++) store(out + w * WIDTH, sum[w]);
}

/* Attention of one query (H·K) over `count` rows of keys and values; its weights also go to `keep` (H, width), unless
 * that is NULL. */
static void attend(float *out, const float *q, const float **rows, int64_t count, const stack *d, float *scores,
                   float *keep, int64_t width) {
    int64_t P = padded(count);
    if (!count) memset(out, 0, sizeof(float) * (size_t)(d->H * d->E));
    for (int64_t s = count; s < P; s++) rows[s] = rows[0]; /* their weights become 0 */
    for (int64_t h = 0; count && h < d->H; h++) {
        for (int64_t s = 0; s < P; s += WIDTH) {
            v8 sum[WIDTH];
            for (int k = 0; k < WIDTH; k++) sum[k] = (v8){0};
            for (int64_t i = h * d->K; i < (h + 1) * d->K; i += WIDTH) {
                v8 asked = load(q + i);
                for (int k = 0; k < WIDTH; k++) sum[k] += asked * load(rows[s + k] + i);
            }
            transpose_8x8(sum);
            v8 all = ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
            store(scores + s, all * d->factor);
        }
        softmax(scores, count, P);
        if (keep) memcpy(keep + h * width, scores, sizeof(float) * (size_t)count);
        for (int64_t i = h * d->E, left = d->E; left > 0; i += 4 * WIDTH, left -= 4 * WIDTH) {
            const int64_t at = d->H * d->K + i, many = MIN(4, left / WIDTH);
            if (many == 4)
                weighted_sum(out + i, scores, rows, at, count, 4);
            else
                for (int64_t k = 0; k < many; k++)
                    weighted_sum(out + i + k * WIDTH, scores, rows, at + k * WIDTH, count, 1);
        }
    }
}

/* Take rows first … first + rows - 1 through one layer. */
static void decoder_layer(const stack *d, const layer_weights *l, const step_task *m, const row_buffers *at,
                          int64_t first, int64_t rows) {
    int64_t keys = d->H * d->K, values = d->H * d->E, width = keys + values;
    float *keep = l == d->each + at->weights_layer ? at->weights : NULL;
    apply_dense(at->wide, sublayer_input(d, at, l->norms[0], rows), &l->qkv, rows);
    for (int64_t r = 0; r < rows; r++) {
        float *q = at->wide + r * (keys + width), *own = l->cache + ((first + r) * m->capacity + m->t) * width;
        const int64_t *origin = m->origin + (first + r) * m->capacity;
        memcpy(own, q + keys, sizeof(float) * (size_t)width);
        rotate_heads(d, q, m->t);
        rotate_heads(d, own, m->t);
        for (int64_t s = 0; s < m->t; s++) at->past[s] = l->cache + (origin[s] * m->capacity + s) * width;
        at->past[m->t] = own;
        attend(at->mixed + r * values, q, at->past, m->t + 1, d, at->scores, NULL, 0);
    }
    add_residual(d, at, at->mixed, &l->self_output, l->norms[0], rows);
    apply_dense(at->wide, sublayer_input(d, at, l->norms[1], rows), &l->query, rows);
    for (int64_t r = 0; r < rows; r++) {
        int64_t sentence = m->sentence[first + r], length = m->lengths[sentence];
        for (int64_t s = 0; s < length; s++) at->past[s] = l->memory + (sentence * m->S + s) * width;
        attend(at->mixed + r * values, at->wide + r * keys, at->past, length, d, at->scores,
               keep ? keep + r * d->H * at->weights_width : NULL, at->weights_width);
    }
    add_residual(d, at, at->mixed, &l->cross_output, l->norms[1], rows);
    feed_forward(d, l, at, rows);
}

void jk_decode_rows(float *logits, const stack *d, const step_task *m, const row_buffers *at, int64_t first,
                    int64_t rows) {
    for (int64_t r = 0; r < rows; r++) embed_row(d, at->x + r * d->D, m->tokens[first + r], m->position);
    for (int64_t l = 0; l < d->layers; l++) decoder_layer(d, d->each + l, m, at, first, rows);
    if (logits) apply_dense(logits, apply_norm(at, d->last, rows, d->D, d->eps, at->normed), &d->output, rows);
}

/* Logits (N, V) of the next token of each row; extends the caches at position t, row n in slot n. */
void jk_decode_step(float *logits, const stack *d, const step_task *m) {
    int64_t each = (m->N + omp_get_max_threads() - 1) / omp_get_max_threads();
    each = MAX(1, MIN(ROWS_AT_ONCE, (each + TILE_ROWS - 1) / TILE_ROWS * TILE_ROWS));
#pragma omp parallel
    {
        row_buffers at = jk_new_row_buffers(d, each, MAX(m->t + 1, m->S));
#pragma omp for schedule(static)
        for (int64_t first = 0; first < m->N; first += each) {
            jk_decode_rows(logits + first * d->output.out, d, m, &at, first, MIN(each, m->N - first));
        }
        jk_free_row_buffers(at);
    }
}

void jk_encode_sentences(const stack *e, const stack *d, const row_buffers *at, const int64_t *tokens,
                         const int64_t *lengths, int64_t S, const float *positions, int64_t first, int64_t last) {
    int64_t rows = 0, D = e->D, keys = e->H * e->K, values = e->H * e->E, width = 2 * keys + values;
    for (int64_t b = first; b < last; b++)
        for (int64_t s = 0; s < lengths[b]; s++, rows++)
            embed_row(e, at->x + rows * D, tokens[b * S + s], positions ? positions + s * D : NULL);
    for (const layer_weights *l = e->each; l < e->each + e->layers; l++) {
        apply_dense(at->wide, sublayer_input(e, at, l->norms[0], rows), &l->qkv, rows);
        for (int64_t b = first, from = 0; b < last; from += lengths[b], b++) {
            float *q = at->wide + from * width;
            for (int64_t s = 0; s < lengths[b]; s++) {
                rotate_heads(e, q + s * width, s);
                rotate_heads(e, q + s * width + keys, s);
                at->past[s] = q + s * width + keys;
            }
            for (int64_t s = 0; s < lengths[b]; s++)
                attend(at->mixed + (from + s) * values, q + s * width, at->past, lengths[b], e, at->scores, NULL, 0);
        }
        add_residual(e, at, at->mixed, &l->self_output, l->norms[0], rows);
        feed_forward(e, l, at, rows);
    }
    const float *memory = apply_norm(at, e->last, rows, D, e->eps, at->normed);
    for (const layer_weights *l = d->each; l < d->each + d->layers; l++)
        for (int64_t b = first, from = 0; b < last; from += lengths[b], b++)
            apply_dense(l->memory + b * S * l->key_value.out, memory + from * D, &l->key_value, lengths[b]);
}

/* Take sources (B, S) through the encoder e and write the memories (B, S, ·) of the decoder d; padding is skipped. */
void jk_encode(const stack *e, const stack *d, const int64_t *tokens, const int64_t *lengths, int64_t B, int64_t S,
               const float *positions) {
    int64_t blocks = 0, *starts = new_integers(B + 1);
    for (int64_t b = 0, rows = 0; b < B; rows += lengths[b++])
        if (b == 0 || rows + lengths[b] > ROWS_AT_ONCE) starts[blocks++] = b, rows = 0;
    starts[blocks] = B;
#pragma omp parallel
    {
        row_buffers at = jk_new_row_buffers(e, MAX(ROWS_AT_ONCE, S), S);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < blocks; i++)
            jk_encode_sentences(e, d, &at, tokens, lengths, S, positions, starts[i], starts[i + 1]);
        jk_free_row_buffers(at);
    }
    free(starts);
}

int64_t jk_packed_size(int64_t in, int64_t out) { return in * panel_columns(out); }

/* Pack W (out, in) for a `dense`. */
void jk_pack_weight(float *to, const float *weight, int64_t in, int64_t out) {
    pack_panels(to, (matrix){weight, 1, in}, in, out);
}

float jk_row_log_sum_exp(const float *row, int64_t V) {
    float most = -INFINITY, total = 0.0f;
    int64_t even = V / (4 * WIDTH) * (4 * WIDTH);
    v8 highest[4], sum[4]; /* four independent sums, which hide the latency of an addition */
    for (int w = 0; w < 4; w++) highest[w] = (v8){0} - INFINITY, sum[w] = (v8){0};
    for (int64_t v = 0; v < even; v += 4 * WIDTH)
        for (int w = 0; w < 4; w++) highest[w] = maximum(load(row + v + w * WIDTH), highest[w]);
    for (int w = 0; w < 4; w++) most = MAX(most, horizontal_max(highest[w]));
    for (int64_t v = even; v < V; v++) most = MAX(most, row[v]);
    for (int64_t v = 0; v < even; v += 4 * WIDTH)
        for (int w = 0; w < 4; w++) sum[w] += exp_v8(load(row + v + w * WIDTH) - most);
    total = horizontal_sum((sum[0] + sum[1]) + (sum[2] + sum[3]));
    for (int64_t v = even; v < V; v++) total += expf(row[v] - most);
    return most + logf(total);
}

void jk_top_tokens(float *best, int64_t *which, float *row, const int64_t *never, int64_t nevers, int64_t V,
                   int64_t C) {
    float all = jk_row_log_sum_exp(row, V);
    for (int64_t i = 0; i < nevers; i++) row[never[i]] = -INFINITY;
    jk_largest(best, which, row, all, V, C);
}

void jk_largest(float *best, int64_t *which, const float *row, float all, int64_t V, int64_t C) {
    int64_t found = 0;
    for (int64_t v = 0; v < V; v += WIDTH) {
        int64_t end = MIN(v + WIDTH, V);
        if (found == C && end - v == WIDTH && !any_of(load(row + v) > best[C - 1])) continue;
        for (int64_t w = v; w < end; w++) {
            if (found == C && !(row[w] > best[C - 1])) continue;
            int64_t at = found < C ? found++ : C - 1;
            for (; at > 0 && row[w] > best[at - 1]; at--) best[at] = best[at - 1], which[at] = which[at - 1];
            best[at] = row[w], which[at] = w;
        }
    }
    for (int64_t c = 0; c < C; c++) best[c] -= all;
}

/* `jk_top_tokens` for rows (N, V). */
void jk_candidates(float *top, int64_t *tokens, float *logits, const int64_t *never, int64_t nevers, int64_t N,
                   int64_t V, int64_t C) {
#pragma omp parallel for schedule(static)
    for (int64_t n = 0; n < N; n++) jk_top_tokens(top + n * C, tokens + n * C, logits + n * V, never, nevers, V, C);
}

/* The logarithms (N,) of the sums of e^x over rows (N, V). */
void jk_log_sum_exp(float *to, const float *logits, int64_t N, int64_t V) {
#pragma omp parallel for schedule(static)
    for (int64_t n = 0; n < N; n++) to[n] = jk_row_log_sum_exp(logits + n * V, V);
}
