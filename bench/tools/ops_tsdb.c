// SPDX-License-Identifier: Apache-2.0
#include "bench/tools/ops_tsdb.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/crc32c.h"

#define CHUNK 120u /* samples */
#define CHUNKS_MAX 1000u
#define SYMBOLS_AT 5 /* offset of the symbols, behind magic and version */

void tsdb_end_with(const char *what)
{
	fprintf(stderr, "bench: %s\n", what);
	exit(1);
}

void *tsdb_get_memory(size_t n, size_t size)
{
	void *p = calloc(n, size);

	if (!p)
		tsdb_end_with("out of memory");
	return p;
}

/* --------------------------------------------------------------------- files --- */

struct file {
	FILE *f;
	uint64_t at;
	uint32_t crc;
};

static struct file open_file(const char *folder, const char *name)
{
	char path[4096];
	struct file f = { .at = 0 };

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	f.f = fopen(path, "w");
	if (!f.f || setvbuf(f.f, NULL, _IOFBF, 1 << 20) != 0)
		tsdb_end_with(path);
	return f;
}

static void append_file(struct file *f, const void *data, size_t n)
{
	if (fwrite(data, 1, n, f->f) != n)
		tsdb_end_with("the disk is full");
	f->crc = crc32c(f->crc, data, n);
	f->at += n;
}

static void put_number(struct file *f, uint64_t v, int bytes)
{
	uint8_t b[8];

	for (int i = 0; i < bytes; i++)
		b[i] = (uint8_t)(v >> 8 * (bytes - 1 - i));
	append_file(f, b, (size_t)bytes);
}

static size_t write_uvarint(uint8_t *to, uint64_t v)
{
	size_t n = 0;

	for (; v > 127; v >>= 7)
		to[n++] = (uint8_t)(v & 127) | 128;
	to[n++] = (uint8_t)v;
	return n;
}

static size_t write_varint(uint8_t *to, int64_t v)
{
	return write_uvarint(to, (uint64_t)v << 1 ^ (uint64_t)(v >> 63));
}

static void put_crc(struct file *f)
{
	put_number(f, f->crc, 4);
}

static void close_file(struct file *f)
{
	if (fclose(f->f) != 0)
		tsdb_end_with("the disk is full");
}

/* -------------------------------------------------------------------- chunks --- */

struct bits {
	uint8_t *to;
	uint64_t some; /* the last `n` bits are not written yet */
	unsigned int n;
};

static void put_bits(struct bits *b, uint64_t v, unsigned int n)
{
	if (n > 32) {
		put_bits(b, v >> 32, n - 32);
		n = 32;
	}
	b->some = b->some << n | (v & (UINT64_MAX >> (64 - n)));
	for (b->n += n; b->n >= 8; b->n -= 8)
		*b->to++ = (uint8_t)(b->some >> (b->n - 8));
}

static void put_bytes(struct bits *b, const uint8_t *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		put_bits(b, v[i], 8);
}

static void put_time(struct bits *b, int64_t change)
{
	if (change == 0)
		put_bits(b, 0, 1);
	else if (change >= -8191 && change <= 8192) {
		put_bits(b, 2, 2);
		put_bits(b, (uint64_t)change, 14);
	} else if (change >= -65535 && change <= 65536) {
		put_bits(b, 6, 3);
		put_bits(b, (uint64_t)change, 17);
	} else if (change >= -524287 && change <= 524288) {
		put_bits(b, 14, 4);
		put_bits(b, (uint64_t)change, 20);
	} else {
		put_bits(b, 15, 4);
		put_bits(b, (uint64_t)change, 64);
	}
}

struct window {
	unsigned int leading, trailing;
	bool is_set;
};

static void put_value(struct bits *b, uint64_t v, uint64_t was,
		      struct window *w)
{
	uint64_t x = v ^ was;
	unsigned int leading, trailing;

	if (!x) {
		put_bits(b, 0, 1);
		return;
	}
	leading = (unsigned int)__builtin_clzll(x);
	trailing = (unsigned int)__builtin_ctzll(x);
	if (leading > 31)
		leading = 31;
	if (w->is_set && leading >= w->leading && trailing >= w->trailing) {
		put_bits(b, 2, 2);
		put_bits(b, x >> w->trailing, 64 - w->leading - w->trailing);
		return;
	}
	*w = (struct window){ leading, trailing, true };
	put_bits(b, 3, 2);
	put_bits(b, leading, 5);
	put_bits(b, (64 - leading - trailing) & 63, 6);
	put_bits(b, x >> trailing, 64 - leading - trailing);
}

/* Encode samples [first, first + n) of a series into `to`; returns the number of bytes. */
static size_t encode_chunk(struct tsdb_series *s, size_t first, size_t n,
			   tsdb_value_fn *value, uint8_t *to)
{
	struct bits b = { .to = to + 2 };
	struct window w = { .is_set = false };
	int64_t at = 0, distance = 0;
	uint64_t was = 0;
	uint8_t text[10];

	to[0] = (uint8_t)(n >> 8);
	to[1] = (uint8_t)n;
	for (size_t i = 0; i < n; i++) {
		int64_t t = s->at_ms[first + i];
		double v = value(s, first + i);
		uint64_t image;

		memcpy(&image, &v, sizeof(image));
		if (i == 0) {
			put_bytes(&b, text, write_varint(text, t));
			put_bits(&b, image, 64);
		} else if (i == 1) {
			put_bytes(&b, text,
				  write_uvarint(text, (uint64_t)(t - at)));
			put_value(&b, image, was, &w);
		} else {
			put_time(&b, t - at - distance);
			put_value(&b, image, was, &w);
		}
		distance = i ? t - at : 0;
		at = t;
		was = image;
	}
	if (b.n)
		put_bits(&b, 0, 8 - b.n);
	return (size_t)(b.to - to);
}

/* ------------------------------------------------------------------- symbols --- */

struct symbols {
	const char **v;
	size_t n;
};

static int by_text(const void *x, const void *y)
{
	return strcmp(*(const char *const *)x, *(const char *const *)y);
}

static void make_symbols(struct symbols *to, struct tsdb_series *const *v,
			 size_t n_series)
{
	size_t n = 0;

	to->v = tsdb_get_memory(n_series * 2 * TSDB_PAIRS_MAX + 1,
				sizeof(*to->v));
	to->v[n++] = "";
	for (size_t i = 0; i < n_series; i++)
		for (size_t k = 0; k < v[i]->n_labels; k++) {
			to->v[n++] = v[i]->labels[k].name;
			to->v[n++] = v[i]->labels[k].value;
		}
	qsort(to->v, n, sizeof(*to->v), by_text);
	to->n = 0;
	for (size_t i = 0; i < n; i++)
		if (!to->n || strcmp(to->v[to->n - 1], to->v[i]) != 0)
			to->v[to->n++] = to->v[i];
}

static uint64_t symbol_of(const struct symbols *s, const char *text)
{
	const char **p = bsearch(&text, s->v, s->n, sizeof(*s->v), by_text);

	return (uint64_t)(p - s->v);
}

/* --------------------------------------------------------------------- index --- */

struct posting {
	const char *name, *value;
	uint32_t ref;
};

static int by_posting(const void *x, const void *y)
{
	const struct posting *a = x, *b = y;
	int rc = strcmp(a->name, b->name);

	rc = rc ? rc : strcmp(a->value, b->value);
	return rc ? rc : (a->ref > b->ref) - (a->ref < b->ref);
}

static void put_symbols(struct file *f, const struct symbols *s)
{
	uint64_t len = 4;
	uint8_t b[10];

	for (size_t i = 0; i < s->n; i++)
		len += write_uvarint(b, strlen(s->v[i])) + strlen(s->v[i]);
	put_number(f, len, 4);
	f->crc = 0;
	put_number(f, s->n, 4);
	for (size_t i = 0; i < s->n; i++) {
		append_file(f, b, write_uvarint(b, strlen(s->v[i])));
		append_file(f, s->v[i], strlen(s->v[i]));
	}
	put_crc(f);
}

static void put_padding(struct file *f, uint64_t to)
{
	static const uint8_t none[16];

	if (f->at % to)
		append_file(f, none, to - f->at % to);
}

struct chunk_place {
	int64_t first_ms, last_ms;
	uint64_t at;
};

/* Write a series' entry: its labels, and the places of its chunks. */
static void put_series(struct file *f, const struct symbols *symbols,
		       struct tsdb_series *s, const struct chunk_place *c,
		       size_t n_chunks)
{
	static uint8_t body[TSDB_PAIRS_MAX * 20 + CHUNKS_MAX * 30 + 100];
	uint8_t *p = body, len[10];

	p += write_uvarint(p, s->n_labels);
	for (size_t i = 0; i < s->n_labels; i++) {
		p += write_uvarint(p, symbol_of(symbols, s->labels[i].name));
		p += write_uvarint(p, symbol_of(symbols, s->labels[i].value));
	}
	p += write_uvarint(p, n_chunks);
	for (size_t i = 0; i < n_chunks; i++) {
		if (i == 0)
			p += write_varint(p, c[i].first_ms);
		else
			p += write_uvarint(p, (uint64_t)(c[i].first_ms -
							 c[i - 1].last_ms));
		p += write_uvarint(p, (uint64_t)(c[i].last_ms - c[i].first_ms));
		if (i == 0)
			p += write_uvarint(p, c[i].at);
		else
			p += write_varint(p, (int64_t)(c[i].at - c[i - 1].at));
	}
	put_padding(f, 16);
	s->ref = (uint32_t)(f->at / 16);
	append_file(f, len, write_uvarint(len, (uint64_t)(p - body)));
	f->crc = 0;
	append_file(f, body, (size_t)(p - body));
	put_crc(f);
}

/* Write the references of the series with one label pair; returns how many rows that used. */
static size_t put_posting(struct file *f, const struct posting *v, size_t n)
{
	size_t same = 0;

	while (same < n && strcmp(v->name, v[same].name) == 0 &&
	       strcmp(v->value, v[same].value) == 0)
		same++;
	put_padding(f, 4);
	put_number(f, 4 + 4 * same, 4);
	f->crc = 0;
	put_number(f, same, 4);
	for (size_t i = 0; i < same; i++)
		put_number(f, v[i].ref, 4);
	put_crc(f);
	return same;
}

/* Write postings, the table of their places, and the table of contents. */
static void put_postings(struct file *f, struct tsdb_series *const *all,
			 size_t n_all, uint64_t series_at)
{
	struct posting *v =
		tsdb_get_memory(n_all * (TSDB_PAIRS_MAX + 1), sizeof(*v));
	char *table;
	size_t n = 0, lists = 0, len = 0;
	uint64_t postings_at, table_at;
	uint8_t b[10];
	FILE *t = open_memstream(&table, &len);

	for (size_t i = 0; i < n_all; i++) {
		if (!all[i]->ref)
			continue;
		v[n++] = (struct posting){ "", "", all[i]->ref };
		for (size_t k = 0; k < all[i]->n_labels; k++)
			v[n++] = (struct posting){ all[i]->labels[k].name,
						   all[i]->labels[k].value,
						   all[i]->ref };
	}
	qsort(v, n, sizeof(*v), by_posting);
	put_padding(f, 4);
	postings_at = f->at;
	for (size_t i = 0; i < n; lists++) {
		uint64_t at;
		size_t same;

		put_padding(f, 4);
		at = f->at;
		same = put_posting(f, v + i, n - i);
		(void)fputc(2, t);
		(void)fwrite(b, 1, write_uvarint(b, strlen(v[i].name)), t);
		(void)fputs(v[i].name, t);
		(void)fwrite(b, 1, write_uvarint(b, strlen(v[i].value)), t);
		(void)fputs(v[i].value, t);
		(void)fwrite(b, 1, write_uvarint(b, at), t);
		i += same;
	}
	(void)fclose(t);
	table_at = f->at;
	put_number(f, len + 4, 4);
	f->crc = 0;
	put_number(f, lists, 4);
	append_file(f, table, len);
	put_crc(f);
	f->crc = 0;
	put_number(f, SYMBOLS_AT, 8);
	put_number(f, series_at, 8);
	put_number(f, 0, 8); /* label indices, which are no longer used */
	put_number(f, 0, 8);
	put_number(f, postings_at, 8);
	put_number(f, table_at, 8);
	put_crc(f);
	free(table);
	free(v);
}

/* --------------------------------------------------------------------- block --- */

static void write_meta(const char *folder, const char *id, int64_t begin_s,
		       int64_t end_s, uint64_t samples, size_t n_all,
		       uint64_t chunks)
{
	struct file f = open_file(folder, "meta.json");

	fprintf(f.f,
		"{\"ulid\":\"%s\",\"minTime\":%lld,\"maxTime\":%lld,"
		"\"stats\":{\"numSamples\":%llu,\"numSeries\":%zu,"
		"\"numChunks\":%llu},\"compaction\":{\"level\":1,\"sources\":"
		"[\"%s\"]},\"version\":1}\n",
		id, (long long)begin_s * 1000, (long long)end_s * 1000,
		(unsigned long long)samples, n_all, (unsigned long long)chunks,
		id);
	close_file(&f);
}

static size_t write_chunks(struct tsdb_series *s, tsdb_value_fn *value,
			   struct file *f, struct chunk_place *places)
{
	static uint8_t chunk[1 + 2 + 20 + CHUNK * 20];
	size_t n = 0;
	uint8_t len[10];

	for (size_t i = 0; i < s->n; i += CHUNK, n++) {
		size_t count = s->n - i < CHUNK ? s->n - i : CHUNK, size;

		if (n == CHUNKS_MAX)
			tsdb_end_with("a block is too long");
		chunk[0] = 1; /* encoding: XOR */
		size = encode_chunk(s, i, count, value, chunk + 1);
		places[n] =
			(struct chunk_place){ s->at_ms[i],
					      s->at_ms[i + count - 1], f->at };
		append_file(f, len, write_uvarint(len, size));
		f->crc = 0;
		append_file(f, chunk, size + 1);
		put_crc(f);
	}
	return n;
}

void tsdb_write_block(const char *to, unsigned int number, int64_t begin_s,
		      int64_t end_s, struct tsdb_series *const *v, size_t n,
		      tsdb_value_fn *value)
{
	static struct chunk_place places[CHUNKS_MAX];
	uint64_t samples = 0, n_chunks = 0, series_at;
	char id[27], folder[3000], chunk_folder[3100];
	struct file chunks, index;
	struct symbols symbols;

	(void)snprintf(id, sizeof(id), "01%024u", number);
	(void)snprintf(folder, sizeof(folder), "%s/%s", to, id);
	(void)snprintf(chunk_folder, sizeof(chunk_folder), "%s/chunks", folder);
	if (mkdir(folder, 0755) != 0 || mkdir(chunk_folder, 0755) != 0)
		tsdb_end_with(folder);
	chunks = open_file(chunk_folder, "000001");
	index = open_file(folder, "index");
	put_number(&chunks, 0x85bd40dd01000000, 8);
	put_number(&index, 0xbaaad70002, SYMBOLS_AT);
	make_symbols(&symbols, v, n);
	put_symbols(&index, &symbols);
	put_padding(&index, 16);
	series_at = index.at;
	for (size_t i = 0; i < n; i++) {
		size_t count = write_chunks(v[i], value, &chunks, places);

		v[i]->ref = 0;
		samples += v[i]->n;
		n_chunks += count;
		if (count)
			put_series(&index, &symbols, v[i], places, count);
	}
	put_postings(&index, v, n, series_at);
	close_file(&chunks);
	close_file(&index);
	write_meta(folder, id, begin_s, end_s, samples, n, n_chunks);
	free(symbols.v);
}
