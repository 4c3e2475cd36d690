/* The interface of the kernels: what Python calls (library.py, SIGNATURES) and the structures it fills (each
 * in the module of jumok/kernels that fills it).
 *
 * All numbers are float32, rows are contiguous, and pointers are never kept after a call unless said.  A NULL for an
 * optional tensor leaves that part out.
 *
 * Letters  N rows (tokens) · D width · F feed-forward width · I width in · O width out · V vocabulary · B sentences
 *          H heads · T queries · S keys · K width of a key · E width of a value · W beam
 */
#pragma once
#include <stdint.h>

/* Everything else is hidden: a program with a function of the same name would otherwise be called instead of ours. */
#define JK_EXPORT __attribute__((visibility("default")))

/* ---------------------------------------------------------------------------------------------------- structures */

/* Who attends to whom: sentence b has queries queries[b] … queries[b + 1] - 1 and keys keys[b] … keys[b + 1] - 1, of
 * which the first lengths[b] are visible, or all where `lengths` is NULL; with `causal`, query t sees keys 0 … t.  With
 * `rotary`, queries and keys have rotary positions 0, 1, ….  A sentence with more than `longest` queries or keys is a
 * long one (long_attention.c). */
typedef struct {
    int64_t B, H, K, E;
    const int64_t *queries, *keys, *lengths; /* (B + 1), (B + 1), (B) */
    const float *rotary;                     /* (longest, 2, K) */
    int64_t q_stride, k_stride, v_stride, causal, longest;
    float factor;
} attention_task;

/* A training pass through a whole Transformer; pairs of weights are in the order in which pass.c reads them. */
typedef struct {
    int64_t layers[2], D, H, K, E, F, pre, B, grid, longest; /* grid: width of the targets including their padding */
    const int64_t *starts[2], *ids[2], *places[2]; /* first row of each sentence (B + 1); id and position of each row */
    const float *positions[2], *rotary;            /* added to embeddings, or NULL; rotary angles, or NULL */
    const float *const *weights;
    float *const *gradients; /* NULL in the forward pass */
    const uint64_t *keys;    /* of dropout, in the order of use */
    const float *rates;
    float factor, scale, eps; /* of scores, of embeddings, of norms */
} pass_task;

/* x Wᵀ + b with W packed; b may be NULL. */
typedef struct {
    const float *packed, *bias;
    int64_t in, out;
} dense;

/* Layer norm; without a gain there is no norm. */
typedef struct {
    const float *gain, *shift;
} norm_weights;

/* One layer of an encoder or decoder; an encoder has no query, key_value and cross_output. */
typedef struct {
    dense qkv, self_output, query, key_value, cross_output, inner, outer;
    norm_weights norms[3]; /* of self-attention, of attention over the source, of the feed-forward network */
    float *cache;          /* (slots, capacity, H·K keys + H·E values) */
    float *memory;         /* (sentences, S, H·K keys + H·E values) */
} layer_weights;

/* All layers of an encoder or decoder. */
typedef struct {
    int64_t layers, D, H, K, E, pre;
    const float *table, *rotary; /* embeddings; rotary angles or NULL */
    norm_weights last;
    dense output;
    const layer_weights *each;
    float factor, scale, eps; /* of scores, of embeddings, of norms */
} stack;

/* N rows at position t: their tokens, where their past is, which sentence they translate and how long it is. */
typedef struct {
    int64_t N, t, capacity, S;
    const int64_t *tokens, *origin, *sentence, *lengths; /* (N,), (N, capacity), (N,), (sentences,) */
    const float *position;                               /* (D,) or NULL */
} step_task;

/* A deterministic automaton over the text of an output, read one unit (a character, or a byte of one) at a time.  State
 * 0 is dead: its text is not allowed.  State 1 is free: every text is allowed from there on.  The flags of a state say
 * whether a token may end in it (1) and whether the output may (2). */
typedef struct {
    int64_t states, width, start;  /* width: different symbols */
    const int32_t *symbols, *next; /* the symbol of each unit; the next state (states, width) */
    const uint8_t *flags;          /* (states,) */
} automaton;

/* What translations must and must not contain, sentence by sentence.  Where a NULL stands, there is no such rule.
 *
 * A translation of sentence b begins with the tokens prefixes[prefix_begins[b]] …, then with a text that automaton
 * openings[b] allows.  No part of it is dead in automaton forbidding[b].  It contains the phrases phrase_begins[b] …
 * phrase_begins[b + 1] - 1; phrase p is phrase_tokens[phrase_offsets[p]] … and the text after it begins in state
 * phrase_states[p] of the automaton `ending`.  Indices of automata are -1 where a sentence has none.  The text of token
 * v is units[unit_begins[v]] … units[unit_begins[v + 1] - 1]. */
typedef struct {
    int64_t min_length, no_repeat; /* least number of tokens before END; size of n-grams that are not repeated, or 0 */
    const int64_t *prefix_begins, *prefixes;
    const int64_t *phrase_begins, *phrase_offsets, *phrase_tokens, *phrase_states;
    const int64_t *openings, *forbidding; /* (B,) */
    int64_t ending;
    const automaton *automata;
    const int64_t *unit_begins;
    const int32_t *units;
} search_rules;

/* What can be read and edited of a Transformer (reading.c): its attentions, or all of it with -1. */
enum part { PART_ENCODER, PART_DECODER, PART_CROSS, PARTS };

/* What an edit does.  A silent head gives zeros to W^O; a row of attention has the weights it is given; a layer that is
 * skipped passes its input on. */
enum edit_kind {
    EDIT_SILENCE,
    EDIT_WEIGHTS,
    EDIT_SKIP,
    EDIT_NO_MASK,
    EDIT_NO_POSITIONS,
    EDIT_NO_SCALE,
    EDIT_NO_RESIDUAL,
    EDIT_NO_NORM,
    EDIT_KINDS
};

/* One edit of a part, a layer, a head and the query at a position; -1 stands for all of them.  `weights` are those of
 * the first `size` keys; others get 0. */
typedef struct {
    int64_t kind, part, layer, head, query, size;
    const float *weights;
} edit;

/* Edits of a model; of two of the same kind and place the later one counts. */
typedef struct {
    int64_t count;
    const edit *each;
} edit_list;

/* What a reading writes down of a sub-layer, for every row: its input, its output, the sum with the residual, mean,
 * deviation and result of its norm; of attention also the rest of equation 1, scores as (H, T, S); of the network its
 * inner layer before and after the activation.  Of a stack: rows of the embeddings as the input, these scaled as the
 * output, their sum with the positions, and the last norm. */
enum note {
    NOTE_INPUT,
    NOTE_Q,
    NOTE_K,
    NOTE_V,
    NOTE_Q_TURNED,
    NOTE_K_TURNED,
    NOTE_PRODUCTS,
    NOTE_SCORES,
    NOTE_WEIGHTS,
    NOTE_MIXED,
    NOTE_JOINED,
    NOTE_INNER,
    NOTE_ACTIVE,
    NOTE_OUTPUT,
    NOTE_TOTAL,
    NOTE_MEAN,
    NOTE_DEVIATION,
    NOTE_NORMED,
    NOTES
};

/* One pair that is read: the source with its END, the target from START on. */
typedef struct {
    int64_t S, T; /* without a target (T = 0) only the source is read */
    const int64_t *source, *target;
    const float *source_positions, *target_positions; /* (·, D) of each side, or NULL */
    const edit_list *edits;                           /* or NULL */
    float *const *notes; /* (stacks and their sub-layers in order, NOTES) or NULL; what is NULL is not written down */
    float *memory, *hidden, *logits; /* (S, D), (T, D), (T, V), or NULL */
} read_task;

/* A step of a decoder with edits.  Without the mask, `prefixes` (N, capacity) are the tokens of the rows so far. */
typedef struct {
    const step_task *step;
    const edit_list *edits;
    const int64_t *prefixes;
    const float *positions; /* (·, D) of targets, or NULL */
} edited_step;

/* A search: B sentences end to end, longest first, a beam of W, the best translations of each, and where they go. */
typedef struct {
    int64_t B, W, best, most, exact, start, end; /* `most`: tokens of the longest translation */
    const int64_t *tokens, *begins, *limits;     /* sentence b is tokens[begins[b]] … tokens[begins[b + 1] - 1] */
    const float *sources, *targets;              /* positions (·, D) of each side, or NULL */
    double alpha, margin; /* hypotheses whose log-probability is lower than the best of their sentence by more than
                             `margin` are dropped */
    const int64_t *never;
    int64_t nevers;
    const float *matrix;                        /* (V, D): the matrix a shortlist selects rows of, or NULL */
    const int64_t *list_begins, *list, *common; /* candidates for each source token, and candidates for all */
    int64_t commons, same;       /* same: both sides share one vocabulary, and a token may translate to itself */
    int64_t threads;             /* groups that may be searched at once */
    const search_rules *rules;   /* or NULL */
    const edit_list *edits;      /* or NULL */
    const uint8_t *const *stops; /* (B,) or NULL: a sentence whose byte is not 0 is given up at the next step */
    const int64_t *order;        /* (B,): place of each sentence in `live` */
    int64_t *live, live_width;   /* (B, live_width) or NULL: how many tokens are certain after each step, and these */
    int64_t *ids, *sizes;        /* (B, best, most), (B, best): 0 where there is no translation */
    float *gains, *totals;       /* (B, best, most), (B, best) */
} search_task;

/* Given translations of B sentences, those with the longest translations first: source b is tokens[begins[b]] …, its
 * translation targets[target_begins[b]] … with its END. */
typedef struct {
    int64_t B, start, threads, layer, head; /* attention of this layer and head, or of all its heads if `head` is -1 */
    const int64_t *tokens, *begins, *targets, *target_begins;
    const float *source_positions, *target_positions; /* (·, D) of each side, or NULL */
    float *gains;                                     /* log-probability of every token of the targets, or NULL */
    float *weights;               /* attention (T, heads, S) of sentence b from weight_begins[b] on, or NULL */
    const int64_t *weight_begins; /* (B,) */
} force_task;

/* ------------------------------------------------------------------------------------------------------ the build */

JK_EXPORT int64_t jk_struct_size(const char *name); /* sizeof one of the structures above, -1 for any other name */
JK_EXPORT const char *jk_compiler(void);            /* name and version of the compiler */

/* ------------------------------------------------------------------------------------------- parts of a forward pass
 */

JK_EXPORT void jk_dropout(float *out, const float *x, int64_t n, uint64_t key, float rate);

JK_EXPORT void jk_embed(float *out, const float *table, const int64_t *ids, const int64_t *places,
                        const float *positions, int64_t N, int64_t D, float scale, uint64_t key, float rate);
JK_EXPORT void jk_embed_backward(float *table, const float *gradient, const int64_t *ids, int64_t N, int64_t D,
                                 float scale, uint64_t key, float rate);

void jk_norm(float *y, float *mean, float *scale, const float *x, const float *weight, const float *bias, int64_t N,
             int64_t D, float eps);
void jk_norm_backward(float *dx, float *dweight, float *dbias, const float *gradient, const float *x, const float *mean,
                      const float *scale, const float *weight, int64_t N, int64_t D);

JK_EXPORT void jk_linear(float *y, const float *x, const float *weight, const float *bias, const float *residual,
                         float *mean, float *scale, const float *norm_weight, const float *norm_bias, int64_t N,
                         int64_t I, int64_t O, float eps, int relu, uint64_t key, float rate);
JK_EXPORT void jk_linear_backward(float *dx, float *dweight, float *dbias, float *dnorm_weight, float *dnorm_bias,
                                  const float *gradient, const float *also, const float *x, const float *active,
                                  const float *weight, const float *mean, const float *scale, const float *norm_weight,
                                  const float *norm_bias, int64_t N, int64_t I, int64_t O, uint64_t key, float rate);

JK_EXPORT int64_t jk_attention_saved_size(const attention_task *a); /* how many numbers `jk_attention` saves */
JK_EXPORT void jk_attention(float *out, float *saved, const float *q, const float *k, const float *v,
                            const attention_task *a);
JK_EXPORT void jk_attention_backward(float *dq, float *dk, float *dv, const float *gradient, const float *out,
                                     const float *saved, const float *q, const float *k, const float *v,
                                     const attention_task *a);

/* --------------------------------------------------------------------------------------------------- output layer */

JK_EXPORT int64_t jk_output_packed_size(int64_t I, int64_t V);
JK_EXPORT void jk_output_pack(float *packed, const float *weight, int64_t I, int64_t V);
JK_EXPORT int64_t jk_output_scratch_size(int64_t I, int64_t V);
JK_EXPORT double jk_output_loss(float *dx, float *dweight, float *dbias, const float *x, const float *packed,
                                const float *bias, const int64_t *labels, float *scratch, int64_t N, int64_t I,
                                int64_t V, float smoothing);

/* ------------------------------------------------------------------------------------------------------- training */

JK_EXPORT int64_t jk_pass_size(const pass_task *t);
JK_EXPORT void jk_pass_forward(float *hidden, float *saved, const pass_task *t);
JK_EXPORT void jk_pass_backward(const float *gradient, float *saved, const pass_task *t);

JK_EXPORT double jk_reduce_gradients(float *const *into, const float *const *from, const int64_t *sizes, int64_t count,
                                     int64_t replicas, int64_t part, int64_t parts);
JK_EXPORT void jk_adam(float *const *weights, const float *const *gradients, float *const *means, float *const *squares,
                       const int64_t *sizes, int64_t count, double rate, double beta1, double beta2, double epsilon,
                       double decay, double step, double scale, int64_t part, int64_t parts);
JK_EXPORT void jk_muon(float *const *weights, const float *const *gradients, float *const *means, const int64_t *rows,
                       const int64_t *columns, int64_t count, float momentum, float scale, float rate, float decay,
                       float size, int64_t rounds, const float *abc, int64_t part, int64_t parts);

/* ---------------------------------------------------------------------------------------------------- translating */

JK_EXPORT int64_t jk_packed_size(int64_t in, int64_t out);
JK_EXPORT void jk_pack_weight(float *to, const float *weight, int64_t in, int64_t out);
JK_EXPORT void jk_encode(const stack *e, const stack *d, const int64_t *tokens, const int64_t *lengths, int64_t B,
                         int64_t S, const float *positions);
JK_EXPORT void jk_decode_step(float *logits, const stack *d, const step_task *m);
JK_EXPORT void jk_candidates(float *top, int64_t *tokens, float *logits, const int64_t *never, int64_t nevers,
                             int64_t N, int64_t V, int64_t C);
JK_EXPORT void jk_log_sum_exp(float *to, const float *logits, int64_t N, int64_t V);
JK_EXPORT void jk_search(const stack *e, const stack *d, const search_task *q);
JK_EXPORT void jk_force(const stack *e, const stack *d, const force_task *q);

/* -------------------------------------------------------------------------------------------------------- reading */

JK_EXPORT int64_t jk_find_bad_edit(const stack *e, const stack *d, const edit_list *edits);
JK_EXPORT int64_t jk_read(const stack *e, const stack *d, const read_task *q);
JK_EXPORT void jk_read_rows(float *logits, const stack *d, const edited_step *task, int64_t first, int64_t rows);
