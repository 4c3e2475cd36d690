/* What the parts of a search share: its loop (search.c), its rules (rules.c), and required phrases (phrases.c). */
#pragma once
#include "transformer.h"

enum fixed_state { STATE_DEAD, STATE_FREE };               /* of every automaton */
enum state_flag { MAY_END_TOKEN = 1, MAY_END_OUTPUT = 2 }; /* of a state of an automaton */
enum rule_kind { KIND_OPENING, KIND_FORBIDDING, KIND_ENDING, KINDS };

/* A finished hypothesis: its last token was added at step t to row `row` of that step. */
typedef struct {
    double score;
    float total, gain;
    int64_t t, row, token;
} finished;

/* A continuation of row `row` of its sentence; `sum` is the total of a sentence with phrases. */
typedef struct {
    float total, gain;
    int64_t row, token;
    double sum;
} candidate;

/* The rows of a step: the row that each continues, the token it reads, and the token's log-probability. */
typedef struct {
    int64_t *parent, *token;
    float *gain;
} step_history;

/* The tokens that each state of an automaton excludes, computed when they are first needed. */
typedef struct {
    const automaton *by;
    char **excluded; /* (states,) of (V,) */
} exclusions;

/* The rules of a sentence. */
typedef struct {
    const int64_t *prefix;
    int64_t prefix_length, first_phrase, phrases, slots; /* slots: rows of the sentence */
    exclusions *automata[KINDS];                         /* NULL where there is none */
    int64_t *more, mores;                                /* tokens that its shortlist must contain */
} sentence_rules;

/* How much of a sentence's phrases a row contains: the phrase that has begun or -1, its tokens so far, tokens of
 * complete phrases, and how many are missing; which ones is in `row_rules.missing`. */
typedef struct {
    int64_t inside, done, met, left;
} phrase_progress;

/* What the rules remember of rows, at one step. */
typedef struct {
    int32_t *states;           /* (N, KINDS) of the automata */
    phrase_progress *progress; /* (N,) */
    char *missing;             /* (N, P) */
    double *sums;              /* (N,) */
} row_rules;

/* The search state of sentences first … first + G - 1, with at most N rows: sources, active and finished hypotheses. */
typedef struct {
    const search_task *q;
    int64_t first, G, N, C, S, T, V; /* C candidates per row; longest source and translation; output tokens */
    stack decoder;                   /* with the group's memories, caches and, with a shortlist, output matrix */
    row_buffers at;
    int64_t *lengths, *list, *place_offsets, *places; /* with a shortlist, see find_places */
    float *logits, *few, *top, *score, *scores;
    int64_t *which, *origin, *next_origin, *sentence, *owner; /* of rows, at this step and at the next */
    int64_t active, rows, *alive, *begins;                    /* active sentences, and where their rows begin */
    int64_t *count;                                           /* finished hypotheses of each sentence */
    finished *ended;                                          /* the best of them (G, best) */
    candidate *found;
    step_history *steps;
    /* With rules only: */
    sentence_rules *rules; /* (G,) */
    exclusions *caches;    /* of the automata in use */
    int64_t in_use, P;     /* P: most phrases of a sentence */
    row_rules now, next;
    int64_t *counts, *past; /* candidates of each row; the tokens of one row */
    char *banned;           /* (V,) of one row */
    int64_t *shared;        /* (G,) tokens that are certain, with `live` */
} sentence_group;

double jk_penalize(double total, int64_t length, double alpha);

/* Insert a hypothesis among the best of its sentence; equals keep their order. */
void jk_add_finished(finished *best, int64_t *count, int64_t most, finished one);

/* Read the rules of a group's sentences, before its shortlist is made; `V` tokens are in the vocabulary. */
void jk_begin_rules(sentence_group *g, int64_t V);
void jk_free_rules(sentence_group *g);

/* Allocate what the rules remember of rows and set the rows of the first step. */
void jk_begin_ruled_rows(sentence_group *g, int64_t V);

/* The most probable continuations of a row at step t that its rules allow: `values` are the logits of `count` tokens,
 * which are tokens 0, 1, … or list[own[0]], list[own[1]], … */
void jk_score_ruled_row(sentence_group *g, int64_t row, int64_t t, float *values, int64_t count, const int64_t *own,
                        int64_t V);

/* Update what the rules remember: row `after` of the next step continues row `before` with a token at step t. */
void jk_follow_rules(sentence_group *g, int64_t after, int64_t before, int64_t b, int64_t t, const candidate *by);

/* `decide` of search.c for the i-th active sentence, which must contain phrases. */
int64_t jk_decide_with_phrases(sentence_group *g, int64_t i, int64_t t);

/* Write the tokens that continue or begin a phrase of a row; returns how many. */
int64_t jk_next_phrase_tokens(const sentence_group *g, int64_t row, int64_t *tokens);

/* The progress of a row after one more token. */
phrase_progress jk_progress_after(const sentence_group *g, int64_t row, int64_t token, int64_t *completed);
