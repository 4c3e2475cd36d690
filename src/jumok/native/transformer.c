/* A Transformer that translates: all layers of the encoder in one call, one step of all layers of the decoder in one call,
 * and the likeliest tokens.
 *
 * A row goes through all layers on one core, and nothing is shared between rows: what comes out for a hypothesis depends on
 * its own tokens and its own source, and not on what else is in the batch.  Keys and values stay where they were written:
 * position s of row n is in slot origin[n][s], so that hypotheses that branch or leave move nothing. */
#include "transformer.h"

static void apply(float *to, const float *x, const dense *by, int64_t rows) {
    multiply(to, by->out, (matrix){x, by->in, 1}, by->packed, rows, by->in, by->out, by->bias, 0);
}

static const float *normed(const desk *at, norming by, int64_t rows, int64_t D, float eps, float *to) {
    float mean, scale;
    if (!by.gain) return at->x;
    for (int64_t r = 0; r < rows; r++) norm_row(to + r * D, &mean, &scale, at->x + r * D, by.gain, by.shift, D, eps);
    return to;
}

/* x + the last matrix of a sub-layer; norm behind it where the norm stands behind. */
static void leave(const stack *d, const desk *at, const float *y, const dense *last, norming norm, int64_t rows) {
    apply(at->normed, y, last, rows);
    for (int64_t i = 0; i < rows * d->D; i++) at->x[i] += at->normed[i];
    if (!d->pre) normed(at, norm, rows, d->D, d->eps, at->x);
}

/* What the first matrix of a sub-layer reads: x, or norm(x) where the norm stands before. */
static const float *enter(const stack *d, const desk *at, norming norm, int64_t rows) {
    return d->pre ? normed(at, norm, rows, d->D, d->eps, at->normed) : at->x;
}

/* The feed-forward net of a layer. */
static void feed(const stack *d, const layer *l, const desk *at, int64_t rows) {
    apply(at->wide, enter(d, at, l->norms[2], rows), &l->inner, rows);
    for (int64_t i = 0; i < rows * l->inner.out; i++) at->wide[i] = at->wide[i] > 0.0f ? at->wide[i] : 0.0f;
    leave(d, at, at->wide, &l->outer, l->norms[2], rows);
}

desk desk_for(const stack *d, int64_t rows, int64_t most) {
    int64_t wide = MAX(d->H * (2 * d->K + d->E), d->each->inner.out);
    return (desk){room(rows * d->D), room(rows * d->D), room(rows * wide), room(rows * d->H * d->E), room(padded(most)),
                  malloc(sizeof(float *) * (size_t)padded(most))};
}

void clear(desk at) { free(at.x), free(at.normed), free(at.wide), free(at.mixed), free(at.scores), free(at.past); }

static void embed_row(const stack *d, float *x, int64_t token, const float *position) {
    for (int64_t i = 0; i < d->D; i++) x[i] = d->table[token * d->D + i] * d->scale + (position ? position[i] : 0.0f);
}

/* Queries and keys (H·K) of position t turn by its angles. */
static void turn_heads(const stack *d, float *x, int64_t t) {
    for (int64_t h = 0; d->turns && h < d->H; h++)
        rotate(x + h * d->K, 0, x + h * d->K, 0, d->turns + t * 2 * d->K, 1, d->K, 1.0f);
}

/* The weighted sum of `wide` vectors at a place of each row. */
INLINE void weigh(float *out, const float *weights, const float **rows, int64_t at, int64_t count, int wide) {
    v8 sum[4];
    for (int w = 0; w < wide; w++) sum[w] = (v8){0};
    for (int64_t s = 0; s < count; s++)
        for (int w = 0; w < wide; w++) sum[w] += weights[s] * load(rows[s] + at + w * WIDE);
    for (int w = 0; w < wide; w++) store(out + w * WIDE, sum[w]);
}

/* One query (H·K) looks at `count` rows of keys and values. */
static void look(float *out, const float *q, const float **rows, int64_t count, const stack *d, float *scores) {
    int64_t P = padded(count);
    if (!count) memset(out, 0, sizeof(float) * (size_t)(d->H * d->E));
    for (int64_t s = count; s < P; s++) rows[s] = rows[0]; /* softmax closes these */
    for (int64_t h = 0; count && h < d->H; h++) {
        for (int64_t s = 0; s < P; s += WIDE) {
            v8 sum[WIDE];
            for (int k = 0; k < WIDE; k++) sum[k] = (v8){0};
            for (int64_t i = h * d->K; i < (h + 1) * d->K; i += WIDE) {
                v8 asked = load(q + i);
                for (int k = 0; k < WIDE; k++) sum[k] += asked * load(rows[s + k] + i);
            }
            turn(sum);
            v8 all = ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
            store(scores + s, all * d->factor);
        }
        softmax(scores, count, P);
        for (int64_t i = h * d->E, left = d->E; left > 0; i += 4 * WIDE, left -= 4 * WIDE) {
            const int64_t at = d->H * d->K + i, many = MIN(4, left / WIDE);
            if (many == 4)
                weigh(out + i, scores, rows, at, count, 4);
            else
                for (int64_t k = 0; k < many; k++) weigh(out + i + k * WIDE, scores, rows, at + k * WIDE, count, 1);
        }
    }
}

/* Rows first … first + rows - 1 through one layer. */
static void through(const stack *d, const layer *l, const moment *m, const desk *at, int64_t first, int64_t rows) {
    int64_t keys = d->H * d->K, values = d->H * d->E, width = keys + values;
    apply(at->wide, enter(d, at, l->norms[0], rows), &l->qkv, rows);
    for (int64_t r = 0; r < rows; r++) {
        float *q = at->wide + r * (keys + width), *own = l->cache + ((first + r) * m->room + m->t) * width;
        const int64_t *origin = m->origin + (first + r) * m->room;
        memcpy(own, q + keys, sizeof(float) * (size_t)width);
        turn_heads(d, q, m->t);
        turn_heads(d, own, m->t);
        for (int64_t s = 0; s < m->t; s++) at->past[s] = l->cache + (origin[s] * m->room + s) * width;
        at->past[m->t] = own;
        look(at->mixed + r * values, q, at->past, m->t + 1, d, at->scores);
    }
    leave(d, at, at->mixed, &l->own, l->norms[0], rows);
    apply(at->wide, enter(d, at, l->norms[1], rows), &l->query, rows);
    for (int64_t r = 0; r < rows; r++) {
        int64_t sentence = m->sentence[first + r], length = m->lengths[sentence];
        for (int64_t s = 0; s < length; s++) at->past[s] = l->memory + (sentence * m->S + s) * width;
        look(at->mixed + r * values, at->wide + r * keys, at->past, length, d, at->scores);
    }
    leave(d, at, at->mixed, &l->other, l->norms[1], rows);
    feed(d, l, at, rows);
}

void decoder_rows(float *logits, const stack *d, const moment *m, const desk *at, int64_t first, int64_t rows) {
    for (int64_t r = 0; r < rows; r++) embed_row(d, at->x + r * d->D, m->tokens[first + r], m->position);
    for (int64_t l = 0; l < d->layers; l++) through(d, d->each + l, m, at, first, rows);
    apply(logits, normed(at, d->last, rows, d->D, d->eps, at->normed), &d->output, rows);
}

/* Logits (N, V) of the token after each row's; extends the caches at position t, row n in slot n. */
void decoder_step(float *logits, const stack *d, const moment *m) {
    int64_t each = (m->N + omp_get_max_threads() - 1) / omp_get_max_threads();
    each = MAX(1, MIN(ROWS, (each + HIGH - 1) / HIGH * HIGH));
#pragma omp parallel
    {
        desk at = desk_for(d, each, MAX(m->t + 1, m->S));
#pragma omp for schedule(static)
        for (int64_t first = 0; first < m->N; first += each) {
            decoder_rows(logits + first * d->output.out, d, m, &at, first, MIN(each, m->N - first));
        }
        clear(at);
    }
}

void read_sentences(const stack *e, const stack *d, const desk *at, const int64_t *tokens, const int64_t *lengths, int64_t S,
                 const float *positions, int64_t first, int64_t last) {
    int64_t rows = 0, D = e->D, keys = e->H * e->K, values = e->H * e->E, width = 2 * keys + values;
    for (int64_t b = first; b < last; b++)
        for (int64_t s = 0; s < lengths[b]; s++, rows++)
            embed_row(e, at->x + rows * D, tokens[b * S + s], positions ? positions + s * D : NULL);
    for (const layer *l = e->each; l < e->each + e->layers; l++) {
        apply(at->wide, enter(e, at, l->norms[0], rows), &l->qkv, rows);
        for (int64_t b = first, from = 0; b < last; from += lengths[b], b++) {
            float *q = at->wide + from * width;
            for (int64_t s = 0; s < lengths[b]; s++) {
                turn_heads(e, q + s * width, s);
                turn_heads(e, q + s * width + keys, s);
                at->past[s] = q + s * width + keys;
            }
            for (int64_t s = 0; s < lengths[b]; s++)
                look(at->mixed + (from + s) * values, q + s * width, at->past, lengths[b], e, at->scores);
        }
        leave(e, at, at->mixed, &l->own, l->norms[0], rows);
        feed(e, l, at, rows);
    }
    const float *memory = normed(at, e->last, rows, D, e->eps, at->normed);
    for (const layer *l = d->each; l < d->each + d->layers; l++)
        for (int64_t b = first, from = 0; b < last; from += lengths[b], b++)
            apply(l->memory + b * S * l->remember.out, memory + from * D, &l->remember, lengths[b]);
}

/* Sources (B, S) through the encoder e into the memories (B, S, ·) of the decoder d; padding is neither read nor written. */
void encoder_run(const stack *e, const stack *d, const int64_t *tokens, const int64_t *lengths, int64_t B, int64_t S,
                 const float *positions) {
    int64_t blocks = 0, *starts = malloc(sizeof(int64_t) * (size_t)(B + 1));
    for (int64_t b = 0, rows = 0; b < B; rows += lengths[b++])
        if (b == 0 || rows + lengths[b] > ROWS) starts[blocks++] = b, rows = 0;
    starts[blocks] = B;
#pragma omp parallel
    {
        desk at = desk_for(e, MAX(ROWS, S), S);
#pragma omp for schedule(dynamic)
        for (int64_t i = 0; i < blocks; i++) read_sentences(e, d, &at, tokens, lengths, S, positions, starts[i], starts[i + 1]);
        clear(at);
    }
    free(starts);
}

int64_t packed_size(int64_t in, int64_t out) { return in * panels(out); }

/* W (out, in) as `dense` wants it. */
void pack_weight(float *to, const float *weight, int64_t in, int64_t out) { pack(to, (matrix){weight, 1, in}, in, out); }

/* The logarithm of the sum of e^x over a row (V,): how it is summed depends on V alone. */
static float normalizer(const float *row, int64_t V) {
    float most = -INFINITY, total = 0.0f;
    int64_t even = V / (4 * WIDE) * (4 * WIDE);
    v8 highest[4], sum[4]; /* four at a time: none waits for the one before it */
    for (int w = 0; w < 4; w++) highest[w] = (v8){0} - INFINITY, sum[w] = (v8){0};
    for (int64_t v = 0; v < even; v += 4 * WIDE)
        for (int w = 0; w < 4; w++) highest[w] = larger(load(row + v + w * WIDE), highest[w]);
    for (int w = 0; w < 4; w++) most = MAX(most, largest(highest[w]));
    for (int64_t v = even; v < V; v++) most = MAX(most, row[v]);
    for (int64_t v = 0; v < even; v += 4 * WIDE)
        for (int w = 0; w < 4; w++) sum[w] += exponential(load(row + v + w * WIDE) - most);
    total = sum_of((sum[0] + sum[1]) + (sum[2] + sum[3]));
    for (int64_t v = even; v < V; v++) total += expf(row[v] - most);
    return most + logf(total);
}

/* The C largest logits of a row (V,) and their tokens, best first, the first of equals first, as log-probabilities.  Tokens in
 * `never` count in the sum but are not chosen; what is -inf is chosen last. */
void likeliest(float *best, int64_t *which, float *row, const int64_t *never, int64_t nevers, int64_t V, int64_t C) {
    float all = normalizer(row, V);
    int64_t found = 0;
    for (int64_t i = 0; i < nevers; i++) row[never[i]] = -INFINITY;
    for (int64_t v = 0; v < V; v += WIDE) {
        int64_t end = MIN(v + WIDE, V);
        if (found == C && end - v == WIDE && !any(load(row + v) > best[C - 1])) continue;
        for (int64_t w = v; w < end; w++) {
            if (found == C && !(row[w] > best[C - 1])) continue;
            int64_t at = found < C ? found++ : C - 1;
            for (; at > 0 && row[w] > best[at - 1]; at--) best[at] = best[at - 1], which[at] = which[at - 1];
            best[at] = row[w], which[at] = w;
        }
    }
    for (int64_t c = 0; c < C; c++) best[c] -= all;
}

/* The same for rows (N, V). */
void candidates(float *top, int64_t *tokens, float *logits, const int64_t *never, int64_t nevers, int64_t N, int64_t V,
                int64_t C) {
#pragma omp parallel for schedule(static)
    for (int64_t n = 0; n < N; n++) likeliest(top + n * C, tokens + n * C, logits + n * V, never, nevers, V, C);
}

/* The normalizers (N,) of rows (N, V). */
void normalizers(float *to, const float *logits, int64_t N, int64_t V) {
#pragma omp parallel for schedule(static)
    for (int64_t n = 0; n < N; n++) to[n] = normalizer(logits + n * V, V);
}
