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

/* What is added to the logits of a group's list: nothing for a sentence's own tokens, -inf for its neighbours' (G, count). */
static float *fences(const int64_t *list, int64_t count, char *seen, const quest *q, int64_t first, int64_t last) {
    float *closed = room((last - first) * count);
    for (int64_t b = first; b < last; b++) {
        mark(seen, q, b, 1);
        for (int64_t i = 0; i < count; i++) closed[(b - first) * count + i] = seen[list[i]] ? 0.0f : -INFINITY;
        mark(seen, q, b, 0);
    }
    return closed;
}

/* The rows of the output matrix that are on a list, packed. */
static float *narrow(const float *all, const int64_t *list, int64_t count, int64_t D) {
    float *rows = room(count * D), *packed = room(D * panels(count));
    for (int64_t i = 0; i < count; i++) memcpy(rows + i * D, all + list[i] * D, sizeof(float) * (size_t)D);
    pack(packed, (matrix){rows, 1, D}, D, count);
    free(rows);
    return packed;
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
    int64_t G = last - first, W = q->W, N = G * W, C = W == 1 ? 1 : 2 * W, D = d->D, S = 0, T = 0;
    int64_t width = d->H * (d->K + d->E), V = d->output.out;
    float *closed = NULL;
    int64_t *lengths = malloc(sizeof(int64_t) * (size_t)G);
    for (int64_t b = 0; b < G; b++) {
        lengths[b] = q->begins[first + b + 1] - q->begins[first + b];
        S = MAX(S, lengths[b]), T = MAX(T, q->limits[first + b]);
    }
    /* the source */
    int64_t *source = malloc(sizeof(int64_t) * (size_t)(G * S));
    for (int64_t b = 0; b < G; b++)
        memcpy(source + b * S, q->tokens + q->begins[first + b], sizeof(int64_t) * (size_t)lengths[b]);
    layer *layers = malloc(sizeof(layer) * (size_t)d->layers);
    stack own = *d;
    memcpy(layers, d->each, sizeof(layer) * (size_t)d->layers);
    own.each = layers;
    for (int64_t l = 0; l < d->layers; l++)
        layers[l].memory = room(G * S * width), layers[l].cache = room(N * T * width);
    desk reading = desk_for(e, MAX(ROWS, S), S);
    for (int64_t b = 0, next; b < G; b = next) {
        int64_t rows = 0;
        for (next = b; next < G && (next == b || rows + lengths[next] <= ROWS); next++) rows += lengths[next];
        read_sentences(e, &own, &reading, source, lengths, S, q->sources, b, next);
    }
    clear(reading);
    if (q->matrix) {
        V = shortlist(list, seen, q, first, last, d->output.out);
        own.output = (dense){narrow(q->matrix, list, V, D), NULL, D, V};
        closed = fences(list, V, seen, q, first, last);
        C = MIN(C, V);
    }
    /* the search */
    desk at = desk_for(d, MIN(N, ROWS), MAX(T, S));
    past *steps = calloc((size_t)(T + 1), sizeof(past));
    ending *ended = malloc(sizeof(ending) * (size_t)(G * q->best));
    candidate *found = malloc(sizeof(candidate) * (size_t)(2 * W));
    int64_t *count = calloc((size_t)G, sizeof(int64_t)), *alive = malloc(sizeof(int64_t) * (size_t)G), living = G, rows = G;
    int64_t *begins = malloc(sizeof(int64_t) * (size_t)(G + 1)); /* of the rows of each sentence that lives */
    int64_t *sentence = malloc(sizeof(int64_t) * (size_t)N), *owner = malloc(sizeof(int64_t) * (size_t)N), *which = malloc(sizeof(int64_t) * (size_t)(N * C));
    int64_t *origin = malloc(sizeof(int64_t) * (size_t)(N * T)), *other = malloc(sizeof(int64_t) * (size_t)(N * T));
    float *logits = room(MIN(N, ROWS) * V), *top = room(N * C), *score = room(N), *scores = room(N);
    steps[0] = (past){malloc(sizeof(int64_t) * (size_t)N), malloc(sizeof(int64_t) * (size_t)N), room(N)};
    for (int64_t b = 0; b < G; b++) alive[b] = sentence[b] = begins[b] = b, score[b] = 0.0f, steps[0].token[b] = q->start;
    begins[G] = G;
    for (int64_t t = 0; living; t++) {
        int64_t going = 0, after = 0;
        const float *position = q->targets ? q->targets + t * D : NULL;
        moment m = {rows, t, T, S, steps[t].token, origin, sentence, lengths, position};
        for (int64_t from = 0; from < rows; from += ROWS) {
            int64_t some = MIN(ROWS, rows - from);
            decoder_rows(logits, &own, &m, &at, from, some);
            for (int64_t r = 0; closed && r < some; r++)
                for (int64_t v = 0; v < V; v++) logits[r * V + v] += closed[sentence[from + r] * V + v];
            for (int64_t r = 0; r < some; r++)
                likeliest(top + (from + r) * C, which + (from + r) * C, logits + r * V, q->never, q->matrix ? 0 : q->nevers, V, C);
        }
        if (q->matrix)
            for (int64_t i = 0; i < rows * C; i++) which[i] = list[which[i]];
        steps[t + 1] = (past){malloc(sizeof(int64_t) * (size_t)N), malloc(sizeof(int64_t) * (size_t)N), room(N)};
        past *next = steps + t + 1;
        for (int64_t i = 0; i < living; i++) {
            int64_t b = alive[i], limit = q->limits[first + b], wide = 0, from = begins[i], each = begins[i + 1] - from;
            int64_t have = merge(found, score + from, top + from * C, which + from * C, each, C, W == 1 ? 1 : 2 * W);
            ending *best = ended + b * q->best;
            for (int64_t c = 0; c < MIN(have, W); c++)
                if (found[c].token == q->end || t + 1 >= limit) {
                    double worth = found[c].total / penalty(t + 1, q->alpha);
                    keep(best, count + b, q->best, (ending){worth, found[c].total, found[c].gain, t, from + found[c].row, found[c].token});
                }
            candidate kept[W];
            for (int64_t c = 0; c < have && wide < W; c++)
                if (found[c].token != q->end) kept[wide++] = found[c];
            int done = t + 1 >= limit || !wide || (W == 1 && count[b]);
            if (!done && W > 1 && count[b] >= q->best) {
                int64_t longest = q->exact || count[b] < W ? limit : t + 2;
                done = best[q->best - 1].score >= kept[0].total / penalty(longest, q->alpha);
            }
            if (done) continue;
            begins[going] = after;
            for (int64_t w = 0; w < wide && kept[w].total >= kept[0].total - q->margin; w++) {
                int64_t r = after++;
                next->parent[r] = from + kept[w].row, next->token[r] = kept[w].token, next->gain[r] = kept[w].gain;
                scores[r] = kept[w].total;
                memcpy(other + r * T, origin + next->parent[r] * T, sizeof(int64_t) * (size_t)t);
                other[r * T + t] = next->parent[r];
                owner[r] = b;
            }
            alive[going++] = b;
        }
        living = going, rows = after;
        begins[living] = rows;
        memcpy(sentence, owner, sizeof(int64_t) * (size_t)rows);
        memcpy(score, scores, sizeof(float) * (size_t)rows);
        int64_t *swap = origin;
        origin = other, other = swap;
    }
    for (int64_t b = 0; b < G; b++)
        for (int64_t k = 0; k < q->best; k++) {
            q->sizes[(first + b) * q->best + k] = 0;
            if (k < count[b]) tell(q, (first + b) * q->best + k, ended + b * q->best + k, steps);
        }
    for (int64_t t = 0; t <= T && steps[t].parent; t++) free(steps[t].parent), free(steps[t].token), free(steps[t].gain);
    for (int64_t l = 0; l < d->layers; l++) free(layers[l].memory), free(layers[l].cache);
    if (q->matrix) free((void *)own.output.packed), free(closed);
    clear(at);
    free(lengths), free(source), free(layers), free(steps), free(ended), free(found), free(count), free(alive), free(sentence);
    free(begins), free(owner), free(which), free(origin), free(other), free(logits), free(top), free(score), free(scores);
}

/* All sentences, in groups of a few rows: enough for the products, few enough for a short list and an even end. */
void search_run(const stack *e, const stack *d, const quest *q) {
    int64_t each = MAX(1, GROUP / q->W), groups = (q->B + each - 1) / each;
#pragma omp parallel
    {
        int64_t *list = q->matrix ? malloc(sizeof(int64_t) * (size_t)d->output.out) : NULL;
        char *seen = q->matrix ? calloc((size_t)d->output.out, 1) : NULL;
#pragma omp for schedule(dynamic)
        for (int64_t g = 0; g < groups; g++) translate(e, d, q, g * each, MIN(q->B, (g + 1) * each), list, seen);
        free(list), free(seen);
    }
}
