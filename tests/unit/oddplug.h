/* SPDX-License-Identifier: MIT
 * oddplug.h - plugins that a test makes of functions of its own: wrong by a known amount, failing, counted, held.
 * Threads: the test's. Locks: none. */
#ifndef TESTS_ODDPLUG_H
#define TESTS_ODDPLUG_H

#include "engine/kernels/kset.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* One op of a plugin, for both phases and all weight formats. */
#define ODDPLUG_OP(op_, numerics_, tag_, f) \
	{ .size = sizeof(struct dsv4_op_entry), .op = DSV4_OP_##op_, .phases = 3, .wfmts = ~0u, \
	  .numerics = DSV4_##numerics_, .tag = tag_, .fn = (dsv4_any_f *)f }
/* The provider `var` of a plugin of that name; oddplug_init() finishes it. */
#define ODDPLUG(var, ...) \
	static const struct dsv4_op_entry var##_ops[] = { __VA_ARGS__ }; \
	static const struct dsv4_plugin var##_plugin = { \
		.magic = DSV4_PLUGIN_MAGIC, .size = sizeof(struct dsv4_plugin), .abi_major = DSV4_ABI_MAJOR, \
		.abi_minor = DSV4_ABI_MINOR, .n_op = sizeof var##_ops / sizeof *var##_ops, \
		.signature = DSV4_BUILD_SIGNATURE, .name = #var, .version = "1", .cpu = "", .gpu = "", \
		.op = var##_ops, \
	}; \
	static struct provider var = { .plugin = &var##_plugin }

/* `all` ends with NULL, here and below. */
static inline void oddplug_init(struct provider *const *all)
{
	for (; *all; all++)
		provider_init(*all, (*all)->plugin, NULL);
}

/* A kset_find_f; arg: `all`. */
static inline struct provider *oddplug_find(void *arg, const char *name)
{
	for (struct provider *const *p = arg; *p; p++)
		if (strcmp((*p)->plugin->name, name) == 0)
			return *p;
	return NULL;
}

/* A set of one overlay. */
static inline struct kset *oddplug_set(struct provider **all, const char *spec)
{
	struct kset_overlay ov;
	struct buf why = { 0 };
	struct kset *ks = NULL;

	if (kset_overlay_parse(&ov, spec, oddplug_find, all, &why) || kset_build(&ov, 1, &ks, &why))
		fail_msg("%s", buf_str(&why));
	return ks;
}

#endif
