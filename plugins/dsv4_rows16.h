/* SPDX-License-Identifier: MIT
 * dsv4_rows16.h - the repacked form of an FP4 matrix, sixteen rows side by side, as portable C.
 * Part of the plugin ABI's headers. Threads: any. Locks: none.
 *
 * As a checkpoint has it, a row's nibbles follow each other and the scales stand elsewhere: a kernel whose sixteen
 * lanes are sixteen rows gathers from seventeen streams. Here it reads one stream, front to back, of as many bytes.
 *
 * Sixteen rows are a panel; panels follow each other. A panel is one record per 128 columns, by column. A record has
 * 1088 bytes, scales first (they are needed first, and addresses that only rise are what prefetchers follow):
 *
 *     scale[4][16]     E8M0 byte of row r's block of 32 columns b, at 16 b + r
 *     word[16][16]     four bytes, row r's own bytes of columns 8 v to 8 v + 7, at 64 + 64 v + 4 r
 *
 * Rows that the last panel lacks and columns that the last record lacks are zero nibbles; scales there are 1 (127). The
 * nibble past an odd last column is zero, too. A matrix begins at a multiple of 64 bytes, and so does every record. */
#ifndef DSV4_ROWS16_H
#define DSV4_ROWS16_H

#include "dsv4_plugin.h"

#include <string.h>

#define DSV4_ROWS16 16
#define DSV4_ROWS16_COLS 128    /* columns of a record */
#define DSV4_ROWS16_SCALES 64   /* bytes of scales, at its beginning */
#define DSV4_ROWS16_RECORD 1088

static inline int64_t dsv4_rows16_panels(int64_t rows)
{
	return (rows + DSV4_ROWS16 - 1) / DSV4_ROWS16;
}

/* Bytes of one panel, and of a matrix. */
static inline size_t dsv4_rows16_panel_size(int64_t cols)
{
	return (size_t)((cols + DSV4_ROWS16_COLS - 1) / DSV4_ROWS16_COLS) * DSV4_ROWS16_RECORD;
}

static inline size_t dsv4_rows16_size(int64_t rows, int64_t cols)
{
	return (size_t)dsv4_rows16_panels(rows) * dsv4_rows16_panel_size(cols);
}

/* One row's part of the record that begins at column k. */
static inline void dsv4_rows16_pack_row(const struct dsv4_weight *w, int64_t row, int64_t k, uint8_t *record)
{
	int64_t left = w->cols - k < DSV4_ROWS16_COLS ? w->cols - k : DSV4_ROWS16_COLS;
	const uint8_t *data = (const uint8_t *)w->data + row * ((w->cols + 1) / 2) + k / 2;
	const uint8_t *scale = (const uint8_t *)w->scale + row * ((w->cols + 31) / 32) + k / 32;
	uint8_t *out = record + DSV4_ROWS16_SCALES + row % DSV4_ROWS16 * 4;
	uint8_t bytes[DSV4_ROWS16_COLS / 2] = { 0 };

	memcpy(bytes, data, (size_t)(left + 1) / 2);
	if (left % 2)
		bytes[left / 2] &= 15;
	for (int v = 0; v < 16; v++)
		memcpy(out + v * 64, bytes + v * 4, 4);
	for (int64_t b = 0; b < (left + 31) / 32; b++)
		record[b * DSV4_ROWS16 + row % DSV4_ROWS16] = scale[b];
}

/* Packs panel number `panel` of an FP4 matrix into out[dsv4_rows16_panel_size(cols)], which is that panel's place in
 * the packed matrix: a panel at a time, so that who packs in the background can rest in between. */
static inline void dsv4_rows16_pack(const struct dsv4_weight *w, int64_t panel, void *out)
{
	int64_t row0 = panel * DSV4_ROWS16, end = row0 + DSV4_ROWS16 < w->rows ? row0 + DSV4_ROWS16 : w->rows;
	uint8_t *record = out;

	for (int64_t k = 0; k < w->cols; k += DSV4_ROWS16_COLS, record += DSV4_ROWS16_RECORD) {
		memset(record, 127, DSV4_ROWS16_SCALES);
		memset(record + DSV4_ROWS16_SCALES, 0, DSV4_ROWS16_RECORD - DSV4_ROWS16_SCALES);
		for (int64_t row = row0; row < end; row++)
			dsv4_rows16_pack_row(w, row, k, record);
	}
}

/* The way back: code (0 to 15) of a value, and its scale's byte. */
static inline uint8_t dsv4_rows16_code(const void *packed, int64_t cols, int64_t row, int64_t col)
{
	const uint8_t *record = (const uint8_t *)packed + (size_t)(row / DSV4_ROWS16) * dsv4_rows16_panel_size(cols) +
		(size_t)(col / DSV4_ROWS16_COLS) * DSV4_ROWS16_RECORD;
	int64_t c = col % DSV4_ROWS16_COLS;

	return record[DSV4_ROWS16_SCALES + c / 8 * 64 + row % DSV4_ROWS16 * 4 + c % 8 / 2] >> (c % 2 * 4) & 15;
}

static inline uint8_t dsv4_rows16_scale(const void *packed, int64_t cols, int64_t row, int64_t col)
{
	const uint8_t *record = (const uint8_t *)packed + (size_t)(row / DSV4_ROWS16) * dsv4_rows16_panel_size(cols) +
		(size_t)(col / DSV4_ROWS16_COLS) * DSV4_ROWS16_RECORD;

	return record[col % DSV4_ROWS16_COLS / 32 * DSV4_ROWS16 + row % DSV4_ROWS16];
}

#endif
