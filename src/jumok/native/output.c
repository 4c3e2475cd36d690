/* The output layer, softmax and smoothed cross-entropy with all gradients, some rows at a time.
 *
 * Logits lie in panels (V / BROAD, rows, BROAD): so the product writes them one behind the other, and so the gradient of the
 * matrix reads them as its packed right side, without moving them.  They become e^(logit - top) and then their gradient in
 * place. */
#include "products.h"

#define ROWS 192    /* rows of logits at a time: deep enough for the gradient of the matrix, few enough for a shared cache */
#define GROUP (DEEP / BROAD) /* panels that take their last steps together, near the core */

typedef struct {
    int64_t rows, V, P; /* P panels of the V symbols */
    float *panels;      /* (P, rows, BROAD) */
    float *top, *total, *sum; /* (rows, WIDE) so far: largest logit, sum of e^(logit - top), sum of logits */
} sheet;

static inline float *panel_of(const sheet *s, int64_t p) { return s->panels + p * s->rows * BROAD; }

/* Panel p = x Wᵀ + bias; what lies beyond the vocabulary has bias -inf. */
static void fill_panel(sheet *s, int64_t p, const float *x, int64_t I, const float *packed, const float *bias) {
    float *to = panel_of(s, p);
    int64_t beyond = MAX(0, (p + 1) * BROAD - s->V);
    multiply(to, BROAD, (matrix){x, I, 1}, packed + p * BROAD * I, s->rows, I, BROAD, bias + p * BROAD, 0);
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t w = 0; w < BROAD; w += WIDE) {
            v8 logits = load(to + r * BROAD + w);
            store(s->top + r * WIDE, larger(logits, load(s->top + r * WIDE)));
            if (!beyond) store(s->sum + r * WIDE, load(s->sum + r * WIDE) + logits);
        }
    for (int64_t r = 0; beyond && r < s->rows; r++)
        for (int64_t w = 0; w < BROAD - beyond; w++) s->sum[r * WIDE] += to[r * BROAD + w];
}

/* e^(logit - top), and its sum. */
static void raise(sheet *s, int64_t p) {
    float *to = panel_of(s, p);
    for (int64_t r = 0; r < s->rows; r++) {
        v8 total = load(s->total + r * WIDE);
        for (int64_t w = 0; w < BROAD; w += WIDE) {
            v8 e = exponential(load(to + r * BROAD + w) - s->top[r * WIDE]);
            store(to + r * BROAD + w, e);
            total += e;
        }
        store(s->total + r * WIDE, total);
    }
}

/* softmax - (1 - smoothing) one-hot - smoothing / V, the gradient of the loss. */
static void settle(sheet *s, int64_t p, const int64_t *labels, float smoothing, float *dbias) {
    float *to = panel_of(s, p), uniform = smoothing / (float)s->V;
    int64_t beyond = MAX(0, (p + 1) * BROAD - s->V);
    for (int64_t r = 0; r < s->rows; r++) {
        float share = s->total[r * WIDE];
        for (int64_t w = 0; w < BROAD; w += WIDE)
            store(to + r * BROAD + w, load(to + r * BROAD + w) * share - uniform);
        if (labels[r] / BROAD == p) to[r * BROAD + labels[r] % BROAD] -= 1.0f - smoothing;
        for (int64_t w = BROAD - beyond; w < BROAD; w++) to[r * BROAD + w] = 0.0f;
        for (int64_t w = 0; dbias && w < BROAD - beyond; w++) dbias[p * BROAD + w] += to[r * BROAD + w];
    }
}

/* Loss and gradients of some rows: dx (rows, I), and what they add to dbias and, where `more`, to turned (P, I, BROAD), which
 * is otherwise written. */
static double some_rows(sheet *s, float *dx, float *turned, int more, float *dbias, const float *x, const float *forward,
                        const float *back, const float *bias, const int64_t *labels, int64_t I, float smoothing,
                        float *strips) {
    double loss = 0.0;
    int64_t rows = s->rows, high = rows * HIGH;
    for (int64_t i = 0; i < rows * WIDE; i++) s->top[i] = -INFINITY, s->total[i] = s->sum[i] = 0.0f;
    for (int64_t p = 0; p < s->P; p++) fill_panel(s, p, x, I, forward, bias);
    for (int64_t r = 0; r < rows; r++) s->top[r * WIDE] = largest(load(s->top + r * WIDE));
    for (int64_t r = 0; r < rows; r++) /* before the logits are gone */
        loss -= (1.0 - smoothing) * panel_of(s, labels[r] / BROAD)[r * BROAD + labels[r] % BROAD];
    for (int64_t p = 0; p < s->P; p++) raise(s, p);
    for (int64_t r = 0; r < rows; r++) {
        float total = sum_of(load(s->total + r * WIDE));
        loss += (double)logf(total) + s->top[r * WIDE];
        if (smoothing > 0.0f) loss -= (double)smoothing / (double)s->V * sum_of(load(s->sum + r * WIDE));
        s->total[r * WIDE] = 1.0f / total;
    }
    for (int64_t i = 0; i < I; i += HIGH) turn_strip(strips + i / HIGH * high, x + i, I, rows, MIN(HIGH, I - i), I - i);
    for (int64_t p = 0; p < s->P; p += GROUP) {
        int64_t group = MIN(GROUP, s->P - p);
        for (int64_t q = p; q < p + group; q++) {
            settle(s, q, labels, smoothing, dbias);
            for (int64_t i = 0; i < I; i += HIGH)
                tile(turned + (q * I + i) * BROAD, BROAD, strips + i / HIGH * high, STRIP, 0, panel_of(s, q), rows, NULL, more,
                     MIN(HIGH, I - i));
        }
        for (int64_t n = 0; n < I; n += BROAD)
            for (int64_t m = 0; m < rows; m += HIGH) {
                const float *from = panel_of(s, p) + m * BROAD, *panel = back + (n * s->P + p * BROAD) * BROAD;
                if (I - n >= BROAD)
                    tile(dx + m * I + n, I, from, PANELS, rows, panel, group * BROAD, NULL, p > 0, MIN(HIGH, rows - m));
                else
                    edge_tile(dx + m * I + n, I, from, PANELS, rows, panel, group * BROAD, NULL, p > 0, MIN(HIGH, rows - m),
                              I - n);
            }
    }
    return loss;
}

/* W (V, I) as both products read it: panels of symbols for the logits, then panels of columns for dx. */
int64_t output_packed_size(int64_t I, int64_t V) { return panels(V) * (I + panels(I)); }

void output_pack(float *packed, const float *weight, int64_t I, int64_t V) {
    int64_t symbols = panels(V);
    float *back = packed + symbols * I;
    pack(packed, (matrix){weight, 1, I}, I, V);
    for (int64_t n = 0; n < I; n += BROAD) {
        float *to = back + n * symbols;
        pack(to, (matrix){weight + n, I, 1}, V, MIN(BROAD, I - n));
        memset(to + V * BROAD, 0, sizeof(float) * (size_t)((symbols - V) * BROAD));
    }
}

/* What each thread works with: the gradient of W, turned (P, I, BROAD), and of the bias (P, BROAD); logits; sums; strips of x. */
typedef struct {
    float *turned, *biases, *logits, *sums, *strips;
} share;

/* Where the five parts of a share begin, and where it ends. */
static void divide(int64_t at[6], int64_t I, int64_t V) {
    int64_t symbols = panels(V);
    int64_t sizes[5] = {symbols * I, symbols, ROWS * symbols, 3 * ROWS * WIDE, (I + HIGH) * ROWS + LANES};
    at[0] = 0;
    for (int i = 0; i < 5; i++) at[i + 1] = at[i] + (sizes[i] + 15) / 16 * 16;
}

static share share_at(float *scratch, int64_t thread, const int64_t at[6]) {
    float *own = scratch + thread * at[5];
    return (share){own + at[0], own + at[1], own + at[2], own + at[3], own + at[4]};
}

/* How many numbers of scratch `output_loss` needs when this thread calls it. */
int64_t output_scratch(int64_t I, int64_t V) {
    int64_t at[6];
    divide(at, I, V);
    return at[5] * omp_get_max_threads();
}

/* The sum of the losses of x (N, I) with the packed matrix; dx is written, dweight and dbias are added to; the biases may be
 * NULL.  What lies in `scratch` before does not matter. */
double output_loss(float *dx, float *dweight, float *dbias, const float *x, const float *packed, const float *bias,
                   const int64_t *labels, float *scratch, int64_t N, int64_t I, int64_t V, float smoothing) {
    int64_t P = panels(V) / BROAD, threads = omp_get_max_threads(), at[6];
    double loss = 0.0, *losses = calloc((size_t)(N / ROWS + 1), sizeof(double));
    float *shift = room(P * BROAD);
    int *begun = calloc((size_t)threads, sizeof(int));
    divide(at, I, V);
    share first = share_at(scratch, 0, at);
    for (int64_t v = 0; v < P * BROAD; v++) shift[v] = v >= V ? -INFINITY : bias ? bias[v] : 0.0f;
#pragma omp parallel
    {
        int64_t me = omp_get_thread_num();
        share own = share_at(scratch, me, at);
        memset(own.biases, 0, sizeof(float) * (size_t)(P * BROAD));
#pragma omp for schedule(static)
        for (int64_t from = 0; from < N; from += ROWS) {
            int64_t rows = MIN(ROWS, N - from);
            sheet s = {rows, V, P, own.logits, own.sums, own.sums + rows * WIDE, own.sums + 2 * rows * WIDE};
            losses[from / ROWS] = some_rows(&s, dx + from * I, own.turned, begun[me], dbias ? own.biases : NULL, x + from * I,
                                            packed, packed + P * BROAD * I, shift, labels + from, I, smoothing, own.strips);
            begun[me] = 1;
        }
    }
    for (int64_t t = 1; t < threads; t++) {
        if (!begun[t]) continue;
        share other = share_at(scratch, t, at);
        add_up(first.turned, P * BROAD * I, other.turned, 0, 1);
        add_up(first.biases, P * BROAD, other.biases, 0, 1);
    }
    for (int64_t v = 0; begun[0] && v < V; v += BROAD) add_panel(dweight + v * I, first.turned + v * I, I, MIN(BROAD, V - v));
    for (int64_t v = 0; dbias && begun[0] && v < V; v++) dbias[v] += first.biases[v];
    for (int64_t i = 0; i < N; i += ROWS) loss += losses[i / ROWS];
    free(losses);
    free(shift);
    free(begun);
    return loss;
}
