/* SPDX-License-Identifier: MIT
 * metrics.c - a page of metrics in Prometheus' text format, written sample by sample from the table metrics.def.
 * Threads: any, one at a time per page. Locks: none. */
#include "api/http/metrics.h"
#include "engine/base/mem.h"
#include "engine/base/must.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum metrics_type { COUNTER, GAUGE, HISTOGRAM };

static const struct metrics_row {
	const char *name;
	enum metrics_type type;
	const char *labels, *help;
} metrics_rows[METRIC_N] = {
#define METRIC(name, type, labels, help) { "dsv4d_" #name, type, labels, help },
#include "api/http/metrics.def"
#undef METRIC
};

struct metrics {
	struct buf text;
	int at;                  /* the metric being written; -1: none yet */
	bool begun[METRIC_N];
};

struct metrics *metrics_new(void)
{
	struct metrics *m = mem_new(sizeof *m);

	m->at = -1;
	return m;
}

void metrics_free(struct metrics **pm)
{
	struct metrics *m = *pm;

	*pm = NULL;
	if (!m)
		return;
	buf_fini(&m->text);
	free(m);
}

static void metrics_head(struct metrics *m, enum metric id)
{
	static const char *const types[] = { "counter", "gauge", "histogram" };
	const struct metrics_row *row = &metrics_rows[id];

	buf_printf(&m->text, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name, types[row->type]);
	m->begun[id] = true;
	m->at = (int)id;
}

static void metrics_begin(struct metrics *m, enum metric id, bool hist)
{
	must(id < METRIC_N && hist == (metrics_rows[id].type == HISTOGRAM));
	if (m->at == (int)id)
		return;
	must(!m->begun[id]); /* else its samples would not stand together, and readers drop the page */
	metrics_head(m, id);
}

static void metrics_value(struct buf *out, double v)
{
	char text[32];

	if (isnan(v) || isinf(v)) {
		buf_adds(out, isnan(v) ? "NaN" : v > 0 ? "+Inf" : "-Inf");
		return;
	}
	snprintf(text, sizeof text, "%.15g", v);
	if (strtod(text, NULL) < v || strtod(text, NULL) > v)
		snprintf(text, sizeof text, "%.17g", v);
	buf_adds(out, text);
}

static void metrics_quote(struct buf *out, const char *s)
{
	buf_addc(out, '"');
	for (; *s; s++) {
		if (*s == '\n') {
			buf_adds(out, "\\n");
			continue;
		}
		if (*s == '"' || *s == '\\')
			buf_addc(out, '\\');
		buf_addc(out, *s);
	}
	buf_addc(out, '"');
}

/* {a="x",b="y"}; `le` is a histogram's own, or NULL. */
static void metrics_labels(struct buf *out, const char *names, const char *const *value, const char *le)
{
	const char *sep = "{";
	int n = 0;

	while (*names) {
		int len = (int)strcspn(names, " ");

		must(value && value[n]);
		buf_printf(out, "%s%.*s=", sep, len, names);
		metrics_quote(out, value[n++]);
		names += len + (names[len] == ' ');
		sep = ",";
	}
	must(!value || !value[n]);
	if (le)
		buf_printf(out, "%sle=\"%s\"", sep, le);
	if (n || le)
		buf_addc(out, '}');
}

static void metrics_sample(struct metrics *m, const char *suffix, const char *const *labels, const char *le, double v)
{
	const struct metrics_row *row = &metrics_rows[m->at];

	buf_printf(&m->text, "%s%s", row->name, suffix);
	metrics_labels(&m->text, row->labels, labels, le);
	buf_addc(&m->text, ' ');
	metrics_value(&m->text, v);
	buf_addc(&m->text, '\n');
}

void metrics_put(struct metrics *m, enum metric id, double value, const char *const *labels)
{
	metrics_begin(m, id, false);
	metrics_sample(m, "", labels, NULL, value);
}

void metrics_put_hist(struct metrics *m, enum metric id, const struct metrics_hist *h, const char *const *labels)
{
	uint64_t sum = 0;
	char le[32];

	metrics_begin(m, id, true);
	for (int i = 0; i < h->n_bound; i++) {
		sum += h->n[i];
		snprintf(le, sizeof le, "%g", h->bound[i]);
		metrics_sample(m, "_bucket", labels, le, (double)sum);
	}
	sum += h->n[h->n_bound];
	metrics_sample(m, "_bucket", labels, "+Inf", (double)sum);
	metrics_sample(m, "_sum", labels, NULL, h->sum);
	metrics_sample(m, "_count", labels, NULL, (double)sum);
}

void metrics_put_state(struct metrics *m, enum metric id, const char *const *state, int n_state, int now,
		       const char *label)
{
	for (int i = 0; i < n_state; i++)
		metrics_put(m, id, i == now, label ? METRICS_LABELS(label, state[i]) : METRICS_LABELS(state[i]));
}

void metrics_print(struct metrics *m, struct buf *out)
{
	for (int id = 0; id < METRIC_N; id++)
		if (!m->begun[id])
			metrics_head(m, (enum metric)id);
	buf_add(out, m->text.data, m->text.len);
}
