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

/* Loss and gradients of some rows: dx (rows, I), and what they add to turned (P, I, BROAD) and dbias. */
static double some_rows(sheet *s, float *dx, float *turned, float *dbias, const float *x, const float *forward,
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
                tile(turned + (q * I + i) * BROAD, BROAD, strips + i / HIGH * high, STRIP, 0, panel_of(s, q), rows, NULL, 1,
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

/* The sum of the losses of x (N, I) with W (V, I); dx is written, dweight and dbias are added to; the biases may be NULL. */
double output_loss(float *dx, float *dweight, float *dbias, const float *x, const float *weight, const float *bias,
                   const int64_t *labels, int64_t N, int64_t I, int64_t V, float smoothing) {
    int64_t P = panels(V) / BROAD, others = omp_get_max_threads() - 1, size = P * BROAD * (I + 1);
    double loss = 0.0, *losses = calloc((size_t)(N / ROWS + 1), sizeof(double));
    float *forward = room(P * BROAD * I), *back = zeros(P * BROAD * panels(I)), *shift = room(P * BROAD);
    float *first = zeros(size), *partial = zeros(size * others); /* turned (P, I, BROAD), then the bias's (P, BROAD) */
    for (int64_t v = 0; v < P * BROAD; v++) shift[v] = v >= V ? -INFINITY : bias ? bias[v] : 0.0f;
    pack(forward, (matrix){weight, 1, I}, I, V);
    for (int64_t n = 0; n < I; n += BROAD) pack(back + n * P * BROAD, (matrix){weight + n, I, 1}, V, MIN(BROAD, I - n));
#pragma omp parallel
    {
        int64_t most = MIN(ROWS, MAX(N, 1));
        float *share = share_of(partial, size), *turned = share ? share : first, *biases = turned + P * BROAD * I;
        float *panels = room(most * P * BROAD), *sums = room(3 * most * WIDE), *strips = room((I + HIGH) * most + LANES);
#pragma omp for schedule(static)
        for (int64_t from = 0; from < N; from += ROWS) {
            int64_t rows = MIN(ROWS, N - from);
            sheet s = {rows, V, P, panels, sums, sums + rows * WIDE, sums + 2 * rows * WIDE};
            losses[from / ROWS] = some_rows(&s, dx + from * I, turned, dbias ? biases : NULL, x + from * I, forward, back, shift,
                                            labels + from, I, smoothing, strips);
        }
        free(panels);
        free(sums);
        free(strips);
    }
    add_up(first, size, partial, size, others);
    for (int64_t v = 0; v < V; v += BROAD) add_panel(dweight + v * I, first + v * I, I, MIN(BROAD, V - v));
    for (int64_t v = 0; dbias && v < V; v++) dbias[v] += first[P * BROAD * I + v];
    for (int64_t i = 0; i < N; i += ROWS) loss += losses[i / ROWS];
    free(losses);
    free(forward);
    free(back);
    free(shift);
    free(first);
    free(partial);
    return loss;
}
