/* Required phrases: dynamic beam allocation (Post and Vilar 2018), as in decoding/constraints.py.
 *
 * Hypotheses that contain equally many tokens of the phrases form a bank, and the slots of a sentence are divided
 * between the banks, so that likely hypotheses do not crowd out those that have met more of the phrases. */
#include "search.h"

/* A continuation of a sentence's row, with its order among equals. */
typedef struct {
    candidate by;
    int64_t bank, number, complete, chosen;
} phrase_candidate;

static const int64_t *phrase_of(const sentence_group *g, int64_t row, int64_t p, int64_t *length) {
    const search_rules *r = g->q->rules;
    int64_t at = g->rules[g->sentence[row]].first_phrase + p;
    *length = r->phrase_offsets[at + 1] - r->phrase_offsets[at];
    return r->phrase_tokens + r->phrase_offsets[at];
}

int64_t jk_next_phrase_tokens(const sentence_group *g, int64_t row, int64_t *tokens) {
    const phrase_progress *at = g->now.progress + row;
    int64_t count = 0, length;
    if (at->inside >= 0) {
        tokens[0] = phrase_of(g, row, at->inside, &length)[at->done];
        return 1;
    }
    for (int64_t p = 0; p < g->rules[g->sentence[row]].phrases; p++) {
        if (!g->now.missing[row * g->P + p]) continue;
        int64_t token = phrase_of(g, row, p, &length)[0], i = count;
        for (; i > 0 && tokens[i - 1] > token; i--); /* in ascending order, each once */
        if (i > 0 && tokens[i - 1] == token) continue;
        memmove(tokens + i + 1, tokens + i, sizeof(int64_t) * (size_t)(count++ - i));
        tokens[i] = token;
    }
    return count;
}

/* The progress of a row that has reached token `done` of phrase p. */
static phrase_progress reach(phrase_progress at, int64_t p, int64_t done, int64_t length, int64_t *completed) {
    if (done < length) return (phrase_progress){p, done, at.met, at.left};
    *completed = p;
    return (phrase_progress){-1, 0, at.met + length, at.left - 1};
}

phrase_progress jk_progress_after(const sentence_group *g, int64_t row, int64_t token, int64_t *completed) {
    phrase_progress at = g->now.progress[row];
    int64_t length;
    *completed = -1;
    if (at.inside >= 0 && phrase_of(g, row, at.inside, &length)[at.done] == token)
        return reach(at, at.inside, at.done + 1, length, completed);
    for (int64_t p = 0; p < g->rules[g->sentence[row]].phrases; p++)
        if (g->now.missing[row * g->P + p] && phrase_of(g, row, p, &length)[0] == token)
            return reach(at, p, 1, length, completed);
    return (phrase_progress){-1, 0, at.met, at.left};
}

/* Best first; equals in their order. */
static int compare_totals(const void *a, const void *b) {
    const phrase_candidate *x = a, *y = b;
    if (x->by.sum != y->by.sum) return x->by.sum > y->by.sum ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* By the order in which they were chosen. */
static int compare_choices(const void *a, const void *b) {
    const candidate *x = a, *y = b;
    return (x->sum < y->sum) - (x->sum > y->sum);
}

/* Every continuation of the i-th active sentence, best first. */
static int64_t list_continuations(const sentence_group *g, int64_t i, phrase_candidate *all) {
    int64_t count = 0, completed;
    for (int64_t row = g->begins[i]; row < g->begins[i + 1]; row++)
        for (int64_t c = 0; c < g->counts[row]; c++) {
            float gain = g->top[row * g->C + c];
            int64_t token = g->which[row * g->C + c];
            if (gain == -INFINITY) continue;
            double sum = g->now.sums[row] + (double)gain;
            phrase_progress after = jk_progress_after(g, row, token, &completed);
            candidate by = {(float)sum, gain, row - g->begins[i], token, sum};
            all[count] = (phrase_candidate){by, after.met + after.done, count, after.left == 0, 0};
            count++;
        }
    qsort(all, (size_t)count, sizeof *all, compare_totals);
    return count;
}

/* Choose what continues: banks share the slots evenly, and those with more tokens of the phrases choose first. */
static int64_t allocate_slots(phrase_candidate *all, int64_t count, int64_t end, int64_t slots, int64_t banks,
                              candidate *into) {
    int64_t *left = new_zero_array(banks, sizeof(int64_t)), chosen = 0, waiting = 0;
    for (int64_t c = 0; c < count; c++)
        if (all[c].by.token != end) waiting += !left[all[c].bank]++;
    while (waiting && chosen < slots) {
        int64_t share = MAX(1, (slots - chosen) / waiting);
        for (int64_t bank = banks - 1; bank >= 0; bank--) {
            int64_t take = left[bank] ? MIN(share, slots - chosen) : 0;
            for (int64_t c = 0; c < count && take > 0; c++) {
                if (all[c].bank != bank || all[c].chosen || all[c].by.token == end) continue;
                all[c].chosen = 1, into[chosen++] = all[c].by;
                take--;
                waiting -= !--left[bank];
            }
        }
    }
    free(left);
    /* qsort is not stable: equal sums keep their order by an insertion sort of the few that are chosen. */
    for (int64_t i = 1; i < chosen; i++) {
        candidate one = into[i];
        int64_t at = i;
        for (; at > 0 && compare_choices(&one, into + at - 1) < 0; at--) into[at] = into[at - 1];
        into[at] = one;
    }
    return chosen;
}

int64_t jk_decide_with_phrases(sentence_group *g, int64_t i, int64_t t) {
    const search_task *q = g->q;
    int64_t b = g->alive[i], from = g->begins[i], rows = g->begins[i + 1] - from, ending = 0;
    const sentence_rules *own = g->rules + b;
    int64_t last = t + 1 >= q->limits[g->first + b];
    phrase_candidate *all = new_array(rows * g->C, sizeof(phrase_candidate));
    int64_t count = list_continuations(g, i, all);
    finished *best = g->ended + b * q->best;
    for (int64_t c = 0; c < count && ending < own->slots; c++) {
        const candidate *by = &all[c].by;
        if (!all[c].complete || (by->token != q->end && !last)) continue;
        double score = jk_penalize(by->sum, t + 1, q->alpha);
        jk_add_finished(best, g->count + b, q->best,
                        (finished){score, by->total, by->gain, t, from + by->row, by->token});
        ending++;
    }
    int64_t wide = last ? 0 : allocate_slots(all, count, q->end, own->slots, own->slots - q->W + 1, g->found);
    free(all);
    if (wide && g->count[b] >= q->best) {
        int64_t longest = q->exact || g->count[b] < q->W ? q->limits[g->first + b] : t + 2;
        if (best[q->best - 1].score >= jk_penalize(g->found[0].sum, longest, q->alpha)) return 0;
    }
    return wide;
}
