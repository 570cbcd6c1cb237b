/* SPDX-License-Identifier: MIT
 * plugin_facts.c - what a plugin's file says of itself, and whether this daemon can run that.
 * Threads: any. Locks: none. */
#include "engine/plugin/plugin_facts.h"
#include "engine/base/cpus.h"
#include "engine/base/mem.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the words of DSV4_PLUGIN's table ---- */

struct plugin_facts_word {
	const char *name;
	uint32_t value;
};

static const struct plugin_facts_word plugin_facts_ops[] = {
#define OP(op, family, args, text) { #op, DSV4_OP_##op },
#include "plugins/ops.def"
#undef OP
	{ NULL, 0 },
};
static const struct plugin_facts_word plugin_facts_phases[] = {
#define PHASES(word) { #word, DSV4_PHASES_##word },
	PHASES(PREFILL) PHASES(DECODE) PHASES(BOTH)
#undef PHASES
	{ NULL, 0 },
};
static const struct plugin_facts_word plugin_facts_weights[] = {
#define WEIGHTS(word) { #word, DSV4_WEIGHTS_##word },
	WEIGHTS(ANY) WEIGHTS(F32) WEIGHTS(BF16) WEIGHTS(FP8) WEIGHTS(FP4) WEIGHTS(NVFP4)
	WEIGHTS(FLOAT) WEIGHTS(E2M1) WEIGHTS(QUANT)
#undef WEIGHTS
	{ NULL, 0 },
};
static const struct plugin_facts_word plugin_facts_reads[] = {
#define READS(word) { #word, DSV4_READS_##word },
	READS(NATIVE) READS(PACKED)
#undef READS
	{ NULL, 0 },
};
static const struct plugin_facts_word plugin_facts_numerics[] = {
#define NUMERICS(word) { #word, DSV4_##word },
	NUMERICS(EXACT) NUMERICS(ORDER) NUMERICS(LOSSY)
#undef NUMERICS
	{ NULL, 0 },
};

/* Names that stand for something else wherever a plugin can be named. */
static const char *const plugin_facts_reserved[] = { "ref", "active", "previous", "last-good" };

static bool plugin_facts_lookup(const struct plugin_facts_word *w, const char *name, uint32_t *ret_value)
{
	for (; w->name; w++) {
		if (strcmp(w->name, name) != 0)
			continue;
		*ret_value = w->value;
		return true;
	}
	return false;
}

/* ---- what a text may look like ---- */

static bool plugin_facts_only(const char *s, const char *accept)
{
	return *s && !s[strspn(s, accept)];
}

#define PLUGIN_FACTS_LOWER "abcdefghijklmnopqrstuvwxyz"
#define PLUGIN_FACTS_DIGIT "0123456789"

bool plugin_facts_is_name(const char *s)
{
	if (strlen(s) >= sizeof ((struct plugin_facts *)NULL)->name)
		return false;
	for (size_t i = 0; i < mem_countof(plugin_facts_reserved); i++)
		if (!strcmp(s, plugin_facts_reserved[i]))
			return false;
	/* Digits alone would be the number of a generation. */
	return plugin_facts_only(s, PLUGIN_FACTS_LOWER PLUGIN_FACTS_DIGIT "-") &&
	       strpbrk(s, PLUGIN_FACTS_LOWER) && *s != '-';
}

static bool plugin_facts_is_version(const char *s)
{
	return plugin_facts_only(s, PLUGIN_FACTS_DIGIT ".");
}

/* Words with one space between them, or nothing. */
static bool plugin_facts_is_features(const char *s)
{
	return !*s || (plugin_facts_only(s, PLUGIN_FACTS_LOWER PLUGIN_FACTS_DIGIT "_-. ") && *s != ' ' &&
		       s[strlen(s) - 1] != ' ' && !strstr(s, "  "));
}

static bool plugin_facts_is_printable(const char *s)
{
	for (const char *p = s; *p; p++)
		if (*p < ' ' || *p > '~' || *p == '"' || *p == '\\')
			return false;
	return *s;
}

static bool plugin_facts_is_tag(const char *s)
{
	return plugin_facts_is_printable(s) && !strchr(s, ' ');
}

/* ---- reading ---- */

static int plugin_facts_bad(struct buf *why, const char *field, const char *problem)
{
	return plugin_refuse(why, PLUGIN_REFUSED_no_facts, "%s: %s", field, problem);
}

/* Copies a string member that fits and looks right. */
static int plugin_facts_text(json_t *o, const char *field, char *ret, size_t size, bool (*ok)(const char *),
			     struct buf *why)
{
	const char *s = json_string_value(json_object_get(o, field));

	if (!s)
		return plugin_facts_bad(why, field, "a text is due");
	if (strlen(s) >= size)
		return plugin_facts_bad(why, field, "too long");
	if (!ok(s))
		return plugin_facts_bad(why, field, "not in the form that dsv4_plugin.h gives");
	memcpy(ret, s, strlen(s) + 1);
	return 0;
}

static int plugin_facts_pick(json_t *o, const char *field, const struct plugin_facts_word *words,
			     uint32_t *ret_value, struct buf *why)
{
	const char *s = json_string_value(json_object_get(o, field));

	return s && plugin_facts_lookup(words, s, ret_value) ? 0 : plugin_facts_bad(why, field, "not one of its words");
}

/* A decimal number of at most five digits, as the preprocessor writes it; moves *p behind it. */
static bool plugin_facts_number(const char **p, int *ret_v)
{
	size_t n = strspn(*p, PLUGIN_FACTS_DIGIT);

	if (n < 1 || n > 5 || atoi(*p) > UINT16_MAX)
		return false;
	*ret_v = atoi(*p);
	*p += n;
	return true;
}

static int plugin_facts_abi(json_t *o, struct plugin_facts *f, struct buf *why)
{
	const char *p = json_string_value(json_object_get(o, "abi"));

	if (p && plugin_facts_number(&p, &f->abi_major) && *p++ == '.' && plugin_facts_number(&p, &f->abi_minor) &&
	    !*p)
		return 0;
	return plugin_facts_bad(why, "abi", "MAJOR.MINOR is due");
}

static int plugin_facts_plugin(json_t *o, struct plugin_facts *f, struct buf *why)
{
	int rc = json_object_size(o) == 6 ? plugin_facts_abi(o, f, why) :
					    plugin_facts_bad(why, "element 0", "the plugin's six members are due");

#define TEXT(field, form) \
	rc = rc ? rc : plugin_facts_text(o, #field, f->field, sizeof f->field, plugin_facts_is_##form, why)
	TEXT(signature, printable);
	TEXT(name, name);
	TEXT(version, version);
	TEXT(cpu, features);
	TEXT(gpu, features);
#undef TEXT
	return rc;
}

static int plugin_facts_op(json_t *o, struct plugin_fact_op *op, struct buf *why)
{
	uint32_t id = 0, phases = 0, numerics = 0, reads = DSV4_READS_NATIVE;
	bool older = json_object_size(o) == 5; /* before `reads` */
	int rc = older || json_object_size(o) == 6 ? 0 : plugin_facts_bad(why, "an op", "six members are due");

	rc = rc ? rc : plugin_facts_pick(o, "op", plugin_facts_ops, &id, why);
	rc = rc ? rc : plugin_facts_pick(o, "phases", plugin_facts_phases, &phases, why);
	rc = rc ? rc : plugin_facts_pick(o, "weights", plugin_facts_weights, &op->wfmts, why);
	rc = rc ? rc : plugin_facts_pick(o, "numerics", plugin_facts_numerics, &numerics, why);
	rc = rc ? rc : plugin_facts_text(o, "tag", op->tag, sizeof op->tag, plugin_facts_is_tag, why);
	if (rc == 0 && !older)
		rc = plugin_facts_pick(o, "reads", plugin_facts_reads, &reads, why);
	op->op = (int)id;
	op->phases = (uint8_t)phases;
	op->reads = (uint8_t)reads;
	op->numerics = (int)numerics;
	return rc;
}

static int plugin_facts_array(json_t *a, struct plugin_facts *f, struct buf *why)
{
	size_t n = json_array_size(a); /* 0 for what is no array */
	int rc;

	if (n < 2)
		return plugin_facts_bad(why, "form", "an array of the plugin and at least one op is due");
	if (n - 1 > DSV4_PLUGIN_MAX_OPS)
		return plugin_facts_bad(why, "form", "too many ops");
	rc = plugin_facts_plugin(json_array_get(a, 0), f, why);
	for (size_t i = 1; i < n && !rc; i++)
		rc = plugin_facts_op(json_array_get(a, i), &f->op[i - 1], why);
	f->n_op = (int)n - 1;
	return rc;
}

/* The text between the one pair of markers. */
static int plugin_facts_find(const char *bytes, size_t n, const char **ret_text, size_t *ret_len, struct buf *why)
{
	const size_t n_begin = strlen(DSV4_FACTS_BEGIN), n_end = strlen(DSV4_FACTS_END);
	const char *end_of_bytes = bytes + n, *begin, *end;

	begin = n ? memmem(bytes, n, DSV4_FACTS_BEGIN, n_begin) : NULL;
	if (!begin)
		return plugin_facts_bad(why, "markers", "none");
	begin += n_begin;
	end = memmem(begin, (size_t)(end_of_bytes - begin), DSV4_FACTS_END, n_end);
	if (!end)
		return plugin_facts_bad(why, "markers", "the closing one is missing");
	if (memmem(begin, (size_t)(end_of_bytes - begin), DSV4_FACTS_BEGIN, n_begin))
		return plugin_facts_bad(why, "markers", "more than one pair");
	if (end - begin > PLUGIN_FACTS_MAX)
		return plugin_facts_bad(why, "markers", "more than 64 KiB between them");
	*ret_text = begin;
	*ret_len = (size_t)(end - begin);
	return 0;
}

int plugin_facts_read(struct plugin_facts *ret_f, const void *bytes, size_t n, struct buf *why)
{
	struct plugin_facts f = { 0 };
	json_error_t error;
	const char *text = NULL;
	size_t len = 0;
	json_t *root;
	int rc = plugin_facts_find(bytes, n, &text, &len, why);

	if (rc)
		return rc;
	root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &error);
	rc = root ? plugin_facts_array(root, &f, why) : plugin_facts_bad(why, "JSON", error.text);
	json_decref(root);
	if (!rc)
		*ret_f = f;
	return rc;
}

/* ---- can this daemon run it ---- */

static bool plugin_facts_has_word(const char *list, const char *word, size_t n)
{
	for (const char *p = list; (p = strstr(p, word)) != NULL; p++)
		if ((p == list || strchr(" \t:", p[-1])) && strchr(" \t\n", p[n]))
			return true;
	return false;
}

static int plugin_facts_fit_cpu(const struct plugin_facts *f, struct buf *why)
{
	char *flags = *f->cpu ? cpus_flags() : NULL, word[sizeof f->cpu];
	int rc = 0;

	for (const char *p = f->cpu; *p && !rc; p += strspn(p, " ")) {
		size_t n = strcspn(p, " ");

		memcpy(word, p, n);
		word[n] = '\0';
		p += n;
		if (!flags)
			rc = plugin_refuse(why, PLUGIN_REFUSED_cpu, "needs %s, and /proc/cpuinfo lists no features",
					   word);
		else if (!plugin_facts_has_word(flags, word, n))
			rc = plugin_refuse(why, PLUGIN_REFUSED_cpu, "needs %s", word);
	}
	free(flags);
	return rc;
}

static int plugin_facts_fit_gpu(const struct plugin_facts *f, const struct device *d, struct buf *why)
{
	struct buf lacks = { 0 };
	int rc = 0;

	if (!*f->gpu || !d)
		return 0;
	if (!device_is_gpu(d))
		rc = plugin_refuse(why, PLUGIN_REFUSED_gpu, "needs %s, and the device is %s (dsv4d --device cuda)",
				   f->gpu, device_name(d));
	else if (!device_has(d, f->gpu, &lacks))
		rc = plugin_refuse(why, PLUGIN_REFUSED_gpu, "needs %s, which %s has not", buf_str(&lacks),
				   device_name(d));
	buf_fini(&lacks);
	return rc;
}

int plugin_facts_fit(const struct plugin_facts *f, const struct device *d, struct buf *why)
{
	int rc;

	if (f->abi_major != DSV4_ABI_MAJOR)
		return plugin_refuse(why, PLUGIN_REFUSED_major, "built for ABI %d.%d, this is %d.%d", f->abi_major,
				     f->abi_minor, DSV4_ABI_MAJOR, DSV4_ABI_MINOR);
	if (f->abi_minor > DSV4_ABI_MINOR)
		return plugin_refuse(why, PLUGIN_REFUSED_minor, "built for ABI %d.%d, this is %d.%d", f->abi_major,
				     f->abi_minor, DSV4_ABI_MAJOR, DSV4_ABI_MINOR);
	if (strcmp(f->signature, DSV4_BUILD_SIGNATURE) != 0)
		return plugin_refuse(why, PLUGIN_REFUSED_signature, "built as '%s', this is '%s'", f->signature,
				     DSV4_BUILD_SIGNATURE);
	rc = plugin_facts_fit_gpu(f, d, why);
	return rc ? rc : plugin_facts_fit_cpu(f, why);
}

/* The first that knows that an expert without data adds nothing. */
#define PLUGIN_FACTS_MINOR_RANKS 3

int plugin_facts_fit_ranks(const struct plugin_facts *f, struct ranks *r, struct buf *why)
{
	int n = ranks_n(r), rc = 0;

	for (int i = 0; i < n && rc == 0; i++)
		rc = plugin_facts_fit(f, ranks_device(r, i), why);
	for (int i = 0; n > 1 && i < f->n_op && rc == 0; i++)
		if (f->op[i].op == DSV4_OP_moe_experts && f->abi_minor < PLUGIN_FACTS_MINOR_RANKS)
			rc = plugin_refuse(why, PLUGIN_REFUSED_one_gpu,
					   "moe_experts of ABI %d.%d; on %d GPUs it takes %d.%d",
					   f->abi_major, f->abi_minor, n, DSV4_ABI_MAJOR, PLUGIN_FACTS_MINOR_RANKS);
	return rc;
}

/* ---- is the mapped descriptor that ---- */

static int plugin_facts_lie(struct buf *why, const char *field)
{
	return plugin_refuse(why, PLUGIN_REFUSED_facts_lie, "the descriptor's %s", field);
}

static bool plugin_facts_same(const char *fact, const char *found)
{
	return found && !strcmp(fact, found);
}

static int plugin_facts_match_op(const struct plugin_fact_op *f, const struct dsv4_op_entry *e, int row,
				 struct buf *why)
{
	const char *field = e->size != sizeof *e ? "size" :
			    e->op != f->op ? "op" :
			    e->phases != f->phases ? "phases" :
			    e->reads != f->reads ? "reads" :
			    e->wfmts != f->wfmts ? "weights" :
			    e->numerics != (uint32_t)f->numerics ? "numerics" :
			    !plugin_facts_same(f->tag, e->tag) ? "tag" :
			    !e->fn ? "function" : NULL;

	return field ? plugin_refuse(why, PLUGIN_REFUSED_facts_lie, "the descriptor's %s of op row %d", field, row) :
		       0;
}

int plugin_facts_match(const struct plugin_facts *f, const struct dsv4_plugin *p, struct buf *why)
{
	int rc = 0;

	if (p->magic != DSV4_PLUGIN_MAGIC)
		return plugin_facts_lie(why, "magic");
	if (p->size != sizeof *p)
		return plugin_facts_lie(why, "size");
	if (p->abi_major != f->abi_major || p->abi_minor != f->abi_minor)
		return plugin_facts_lie(why, "abi");
#define TEXT(field) \
	if (!plugin_facts_same(f->field, p->field)) \
		return plugin_facts_lie(why, #field)
	TEXT(signature);
	TEXT(name);
	TEXT(version);
	TEXT(cpu);
	TEXT(gpu);
#undef TEXT
	if (p->n_op != (uint32_t)f->n_op || !p->op)
		return plugin_facts_lie(why, "number of ops");
	for (int i = 0; i < f->n_op && !rc; i++)
		rc = plugin_facts_match_op(&f->op[i], &p->op[i], i, why);
	return rc;
}
