/* SPDX-License-Identifier: MIT
 * iface.h - the interface descriptions of ctl/iface/, embedded by ctl/embed.sh.
 * Threads: any. Locks: none. */
#ifndef CTL_IFACE_H
#define CTL_IFACE_H

struct iface {
	const char *name, *text;
};
extern const struct iface iface_table[];
extern const int iface_count;

/* NULL when unknown. */
const struct iface *iface_find(const char *name);

#endif
