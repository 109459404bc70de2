// SPDX-License-Identifier: Apache-2.0
/*
 * Finds import statements in byte code. A .pyc file is a head and a code object in Python's
 * marshal format: the instructions, constants and names tell what is imported. Nested code
 * objects, which are functions and classes, are skipped.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "common/array.h"
#include "common/bytes.h"
#include "image/closure/python_imports.h"

#define HEAD_SIZE 16u
#define DEPTH_MAX 64u
#define IMPORTS_MAX 16384u /* imports of a module; each imported name counts */
/* Skipped bytes that count as one import: lists of names may hold much else. */
#define IMPORT_BYTES 256u
/* flag of a type byte: later objects refer to this one by number */
#define IS_SHARED 0x80u

/* Differences between Python versions. */
struct code_version {
	uint16_t first, last; /* magic numbers */
	/* integers of a code object, before its nested objects */
	uint8_t n_numbers;
	/* a code object has the fields of 3.11 and later */
	bool has_kinds;
	uint8_t load_const, import_name, extended_arg;
};

static const struct code_version versions[] = {
	{ 3390, 3394, 5, false, 100, 108, 144 }, /* 3.7 */
	{ 3400, 3439, 6, false, 100, 108, 144 }, /* 3.8 to 3.10 */
	{ 3450, 3531, 5, true, 100, 108, 144 },  /* 3.11, 3.12 */
	{ 3550, 3571, 5, true, 83, 75, 71 },     /* 3.13 */
};

struct marshal {
	const uint8_t *p;
	size_t len, at;
	const struct code_version *version;
	size_t *shared; /* offsets of the numbered objects */
	size_t n_shared, cap_shared;
	/* objects that are skipped a second time have their numbers already */
	bool is_again;
};

static const struct code_version *find_version(uint16_t magic)
{
	for (size_t i = 0; i < ARRAY_SIZE(versions); i++)
		if (magic >= versions[i].first && magic <= versions[i].last)
			return &versions[i];
	return NULL;
}

static int skip_bytes(struct marshal *m, uint64_t n)
{
	if (n > m->len - m->at)
		return -ENOTSUP;
	m->at += n;
	return 0;
}

/* Read a number of 1 or 4 bytes. */
static int take_number(struct marshal *m, size_t width, uint32_t *ret)
{
	if (m->len - m->at < width)
		return -ENOTSUP;
	*ret = width == 1 ? m->p[m->at] : get_le32(m->p + m->at);
	m->at += width;
	return 0;
}

/* Read the type of the next object, and give the object a number if its type says so. */
static int take_type(struct marshal *m, uint8_t *ret)
{
	size_t at = m->at;

	if (at >= m->len)
		return -ENOTSUP;
	m->at++;
	*ret = m->p[at] & (uint8_t)~IS_SHARED;
	if (!(m->p[at] & IS_SHARED) || m->is_again)
		return 0;
	if (array_grow(&m->shared, m->n_shared, &m->cap_shared, 256) < 0)
		return -ENOMEM;
	m->shared[m->n_shared++] = at;
	return 0;
}

static int skip_object(struct marshal *m, unsigned int depth);

static int skip_objects(struct marshal *m, uint32_t n, unsigned int depth)
{
	int rc = 0;

	for (uint32_t i = 0; i < n && rc == 0; i++)
		rc = skip_object(m, depth);
	return rc;
}

/* Skip bytes or objects that follow their count. */
static int skip_counted(struct marshal *m, size_t width, bool are_objects,
			unsigned int depth)
{
	uint32_t n;
	int rc = take_number(m, width, &n);

	if (rc < 0)
		return rc;
	return are_objects ? skip_objects(m, n, depth) : skip_bytes(m, n);
}

/* Skip a long integer: a signed number, and as many digits of two bytes as its absolute
 * value. */
static int skip_digits(struct marshal *m)
{
	uint32_t n;
	int rc = take_number(m, 4, &n);

	if (rc < 0)
		return rc;
	n = n & 0x80000000u ? 0u - n : n;
	return skip_bytes(m, (uint64_t)n * 2);
}

static int skip_code(struct marshal *m, unsigned int depth)
{
	int rc = skip_bytes(m, m->version->n_numbers * UINT64_C(4));

	/* After the integers a code object has 8 objects, the number of its first line, and
	 * more objects. */
	if (rc == 0)
		rc = skip_objects(m, 8, depth);
	if (rc == 0)
		rc = skip_bytes(m, 4);
	return rc < 0 ? rc
		      : skip_objects(m, m->version->has_kinds ? 2 : 1, depth);
}

static int skip_object(struct marshal *m, unsigned int depth)
{
	uint8_t type;
	int rc = take_type(m, &type);

	if (rc < 0)
		return rc;
	if (++depth > DEPTH_MAX)
		return -ENOTSUP;
	switch (type) {
	case 'N':
	case 'F':
	case 'T':
	case 'S':
	case '.':
		return 0;
	case 'i':
	case 'r':
		return skip_bytes(m, 4);
	case 'I':
	case 'g':
		return skip_bytes(m, 8);
	case 'y':
		return skip_bytes(m, 16);
	case 'l':
		return skip_digits(m);
	case 's':
	case 't':
	case 'u':
	case 'a':
	case 'A':
		return skip_counted(m, 4, false, depth);
	case 'z':
	case 'Z':
		return skip_counted(m, 1, false, depth);
	case ')':
		return skip_counted(m, 1, true, depth);
	case '(':
	case '[':
	case '<':
	case '>':
		return skip_counted(m, 4, true, depth);
	case 'c':
		return skip_code(m, depth);
	default:
		return -ENOTSUP;
	}
}

/* Find the object at `at` or, where a reference is, the object that it refers to;
 * `*ret_type` comes without the flag IS_SHARED. */
static int follow_number(const struct marshal *m, size_t at, size_t *ret_at,
			 uint8_t *ret_type)
{
	uint8_t type = m->p[at] & (uint8_t)~IS_SHARED;

	if (type == 'r') {
		uint32_t n =
			m->len - at < 5 ? UINT32_MAX : get_le32(m->p + at + 1);

		if (n >= m->n_shared)
			return -ENOTSUP;
		at = m->shared[n];
		type = m->p[at] & (uint8_t)~IS_SHARED;
	}
	*ret_at = at;
	*ret_type = type;
	return 0;
}

/* Offsets of a tuple's elements. */
struct elements {
	size_t *at;
	size_t n, cap;
};

/* Take the elements of a tuple; `m->at` is behind it afterwards. */
static int take_elements(struct marshal *m, struct elements *ret)
{
	uint32_t n;
	uint8_t type;
	int rc = take_type(m, &type);

	if (rc == 0 && type != '(' && type != ')')
		rc = -ENOTSUP;
	if (rc == 0)
		rc = take_number(m, type == ')' ? 1 : 4, &n);
	for (uint32_t i = 0; rc == 0 && i < n; i++) {
		if (array_grow(&ret->at, ret->n, &ret->cap, 64) < 0)
			return -ENOMEM;
		ret->at[ret->n++] = m->at;
		rc = skip_object(m, 1);
	}
	return rc;
}

static int read_text(const struct marshal *m, size_t at, const char **ret,
		     size_t *ret_len)
{
	uint8_t type;
	size_t head;
	int rc = follow_number(m, at, &at, &type);

	if (rc < 0)
		return rc;
	if (!memchr("zZaAut", type, 6))
		return -ENOTSUP;
	/* The text was skipped before, so its bytes are known to be there. */
	head = type == 'z' || type == 'Z' ? 2 : 5;
	*ret_len = head == 2 ? m->p[at + 1] : get_le32(m->p + at + 1);
	*ret = (const char *)m->p + at + head;
	return 0;
}

/* The code object of the module, split into its fields. */
struct module_code {
	struct marshal m;
	size_t code, code_len; /* instructions */
	struct elements consts, names;
	size_t n_imports;
};

static int open_code(struct module_code *c)
{
	struct marshal *m = &c->m;
	uint32_t len = 0;
	uint8_t type;
	int rc = take_type(m, &type);

	if (rc == 0 && type != 'c')
		rc = -ENOTSUP;
	if (rc == 0)
		rc = skip_bytes(m, m->version->n_numbers * UINT64_C(4));
	if (rc == 0)
		rc = take_type(m, &type);
	if (rc == 0 && type != 's')
		rc = -ENOTSUP;
	if (rc == 0)
		rc = take_number(m, 4, &len);
	if (rc < 0)
		return rc;
	c->code = m->at;
	c->code_len = len;
	rc = skip_bytes(m, len);
	if (rc == 0)
		rc = take_elements(m, &c->consts);
	return rc < 0 ? rc : take_elements(m, &c->names);
}

/* Report each name after "import" in "from x import a, b". */
static int report_items(struct module_code *c, size_t at,
			struct python_import *i, python_import_fn *each,
			void *arg)
{
	struct elements items = { .at = NULL };
	struct marshal m = c->m;
	uint8_t type;
	int rc = follow_number(&m, at, &m.at, &type);

	if (rc < 0 || (type != '(' && type != ')'))
		return 0;
	at = m.at;
	m.is_again = true;
	rc = take_elements(&m, &items);
	c->n_imports += items.n + (m.at - at) / IMPORT_BYTES;
	for (size_t k = 0; k < items.n && rc == 0 && c->n_imports < IMPORTS_MAX;
	     k++) {
		if (read_text(&m, items.at[k], &i->item, &i->item_len) < 0 ||
		    (i->item_len == 1 && *i->item == '*'))
			continue;
		rc = each(arg, i);
	}
	free(items.at);
	return rc == -ENOTSUP ? 0 : rc;
}

/* Report an IMPORT_NAME instruction; `loaded` are the constants for level and names that the
 * two instructions before it loaded. */
static int report_import(struct module_code *c, uint32_t name,
			 const uint32_t loaded[2], python_import_fn *each,
			 void *arg)
{
	struct python_import i = { .level = 0 };
	uint8_t type;
	size_t at;
	int rc;

	if (name >= c->names.n || loaded[0] >= c->consts.n ||
	    loaded[1] >= c->consts.n ||
	    read_text(&c->m, c->names.at[name], &i.module, &i.module_len) < 0 ||
	    follow_number(&c->m, c->consts.at[loaded[0]], &at, &type) < 0)
		return 0;
	c->n_imports++;
	if (type == 'i')
		i.level = get_le32(c->m.p + at + 1);
	rc = each(arg, &i);
	return rc < 0 ? rc
		      : report_items(c, c->consts.at[loaded[1]], &i, each, arg);
}

static int scan_instructions(struct module_code *c, python_import_fn *each,
			     void *arg)
{
	const struct code_version *v = c->m.version;
	const uint8_t *p = c->m.p + c->code;
	uint32_t loaded[2] = { UINT32_MAX, UINT32_MAX }, operand = 0;
	int rc = 0;

	for (size_t k = 0;
	     k + 1 < c->code_len && rc == 0 && c->n_imports < IMPORTS_MAX;
	     k += 2) {
		operand = operand << 8 | p[k + 1];
		if (p[k] == v->extended_arg)
			continue;
		if (p[k] == v->load_const) {
			loaded[0] = loaded[1];
			loaded[1] = operand;
		} else if (p[k] == v->import_name) {
			rc = report_import(c, operand, loaded, each, arg);
		}
		operand = 0;
	}
	return rc;
}

int python_scan_code(const void *data, size_t len, python_import_fn *each,
		     void *arg)
{
	struct module_code c = { .m = { .p = data, .len = len } };
	int rc = -ENOTSUP;

	if (len > HEAD_SIZE)
		c.m.version = find_version(get_le16(data));
	c.m.at = HEAD_SIZE;
	if (c.m.version)
		rc = open_code(&c);
	if (rc == 0)
		rc = scan_instructions(&c, each, arg);
	free(c.m.shared);
	free(c.consts.at);
	free(c.names.at);
	return rc;
}
