/* Sentences to their translations in one call: the encoder, and greedy or beam search over the decoder.
 *
 * A group of sentences stays on one core from its first word to its last, so that cores never wait for each other and nothing
 * is handed back between steps.  The search is that of decoding/search.py without rules: the same candidates, the same ends.
 * With a shortlist the output is a choice among the tokens that the sentence's own words may turn into: what else is in its
 * group changes nothing. */
#include "transformer.h"

#define GROUP 48

/* What is asked: B sentences end to end, longest first, a beam of W and the best of each; and where the answers go. */
typedef struct {
    int64_t B, W, best, most, exact, start, end; /* `most`: tokens of the longest answer */
    const int64_t *tokens, *begins, *limits;     /* sentence b is tokens[begins[b]] … tokens[begins[b + 1] - 1] */
    const float *sources, *targets;              /* positions (·, D) of each side, or NULL */
    double alpha, margin; /* hypotheses that are so much less likely than their sentence's best are given up */
    const int64_t *never;
    int64_t nevers;
    const float *matrix;                         /* (V, D): what a shortlist is taken from, or NULL */
    const int64_t *list_begins, *list, *common;  /* tokens that a source token may turn into, and those of all */
    int64_t commons, same; /* same: both sides have one vocabulary, and a token may turn into itself */
    int64_t threads;                             /* groups that may be searched at once */
    int64_t *ids, *sizes;                        /* (B, best, most), (B, best): 0 where there is none */
    float *gains, *totals;                       /* (B, best, most), (B, best) */
} quest;

/* A hypothesis that has ended: its last token came at step t behind row `row` of that step. */
typedef struct {
    double score;
    float total, gain;
    int64_t t, row, token;
} ending;

/* A continuation of row `row` of its sentence. */
typedef struct {
    float total, gain;
    int64_t row, token;
} candidate;

/* What the rows of a step were: the row each continues, the token it reads, and the token's log-probability. */
typedef struct {
    int64_t *parent, *token;
    float *gain;
} past;

static int64_t *whole_numbers(int64_t count) { return malloc(sizeof(int64_t) * (size_t)MAX(count, 1)); }

static double penalty(int64_t length, double alpha) { return pow((5.0 + (double)length) / 6.0, alpha); }

/* Put a hypothesis among the best of its sentence; of equals the first stays first. */
static void keep(ending *best, int64_t *count, int64_t most, ending one) {
    int64_t have = MIN(*count, most), at = have < most ? have : most - 1;
    ++*count;
    if (have == most && !(one.score > best[at].score)) return;
    for (; at > 0 && one.score > best[at - 1].score; at--) best[at] = best[at - 1];
    best[at] = one;
}

/* The `most` best continuations of a sentence's rows (each with C, best first), best first, the first of equals first. */
static int64_t merge(candidate *best, const float *scores, const float *top, const int64_t *tokens, int64_t rows, int64_t C,
                     int64_t most) {
    int64_t found = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < C; c++) {
            candidate one = {scores[r] + top[r * C + c], top[r * C + c], r, tokens[r * C + c]};
            if (one.total == -INFINITY || (found == most && !(one.total > best[most - 1].total))) break;
            int64_t at = found < most ? found++ : most - 1;
            for (; at > 0 && one.total > best[at - 1].total; at--) best[at] = best[at - 1];
            best[at] = one;
        }
    return found;
}

/* Mark (with `as`) the tokens that a sentence may turn into. */
static void mark(char *seen, const quest *q, int64_t b, char as) {
    for (int64_t i = 0; i < q->commons; i++) seen[q->common[i]] = as;
    for (int64_t i = q->begins[b]; i < q->begins[b + 1]; i++) {
        if (q->same) seen[q->tokens[i]] = as;
        for (int64_t k = q->list_begins[q->tokens[i]]; k < q->list_begins[q->tokens[i] + 1]; k++) seen[q->list[k]] = as;
    }
    seen[q->end] = as;
    for (int64_t i = 0; i < q->nevers; i++) seen[q->never[i]] = 0;
}

/* The tokens that any of some sentences may turn into, in order; `seen` (V,) is all zero before and after. */
static int64_t shortlist(int64_t *list, char *seen, const quest *q, int64_t first, int64_t last, int64_t V) {
    int64_t count = 0;
    for (int64_t b = first; b < last; b++) mark(seen, q, b, 1);
    for (int64_t v = 0; v < V; v++)
        if (seen[v]) list[count++] = v, seen[v] = 0;
    return count;
}

/* Where each sentence's own tokens are in its group's list, in order: those of sentence b are places[begins[b]] ….  */
static void own_places(int64_t *begins, int64_t **places, const int64_t *list, int64_t count, char *seen, const quest *q,
                       int64_t first, int64_t last) {
    int64_t *to = *places = whole_numbers((last - first) * count), found = 0;
    for (int64_t b = first; b < last; b++) {
        begins[b - first] = found;
        mark(seen, q, b, 1);
        for (int64_t i = 0; i < count; i++)
            if (seen[list[i]]) to[found++] = i;
        mark(seen, q, b, 0);
    }
    begins[last - first] = found;
}

/* The rows of the output matrix that are on a list, packed. */
static float *narrow(const float *all, const int64_t *list, int64_t count, int64_t D) {
    float *rows = room(count * D), *packed = room(D * panels(count));
    for (int64_t i = 0; i < count; i++) memcpy(rows + i * D, all + list[i] * D, sizeof(float) * (size_t)D);
    pack(packed, (matrix){rows, 1, D}, D, count);
    free(rows);
    return packed;
}

/* Sentences first … first + G - 1 on their way, N rows at most: their sources, the hypotheses that live, those that ended. */
typedef struct {
    const quest *q;
    int64_t first, G, N, C, S, T, V; /* C candidates a row; the longest source and answer; tokens of the output */
    stack decoder;                   /* with memories, caches and, with a shortlist, an output of the group's own */
    desk at;
    int64_t *lengths, *list, *own_begins, *own; /* with a shortlist, where a sentence's tokens are in the group's list */
    float *logits, *few, *top, *score, *scores;
    int64_t *which, *origin, *other, *sentence, *owner; /* of rows, at this step and at the next */
    int64_t living, rows, *alive, *begins;              /* sentences that live, and where their rows begin */
    int64_t *count;                                     /* hypotheses of each sentence that have ended */
    ending *ended;                                      /* the best of them (G, best) */
    candidate *found;
    past *steps;
} group;

static past step_of(int64_t rows) { return (past){whole_numbers(rows), whole_numbers(rows), room(rows)}; }

/* Read the sources into the memories of the group's own decoder. */
static void begin_sources(group *g, const stack *e, const stack *d) {
    const quest *q = g->q;
    int64_t width = d->H * (d->K + d->E), *source = whole_numbers(g->G * g->S);
    layer *layers = malloc(sizeof(layer) * (size_t)d->layers);
    memcpy(layers, d->each, sizeof(layer) * (size_t)d->layers);
    for (int64_t l = 0; l < d->layers; l++)
        layers[l].memory = room(g->G * g->S * width), layers[l].cache = room(g->N * g->T * width);
    g->decoder = *d;
    g->decoder.each = layers;
    for (int64_t b = 0; b < g->G; b++)
        memcpy(source + b * g->S, q->tokens + q->begins[g->first + b], sizeof(int64_t) * (size_t)g->lengths[b]);
    desk at = desk_for(e, MAX(ROWS, g->S), g->S);
    for (int64_t b = 0, next; b < g->G; b = next) {
        int64_t rows = 0;
        for (next = b; next < g->G && (next == b || rows + g->lengths[next] <= ROWS); next++) rows += g->lengths[next];
        read_sentences(e, &g->decoder, &at, source, g->lengths, g->S, q->sources, b, next);
    }
    clear(at);
    free(source);
}

/* One row for every sentence, which reads the first token. */
static void begin_rows(group *g) {
    const quest *q = g->q;
    int64_t N = g->N, G = g->G;
    g->at = desk_for(&g->decoder, MIN(N, ROWS), MAX(g->T, g->S));
    g->steps = calloc((size_t)(g->T + 1), sizeof(past));
    g->ended = malloc(sizeof(ending) * (size_t)(G * q->best));
    g->found = malloc(sizeof(candidate) * (size_t)(2 * q->W));
    g->count = calloc((size_t)G, sizeof(int64_t));
    g->alive = whole_numbers(G), g->begins = whole_numbers(G + 1);
    g->sentence = whole_numbers(N), g->owner = whole_numbers(N), g->which = whole_numbers(N * g->C);
    g->origin = whole_numbers(N * g->T), g->other = whole_numbers(N * g->T);
    g->logits = room(MIN(N, ROWS) * g->V), g->top = room(N * g->C), g->score = room(N), g->scores = room(N);
    g->steps[0] = step_of(N);
    g->living = g->rows = G;
    for (int64_t b = 0; b < G; b++) {
        g->alive[b] = g->sentence[b] = g->begins[b] = b;
        g->score[b] = 0.0f, g->steps[0].token[b] = q->start;
    }
    g->begins[G] = G;
}

static void leave_group(group *g) {
    for (int64_t t = 0; t <= g->T && g->steps[t].parent; t++)
        free(g->steps[t].parent), free(g->steps[t].token), free(g->steps[t].gain);
    for (int64_t l = 0; l < g->decoder.layers; l++) free(g->decoder.each[l].memory), free(g->decoder.each[l].cache);
    if (g->q->matrix) free((void *)g->decoder.output.packed), free(g->own_begins), free(g->own), free(g->few);
    clear(g->at);
    free((void *)g->decoder.each), free(g->lengths), free(g->steps), free(g->ended), free(g->found), free(g->count);
    free(g->alive), free(g->begins), free(g->sentence), free(g->owner), free(g->which), free(g->origin), free(g->other);
    free(g->logits), free(g->top), free(g->score), free(g->scores);
}

/* The likeliest of a sentence's own tokens: taken out of the group's row first, so that no sum knows of its neighbours'. */
static void look_at_own(group *g, int64_t row, const float *logits) {
    int64_t b = g->sentence[row], C = g->C, count = g->own_begins[b + 1] - g->own_begins[b], some = MIN(C, count);
    const int64_t *own = g->own + g->own_begins[b];
    float *top = g->top + row * C;
    int64_t *which = g->which + row * C;
    for (int64_t i = 0; i < count; i++) g->few[i] = logits[own[i]];
    likeliest(top, which, g->few, NULL, 0, count, some);
    for (int64_t c = 0; c < some; c++) which[c] = g->list[own[which[c]]];
    for (int64_t c = some; c < C; c++) top[c] = -INFINITY, which[c] = g->q->end;
}

/* The likeliest continuations of every row at position t. */
static void look_ahead(group *g, int64_t t) {
    const quest *q = g->q;
    int64_t V = g->V, C = g->C;
    const float *position = q->targets ? q->targets + t * g->decoder.D : NULL;
    moment m = {g->rows, t, g->T, g->S, g->steps[t].token, g->origin, g->sentence, g->lengths, position};
    for (int64_t from = 0; from < g->rows; from += ROWS) {
        int64_t some = MIN(ROWS, g->rows - from);
        decoder_rows(g->logits, &g->decoder, &m, &g->at, from, some);
        for (int64_t r = 0; r < some; r++) {
            float *row = g->logits + r * V;
            if (q->matrix)
                look_at_own(g, from + r, row);
            else
                likeliest(g->top + (from + r) * C, g->which + (from + r) * C, row, q->never, q->nevers, V, C);
        }
    }
}

/* What becomes of the i-th living sentence at step t: the candidates that end it are kept, those that live on are the first
 * `wide` of g->found.  Returns `wide`, 0 when the sentence is done. */
static int64_t decide(group *g, int64_t i, int64_t t) {
    const quest *q = g->q;
    int64_t b = g->alive[i], limit = q->limits[g->first + b], from = g->begins[i], wide = 0, W = q->W;
    candidate *found = g->found;
    int64_t have = merge(found, g->score + from, g->top + from * g->C, g->which + from * g->C, g->begins[i + 1] - from, g->C,
                         W == 1 ? 1 : 2 * W);
    ending *best = g->ended + b * q->best;
    for (int64_t c = 0; c < MIN(have, W); c++) {
        if (found[c].token != q->end && t + 1 < limit) continue;
        double worth = found[c].total / penalty(t + 1, q->alpha);
        keep(best, g->count + b, q->best, (ending){worth, found[c].total, found[c].gain, t, from + found[c].row, found[c].token});
    }
    for (int64_t c = 0; c < have && wide < W; c++)
        if (found[c].token != q->end) found[wide++] = found[c];
    if (t + 1 >= limit || (W == 1 && g->count[b])) return 0;
    if (wide && W > 1 && g->count[b] >= q->best) {
        int64_t longest = q->exact || g->count[b] < W ? limit : t + 2;
        if (best[q->best - 1].score >= found[0].total / penalty(longest, q->alpha)) return 0;
    }
    return wide;
}

/* The rows of the next step. */
static void go_on(group *g, int64_t t) {
    int64_t going = 0, after = 0, T = g->T;
    past *next = g->steps + t + 1;
    *next = step_of(g->N);
    for (int64_t i = 0; i < g->living; i++) {
        int64_t b = g->alive[i], from = g->begins[i], wide = decide(g, i, t);
        const candidate *found = g->found;
        if (!wide) continue;
        g->begins[going] = after;
        for (int64_t w = 0; w < wide && found[w].total >= found[0].total - g->q->margin; w++, after++) {
            next->parent[after] = from + found[w].row, next->token[after] = found[w].token;
            next->gain[after] = found[w].gain, g->scores[after] = found[w].total, g->owner[after] = b;
            memcpy(g->other + after * T, g->origin + next->parent[after] * T, sizeof(int64_t) * (size_t)t);
            g->other[after * T + t] = next->parent[after];
        }
        g->alive[going++] = b;
    }
    g->living = going, g->rows = g->begins[going] = after;
    memcpy(g->sentence, g->owner, sizeof(int64_t) * (size_t)after);
    memcpy(g->score, g->scores, sizeof(float) * (size_t)after);
    int64_t *swap = g->origin;
    g->origin = g->other, g->other = swap;
}

/* Write out a hypothesis by walking back from its end. */
static void tell(const quest *q, int64_t place, const ending *one, const past *steps) {
    int64_t *ids = q->ids + place * q->most, row = one->row;
    float *gains = q->gains + place * q->most;
    q->sizes[place] = one->t + 1, q->totals[place] = one->total;
    ids[one->t] = one->token, gains[one->t] = one->gain;
    for (int64_t t = one->t; t > 0; t--) {
        ids[t - 1] = steps[t].token[row], gains[t - 1] = steps[t].gain[row];
        row = steps[t].parent[row];
    }
}

/* Sentences first … last - 1 from source to translation. */
static void translate(const stack *e, const stack *d, const quest *q, int64_t first, int64_t last, int64_t *list, char *seen) {
    int64_t G = last - first, W = q->W;
    group g = {.q = q, .first = first, .G = G, .N = G * W, .V = d->output.out, .list = list};
    g.lengths = whole_numbers(G);
    for (int64_t b = 0; b < G; b++) {
        g.lengths[b] = q->begins[first + b + 1] - q->begins[first + b];
        g.S = MAX(g.S, g.lengths[b]), g.T = MAX(g.T, q->limits[first + b]);
    }
    begin_sources(&g, e, d);
    if (q->matrix) {
        g.V = shortlist(list, seen, q, first, last, d->output.out);
        g.decoder.output = (dense){narrow(q->matrix, list, g.V, d->D), NULL, d->D, g.V};
        g.own_begins = whole_numbers(G + 1), g.few = room(g.V);
        own_places(g.own_begins, &g.own, list, g.V, seen, q, first, last);
    }
    g.C = MIN(W == 1 ? 1 : 2 * W, g.V); /* there are no more candidates than tokens */
    begin_rows(&g);
    for (int64_t t = 0; g.living; t++) {
        look_ahead(&g, t);
        go_on(&g, t);
    }
    for (int64_t b = 0; b < G; b++)
        for (int64_t k = 0; k < MIN(q->best, g.count[b]); k++)
            tell(q, (first + b) * q->best + k, g.ended + b * q->best + k, g.steps);
    leave_group(&g);
}

/* All sentences, in groups of a few rows: enough for the products, few enough for a short list and an even end. */
void search_run(const stack *e, const stack *d, const quest *q) {
    int64_t each = MAX(1, GROUP / q->W), groups = (q->B + each - 1) / each;
#pragma omp parallel num_threads((int)MAX(1, MIN(omp_get_max_threads(), q->threads)))
    {
        int64_t *list = q->matrix ? malloc(sizeof(int64_t) * (size_t)d->output.out) : NULL;
        char *seen = q->matrix ? calloc((size_t)d->output.out, 1) : NULL;
#pragma omp for schedule(dynamic)
        for (int64_t g = 0; g < groups; g++) translate(e, d, q, g * each, MIN(q->B, (g + 1) * each), list, seen);
        free(list), free(seen);
    }
}
