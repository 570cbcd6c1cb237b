/* SPDX-License-Identifier: MIT
 * metrics.h - a page of metrics in Prometheus' text format, written sample by sample from the table metrics.def.
 * Threads: any, one at a time per page. Locks: none. */
#ifndef API_METRICS_H
#define API_METRICS_H

#include "engine/base/buf.h"

#include <stdint.h>

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum metric {
#define METRIC(name, type, labels, help) METRIC_##name,
#include "api/http/metrics.def"
#undef METRIC
	METRIC_N
};

struct metrics;

struct metrics *metrics_new(void);
/* NULL is fine. */
void metrics_free(struct metrics **m);

/* The values of a sample's labels, in the order of the row. */
#define METRICS_LABELS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* One sample. All samples of a metric come one after the other; labels is NULL where the row has none. */
void metrics_put(struct metrics *m, enum metric id, double value, const char *const *labels);
/* One distribution: n[i] values up to bound[i] and above bound[i - 1], n[n_bound] above all, which sum up to `sum`. */
struct metrics_hist {
	const double *bound;
	int n_bound;
	const uint64_t *n; /* [n_bound + 1] */
	double sum;
};
void metrics_put_hist(struct metrics *m, enum metric id, const struct metrics_hist *h, const char *const *labels);
/* 1 for the state that is true, 0 for the others: the metric's last label takes their names,
 * the others are `labels`. */
void metrics_put_state(struct metrics *m, enum metric id, const char *const *state, int n_state, int now,
		       const char *label);
/* The whole page: metrics without a sample have their description all the same. */
void metrics_print(struct metrics *m, struct buf *out);

#endif
