/* What a search may and may not choose: prefixes, forbidden and required text, minimum length, n-grams that must not be
 * repeated.
 *
 * The rules are those of decoding/rules.py, and probabilities stay the model's: tokens are excluded after the softmax.
 * A prefix comes before all other rules: where they would exclude every token that continues it, they are ignored. */
#include "search.h"

/* The state of an automaton after a token. */
static int32_t read_token(const search_rules *r, const automaton *a, int32_t state, int64_t token) {
    for (int64_t i = r->unit_begins[token]; i < r->unit_begins[token + 1] && state > STATE_FREE; i++)
        state = a->next[state * a->width + a->symbols[r->units[i]]];
    return state;
}

/* Whether a token that is not END may be followed by others in this state. */
static int is_allowed(const automaton *a, int32_t state) {
    return state != STATE_DEAD && (a->flags[state] & MAY_END_TOKEN);
}

/* The state after a token that was not allowed, but is part of a prefix: what came before it is forgotten. */
static int32_t recover(const search_rules *r, const automaton *a, int64_t token) {
    int64_t last = r->unit_begins[token + 1] - 1;
    if (last < r->unit_begins[token]) return (int32_t)a->start;
    int32_t state = a->next[a->start * a->width + a->symbols[r->units[last]]];
    return is_allowed(a, state) ? state : (int32_t)a->start;
}

/* The tokens that an automaton excludes in a state. */
static const char *excluded_by(const sentence_group *g, exclusions *by, int32_t state, int64_t V) {
    if (!by->excluded[state]) {
        const automaton *a = by->by;
        char *excluded = by->excluded[state] = new_array(V, 1);
        for (int64_t v = 0; v < V; v++) excluded[v] = !is_allowed(a, read_token(g->q->rules, a, state, v));
        excluded[g->q->end] = !(a->flags[state] & MAY_END_OUTPUT);
    }
    return by->excluded[state];
}

/* The exclusions of an automaton, shared by the sentences of a group. */
static exclusions *find_exclusions(sentence_group *g, int64_t number) {
    if (number < 0) return NULL;
    const automaton *by = g->q->rules->automata + number;
    for (int64_t i = 0; i < g->in_use; i++)
        if (g->caches[i].by == by) return g->caches + i;
    g->caches[g->in_use] = (exclusions){by, new_zero_array(by->states, sizeof(char *))};
    return g->caches + g->in_use++;
}

/* Find the tokens that the shortlist of a sentence must contain: those of its prefix and its phrases, and all that may
 * continue the prefix. */
static void find_more(sentence_group *g, sentence_rules *own, char *seen, int64_t V) {
    const search_rules *r = g->q->rules;
    for (int64_t i = 0; i < own->prefix_length; i++) seen[own->prefix[i]] = 1;
    for (int64_t p = own->first_phrase; p < own->first_phrase + own->phrases; p++)
        for (int64_t i = r->phrase_offsets[p]; i < r->phrase_offsets[p + 1]; i++) seen[r->phrase_tokens[i]] = 1;
    const automaton *a = own->automata[KIND_OPENING] ? own->automata[KIND_OPENING]->by : NULL;
    for (int32_t state = STATE_FREE + 1; a && state < a->states; state++)
        for (int64_t v = 0; v < V; v++)
            if (r->unit_begins[v] < r->unit_begins[v + 1] && read_token(r, a, state, v) != STATE_DEAD) seen[v] = 1;
    for (int64_t v = 0; v < V; v++) own->mores += seen[v];
    own->more = new_integers(own->mores);
    for (int64_t v = 0, i = 0; v < V; v++)
        if (seen[v]) own->more[i++] = v, seen[v] = 0;
}

void jk_begin_rules(sentence_group *g, int64_t V) {
    const search_rules *r = g->q->rules;
    char *seen = new_zero_array(V, 1);
    g->rules = new_zero_array(g->G, sizeof(sentence_rules));
    g->caches = new_array(2 * g->G + 1, sizeof(exclusions));
    g->N = 0;
    for (int64_t b = 0; b < g->G; b++) {
        int64_t at = g->first + b;
        sentence_rules *own = g->rules + b;
        own->slots = g->q->W;
        if (r->prefix_begins) {
            own->prefix = r->prefixes + r->prefix_begins[at];
            own->prefix_length = r->prefix_begins[at + 1] - r->prefix_begins[at];
        }
        if (r->openings) own->automata[KIND_OPENING] = find_exclusions(g, r->openings[at]);
        if (r->forbidding) own->automata[KIND_FORBIDDING] = find_exclusions(g, r->forbidding[at]);
        if (r->phrase_begins && r->phrase_begins[at + 1] > r->phrase_begins[at]) {
            own->first_phrase = r->phrase_begins[at];
            own->phrases = r->phrase_begins[at + 1] - own->first_phrase;
            own->slots += r->phrase_offsets[own->first_phrase + own->phrases] - r->phrase_offsets[own->first_phrase];
            own->automata[KIND_ENDING] = find_exclusions(g, r->ending);
            g->P = MAX(g->P, own->phrases);
        }
        if (g->q->matrix) find_more(g, own, seen, V);
        g->N += own->slots;
        g->C = MAX(g->C, own->phrases ? 2 * own->slots + own->phrases : own->slots == 1 ? 1 : 2 * own->slots);
    }
    free(seen);
}

void jk_free_rules(sentence_group *g) {
    for (int64_t i = 0; i < g->in_use; i++) {
        for (int64_t state = 0; state < g->caches[i].by->states; state++) free(g->caches[i].excluded[state]);
        free(g->caches[i].excluded);
    }
    for (int64_t b = 0; b < g->G; b++) free(g->rules[b].more);
    for (row_rules *one = &g->now;; one = &g->next) {
        free(one->states), free(one->progress), free(one->missing), free(one->sums);
        if (one == &g->next) break;
    }
    free(g->rules), free(g->caches), free(g->counts), free(g->past), free(g->banned);
}

static row_rules new_row_rules(int64_t N, int64_t P) {
    return (row_rules){
        .states = new_array(N * KINDS, sizeof(int32_t)),
        .progress = new_array(N, sizeof(phrase_progress)),
        .missing = new_array(N * P, 1),
        .sums = new_array(N, sizeof(double)),
    };
}

void jk_begin_ruled_rows(sentence_group *g, int64_t V) {
    g->now = new_row_rules(g->N, g->P), g->next = new_row_rules(g->N, g->P);
    g->counts = new_integers(g->N), g->past = new_integers(g->T), g->banned = new_array(V, 1);
    for (int64_t row = 0; row < g->rows; row++) {
        const sentence_rules *own = g->rules + g->sentence[row];
        for (int kind = 0; kind < KINDS; kind++) {
            int begins = own->automata[kind] && kind != KIND_ENDING;
            g->now.states[row * KINDS + kind] = begins ? (int32_t)own->automata[kind]->by->start : STATE_FREE;
        }
        g->now.progress[row] = (phrase_progress){-1, 0, 0, own->phrases};
        g->now.sums[row] = 0.0;
        memset(g->now.missing + row * g->P, 1, (size_t)own->phrases);
    }
}

/* Ban the tokens that would repeat an n-gram of a row with t tokens. */
static void ban_repeats(sentence_group *g, int64_t row, int64_t t, int64_t size) {
    int64_t *past = g->past, same;
    for (int64_t s = t; s > 0; row = g->steps[s--].parent[row]) past[s - 1] = g->steps[s].token[row];
    for (int64_t i = 0; i + size <= t; i++) {
        for (same = 0; same < size - 1 && past[i + same] == past[t - size + 1 + same]; same++);
        if (same == size - 1) g->banned[past[i + size - 1]] = 1;
    }
}

/* Ban what the rules other than a prefix exclude after a row; returns whether anything may be banned. */
static int ban_tokens(sentence_group *g, int64_t row, int64_t t, int64_t V) {
    const search_rules *r = g->q->rules;
    const sentence_rules *own = g->rules + g->sentence[row];
    const int32_t *states = g->now.states + row * KINDS;
    char *banned = g->banned;
    int any = 0;
    for (int kind = KIND_FORBIDDING; kind < KINDS; kind++) {
        if (!own->automata[kind] || states[kind] == STATE_FREE) continue;
        const char *excluded = excluded_by(g, own->automata[kind], states[kind], V);
        if (any++)
            for (int64_t v = 0; v < V; v++) banned[v] |= excluded[v];
        else
            memcpy(banned, excluded, (size_t)V);
    }
    if (!any) memset(banned, 0, (size_t)V);
    if (r->no_repeat > 0) ban_repeats(g, row, t, r->no_repeat), any = 1;
    if (t < r->min_length || (own->phrases && g->now.progress[row].left > 0)) banned[g->q->end] = 1, any = 1;
    return any;
}

/* Exclude the banned tokens, and those that do not continue the prefix of a row. */
static void exclude_tokens(sentence_group *g, int64_t row, int64_t t, float *values, int64_t count, const int64_t *own,
                           int64_t V) {
    const sentence_rules *rules = g->rules + g->sentence[row];
    const int32_t opening = g->now.states[row * KINDS + KIND_OPENING];
    const int64_t *list = g->list, forced = t < rules->prefix_length ? rules->prefix[t] : -1;
    const char *outside = NULL;
    int any = ban_tokens(g, row, t, V), left = 0;
    if (forced < 0 && rules->automata[KIND_OPENING] && opening != STATE_FREE)
        outside = excluded_by(g, rules->automata[KIND_OPENING], opening, V);
    if (forced < 0 && !outside) {
        for (int64_t i = 0; any && i < count; i++)
            if (g->banned[own ? list[own[i]] : i]) values[i] = -INFINITY;
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t v = own ? list[own[i]] : i;
        if (outside ? outside[v] : v != forced) values[i] = -INFINITY;
        left |= values[i] > -INFINITY && !g->banned[v];
    }
    for (int64_t i = 0; left && i < count; i++)
        if (g->banned[own ? list[own[i]] : i]) values[i] = -INFINITY;
}

/* The place of a token among those of a row, or -1. */
static int64_t find_token(const sentence_group *g, const int64_t *own, int64_t count, int64_t token) {
    int64_t low = 0, high = count - 1;
    if (!own) return token;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (g->list[own[middle]] < token)
            low = middle + 1;
        else
            high = middle;
    }
    return count > 0 && g->list[own[low]] == token ? low : -1;
}

/* Add to a row's candidates the tokens that its phrases ask for. */
static void add_phrase_tokens(sentence_group *g, int64_t row, const float *values, int64_t count, const int64_t *own,
                              float all) {
    int64_t *which = g->which + row * g->C, likely = g->counts[row];
    float *top = g->top + row * g->C;
    int64_t wanted = jk_next_phrase_tokens(g, row, g->past);
    for (int64_t i = 0; i < wanted; i++) {
        int64_t place = find_token(g, own, count, g->past[i]), known = place < 0;
        for (int64_t c = 0; !known && c < likely; c++) known = which[c] == g->past[i];
        if (known || values[place] == -INFINITY) continue;
        which[g->counts[row]] = g->past[i], top[g->counts[row]++] = values[place] - all;
    }
}

void jk_score_ruled_row(sentence_group *g, int64_t row, int64_t t, float *values, int64_t count, const int64_t *own,
                        int64_t V) {
    const search_task *q = g->q;
    const sentence_rules *rules = g->rules + g->sentence[row];
    int64_t *which = g->which + row * g->C, W = rules->slots, some = MIN(W == 1 ? 1 : 2 * W, count);
    float *top = g->top + row * g->C, all = jk_row_log_sum_exp(values, count);
    for (int64_t i = 0; !own && i < q->nevers; i++) values[q->never[i]] = -INFINITY;
    exclude_tokens(g, row, t, values, count, own, V);
    jk_largest(top, which, values, all, count, some);
    for (int64_t c = 0; own && c < some; c++) which[c] = g->list[own[which[c]]];
    g->counts[row] = some;
    if (rules->phrases && g->now.progress[row].left) add_phrase_tokens(g, row, values, count, own, all);
}

void jk_follow_rules(sentence_group *g, int64_t after, int64_t before, int64_t b, int64_t t, const candidate *by) {
    const search_rules *r = g->q->rules;
    const sentence_rules *own = g->rules + b;
    const int32_t *states = g->now.states + before * KINDS;
    int32_t *next = g->next.states + after * KINDS;
    for (int kind = 0; kind < KINDS; kind++) {
        next[kind] = states[kind];
        if (!own->automata[kind] || states[kind] == STATE_FREE) continue;
        if (kind == KIND_OPENING && t < own->prefix_length) continue; /* it begins after the prefix */
        const automaton *a = own->automata[kind]->by;
        next[kind] = read_token(r, a, states[kind], by->token);
        if (kind == KIND_FORBIDDING && !is_allowed(a, next[kind])) next[kind] = recover(r, a, by->token);
        if (kind != KIND_FORBIDDING && next[kind] == STATE_DEAD) next[kind] = STATE_FREE;
    }
    if (!own->phrases) return;
    int64_t completed;
    g->next.sums[after] = by->sum;
    g->next.progress[after] = jk_progress_after(g, before, by->token, &completed);
    memcpy(g->next.missing + after * g->P, g->now.missing + before * g->P, (size_t)own->phrases);
    if (completed < 0) return;
    g->next.missing[after * g->P + completed] = 0;
    next[KIND_ENDING] = (int32_t)r->phrase_states[own->first_phrase + completed];
}
