/* The output layer, softmax and smoothed cross-entropy with all gradients, some rows at a time.
 *
 * Logits are stored in panels (V / PANEL, rows, PANEL): the product writes them contiguously, and the gradient of the
 * matrix reads them as its packed right factor, without another copy.  They are replaced by e^(logit - top) and then by
 * their gradient in place. */
#include "kernels.h"
#include "products.h"

#define LOGIT_ROWS 192 /* rows at a time: enough for the gradient of the matrix, few enough for a shared cache */
#define PANELS_AT_ONCE (DEPTH / PANEL) /* panels whose gradients are computed together, within a core's cache */

typedef struct {
    int64_t rows, V, P;       /* P panels of the V symbols */
    float *logits;            /* (P, rows, PANEL) */
    float *top, *total, *sum; /* (rows, WIDTH) so far: largest logit, sum of e^(logit - top), sum of logits */
} logit_block;

static inline float *logit_panel(const logit_block *s, int64_t p) { return s->logits + p * s->rows * PANEL; }

/* Panel p = x Wᵀ + bias; columns beyond the vocabulary have bias -inf. */
static void compute_logits(logit_block *s, int64_t p, const float *x, int64_t I, const float *packed,
                           const float *bias) {
    float *to = logit_panel(s, p);
    int64_t beyond = MAX(0, (p + 1) * PANEL - s->V);
    multiply(to, PANEL, (matrix){x, I, 1}, packed + p * PANEL * I, s->rows, I, PANEL, bias + p * PANEL, 0);
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t w = 0; w < PANEL; w += WIDTH) {
            v8 logits = load(to + r * PANEL + w);
            store(s->top + r * WIDTH, maximum(logits, load(s->top + r * WIDTH)));
            if (!beyond) store(s->sum + r * WIDTH, load(s->sum + r * WIDTH) + logits);
        }
    for (int64_t r = 0; beyond && r < s->rows; r++)
        for (int64_t w = 0; w < PANEL - beyond; w++) s->sum[r * WIDTH] += to[r * PANEL + w];
}

/* Replace the logits of panel p by e^(logit - top) and add to their sum. */
static void exponentiate_panel(logit_block *s, int64_t p) {
    float *to = logit_panel(s, p);
    for (int64_t r = 0; r < s->rows; r++) {
        v8 total = load(s->total + r * WIDTH);
        for (int64_t w = 0; w < PANEL; w += WIDTH) {
            v8 e = exp_v8(load(to + r * PANEL + w) - s->top[r * WIDTH]);
            store(to + r * PANEL + w, e);
            total += e;
        }
        store(s->total + r * WIDTH, total);
    }
}

/* Turn panel p into softmax - (1 - smoothing) one-hot - smoothing / V, the gradient of the loss. */
static void subtract_target(logit_block *s, int64_t p, const int64_t *labels, float smoothing, float *dbias) {
    float *to = logit_panel(s, p), uniform = smoothing / (float)s->V;
    int64_t beyond = MAX(0, (p + 1) * PANEL - s->V);
    for (int64_t r = 0; r < s->rows; r++) {
        float share = s->total[r * WIDTH];
        for (int64_t w = 0; w < PANEL; w += WIDTH)
            store(to + r * PANEL + w, load(to + r * PANEL + w) * share - uniform);
        if (labels[r] / PANEL == p) to[r * PANEL + labels[r] % PANEL] -= 1.0f - smoothing;
        for (int64_t w = PANEL - beyond; w < PANEL; w++) to[r * PANEL + w] = 0.0f;
        for (int64_t w = 0; dbias && w < PANEL - beyond; w++) dbias[p * PANEL + w] += to[r * PANEL + w];
    }
}

/* Loss and gradients of some rows: writes dx (rows, I), adds to dbias and, with `more`, to transposed (P, I, PANEL),
 * which is otherwise written. */
static double loss_of_rows(logit_block *s, float *dx, float *transposed, int more, float *dbias, const float *x,
                           const float *forward, const float *back, const float *bias, const int64_t *labels, int64_t I,
                           float smoothing, float *strips) {
    double loss = 0.0;
    int64_t rows = s->rows, high = rows * TILE_ROWS;
    for (int64_t i = 0; i < rows * WIDTH; i++) s->top[i] = -INFINITY, s->total[i] = s->sum[i] = 0.0f;
    for (int64_t p = 0; p < s->P; p++) compute_logits(s, p, x, I, forward, bias);
    for (int64_t r = 0; r < rows; r++) s->top[r * WIDTH] = horizontal_max(load(s->top + r * WIDTH));
    for (int64_t r = 0; r < rows; r++) /* before the logits are overwritten */
        loss -= (1.0 - smoothing) * logit_panel(s, labels[r] / PANEL)[r * PANEL + labels[r] % PANEL];
    for (int64_t p = 0; p < s->P; p++) exponentiate_panel(s, p);
    for (int64_t r = 0; r < rows; r++) {
        float total = horizontal_sum(load(s->total + r * WIDTH));
        loss += (double)logf(total) + s->top[r * WIDTH];
        if (smoothing > 0.0f) loss -= (double)smoothing / (double)s->V * horizontal_sum(load(s->sum + r * WIDTH));
        s->total[r * WIDTH] = 1.0f / total;
    }
    for (int64_t i = 0; i < I; i += TILE_ROWS)
        copy_strip(strips + i / TILE_ROWS * high, x + i, I, rows, MIN(TILE_ROWS, I - i), I - i);
    for (int64_t p = 0; p < s->P; p += PANELS_AT_ONCE) {
        int64_t group = MIN(PANELS_AT_ONCE, s->P - p);
        for (int64_t q = p; q < p + group; q++) {
            subtract_target(s, q, labels, smoothing, dbias);
            for (int64_t i = 0; i < I; i += TILE_ROWS)
                multiply_tile(transposed + (q * I + i) * PANEL, PANEL, strips + i / TILE_ROWS * high, LAYOUT_STRIP, 0,
                              logit_panel(s, q), rows, NULL, more, MIN(TILE_ROWS, I - i));
        }
        for (int64_t n = 0; n < I; n += PANEL)
            for (int64_t m = 0; m < rows; m += TILE_ROWS) {
                const float *from = logit_panel(s, p) + m * PANEL, *panel = back + (n * s->P + p * PANEL) * PANEL;
                if (I - n >= PANEL)
                    multiply_tile(dx + m * I + n, I, from, LAYOUT_PANELS, rows, panel, group * PANEL, NULL, p > 0,
                                  MIN(TILE_ROWS, rows - m));
                else
                    multiply_edge_tile(dx + m * I + n, I, from, LAYOUT_PANELS, rows, panel, group * PANEL, NULL, p > 0,
                                       MIN(TILE_ROWS, rows - m), I - n);
            }
    }
    return loss;
}

/* W (V, I) packed for both products: panels of symbols for the logits, then panels of columns for dx. */
int64_t jk_output_packed_size(int64_t I, int64_t V) { return panel_columns(V) * (I + panel_columns(I)); }

void jk_output_pack(float *packed, const float *weight, int64_t I, int64_t V) {
    int64_t symbols = panel_columns(V);
    float *back = packed + symbols * I;
    pack_panels(packed, (matrix){weight, 1, I}, I, V);
    for (int64_t n = 0; n < I; n += PANEL) {
        float *to = back + n * symbols;
        pack_panels(to, (matrix){weight + n, I, 1}, V, MIN(PANEL, I - n));
        memset(to + V * PANEL, 0, sizeof(float) * (size_t)((symbols - V) * PANEL));
    }
}

/* Buffers of one thread: the gradients of W, transposed (P, I, PANEL), and of the bias (P, PANEL); logits; sums; strips
 * of x. */
typedef struct {
    float *transposed, *biases, *logits, *sums, *strips;
} loss_buffers;

/* Offsets of the five buffers of a thread, and their size. */
static void loss_buffer_offsets(int64_t at[6], int64_t I, int64_t V) {
    int64_t symbols = panel_columns(V);
    int64_t sizes[5] = {symbols * I, symbols, LOGIT_ROWS * symbols, 3 * LOGIT_ROWS * WIDTH,
                        (I + TILE_ROWS) * LOGIT_ROWS + LANES};
    at[0] = 0;
    for (int i = 0; i < 5; i++) at[i + 1] = at[i] + (sizes[i] + 15) / 16 * 16;
}

static loss_buffers loss_buffers_of(float *scratch, int64_t thread, const int64_t at[6]) {
    float *own = scratch + thread * at[5];
    return (loss_buffers){own + at[0], own + at[1], own + at[2], own + at[3], own + at[4]};
}

/* How many numbers of scratch memory `jk_output_loss` needs when this thread calls it. */
int64_t jk_output_scratch_size(int64_t I, int64_t V) {
    int64_t at[6];
    loss_buffer_offsets(at, I, V);
    return at[5] * omp_get_max_threads();
}

/* The sum of the losses of x (N, I) with the packed matrix; dx is written, dweight and dbias are added to; bias and
 * dbias may be NULL.  The content of `scratch` does not matter. */
double jk_output_loss(float *dx, float *dweight, float *dbias, const float *x, const float *packed, const float *bias,
                      const int64_t *labels, float *scratch, int64_t N, int64_t I, int64_t V, float smoothing) {
    int64_t P = panel_columns(V) / PANEL, threads = omp_get_max_threads(), at[6];
    double loss = 0.0, *losses = new_zero_array(N / LOGIT_ROWS + 1, sizeof(double));
    float *shift = new_floats(P * PANEL);
    int *begun = new_zero_array(threads, sizeof(int));
    loss_buffer_offsets(at, I, V);
    loss_buffers first = loss_buffers_of(scratch, 0, at);
    for (int64_t v = 0; v < P * PANEL; v++) shift[v] = v >= V ? -INFINITY : bias ? bias[v] : 0.0f;
#pragma omp parallel
    {
        int64_t me = omp_get_thread_num();
        loss_buffers own = loss_buffers_of(scratch, me, at);
        memset(own.biases, 0, sizeof(float) * (size_t)(P * PANEL));
#pragma omp for schedule(static)
        for (int64_t from = 0; from < N; from += LOGIT_ROWS) {
            int64_t rows = MIN(LOGIT_ROWS, N - from);
            logit_block s = {rows, V, P, own.logits, own.sums, own.sums + rows * WIDTH, own.sums + 2 * rows * WIDTH};
            losses[from / LOGIT_ROWS] =
                loss_of_rows(&s, dx + from * I, own.transposed, begun[me], dbias ? own.biases : NULL, x + from * I,
                             packed, packed + P * PANEL * I, shift, labels + from, I, smoothing, own.strips);
            begun[me] = 1;
        }
    }
    for (int64_t t = 1; t < threads; t++) {
        if (!begun[t]) continue;
        loss_buffers other = loss_buffers_of(scratch, t, at);
        add_partial_sums(first.transposed, P * PANEL * I, other.transposed, 0, 1);
        add_partial_sums(first.biases, P * PANEL, other.biases, 0, 1);
    }
    for (int64_t v = 0; begun[0] && v < V; v += PANEL)
        add_panel(dweight + v * I, first.transposed + v * I, I, MIN(PANEL, V - v));
    for (int64_t v = 0; dbias && begun[0] && v < V; v++) dbias[v] += first.biases[v];
    for (int64_t i = 0; i < N; i += LOGIT_ROWS) loss += losses[i / LOGIT_ROWS];
    free(losses);
    free(shift);
    free(begun);
    return loss;
}
