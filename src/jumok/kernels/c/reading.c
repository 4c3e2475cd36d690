/* A second reading of a Transformer that translates: the layers of transformer.c in plain loops, which write down what
 * they compute and apply edits.
 *
 * transformer.c stays as fast as it is, because nothing in it asks for edits.  Rows are the positions of one sentence,
 * or one position of several hypotheses, whose keys and values are then in the caches of the layers, as in a search.
 * Edits are compared with the place that is computed and never used as an index. */
#include "reading.h"
#include "products.h"

/* Rows on their way through a stack. */
typedef struct {
    const stack *s;
    const edit_list *edits;  /* or NULL */
    float *const *notes;     /* of the stack and its sub-layers (·, NOTES), or NULL */
    const step_task *step;   /* or NULL: the rows are the positions of one sentence */
    int64_t first, rows;     /* `first`: hypothesis of the first row, with a step */
    int64_t sentence, S;     /* whose memory is read, and how many tokens each memory has room for, without a step */
    const int64_t *lengths;  /* of the memories */
    int64_t part, layer, at; /* what is computed: `at` is its place in the notes */
    row_buffers with;
} reading;

static int covers(int64_t edited, int64_t here) { return edited == -1 || edited == here; }

/* The last edit of a kind for a place, NULL if there is none; -1 for a head or a query means that none is computed. */
static const edit *find_edit(const reading *r, enum edit_kind kind, int64_t head, int64_t query) {
    for (int64_t i = r->edits ? r->edits->count - 1 : -1; i >= 0; i--) {
        const edit *one = r->edits->each + i;
        if (one->kind == kind && covers(one->part, r->part) && covers(one->layer, r->layer) &&
            covers(one->head, head) && covers(one->query, query))
            return one;
    }
    return NULL;
}

static int is_off(const reading *r, enum edit_kind kind) { return find_edit(r, kind, -1, -1) != NULL; }

static float *note_of(const reading *r, enum note which) { return r->notes ? r->notes[r->at * NOTES + which] : NULL; }

/* Write down `width` numbers of every row. */
static void take_note(const reading *r, enum note which, const float *values, int64_t stride, int64_t width) {
    float *to = note_of(r, which);
    for (int64_t i = 0; to && i < r->rows; i++)
        memcpy(to + i * width, values + i * stride, sizeof(float) * (size_t)width);
}

static void apply_matrix(float *to, const float *x, const dense *by, int64_t rows) {
    multiply(to, by->out, (matrix){x, by->in, 1}, by->packed, rows, by->in, by->out, by->bias, 0);
}

/* Copy x to `to`, normalized unless there is no norm or it is off. */
static void read_norm(const reading *r, norm_weights by, float *to) {
    int64_t D = r->s->D;
    float *x = r->with.x, *means = note_of(r, NOTE_MEAN), *deviations = note_of(r, NOTE_DEVIATION), mean, scale;
    if (!by.gain || is_off(r, EDIT_NO_NORM)) {
        if (to != x) memcpy(to, x, sizeof(float) * (size_t)(r->rows * D));
        return;
    }
    for (int64_t i = 0; i < r->rows; i++) {
        normalize_row(to + i * D, &mean, &scale, x + i * D, by.gain, by.shift, D, r->s->eps);
        if (means) means[i] = mean;
        if (deviations) deviations[i] = 1.0f / scale;
    }
    take_note(r, NOTE_NORMED, to, D, D);
}

/* The input of a sub-layer. */
static const float *enter_sublayer(const reading *r, norm_weights norm) {
    const float *input = r->with.x;
    if (r->s->pre) read_norm(r, norm, r->with.normed), input = r->with.normed;
    take_note(r, NOTE_INPUT, input, r->s->D, r->s->D);
    return input;
}

/* The last matrix of a sub-layer applied to y, the residual sum, and the norm of a post-norm model. */
static void leave_sublayer(const reading *r, const float *y, const dense *last, norm_weights norm) {
    int64_t D = r->s->D, alone = is_off(r, EDIT_NO_RESIDUAL);
    float *x = r->with.x, *output = r->with.normed;
    apply_matrix(output, y, last, r->rows);
    take_note(r, NOTE_OUTPUT, output, D, D);
    for (int64_t i = 0; i < r->rows * D; i++) x[i] = alone ? output[i] : x[i] + output[i];
    take_note(r, NOTE_TOTAL, x, D, D);
    if (!r->s->pre) read_norm(r, norm, x);
}

/* Write down the scores or weights of one head of one row: (H, rows, total). */
static void note_scores(const reading *r, enum note which, int64_t head, int64_t row, int64_t total) {
    float *to = note_of(r, which);
    if (to) memcpy(to + (head * r->rows + row) * total, r->with.scores, sizeof(float) * (size_t)total);
}

/* Attention of a row, whose position is `query`, over `total` keys and values, of which it sees the first ones. */
static void attend_row(const reading *r, int64_t row, int64_t query, const float *q, int64_t visible, int64_t total) {
    const stack *s = r->s;
    const float **rows = r->with.past;
    float *scores = r->with.scores, factor = is_off(r, EDIT_NO_SCALE) ? 1.0f : s->factor;
    for (int64_t h = 0; h < s->H; h++) {
        float *out = r->with.mixed + (row * s->H + h) * s->E;
        for (int64_t k = 0; k < total; k++) {
            float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
            for (int64_t i = h * s->K; i < (h + 1) * s->K; i++) sum += q[i] * rows[k][i];
            scores[k] = sum;
        }
        note_scores(r, NOTE_PRODUCTS, h, row, total);
        for (int64_t k = 0; k < total; k++) scores[k] *= factor;
        note_scores(r, NOTE_SCORES, h, row, total);
        softmax(scores, visible, padded(total));
        const edit *given = find_edit(r, EDIT_WEIGHTS, h, query);
        for (int64_t k = 0; given && k < total; k++) scores[k] = k < given->size ? given->weights[k] : 0.0f;
        note_scores(r, NOTE_WEIGHTS, h, row, total);
        memset(out, 0, sizeof(float) * (size_t)s->E);
        for (int64_t k = 0; k < total; k++)
            for (int64_t i = 0; i < s->E; i++) out[i] += scores[k] * rows[k][s->H * s->K + h * s->E + i];
    }
}

/* The heads of all rows side by side, without those that are silent; W^O and the rest of the sub-layer. */
static void join_heads(const reading *r, const dense *last, norm_weights norm) {
    int64_t H = r->s->H, E = r->s->E;
    take_note(r, NOTE_MIXED, r->with.mixed, H * E, H * E);
    for (int64_t h = 0; h < H; h++)
        for (int64_t i = 0; find_edit(r, EDIT_SILENCE, h, -1) && i < r->rows; i++)
            memset(r->with.mixed + (i * H + h) * E, 0, sizeof(float) * (size_t)E);
    take_note(r, NOTE_JOINED, r->with.mixed, H * E, H * E);
    leave_sublayer(r, r->with.mixed, last, norm);
}

/* Rotate queries or keys (H·K) by the angles of position t. */
static void turn_heads(const stack *s, float *x, int64_t t) {
    for (int64_t h = 0; h < s->H; h++)
        rotate(x + h * s->K, 0, x + h * s->K, 0, s->rotary + t * 2 * s->K, 1, s->K, 1.0f);
}

/* Queries, keys and values of all rows, with their positions; those of a step go to the cache. */
static void make_queries(const reading *r, const layer_weights *l) {
    const stack *s = r->s;
    const step_task *m = r->step;
    int64_t keys = s->H * s->K, width = keys + s->H * s->E, all = keys + width;
    float *wide = r->with.wide;
    apply_matrix(wide, enter_sublayer(r, l->norms[0]), &l->qkv, r->rows);
    take_note(r, NOTE_Q, wide, all, keys);
    take_note(r, NOTE_K, wide + keys, all, keys);
    take_note(r, NOTE_V, wide + 2 * keys, all, width - keys);
    if (s->rotary && !is_off(r, EDIT_NO_POSITIONS)) {
        for (int64_t i = 0; i < r->rows; i++) {
            turn_heads(s, wide + i * all, m ? m->t : i);
            turn_heads(s, wide + i * all + keys, m ? m->t : i);
        }
        take_note(r, NOTE_Q_TURNED, wide, all, keys);
        take_note(r, NOTE_K_TURNED, wide + keys, all, keys);
    }
    for (int64_t i = 0; m && i < r->rows; i++)
        memcpy(l->cache + ((r->first + i) * m->capacity + m->t) * width, wide + i * all + keys,
               sizeof(float) * (size_t)width);
}

static void attend_to_itself(const reading *r, const layer_weights *l) {
    const stack *s = r->s;
    const step_task *m = r->step;
    int64_t keys = s->H * s->K, width = keys + s->H * s->E, all = keys + width;
    int64_t causal = r->part == PART_DECODER && !is_off(r, EDIT_NO_MASK);
    make_queries(r, l);
    for (int64_t k = 0; !m && k < r->rows; k++) r->with.past[k] = r->with.wide + k * all + keys;
    for (int64_t i = 0; i < r->rows; i++) {
        const float *q = r->with.wide + i * all;
        if (m) {
            const int64_t *origin = m->origin + (r->first + i) * m->capacity;
            for (int64_t k = 0; k <= m->t; k++)
                r->with.past[k] = l->cache + ((k < m->t ? origin[k] : r->first + i) * m->capacity + k) * width;
            attend_row(r, i, m->t, q, m->t + 1, m->t + 1);
        } else
            attend_row(r, i, i, q, causal ? i + 1 : r->rows, r->rows);
    }
    join_heads(r, &l->self_output, l->norms[0]);
}

static void attend_to_memory(const reading *r, const layer_weights *l) {
    const stack *s = r->s;
    const step_task *m = r->step;
    int64_t keys = s->H * s->K, width = keys + s->H * s->E, S = m ? m->S : r->S;
    apply_matrix(r->with.wide, enter_sublayer(r, l->norms[1]), &l->query, r->rows);
    take_note(r, NOTE_Q, r->with.wide, keys, keys);
    for (int64_t i = 0; i < r->rows; i++) {
        int64_t b = m ? m->sentence[r->first + i] : r->sentence, length = m ? m->lengths[b] : r->lengths[b];
        for (int64_t k = 0; k < length; k++) r->with.past[k] = l->memory + (b * S + k) * width;
        attend_row(r, i, m ? m->t : i, r->with.wide + i * keys, length, length);
    }
    join_heads(r, &l->cross_output, l->norms[1]);
}

static void read_network(const reading *r, const layer_weights *l) {
    int64_t F = l->inner.out;
    float *wide = r->with.wide;
    apply_matrix(wide, enter_sublayer(r, l->norms[2]), &l->inner, r->rows);
    take_note(r, NOTE_INNER, wide, F, F);
    for (int64_t i = 0; i < r->rows * F; i++) wide[i] = wide[i] > 0.0f ? wide[i] : 0.0f;
    take_note(r, NOTE_ACTIVE, wide, F, F);
    leave_sublayer(r, wide, &l->outer, l->norms[2]);
}

/* Take tokens through the embeddings, all layers and the last norm of a stack, `part` of the model; x are then its
 * states.  `positions` (·, D) are those of the rows, or of the step, or NULL. */
static void read_stack(reading *r, int64_t part, const int64_t *tokens, const float *positions) {
    const stack *s = r->s;
    int64_t D = s->D, sublayers = part == PART_ENCODER ? 2 : 3;
    float *x = r->with.x;
    r->part = part, r->layer = -1, r->at = 0;
    for (int64_t i = 0; i < r->rows; i++) memcpy(x + i * D, s->table + tokens[i] * D, sizeof(float) * (size_t)D);
    take_note(r, NOTE_INPUT, x, D, D);
    for (int64_t i = 0; i < r->rows * D; i++) x[i] *= s->scale;
    take_note(r, NOTE_OUTPUT, x, D, D);
    for (int64_t i = 0; positions && !is_off(r, EDIT_NO_POSITIONS) && i < r->rows; i++)
        for (int64_t k = 0; k < D; k++) x[i * D + k] += positions[(r->step ? r->step->t : i) * D + k];
    take_note(r, NOTE_TOTAL, x, D, D);
    for (r->layer = 0; r->layer < s->layers; r->layer++) {
        const layer_weights *l = s->each + r->layer;
        if (is_off(r, EDIT_SKIP)) continue;
        r->at = 1 + r->layer * sublayers;
        attend_to_itself(r, l);
        if (part == PART_DECODER) r->part = PART_CROSS, r->at++, attend_to_memory(r, l), r->part = part;
        r->at++;
        read_network(r, l);
    }
    r->layer = -1, r->at = 0;
    read_norm(r, s->last, x);
}

/* Write the memories of sentence b of the layers of a decoder, from the states of the encoder. */
static void write_memories(const stack *d, const float *states, int64_t length, int64_t b, int64_t S) {
    for (const layer_weights *l = d->each; l < d->each + d->layers; l++)
        apply_matrix(l->memory + b * S * l->key_value.out, states, &l->key_value, length);
}

int jk_is_unmasked(const edit_list *edits) {
    for (int64_t i = 0; edits && i < edits->count; i++)
        if (edits->each[i].kind == EDIT_NO_MASK) return 1;
    return 0;
}

/* The number of the first edit that names something that the model does not have, -1 if there is none. */
int64_t jk_find_bad_edit(const stack *e, const stack *d, const edit_list *edits) {
    for (int64_t i = 0; edits && i < edits->count; i++) {
        const edit *one = edits->each + i;
        int64_t layers = one->part == PART_ENCODER ? e->layers : d->layers, heads = one->part == -1 ? 0 : d->H;
        if (one->part == -1) layers = 0;
        int right = one->kind >= 0 && one->kind < EDIT_KINDS && one->part >= -1 && one->part < PARTS;
        right = right && one->layer >= -1 && one->layer < layers && one->head >= -1 && one->head < heads;
        if (!right || one->query < -1 || one->size < 0 || (one->size && !one->weights)) return i;
    }
    return -1;
}

void jk_read_source(const stack *e, const stack *d, const edit_list *edits, const int64_t *tokens, int64_t length,
                    const float *positions, int64_t b, int64_t S) {
    reading r = {.s = e, .edits = edits, .rows = length, .with = jk_new_row_buffers(e, length, length)};
    read_stack(&r, PART_ENCODER, tokens, positions);
    write_memories(d, r.with.x, length, b, S);
    jk_free_row_buffers(r.with);
}

/* Logits (rows, V) of hypotheses first … first + rows - 1 of a step.  The caches are extended, unless every step reads
 * all tokens again. */
void jk_read_rows(float *logits, const stack *d, const edited_step *task, int64_t first, int64_t rows) {
    const step_task *m = task->step;
    int64_t again = jk_is_unmasked(task->edits), V = d->output.out, length = m->t + 1;
    reading r = {.s = d, .edits = task->edits, .lengths = m->lengths, .S = m->S, .rows = again ? length : rows};
    r.with = jk_new_row_buffers(d, r.rows, MAX(length, m->S));
    if (!again) {
        r.step = m, r.first = first;
        read_stack(&r, PART_DECODER, m->tokens + first, task->positions);
        apply_matrix(logits, r.with.x, &d->output, rows);
    }
    for (int64_t i = 0; again && i < rows; i++) {
        r.sentence = m->sentence[first + i];
        read_stack(&r, PART_DECODER, task->prefixes + (first + i) * m->capacity, task->positions);
        apply_matrix(logits + i * V, r.with.x + m->t * d->D, &d->output, 1);
    }
    jk_free_row_buffers(r.with);
}

/* Read one pair, with the memories of the decoder; returns 0, or 1 for a task that makes no sense. */
int64_t jk_read(const stack *e, const stack *d, const read_task *q) {
    if (q->S < 1 || q->T < 0 || jk_find_bad_edit(e, d, q->edits) >= 0) return 1;
    reading r = {.s = e, .edits = q->edits, .notes = q->notes, .rows = q->S, .with = jk_new_row_buffers(e, q->S, q->S)};
    read_stack(&r, PART_ENCODER, q->source, q->source_positions);
    if (q->memory) memcpy(q->memory, r.with.x, sizeof(float) * (size_t)(q->S * e->D));
    write_memories(d, r.with.x, q->S, 0, q->S);
    jk_free_row_buffers(r.with);
    if (!q->T) return 0;
    float *const *notes = q->notes ? q->notes + (1 + 2 * e->layers) * NOTES : NULL;
    r = (reading){.s = d, .edits = q->edits, .notes = notes, .rows = q->T, .S = q->S, .lengths = &q->S};
    r.with = jk_new_row_buffers(d, q->T, MAX(q->S, q->T));
    read_stack(&r, PART_DECODER, q->target, q->target_positions);
    if (q->hidden) memcpy(q->hidden, r.with.x, sizeof(float) * (size_t)(q->T * d->D));
    if (q->logits) apply_matrix(q->logits, r.with.x, &d->output, q->T);
    jk_free_row_buffers(r.with);
    return 0;
}
