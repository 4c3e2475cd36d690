/* A Transformer that learns: from token ids to hidden states in one call, and all the way back in another.
 *
 * The same kernels as layer by layer, in the same order, so the same bits where nothing is padded; sentences lie one behind the
 * other without their padding.  What the way back needs is in one stretch of memory, which `plan` divides in the same way each
 * time it is asked. */
#include "kernels.h"
#include "vectors.h"

enum { ENCODER, DECODER };
enum kind { OWN, OTHER, NET }; /* self-attention, attention over the source, feed-forward net */

/* What Python hands over; pairs of weights stand in the order in which `plan` reads them. */
typedef struct {
    int64_t layers[2], D, H, K, E, F, pre, B, grid, longest; /* grid: the width of the targets with their padding */
    const int64_t *starts[2], *ids[2], *places[2];        /* first row of each sentence (B + 1); id and position of each row */
    const float *positions[2], *turns;                    /* added to embeddings, or NULL; rotary angles, or NULL */
    const float *const *weights;
    float *const *gradients; /* NULL on the way forth */
    const uint64_t *keys;    /* of dropout, in the order of use */
    const float *rates;
    float factor, scale, eps; /* of scores, of embeddings, of norms */
} task;

/* Two tensors that go together, either of which may be missing, and where their gradients are added. */
typedef struct {
    const float *a, *b;
    float *da, *db;
} pair;

/* A sub-layer, from x to out, and what it keeps: what the first matrix `made` of x (and that of the encoder's output, `memory`),
 * what attention `kept` and what it `mixed`; in a post-norm model, the sum before the norm. */
typedef struct {
    enum kind kind;
    int64_t side, high, deep; /* widths of what the first matrix makes and of what the last one reads */
    pair first, remember, last, norm;
    uint64_t key;
    float rate;
    const float *x;
    float *mean, *scale, *made, *memory, *kept, *mixed, *sum, *out;
} sublayer;

/* The norm behind the last layer of a pre-norm stack; elsewhere out is x. */
typedef struct {
    pair norm;
    const float *x;
    float *mean, *scale, *out;
} ending;

typedef struct {
    int64_t rows[2], count, size;
    pair tables; /* of source and target */
    uint64_t keys[2];
    float rates[2], *embedded[2];
    sublayer *each;
    ending ends[2];
} course;

static attending looking(const task *t, const sublayer *s) {
    int64_t from = s->kind == OTHER ? ENCODER : s->side, behind = s->kind == OTHER ? t->H * (t->K + t->E) : s->high;
    return (attending){t->B,     t->H,   t->K,   t->E,   t->starts[s->side], t->starts[from],       NULL, s->kind == OWN ? t->turns : NULL,
                       s->high, behind, behind, s->side == DECODER && s->kind == OWN, t->longest, t->factor};
}

/* Keys among what an attention's matrices made; values stand behind them. */
static float *keys_of(const task *t, const sublayer *s, float *made, float *memory) {
    return s->kind == OTHER ? memory : made + t->H * t->K;
}

static float *place_for(float *kept, int64_t *used, int64_t n) {
    float *here = kept ? kept + *used : NULL;
    *used += (n + 15) / 16 * 16;
    return here;
}

static pair next_pair(const task *t, int64_t *at) {
    int64_t i = 2 * (*at)++;
    float *const *g = t->gradients;
    return (pair){t->weights[i], t->weights[i + 1], g ? g[i] : NULL, g ? g[i + 1] : NULL};
}

/* Every sub-layer with its weights and its part of the memory. */
static course plan(const task *t, float *kept) {
    course c = {.count = 2 * t->layers[ENCODER] + 3 * t->layers[DECODER]};
    int64_t pairs = 0, drops = 0, *used = &c.size;
    sublayer *s = c.each = calloc((size_t)c.count, sizeof(sublayer));
    c.tables = next_pair(t, &pairs);
    for (int64_t side = ENCODER; side <= DECODER; side++) {
        int64_t N = c.rows[side] = t->starts[side][t->B];
        float *x = c.embedded[side] = place_for(kept, used, N * t->D);
        c.rates[side] = t->rates[drops], c.keys[side] = t->keys[drops++];
        for (int64_t i = 0; i < 3 * t->layers[side]; i++) {
            enum kind kind = i % 3;
            if (kind == OTHER && side == ENCODER) continue;
            s->kind = kind, s->side = side, s->x = x;
            s->high = kind == OWN ? t->H * (2 * t->K + t->E) : kind == OTHER ? t->H * t->K : t->F;
            s->deep = kind == NET ? t->F : t->H * t->E;
            s->rate = t->rates[drops], s->key = t->keys[drops++];
            s->first = next_pair(t, &pairs);
            if (kind == OTHER) s->remember = next_pair(t, &pairs);
            s->last = next_pair(t, &pairs);
            s->norm = next_pair(t, &pairs);
            s->mean = place_for(kept, used, N);
            s->scale = place_for(kept, used, N);
            s->made = place_for(kept, used, N * s->high);
            if (kind == OTHER) s->memory = place_for(kept, used, c.rows[ENCODER] * t->H * (t->K + t->E));
            if (kind != NET) {
                attending a = looking(t, s);
                s->kept = place_for(kept, used, attention_kept(&a));
                s->mixed = place_for(kept, used, N * s->deep);
            }
            s->sum = t->pre ? NULL : place_for(kept, used, N * t->D);
            x = s->out = place_for(kept, used, N * t->D);
            s++;
        }
        ending *e = &c.ends[side];
        *e = (ending){next_pair(t, &pairs), x, place_for(kept, used, N), place_for(kept, used, N), x};
        if (e->norm.a) e->out = place_for(kept, used, N * t->D);
    }
    return c;
}

/* How many numbers `pass_forward` keeps for this task. */
int64_t pass_size(const task *t) {
    course c = plan(t, NULL);
    free(c.each);
    return c.size;
}

static void forth(const task *t, const course *c, const sublayer *s) {
    int64_t N = c->rows[s->side], D = t->D;
    const float *gain = t->pre ? s->norm.a : NULL, *y = s->made;
    linear(s->made, s->x, s->first.a, s->first.b, NULL, s->mean, s->scale, gain, s->norm.b, N, D, s->high, t->eps,
           s->kind == NET, 0, 0.0f);
    if (s->kind == OTHER)
        linear(s->memory, c->ends[ENCODER].out, s->remember.a, s->remember.b, NULL, NULL, NULL, NULL, NULL, c->rows[ENCODER], D,
               t->H * (t->K + t->E), 0.0f, 0, 0, 0.0f);
    if (s->kind != NET) {
        attending a = looking(t, s);
        const float *keys = keys_of(t, s, s->made, s->memory);
        attention(s->mixed, s->kept, s->made, keys, keys + t->H * t->K, &a);
        y = s->mixed;
    }
    linear(t->pre ? s->out : s->sum, y, s->last.a, s->last.b, s->x, NULL, NULL, NULL, NULL, N, s->deep, D, 0.0f, 0, s->key,
           s->rate);
    if (!t->pre) norm(s->out, s->mean, s->scale, s->sum, s->norm.a, s->norm.b, N, D, t->eps);
}

/* Hidden states (B, grid, D), zero at padding; `kept` has room for pass_size(t) numbers. */
void pass_forward(float *hidden, float *kept, const task *t) {
    course c = plan(t, kept);
    const float *const tables[2] = {c.tables.a, c.tables.b};
    const sublayer *s = c.each;
    for (int64_t side = ENCODER; side <= DECODER; side++) {
        int64_t N = c.rows[side];
        const ending *e = &c.ends[side];
        embed(c.embedded[side], tables[side], t->ids[side], t->places[side], t->positions[side], N, t->D, t->scale, c.keys[side],
              c.rates[side]);
        for (; s < c.each + c.count && s->side == side; s++) forth(t, &c, s);
        if (e->norm.a) norm(e->out, e->mean, e->scale, e->x, e->norm.a, e->norm.b, N, t->D, t->eps);
    }
    for (int64_t b = 0; b < t->B; b++) {
        int64_t from = t->starts[DECODER][b], size = (t->starts[DECODER][b + 1] - from) * t->D;
        float *to = hidden + b * t->grid * t->D;
        memcpy(to, c.ends[DECODER].out + from * t->D, sizeof(float) * (size_t)size);
        memset(to + size, 0, sizeof(float) * (size_t)(t->grid * t->D - size));
    }
    free(c.each);
}

/* Gradients on their way: of what comes out of a sub-layer and of its x, of the encoder's output so far, and of what lies
 * within a sub-layer. */
typedef struct {
    float *out, *x, *memory, *more, *sum, *y, *made, *keys;
} desk;

static desk desk_for(const task *t, const course *c) {
    int64_t N = MAX(c->rows[ENCODER], c->rows[DECODER]), wide = MAX(t->H * (2 * t->K + t->E), t->F), R = c->rows[ENCODER];
    return (desk){room(N * t->D),    room(N * t->D),          room(R * t->D),     room(R * t->D),
                  room(N * t->D),    room(N * MAX(t->F, t->H * t->E)), room(N * wide), room(R * t->H * (t->K + t->E))};
}

static void clear(desk d) {
    free(d.out), free(d.x), free(d.memory), free(d.more), free(d.sum), free(d.y), free(d.made), free(d.keys);
}

static void swap(float **a, float **b) {
    float *kept = *a;
    *a = *b, *b = kept;
}

/* From the gradient d->out of what the sub-layer gave to that of its x, which is d->out again. */
static void back(const task *t, const course *c, const sublayer *s, desk *d) {
    int64_t N = c->rows[s->side], D = t->D, wide = t->H * (t->K + t->E);
    const float *gain = t->pre ? s->norm.a : NULL, *g = d->out, *y = s->kind == NET ? s->made : s->mixed;
    float *made = d->y;
    if (!t->pre) {
        norm_backward(d->sum, s->norm.da, s->norm.db, d->out, s->sum, s->mean, s->scale, s->norm.a, N, D);
        g = d->sum;
    }
    linear_backward(d->y, s->last.da, s->last.db, NULL, NULL, g, NULL, y, NULL, s->last.a, NULL, NULL, NULL, NULL, N, s->deep, D,
                    s->key, s->rate);
    if (s->kind != NET) {
        attending a = looking(t, s);
        const float *keys = keys_of(t, s, s->made, s->memory);
        float *to = keys_of(t, s, d->made, d->keys);
        attention_backward(d->made, to, to + t->H * t->K, d->y, s->mixed, s->kept, s->made, keys, keys + t->H * t->K, &a);
        made = d->made;
    }
    if (s->kind == OTHER) { /* the last layer's comes first; `memory` begins with zeros */
        linear_backward(d->more, s->remember.da, s->remember.db, NULL, NULL, d->keys, d->memory, c->ends[ENCODER].out, NULL,
                        s->remember.a, NULL, NULL, NULL, NULL, c->rows[ENCODER], D, wide, 0, 0.0f);
        swap(&d->memory, &d->more);
    }
    linear_backward(d->x, s->first.da, s->first.db, t->pre ? s->norm.da : NULL, t->pre ? s->norm.db : NULL, made, g, s->x,
                    s->kind == NET ? s->made : NULL, s->first.a, s->mean, s->scale, gain, s->norm.b, N, D, s->high, 0, 0.0f);
    swap(&d->out, &d->x);
}

/* Adds the gradients of all weights, from that of the hidden states (B, grid, D) and what `pass_forward` kept. */
void pass_backward(const float *gradient, float *kept, const task *t) {
    course c = plan(t, kept);
    desk d = desk_for(t, &c);
    float *const tables[2] = {c.tables.da, c.tables.db};
    const sublayer *s = c.each + c.count - 1;
    for (int64_t b = 0; b < t->B; b++) {
        int64_t from = t->starts[DECODER][b], size = (t->starts[DECODER][b + 1] - from) * t->D;
        memcpy(d.out + from * t->D, gradient + b * t->grid * t->D, sizeof(float) * (size_t)size);
    }
    memset(d.memory, 0, sizeof(float) * (size_t)(c.rows[ENCODER] * t->D));
    for (int64_t side = DECODER; side >= ENCODER; side--) {
        const ending *e = &c.ends[side];
        if (side == ENCODER) swap(&d.out, &d.memory);
        if (e->norm.a) {
            norm_backward(d.x, e->norm.da, e->norm.db, d.out, e->x, e->mean, e->scale, e->norm.a, c.rows[side], t->D);
            swap(&d.out, &d.x);
        }
        for (; s >= c.each && s->side == side; s--) back(t, &c, s, &d);
        embed_backward(tables[side], d.out, t->ids[side], c.rows[side], t->D, t->scale, c.keys[side], c.rates[side]);
    }
    clear(d);
    free(c.each);
}
