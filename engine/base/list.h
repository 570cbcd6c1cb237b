/* SPDX-License-Identifier: MIT
 * list.h - intrusive doubly linked lists; the head is a node.
 * Threads: any, under the owner's lock. Locks: none. */
#ifndef BASE_LIST_H
#define BASE_LIST_H

#include <stddef.h>

struct list {
	struct list *next, *prev;
};

static inline void list_init(struct list *head)
{
	head->next = head->prev = head;
}

static inline int list_empty(const struct list *head)
{
	return head->next == head;
}

/* Inserts node before `at`; with the list head as `at`, that is the tail. */
static inline void list_put(struct list *at, struct list *node)
{
	node->prev = at->prev;
	node->next = at;
	at->prev->next = node;
	at->prev = node;
}

/* Unlinks; the node becomes an empty list, so a second call does nothing. */
static inline void list_del(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

#define list_entry(node, type, member) ((type *)((char *)(node) - offsetof(type, member)))
/* `var` must not be removed inside the loop; use list_entry and a saved next for that. */
#define list_each(var, head, type, member) \
	for (type *var = list_entry((head)->next, type, member); &var->member != (head); \
	     var = list_entry(var->member.next, type, member))

#endif
