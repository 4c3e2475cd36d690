/* Sentences to translations in one call: the encoder, and greedy or beam search over the decoder.
 *
 * A group of sentences stays on one core from its first word to its last, so that cores never wait for each other and
 * Python is not involved between steps.  The search is that of decoding/search.py: the same candidates and the same
 * stopping rule; its rules are in rules.c, required phrases in phrases.c.  With a shortlist, the softmax is over the
 * candidates of the sentence's own tokens.  With edits, encoder and decoder are those of reading.c.  A translation does
 * not depend on the rest of its group, so that a sentence may be given up at any step. */
#include "search.h"
#include "products.h"
#include "reading.h"

#define GROUP_ROWS 48 /* hypotheses of a group of sentences: searching.py knows this number */

double jk_penalize(double total, int64_t length, double alpha) {
    return total / pow((5.0 + (double)length) / 6.0, alpha);
}

void jk_add_finished(finished *best, int64_t *count, int64_t most, finished one) {
    int64_t have = MIN(*count, most), at = have < most ? have : most - 1;
    ++*count;
    if (have == most && !(one.score > best[at].score)) return;
    for (; at > 0 && one.score > best[at - 1].score; at--) best[at] = best[at - 1];
    best[at] = one;
}

/* The `most` best continuations of a sentence's rows, best first; equals keep their order.  Rows have C candidates, of
 * which the first `some` are set, best first. */
static int64_t merge_candidates(candidate *best, const float *scores, const float *top, const int64_t *tokens,
                                int64_t rows, int64_t C, int64_t some, int64_t most) {
    int64_t found = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < some; c++) {
            candidate one = {scores[r] + top[r * C + c], top[r * C + c], r, tokens[r * C + c], 0.0};
            if (one.total == -INFINITY || (found == most && !(one.total > best[most - 1].total))) break;
            int64_t at = found < most ? found++ : most - 1;
            for (; at > 0 && one.total > best[at - 1].total; at--) best[at] = best[at - 1];
            best[at] = one;
        }
    return found;
}

/* Mark (with `as`) the candidate tokens of a sentence; `rules` are its own, or NULL. */
static void mark_shortlist(char *seen, const search_task *q, int64_t b, const sentence_rules *rules, char as) {
    for (int64_t i = 0; i < q->commons; i++) seen[q->common[i]] = as;
    for (int64_t i = q->begins[b]; i < q->begins[b + 1]; i++) {
        if (q->same) seen[q->tokens[i]] = as;
        for (int64_t k = q->list_begins[q->tokens[i]]; k < q->list_begins[q->tokens[i] + 1]; k++) seen[q->list[k]] = as;
    }
    for (int64_t i = 0; rules && i < rules->mores; i++) seen[rules->more[i]] = as;
    seen[q->end] = as;
    for (int64_t i = 0; i < q->nevers; i++) seen[q->never[i]] = 0;
}

static const sentence_rules *rules_of(const sentence_group *g, int64_t b) { return g->rules ? g->rules + b : NULL; }

/* The candidate tokens of a group together, in order; `seen` (V,) is all zero before and after. */
static int64_t make_shortlist(const sentence_group *g, int64_t *list, char *seen, int64_t V) {
    int64_t count = 0;
    for (int64_t b = 0; b < g->G; b++) mark_shortlist(seen, g->q, g->first + b, rules_of(g, b), 1);
    for (int64_t v = 0; v < V; v++)
        if (seen[v]) list[count++] = v, seen[v] = 0;
    return count;
}

/* Find the places of each sentence's candidates in its group's list: those of sentence b begin at places[begins[b]]. */
static void find_places(sentence_group *g, char *seen) {
    int64_t *to = g->places = new_integers(g->G * g->V), found = 0;
    for (int64_t b = 0; b < g->G; b++) {
        g->place_offsets[b] = found;
        mark_shortlist(seen, g->q, g->first + b, rules_of(g, b), 1);
        for (int64_t i = 0; i < g->V; i++)
            if (seen[g->list[i]]) to[found++] = i;
        mark_shortlist(seen, g->q, g->first + b, rules_of(g, b), 0);
    }
    g->place_offsets[g->G] = found;
}

/* The rows of the output matrix that are on a list, and their biases. */
static dense pack_shortlist(const float *all, const float *biases, const int64_t *list, int64_t count, int64_t D) {
    float *rows = new_floats(count * D), *packed = new_floats(D * panel_columns(count));
    float *own = biases ? new_floats(count) : NULL;
    for (int64_t i = 0; i < count; i++) memcpy(rows + i * D, all + list[i] * D, sizeof(float) * (size_t)D);
    for (int64_t i = 0; own && i < count; i++) own[i] = biases[list[i]];
    pack_panels(packed, (matrix){rows, 1, D}, D, count);
    free(rows);
    return (dense){packed, own, D, count};
}

static step_history new_step(int64_t rows) {
    return (step_history){new_integers(rows), new_integers(rows), new_floats(rows)};
}

/* Encode the sources into the memories of the group's decoder. */
static void encode_group(sentence_group *g, const stack *e, const stack *d) {
    const search_task *q = g->q;
    int64_t width = d->H * (d->K + d->E), *source = new_integers(g->G * g->S);
    layer_weights *layers = new_array(d->layers, sizeof(layer_weights));
    memcpy(layers, d->each, sizeof(layer_weights) * (size_t)d->layers);
    for (int64_t l = 0; l < d->layers; l++)
        layers[l].memory = new_floats(g->G * g->S * width), layers[l].cache = new_floats(g->N * g->T * width);
    g->decoder = *d;
    g->decoder.each = layers;
    for (int64_t b = 0; b < g->G; b++)
        memcpy(source + b * g->S, q->tokens + q->begins[g->first + b], sizeof(int64_t) * (size_t)g->lengths[b]);
    for (int64_t b = 0; q->edits && b < g->G; b++)
        jk_read_source(e, &g->decoder, q->edits, source + b * g->S, g->lengths[b], q->sources, b, g->S);
    row_buffers at = jk_new_row_buffers(e, MAX(ROWS_AT_ONCE, g->S), g->S);
    for (int64_t b = 0, next; !q->edits && b < g->G; b = next) {
        int64_t rows = 0;
        for (next = b; next < g->G && (next == b || rows + g->lengths[next] <= ROWS_AT_ONCE); next++)
            rows += g->lengths[next];
        jk_encode_sentences(e, &g->decoder, &at, source, g->lengths, g->S, q->sources, b, next);
    }
    jk_free_row_buffers(at);
    free(source);
}

/* Whether a sentence of a group is to be given up. */
static int is_stopped(const sentence_group *g, int64_t b) {
    const search_task *q = g->q;
    return q->stops && __atomic_load_n(q->stops[g->first + b], __ATOMIC_RELAXED);
}

/* Begin with one row per sentence, which reads the start token. */
static void begin_rows(sentence_group *g, int64_t V) {
    const search_task *q = g->q;
    int64_t N = g->N, G = g->G, most = 2 * q->W;
    for (int64_t b = 0; g->rules && b < G; b++) most = MAX(most, g->rules[b].slots);
    g->at = jk_new_row_buffers(&g->decoder, MIN(N, ROWS_AT_ONCE), MAX(g->T, g->S));
    g->steps = new_zero_array(g->T + 1, sizeof(step_history));
    g->ended = new_array(G * q->best, sizeof(finished));
    g->found = new_array(most, sizeof(candidate));
    g->count = new_zero_array(G, sizeof(int64_t)), g->shared = new_zero_array(G, sizeof(int64_t));
    g->alive = new_integers(G), g->begins = new_integers(G + 1);
    g->sentence = new_integers(N), g->owner = new_integers(N), g->which = new_integers(N * g->C);
    g->origin = new_integers(N * g->T), g->next_origin = new_integers(N * g->T);
    g->logits = new_floats(MIN(N, ROWS_AT_ONCE) * g->V), g->top = new_floats(N * g->C), g->score = new_floats(N),
    g->scores = new_floats(N);
    g->steps[0] = new_step(N);
    for (int64_t b = 0; b < G; b++) {
        int64_t row = g->rows;
        if (is_stopped(g, b)) continue;
        g->alive[row] = g->sentence[row] = b, g->begins[row] = row;
        g->score[row] = 0.0f, g->steps[0].token[row] = q->start;
        g->active = ++g->rows;
    }
    g->begins[g->rows] = g->rows;
    if (g->rules) jk_begin_ruled_rows(g, V);
}

static void free_group(sentence_group *g) {
    for (int64_t t = 0; t <= g->T && g->steps[t].parent; t++)
        free(g->steps[t].parent), free(g->steps[t].token), free(g->steps[t].gain);
    for (int64_t l = 0; l < g->decoder.layers; l++) free(g->decoder.each[l].memory), free(g->decoder.each[l].cache);
    if (g->q->matrix) {
        free((void *)g->decoder.output.packed), free((void *)g->decoder.output.bias);
        free(g->place_offsets), free(g->places), free(g->few);
    }
    if (g->rules) jk_free_rules(g);
    jk_free_row_buffers(g->at);
    free((void *)g->decoder.each), free(g->lengths), free(g->steps), free(g->ended), free(g->found), free(g->count),
        free(g->shared);
    free(g->alive), free(g->begins), free(g->sentence), free(g->owner), free(g->which), free(g->origin),
        free(g->next_origin);
    free(g->logits), free(g->top), free(g->score), free(g->scores);
}

/* The most probable of a sentence's candidates: copied from the group's row first, so that the softmax is over them
 * alone. */
static void score_shortlist(sentence_group *g, int64_t row, int64_t t, const float *logits, int64_t V) {
    int64_t b = g->sentence[row], C = g->C, count = g->place_offsets[b + 1] - g->place_offsets[b], some = MIN(C, count);
    const int64_t *own = g->places + g->place_offsets[b];
    float *top = g->top + row * C;
    int64_t *which = g->which + row * C;
    for (int64_t i = 0; i < count; i++) g->few[i] = logits[own[i]];
    if (g->rules) {
        jk_score_ruled_row(g, row, t, g->few, count, own, V);
        return;
    }
    jk_top_tokens(top, which, g->few, NULL, 0, count, some);
    for (int64_t c = 0; c < some; c++) which[c] = g->list[own[which[c]]];
    for (int64_t c = some; c < C; c++) top[c] = -INFINITY, which[c] = g->q->end;
}

/* The tokens of every row of step t from START on: (rows, T). */
static int64_t *trace_prefixes(const sentence_group *g, int64_t t) {
    int64_t *prefixes = new_integers(g->rows * g->T);
    for (int64_t n = 0; n < g->rows; n++)
        for (int64_t p = t, row = n; p >= 0; p--) {
            prefixes[n * g->T + p] = g->steps[p].token[row];
            if (p) row = g->steps[p].parent[row];
        }
    return prefixes;
}

/* Logits of rows from … from + some - 1 of a step of a model with edits. */
static void score_edited(const sentence_group *g, const step_task *m, int64_t from, int64_t some) {
    int64_t *prefixes = jk_is_unmasked(g->q->edits) ? trace_prefixes(g, m->t) : NULL;
    jk_read_rows(g->logits, &g->decoder, &(edited_step){m, g->q->edits, prefixes, g->q->targets}, from, some);
    free(prefixes);
}

/* The most probable continuations of every row at position t; `all` tokens are in the vocabulary. */
static void score_continuations(sentence_group *g, int64_t t, int64_t all) {
    const search_task *q = g->q;
    int64_t V = g->V, C = g->C;
    const float *position = q->targets ? q->targets + t * g->decoder.D : NULL;
    step_task m = {g->rows, t, g->T, g->S, g->steps[t].token, g->origin, g->sentence, g->lengths, position};
    for (int64_t from = 0; from < g->rows; from += ROWS_AT_ONCE) {
        int64_t some = MIN(ROWS_AT_ONCE, g->rows - from);
        if (q->edits)
            score_edited(g, &m, from, some);
        else
            jk_decode_rows(g->logits, &g->decoder, &m, &g->at, from, some);
        for (int64_t r = 0; r < some; r++) {
            float *row = g->logits + r * V;
            if (q->matrix)
                score_shortlist(g, from + r, t, row, all);
            else if (g->rules)
                jk_score_ruled_row(g, from + r, t, row, V, NULL, all);
            else
                jk_top_tokens(g->top + (from + r) * C, g->which + (from + r) * C, row, q->never, q->nevers, V, C);
        }
    }
}

/* Decide how the i-th active sentence continues at step t: candidates that end are recorded as finished, those that
 * continue are the first `wide` of g->found.  Returns `wide`, 0 when the sentence is done. */
static int64_t decide(sentence_group *g, int64_t i, int64_t t) {
    const search_task *q = g->q;
    int64_t b = g->alive[i], limit = q->limits[g->first + b], from = g->begins[i], wide = 0, W = q->W;
    candidate *found = g->found;
    int64_t some = g->rules ? g->counts[from] : g->C;
    int64_t have = merge_candidates(found, g->score + from, g->top + from * g->C, g->which + from * g->C,
                                    g->begins[i + 1] - from, g->C, some, W == 1 ? 1 : 2 * W);
    finished *best = g->ended + b * q->best;
    for (int64_t c = 0; c < MIN(have, W); c++) {
        if (found[c].token != q->end && t + 1 < limit) continue;
        double worth = jk_penalize(found[c].total, t + 1, q->alpha);
        jk_add_finished(best, g->count + b, q->best,
                        (finished){worth, found[c].total, found[c].gain, t, from + found[c].row, found[c].token});
    }
    for (int64_t c = 0; c < have && wide < W; c++)
        if (found[c].token != q->end) found[wide++] = found[c];
    if (t + 1 >= limit || (W == 1 && g->count[b])) return 0;
    if (wide && W > 1 && g->count[b] >= q->best) {
        int64_t longest = q->exact || g->count[b] < W ? limit : t + 2;
        if (best[q->best - 1].score >= jk_penalize(found[0].total, longest, q->alpha)) return 0;
    }
    return wide;
}

/* The token at position p of row `row` of step t, p < t. */
static int64_t token_at(const step_history *steps, int64_t t, int64_t row, int64_t p) {
    for (; t > p + 1; t--) row = steps[t].parent[row];
    return steps[t].token[row];
}

/* Write for the i-th active sentence, whose rows have t + 1 tokens, those that all of them and the best finished
 * hypotheses begin with: whatever is found begins with them. */
static void write_certain(sentence_group *g, int64_t i, int64_t t) {
    const search_task *q = g->q;
    int64_t b = g->alive[i], first = g->begins[i], room = q->live_width - 1, p = g->shared[b];
    int64_t *live = q->live + q->order[g->first + b] * q->live_width;
    for (; p <= t && p < room; p++) {
        int64_t token = token_at(g->steps, t + 1, first, p), same = 1;
        for (int64_t row = first + 1; same && row < g->begins[i + 1]; row++)
            same = token_at(g->steps, t + 1, row, p) == token;
        for (int64_t k = 0; same && k < MIN(q->best, g->count[b]); k++) {
            const finished *one = g->ended + b * q->best + k;
            same = p < one->t ? token_at(g->steps, one->t, one->row, p) == token : p == one->t && one->token == token;
        }
        if (!same) break;
        live[1 + p] = token;
    }
    g->shared[b] = p;
    __atomic_store_n(live, p, __ATOMIC_RELEASE);
}

/* Make the rows of the next step. */
static void advance(sentence_group *g, int64_t t) {
    int64_t going = 0, after = 0, T = g->T;
    step_history *next = g->steps + t + 1;
    *next = new_step(g->N);
    for (int64_t i = 0; i < g->active; i++) {
        int64_t b = g->alive[i], from = g->begins[i], phrases = g->rules && g->rules[b].phrases;
        int64_t wide = phrases ? jk_decide_with_phrases(g, i, t) : decide(g, i, t);
        double margin = phrases ? INFINITY : g->q->margin;
        const candidate *found = g->found;
        if (wide && is_stopped(g, b)) g->count[b] = wide = 0;
        if (!wide) continue;
        g->begins[going] = after;
        for (int64_t w = 0; w < wide && found[w].total >= found[0].total - margin; w++, after++) {
            next->parent[after] = from + found[w].row, next->token[after] = found[w].token;
            next->gain[after] = found[w].gain, g->scores[after] = found[w].total, g->owner[after] = b;
            memcpy(g->next_origin + after * T, g->origin + next->parent[after] * T, sizeof(int64_t) * (size_t)t);
            g->next_origin[after * T + t] = next->parent[after];
            if (g->rules) jk_follow_rules(g, after, next->parent[after], b, t, found + w);
        }
        g->alive[going++] = b;
    }
    g->active = going, g->rows = g->begins[going] = after;
    memcpy(g->sentence, g->owner, sizeof(int64_t) * (size_t)after);
    memcpy(g->score, g->scores, sizeof(float) * (size_t)after);
    int64_t *swap = g->origin;
    g->origin = g->next_origin, g->next_origin = swap;
    row_rules rules = g->now;
    g->now = g->next, g->next = rules;
    for (int64_t i = 0; g->q->live && i < going; i++) write_certain(g, i, t);
}

/* Write a hypothesis by following it back from its end. */
static void write_hypothesis(const search_task *q, int64_t place, const finished *one, const step_history *steps) {
    int64_t *ids = q->ids + place * q->most, row = one->row;
    float *gains = q->gains + place * q->most;
    q->sizes[place] = one->t + 1, q->totals[place] = one->total;
    ids[one->t] = one->token, gains[one->t] = one->gain;
    for (int64_t t = one->t; t > 0; t--) {
        ids[t - 1] = steps[t].token[row], gains[t - 1] = steps[t].gain[row];
        row = steps[t].parent[row];
    }
}

/* Translate sentences first … last - 1. */
static void search_group(const stack *e, const stack *d, const search_task *q, int64_t first, int64_t last,
                         int64_t *list, char *seen) {
    int64_t G = last - first, W = q->W, V = d->output.out, stopped = 0;
    sentence_group g = {.q = q, .first = first, .G = G, .N = G * W, .C = W == 1 ? 1 : 2 * W, .V = V, .list = list};
    for (int64_t b = 0; b < G; b++) stopped += is_stopped(&g, b);
    if (stopped == G) return;
    g.lengths = new_integers(G);
    for (int64_t b = 0; b < G; b++) {
        g.lengths[b] = q->begins[first + b + 1] - q->begins[first + b];
        g.S = MAX(g.S, g.lengths[b]), g.T = MAX(g.T, q->limits[first + b]);
    }
    if (q->rules) jk_begin_rules(&g, V);
    encode_group(&g, e, d);
    if (q->matrix) {
        g.V = make_shortlist(&g, list, seen, V);
        g.decoder.output = pack_shortlist(q->matrix, d->output.bias, list, g.V, d->D);
        g.place_offsets = new_integers(G + 1), g.few = new_floats(g.V);
        find_places(&g, seen);
    }
    if (!g.rules) g.C = MIN(g.C, g.V); /* no more candidates than tokens */
    begin_rows(&g, V);
    for (int64_t t = 0; g.active; t++) {
        score_continuations(&g, t, V);
        advance(&g, t);
    }
    for (int64_t b = 0; b < G; b++)
        for (int64_t k = 0; k < MIN(q->best, g.count[b]); k++)
            write_hypothesis(q, (first + b) * q->best + k, g.ended + b * q->best + k, g.steps);
    free_group(&g);
}

/* Translate all sentences in groups: rows enough for the products, few enough for a short list and balanced threads. */
void jk_search(const stack *e, const stack *d, const search_task *q) {
    int64_t each = MAX(1, GROUP_ROWS / q->W), groups = (q->B + each - 1) / each;
    if (jk_find_bad_edit(e, d, q->edits) >= 0) return; /* no translations; the caller has checked them */
#pragma omp parallel num_threads((int)MAX(1, MIN(omp_get_max_threads(), q->threads)))
    {
        int64_t *list = q->matrix ? new_integers(d->output.out) : NULL;
        char *seen = q->matrix ? new_zero_array(d->output.out, 1) : NULL;
#pragma omp for schedule(dynamic)
        for (int64_t g = 0; g < groups; g++) search_group(e, d, q, g * each, MIN(q->B, (g + 1) * each), list, seen);
        free(list), free(seen);
    }
}
