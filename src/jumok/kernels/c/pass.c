/* A training pass through a Transformer: token ids to hidden states in one call, the backward pass in another.
 *
 * These are the kernels of the single layers in the same order, so the results are the same bits where nothing is
 * padded; sentences are stored end to end without padding.  What the backward pass needs is in one buffer, which
 * `make_plan` divides in the same way in both calls. */
#include "kernels.h"
#include "vectors.h"

enum { ENCODER, DECODER };
enum kind { SELF_ATTENTION, CROSS_ATTENTION, FEED_FORWARD };

/* A weight and its bias (or two tables), either of which may be NULL, and where their gradients are added. */
typedef struct {
    const float *a, *b;
    float *da, *db;
} weight_pair;

/* A sub-layer from x to out, and what it saves: `made`, the product of the first matrix with x; `memory`, the keys and
 * values of the encoder's output; what attention `saved`, and its output `mixed`; in a post-norm model, the sum before
 * the norm. */
typedef struct {
    enum kind kind;
    int64_t side, high, deep; /* widths of the output of the first matrix and of the input of the last */
    weight_pair first, key_value, last, norm;
    uint64_t key;
    float rate;
    const float *x;
    float *mean, *scale, *made, *memory, *saved, *mixed, *sum, *out;
} sublayer;

/* The norm after the last layer of a pre-norm stack; in a post-norm stack, out is x. */
typedef struct {
    weight_pair norm;
    const float *x;
    float *mean, *scale, *out;
} final_norm;

typedef struct {
    int64_t rows[2], count, size;
    weight_pair tables; /* of source and target */
    uint64_t keys[2];
    float rates[2], *embedded[2];
    sublayer *each;
    final_norm ends[2];
} pass_plan;

static attention_task attention_of(const pass_task *t, const sublayer *s) {
    int is_cross = s->kind == CROSS_ATTENTION;
    int64_t stride = is_cross ? t->H * (t->K + t->E) : s->high;
    return (attention_task){
        .B = t->B,
        .H = t->H,
        .K = t->K,
        .E = t->E,
        .queries = t->starts[s->side],
        .keys = t->starts[is_cross ? ENCODER : s->side],
        .rotary = is_cross ? NULL : t->rotary,
        .q_stride = s->high,
        .k_stride = stride,
        .v_stride = stride,
        .causal = s->side == DECODER && !is_cross,
        .longest = t->longest,
        .factor = t->factor,
    };
}

/* Where the keys of an attention begin; the values follow them. */
static float *keys_of(const pass_task *t, const sublayer *s, float *made, float *memory) {
    return s->kind == CROSS_ATTENTION ? memory : made + t->H * t->K;
}

/* The next n numbers of the buffer `saved`, or NULL where only the size is wanted. */
static float *take_floats(float *saved, int64_t *used, int64_t n) {
    float *here = saved ? saved + *used : NULL;
    *used += (n + 15) / 16 * 16;
    return here;
}

static weight_pair next_pair(const pass_task *t, int64_t *at) {
    int64_t i = 2 * (*at)++;
    float *const *g = t->gradients;
    return (weight_pair){t->weights[i], t->weights[i + 1], g ? g[i] : NULL, g ? g[i + 1] : NULL};
}

/* Every sub-layer with its weights and its part of the buffer. */
static pass_plan make_plan(const pass_task *t, float *saved) {
    pass_plan c = {.count = 2 * t->layers[ENCODER] + 3 * t->layers[DECODER]};
    int64_t pairs = 0, drops = 0, *used = &c.size;
    sublayer *s = c.each = new_zero_array(c.count, sizeof(sublayer));
    c.tables = next_pair(t, &pairs);
    for (int64_t side = ENCODER; side <= DECODER; side++) {
        int64_t N = c.rows[side] = t->starts[side][t->B];
        float *x = c.embedded[side] = take_floats(saved, used, N * t->D);
        c.rates[side] = t->rates[drops], c.keys[side] = t->keys[drops++];
        for (int64_t i = 0; i < 3 * t->layers[side]; i++) {
            enum kind kind = i % 3;
            if (kind == CROSS_ATTENTION && side == ENCODER) continue;
            s->kind = kind, s->side = side, s->x = x;
            s->high = kind == SELF_ATTENTION ? t->H * (2 * t->K + t->E) : kind == CROSS_ATTENTION ? t->H * t->K : t->F;
            s->deep = kind == FEED_FORWARD ? t->F : t->H * t->E;
            s->rate = t->rates[drops], s->key = t->keys[drops++];
            s->first = next_pair(t, &pairs);
            if (kind == CROSS_ATTENTION) s->key_value = next_pair(t, &pairs);
            s->last = next_pair(t, &pairs);
            s->norm = next_pair(t, &pairs);
            s->mean = take_floats(saved, used, N);
            s->scale = take_floats(saved, used, N);
            s->made = take_floats(saved, used, N * s->high);
            if (kind == CROSS_ATTENTION) s->memory = take_floats(saved, used, c.rows[ENCODER] * t->H * (t->K + t->E));
            if (kind != FEED_FORWARD) {
                attention_task a = attention_of(t, s);
                s->saved = take_floats(saved, used, jk_attention_saved_size(&a));
                s->mixed = take_floats(saved, used, N * s->deep);
            }
            s->sum = t->pre ? NULL : take_floats(saved, used, N * t->D);
            x = s->out = take_floats(saved, used, N * t->D);
            s++;
        }
        final_norm *e = &c.ends[side];
        *e = (final_norm){next_pair(t, &pairs), x, take_floats(saved, used, N), take_floats(saved, used, N), x};
        if (e->norm.a) e->out = take_floats(saved, used, N * t->D);
    }
    return c;
}

/* How many numbers `jk_pass_forward` saves for this task. */
int64_t jk_pass_size(const pass_task *t) {
    pass_plan c = make_plan(t, NULL);
    free(c.each);
    return c.size;
}

static void sublayer_forward(const pass_task *t, const pass_plan *c, const sublayer *s) {
    int64_t N = c->rows[s->side], D = t->D;
    const float *gain = t->pre ? s->norm.a : NULL, *y = s->made;
    jk_linear(s->made, s->x, s->first.a, s->first.b, NULL, s->mean, s->scale, gain, s->norm.b, N, D, s->high, t->eps,
              s->kind == FEED_FORWARD, 0, 0.0f);
    if (s->kind == CROSS_ATTENTION)
        jk_linear(s->memory, c->ends[ENCODER].out, s->key_value.a, s->key_value.b, NULL, NULL, NULL, NULL, NULL,
                  c->rows[ENCODER], D, t->H * (t->K + t->E), 0.0f, 0, 0, 0.0f);
    if (s->kind != FEED_FORWARD) {
        attention_task a = attention_of(t, s);
        const float *keys = keys_of(t, s, s->made, s->memory);
        jk_attention(s->mixed, s->saved, s->made, keys, keys + t->H * t->K, &a);
        y = s->mixed;
    }
    jk_linear(t->pre ? s->out : s->sum, y, s->last.a, s->last.b, s->x, NULL, NULL, NULL, NULL, N, s->deep, D, 0.0f, 0,
              s->key, s->rate);
    if (!t->pre) jk_norm(s->out, s->mean, s->scale, s->sum, s->norm.a, s->norm.b, N, D, t->eps);
}

/* Hidden states (B, grid, D), zero at padding; `saved` is a buffer of jk_pass_size(t) numbers. */
void jk_pass_forward(float *hidden, float *saved, const pass_task *t) {
    pass_plan c = make_plan(t, saved);
    const float *const tables[2] = {c.tables.a, c.tables.b};
    const sublayer *s = c.each;
    for (int64_t side = ENCODER; side <= DECODER; side++) {
        int64_t N = c.rows[side];
        const final_norm *e = &c.ends[side];
        jk_embed(c.embedded[side], tables[side], t->ids[side], t->places[side], t->positions[side], N, t->D, t->scale,
                 c.keys[side], c.rates[side]);
        for (; s < c.each + c.count && s->side == side; s++) sublayer_forward(t, &c, s);
        if (e->norm.a) jk_norm(e->out, e->mean, e->scale, e->x, e->norm.a, e->norm.b, N, t->D, t->eps);
    }
    for (int64_t b = 0; b < t->B; b++) {
        int64_t from = t->starts[DECODER][b], size = (t->starts[DECODER][b + 1] - from) * t->D;
        float *to = hidden + b * t->grid * t->D;
        memcpy(to, c.ends[DECODER].out + from * t->D, sizeof(float) * (size_t)size);
        memset(to + size, 0, sizeof(float) * (size_t)(t->grid * t->D - size));
    }
    free(c.each);
}

/* Gradients in progress: of the output of a sub-layer and of its x, of the encoder's output so far (and of one more
 * layer), and of the values within a sub-layer. */
typedef struct {
    float *out, *x, *memory, *more, *sum, *y, *made, *keys;
} gradient_buffers;

static gradient_buffers new_gradient_buffers(const pass_task *t, const pass_plan *c) {
    int64_t N = MAX(c->rows[ENCODER], c->rows[DECODER]), wide = MAX(t->H * (2 * t->K + t->E), t->F),
            R = c->rows[ENCODER];
    return (gradient_buffers){
        .out = new_floats(N * t->D),
        .x = new_floats(N * t->D),
        .memory = new_floats(R * t->D),
        .more = new_floats(R * t->D),
        .sum = new_floats(N * t->D),
        .y = new_floats(N * MAX(t->F, t->H * t->E)),
        .made = new_floats(N * wide),
        .keys = new_floats(R * t->H * (t->K + t->E)),
    };
}

static void free_gradient_buffers(gradient_buffers d) {
    free(d.out), free(d.x), free(d.memory), free(d.more), free(d.sum), free(d.y), free(d.made), free(d.keys);
}

static void swap_buffers(float **a, float **b) {
    float *first = *a;
    *a = *b, *b = first;
}

/* From the gradient d->out of the output of a sub-layer to that of its x, which becomes d->out. */
static void sublayer_backward(const pass_task *t, const pass_plan *c, const sublayer *s, gradient_buffers *d) {
    int64_t N = c->rows[s->side], D = t->D, wide = t->H * (t->K + t->E);
    const float *gain = t->pre ? s->norm.a : NULL, *g = d->out, *y = s->kind == FEED_FORWARD ? s->made : s->mixed;
    float *made = d->y;
    if (!t->pre) {
        jk_norm_backward(d->sum, s->norm.da, s->norm.db, d->out, s->sum, s->mean, s->scale, s->norm.a, N, D);
        g = d->sum;
    }
    jk_linear_backward(d->y, s->last.da, s->last.db, NULL, NULL, g, NULL, y, NULL, s->last.a, NULL, NULL, NULL, NULL, N,
                       s->deep, D, s->key, s->rate);
    if (s->kind != FEED_FORWARD) {
        attention_task a = attention_of(t, s);
        const float *keys = keys_of(t, s, s->made, s->memory);
        float *to = keys_of(t, s, d->made, d->keys);
        jk_attention_backward(d->made, to, to + t->H * t->K, d->y, s->mixed, s->saved, s->made, keys,
                              keys + t->H * t->K, &a);
        made = d->made;
    }
    if (s->kind == CROSS_ATTENTION) { /* the last layer comes first; `memory` is zero before it */
        jk_linear_backward(d->more, s->key_value.da, s->key_value.db, NULL, NULL, d->keys, d->memory,
                           c->ends[ENCODER].out, NULL, s->key_value.a, NULL, NULL, NULL, NULL, c->rows[ENCODER], D,
                           wide, 0, 0.0f);
        swap_buffers(&d->memory, &d->more);
    }
    jk_linear_backward(d->x, s->first.da, s->first.db, t->pre ? s->norm.da : NULL, t->pre ? s->norm.db : NULL, made, g,
                       s->x, s->kind == FEED_FORWARD ? s->made : NULL, s->first.a, s->mean, s->scale, gain, s->norm.b,
                       N, D, s->high, 0, 0.0f);
    swap_buffers(&d->out, &d->x);
}

/* Add the gradients of all weights, given that of the hidden states (B, grid, D) and what `jk_pass_forward` saved. */
void jk_pass_backward(const float *gradient, float *saved, const pass_task *t) {
    pass_plan c = make_plan(t, saved);
    gradient_buffers d = new_gradient_buffers(t, &c);
    float *const tables[2] = {c.tables.da, c.tables.db};
    const sublayer *s = c.each + c.count - 1;
    for (int64_t b = 0; b < t->B; b++) {
        int64_t from = t->starts[DECODER][b], size = (t->starts[DECODER][b + 1] - from) * t->D;
        memcpy(d.out + from * t->D, gradient + b * t->grid * t->D, sizeof(float) * (size_t)size);
    }
    memset(d.memory, 0, sizeof(float) * (size_t)(c.rows[ENCODER] * t->D));
    for (int64_t side = DECODER; side >= ENCODER; side--) {
        const final_norm *e = &c.ends[side];
        if (side == ENCODER) swap_buffers(&d.out, &d.memory);
        if (e->norm.a) {
            jk_norm_backward(d.x, e->norm.da, e->norm.db, d.out, e->x, e->mean, e->scale, e->norm.a, c.rows[side],
                             t->D);
            swap_buffers(&d.out, &d.x);
        }
        for (; s >= c.each && s->side == side; s--) sublayer_backward(t, &c, s, &d);
        jk_embed_backward(tables[side], d.out, t->ids[side], c.rows[side], t->D, t->scale, c.keys[side], c.rates[side]);
    }
    free_gradient_buffers(d);
    free(c.each);
}
