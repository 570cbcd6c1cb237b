/* SPDX-License-Identifier: MIT
 * safetensors_write.c - writes a .safetensors file, or its header alone.
 * Threads: any. Locks: none. */
#include "engine/checkpoint/safetensors_write.h"
#include "engine/base/rc.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SAFETENSORS_WRITE_ALIGN 8 /* of the data in the file */

/* A name goes into the header as it is: nothing that JSON would have to escape. */
static bool safetensors_write_name_ok(const char *name)
{
	size_t n = 0;

	for (; name[n]; n++)
		if (name[n] < 0x20 || name[n] > 0x7e || name[n] == '"' || name[n] == '\\')
			return false;
	return n > 0 && n <= SAFETENSORS_MAX_NAME;
}

void safetensors_string(struct buf *out, const char *s)
{
	buf_addc(out, '"');
	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;

		if (c < 0x20 || c == '"' || c == '\\')
			buf_printf(out, "\\u%04x", c);
		else
			buf_addc(out, *s);
	}
	buf_addc(out, '"');
}

void safetensors_meta(struct buf *out, const char *const *meta)
{
	buf_adds(out, "\"__metadata__\":{");
	for (int i = 0; meta && meta[i]; i += 2) {
		buf_adds(out, i ? "," : "");
		safetensors_string(out, meta[i]);
		buf_addc(out, ':');
		safetensors_string(out, meta[i + 1]);
	}
	buf_addc(out, '}');
}

static int safetensors_write_header(const struct safetensors_entry *entry, int n, const char *const *meta,
				    struct buf *header, struct buf *why)
{
	uint64_t at = 0, bytes;
	int i;

	buf_addc(header, '{');
	if (meta)
		safetensors_meta(header, meta);
	for (i = 0; i < n; i++) {
		const struct safetensors_entry *e = &entry[i];

		bytes = safetensors_bytes((int)e->dtype, e->dim, e->n_dim);
		if (!safetensors_write_name_ok(e->name) || bytes == UINT64_MAX)
			return buf_why(why, RC_INVALID,
				       "tensor %.80s: a name or shape that the format cannot hold", e->name);
		buf_printf(header, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":", i || meta ? "," : "", e->name,
			   safetensors_dtype_name((int)e->dtype));
		safetensors_shape(header, e->dim, e->n_dim);
		buf_printf(header, ",\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", at, at + bytes);
		at += bytes;
	}
	buf_addc(header, '}');
	while (header->len % SAFETENSORS_WRITE_ALIGN)
		buf_addc(header, ' ');
	return 0;
}

static void safetensors_write_prefix(const struct buf *header, char prefix[8])
{
	for (int i = 0; i < 8; i++)
		prefix[i] = (char)(unsigned char)((uint64_t)header->len >> 8 * i);
}

int safetensors_header(const struct safetensors_entry *entry, int n, const char *const *meta, struct buf *out,
		       struct buf *why)
{
	struct buf header = { 0 };
	char prefix[8];
	int rc = safetensors_write_header(entry, n, meta, &header, why);

	if (rc == 0) {
		safetensors_write_prefix(&header, prefix);
		buf_add(out, prefix, sizeof prefix);
		buf_add(out, header.data, header.len);
	}
	buf_fini(&header);
	return rc;
}

static int safetensors_write_bytes(int fd, const void *data, uint64_t len)
{
	const char *p = data;
	ssize_t n;

	while (len > 0) {
		n = write(fd, p, len < 1 << 30 ? (size_t)len : 1 << 30);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		p += n;
		len -= (uint64_t)n;
	}
	return 0;
}

/* prefix and header in one */
static int safetensors_write_all(int fd, const struct buf *header, const struct safetensors_entry *entry,
				 int n)
{
	int i, rc = safetensors_write_bytes(fd, header->data, header->len);

	for (i = 0; rc == 0 && i < n; i++)
		rc = safetensors_write_bytes(fd, entry[i].data,
				     safetensors_bytes((int)entry[i].dtype, entry[i].dim, entry[i].n_dim));
	return rc;
}

int safetensors_write(const char *path, const struct safetensors_entry *entry, int n, struct buf *why)
{
	struct buf header = { 0 }, tmp = { 0 };
	int rc = safetensors_header(entry, n, NULL, &header, why), fd;

	if (rc)
		goto out;
	buf_printf(&tmp, "%s.tmp.%ld", path, (long)getpid());
	fd = open(tmp.data, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	rc = fd < 0 ? -errno : safetensors_write_all(fd, &header, entry, n);
	if (fd >= 0 && close(fd) < 0 && rc == 0)
		rc = -errno;
	if (rc == 0 && rename(tmp.data, path) < 0)
		rc = -errno;
	if (rc) {
		if (fd >= 0)
			unlink(tmp.data);
		buf_why(why, rc, "%s: %s", path, strerror(-rc));
	}
out:
	buf_fini(&header);
	buf_fini(&tmp);
	return rc;
}
