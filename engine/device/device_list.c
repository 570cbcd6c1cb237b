/* SPDX-License-Identifier: MIT
 * device_list.c - the words that name devices.
 * Threads: any. Locks: none. */
#include "engine/device/device_list.h"
#include "engine/base/rc.h"

#include <stdbool.h>
#include <string.h>

/* A decimal number below DEVICE_LIST_MAX at *s, which moves behind it; -1 for anything else. */
static int device_list_number(const char **s)
{
	int n = 0;

	if (**s < '0' || **s > '9')
		return -1;
	for (; **s >= '0' && **s <= '9'; ++*s) {
		n = 10 * n + (**s - '0');
		if (n >= DEVICE_LIST_MAX)
			return -1;
	}
	return n;
}

static bool device_list_add(struct device_list *l, int gpu)
{
	for (int i = 0; i < l->n; i++)
		if (l->gpu[i] == gpu)
			return false;
	l->gpu[l->n++] = gpu;
	return true;
}

/* "0-3,6", to the end. */
static bool device_list_read(struct device_list *l, const char *s)
{
	do {
		int first = device_list_number(&s), last = first;

		if (first >= 0 && *s == '-') {
			s++;
			last = device_list_number(&s);
		}
		if (first < 0 || last < first)
			return false;
		for (int i = first; i <= last; i++)
			if (!device_list_add(l, i))
				return false;
	} while (*s++ == ',');
	return s[-1] == '\0';
}

int device_list_parse(const char *words, struct device_list *ret_l, struct buf *why)
{
	*ret_l = (struct device_list){ 0 };
	if (!strcmp(words, "cpu"))
		return 0;
	if (!strcmp(words, "cuda") || (!strncmp(words, "cuda:", 5) && device_list_read(ret_l, words + 5))) {
		ret_l->n += ret_l->n == 0;
		return 0;
	}
	return buf_why(why, RC_INVALID,
		       "unknown device \"%s\"; expected cpu, cuda, or cuda: and numbers below %d, each once, as in "
		       "cuda:0-3,6", words, DEVICE_LIST_MAX);
}
