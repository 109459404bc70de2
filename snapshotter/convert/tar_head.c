// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/convert/tar_head.h"

#include <errno.h>
#include <string.h>

#include "common/bytes.h"

#define NSEC_DIGITS 9
#define DECIMAL_DIGITS 18

/* Offset and length of a field of the header. */
struct tar_field {
	size_t at, len;
};
static const struct tar_field name_field = { 0, 100 }, mode_field = { 100, 8 },
			      uid_field = { 108, 8 }, gid_field = { 116, 8 },
			      size_field = { 124, 12 },
			      mtime_field = { 136, 12 }, sum_field = { 148, 8 },
			      link_field = { 157, 100 },
			      major_field = { 329, 8 },
			      minor_field = { 337, 8 },
			      prefix_field = { 345, 155 },
			      star_prefix_field = { 345, 131 },
			      /* fields of GNU tar and star */
	gnu_atime_field = { 345, 12 }, gnu_ctime_field = { 357, 12 },
			      star_atime_field = { 476, 12 },
			      star_ctime_field = { 488, 12 },
			      real_size_field = { 483, 12 };
#define TYPE_AT 156
#define MAGIC_AT 257
#define STAR_MAGIC_AT 508
/* flag in a header: a block of the sparse map follows */
#define GOES_ON_AT 482
#define MAP_GOES_ON_AT 504 /* the same flag in such a block */

enum dialect {
	DIALECT_V7,
	DIALECT_POSIX,
	DIALECT_STAR,
	DIALECT_GNU,
};

/* Values of the extended headers before the entry's own header. */
struct extended {
	struct pax_text records, name, link; /* of types 'x', 'L', 'K' */
};

static int refuse_odd_header(struct error *err, const char *what)
{
	return error_set(err, EINVAL,
			 "%s, which programs read in different ways", what);
}

static struct pax_text text_of(const uint8_t *p, size_t len)
{
	const uint8_t *nul = memchr(p, '\0', len);

	return (struct pax_text){ .data = p,
				  .len = nul ? (size_t)(nul - p) : len };
}

static struct pax_text field_of(const uint8_t *header,
				const struct tar_field *f)
{
	return text_of(header + f->at, f->len);
}

/* ----------------------------------------------------------------- numbers --- */

/* Read a number in base 256, two's complement; the first bit marks this form. */
static int binary_number(const uint8_t *p, size_t len, int64_t *ret,
			 struct error *err)
{
	uint8_t inverse = p[0] & 0x40 ? 0xff : 0;
	uint64_t n = 0;

	for (size_t i = 0; i < len; i++) {
		uint8_t c = p[i] ^ inverse;

		if (n >> 56)
			return error_set(err, EBADMSG,
					 "a number of its header is out of "
					 "range");
		n = n << 8 | (i == 0 ? c & 0x7f : c);
	}
	if (n >> 63)
		return error_set(err, EBADMSG,
				 "a number of its header is out of range");
	*ret = inverse ? -(int64_t)n - 1 : (int64_t)n;
	return 0;
}

static int octal_number(const uint8_t *p, size_t len, int64_t *ret,
			struct error *err)
{
	const uint8_t *end = p + len;
	uint64_t n = 0;

	while (p < end && (*p == ' ' || *p == '\0'))
		p++;
	while (end > p && (end[-1] == ' ' || end[-1] == '\0'))
		end--;
	for (; p < end && *p >= '0' && *p <= '7'; p++)
		n = n * 8 + *p - '0';
	/* Go ends the number at a NUL. */
	if (p < end && *p != '\0')
		return error_set(err, EBADMSG,
				 "a number of its header is none");
	*ret = (int64_t)n;
	return 0;
}

static int signed_number(const uint8_t *header, const struct tar_field *f,
			 int64_t *ret, struct error *err)
{
	const uint8_t *p = header + f->at;

	return *p & 0x80 ? binary_number(p, f->len, ret, err)
			 : octal_number(p, f->len, ret, err);
}

int tar_number(const uint8_t *field, size_t len, uint64_t *ret,
	       struct error *err)
{
	const struct tar_field f = { 0, len };
	int64_t n;
	int rc = signed_number(field, &f, &n, err);

	if (rc < 0)
		return rc;
	if (n < 0)
		return error_set(err, EBADMSG,
				 "a number of its header is negative");
	*ret = (uint64_t)n;
	return 0;
}

static int parse_number(const uint8_t *header, const struct tar_field *f,
			uint64_t *ret, struct error *err)
{
	return tar_number(header + f->at, f->len, ret, err);
}

int tar_decimal(const struct pax_text *t, const char *what, uint64_t *ret,
		struct error *err)
{
	uint64_t n = 0;

	if (t->len == 0 || t->len > DECIMAL_DIGITS)
		return error_set(err, EBADMSG, "its %s is out of range", what);
	for (size_t i = 0; i < t->len; i++) {
		if (t->data[i] < '0' || t->data[i] > '9')
			return error_set(err, EBADMSG, "its %s is no number",
					 what);
		n = n * 10 + t->data[i] - '0';
	}
	*ret = n;
	return 0;
}

/* ---------------------------------------------------------- extended headers --- */

static bool is_extended(uint8_t type)
{
	return memchr("xLK", type, 3) != NULL;
}

static enum dialect dialect_of(const uint8_t *header)
{
	const uint8_t *magic = header + MAGIC_AT;

	if (memcmp(magic, "ustar  ", 8) == 0)
		return DIALECT_GNU;
	if (memcmp(magic, "ustar", 6) != 0)
		return DIALECT_V7;
	return memcmp(header + STAR_MAGIC_AT, "tar", 4) == 0 ? DIALECT_STAR
							     : DIALECT_POSIX;
}

/* Check the sum of the header's bytes, which may be computed with unsigned or signed bytes. */
static int check_sum(const uint8_t *header, struct error *err)
{
	int64_t sum = 0, signed_sum = 0, want;
	int rc;

	for (size_t i = 0; i < TAR_BLOCK; i++) {
		bool is_sum = i - sum_field.at < sum_field.len;

		sum += is_sum ? ' ' : header[i];
		signed_sum += is_sum ? ' ' : (int8_t)header[i];
	}
	rc = octal_number(header + sum_field.at, sum_field.len, &want, err);
	if (rc == 0 && want != sum && want != signed_sum)
		rc = error_set(err, EBADMSG, "damaged tar: a header's sum");
	return rc;
}

/* Bytes of the blocks after a header that belong to it: an extended header's text, or the part
 * of an old sparse file's map that is available. */
static int following_record_bytes(const uint8_t *header, size_t len,
				  uint64_t *ret, struct error *err)
{
	uint64_t n = 0;
	bool goes_on;
	int rc;

	if (header[TYPE_AT] == 'g' || is_extended(header[TYPE_AT])) {
		rc = parse_number(header, &size_field, &n, err);
		if (rc == 0 && n > UINT32_MAX)
			rc = error_set(err, EBADMSG,
				       "its extended header is out of range");
		*ret = round_up(n, TAR_BLOCK);
		return rc;
	}
	goes_on = header[TYPE_AT] == 'S' && header[GOES_ON_AT] != 0;
	while (goes_on) {
		n += TAR_BLOCK;
		goes_on = n + TAR_BLOCK <= len && header[n + MAP_GOES_ON_AT];
	}
	*ret = n;
	return 0;
}

int tar_head_len(const uint8_t *headers, size_t len, uint64_t *ret,
		 struct error *err)
{
	uint64_t at = 0, more = 0;
	int rc;

	do {
		if (len - at < TAR_BLOCK) {
			*ret = at + TAR_BLOCK;
			return 0;
		}
		rc = check_sum(headers + at, err);
		if (rc == 0)
			rc = following_record_bytes(headers + at, len - at,
						    &more, err);
		if (rc < 0)
			return rc;
		*ret = at + TAR_BLOCK + more;
		if (*ret > len || !is_extended(headers[at + TYPE_AT]))
			return 0;
		at = *ret;
	} while (true);
}

static int take_extended(struct extended *e, uint8_t type,
			 const struct pax_text *body, struct error *err)
{
	struct pax_text *to = type == 'x'   ? &e->records
			      : type == 'L' ? &e->name
					    : &e->link;

	if (to->data)
		return refuse_odd_header(
			err, "it has two extended headers of a kind");
	*to = type == 'x' ? *body : text_of(body->data, body->len);
	/* Go takes the name from the header then, so readers would differ. */
	if (type != 'x' && to->len == 0)
		return refuse_odd_header(err,
					 "it has a long name without a letter");
	if (type == 'x' && !pax_is_whole(body->data, body->len))
		return error_set(err, EBADMSG,
				 "its extended header is damaged");
	return 0;
}

/* Read the extended headers; returns the entry's own header, or NULL with `err`. */
static const uint8_t *read_extended(const uint8_t *headers, size_t len,
				    struct extended *ret, int *ret_rc,
				    struct error *err)
{
	size_t at = 0;

	while (len - at >= TAR_BLOCK && is_extended(headers[at + TYPE_AT])) {
		struct pax_text body = { .data = headers + at + TAR_BLOCK };
		uint64_t size;

		*ret_rc = parse_number(headers + at, &size_field, &size, err);
		if (*ret_rc < 0)
			return NULL;
		if (round_up(size, TAR_BLOCK) > len - at - TAR_BLOCK)
			break;
		body.len = (size_t)size;
		*ret_rc = take_extended(ret, headers[at + TYPE_AT], &body, err);
		if (*ret_rc < 0)
			return NULL;
		at += TAR_BLOCK + (size_t)round_up(size, TAR_BLOCK);
	}
	if (len - at >= TAR_BLOCK && !is_extended(headers[at + TYPE_AT]))
		return headers + at;
	*ret_rc = error_set(err, EBADMSG, "its headers are cut off");
	return NULL;
}

/* Find a record that is not empty; an empty one leaves the header's value. */
static bool find_record(const struct pax_text *records, const char *key,
			struct pax_text *ret)
{
	*ret = pax_find(records->data, records->len, key);
	return ret->len > 0;
}

/* ------------------------------------------------------------------- names --- */

/* Read the name's prefix, which only POSIX headers have; star's is shorter, since times follow.
 * If a GNU header has no times in that place, Go reads it as a prefix. */
static int take_name_prefix(const uint8_t *h, struct tar_head *ret,
			    struct error *err)
{
	enum dialect dialect = dialect_of(h);
	int64_t n;

	if (dialect == DIALECT_V7)
		return 0;
	if (dialect == DIALECT_GNU) {
		if ((h[gnu_atime_field.at] &&
		     signed_number(h, &gnu_atime_field, &n, NULL) < 0) ||
		    (h[gnu_ctime_field.at] &&
		     signed_number(h, &gnu_ctime_field, &n, NULL) < 0))
			return refuse_odd_header(err,
						 "a GNU header has a prefix");
		return 0;
	}
	if (dialect == DIALECT_STAR &&
	    (signed_number(h, &star_atime_field, &n, err) < 0 ||
	     signed_number(h, &star_ctime_field, &n, err) < 0))
		return -EBADMSG;
	ret->prefix = field_of(h, dialect == DIALECT_STAR ? &star_prefix_field
							  : &prefix_field);
	if (ret->prefix.len == 0)
		ret->prefix.data = NULL;
	return 0;
}

static bool has_nul(const struct pax_text *t)
{
	return t->len && memchr(t->data, '\0', t->len);
}

static int take_names(const uint8_t *h, const struct extended *e,
		      struct tar_head *ret, struct error *err)
{
	struct pax_text path, link;
	bool has_path = find_record(&e->records, "path", &path);
	bool has_link = find_record(&e->records, "linkpath", &link);
	int rc;

	if ((has_path && e->name.data) || (has_link && e->link.data))
		return refuse_odd_header(err, "it has two long names");
	if ((has_path && has_nul(&path)) || (has_link && has_nul(&link)))
		return error_set(err, EBADMSG, "a NUL is in its name");
	ret->name = field_of(h, &name_field);
	ret->link = field_of(h, &link_field);
	rc = take_name_prefix(h, ret, err);
	if (has_path || e->name.data) {
		ret->name = has_path ? path : e->name;
		ret->prefix.data = NULL;
	}
	if (has_link || e->link.data)
		ret->link = has_link ? link : e->link;
	return rc;
}

/* Does the name end with a slash?  An empty name after a prefix does: a slash stands between
 * them. */
static bool ends_with_slash(const struct tar_head *h)
{
	return h->name.len ? h->name.data[h->name.len - 1] == '/'
			   : h->prefix.data != NULL;
}

static int take_type(struct tar_head *h, uint8_t type, struct error *err)
{
	h->type = (char)type;
	/* Old tars mark a folder only by a slash at the end of its name. */
	if (type == '\0')
		h->type = ends_with_slash(h) ? '5' : '0';
	if (!memchr("0123456Sg", h->type, 9))
		return error_set(err, ENOTSUP,
				 "an entry of type '%c', which containerd does "
				 "not unpack",
				 type > 0x20 && type < 0x7f ? type : '?');
	return 0;
}

/* -------------------------------------------------------------- attributes --- */

static int take_id(const uint8_t *h, const struct tar_field *f,
		   const struct pax_text *records, const char *key,
		   uint32_t *ret, struct error *err)
{
	struct pax_text t;
	uint64_t n;
	int rc = find_record(records, key, &t) ? tar_decimal(&t, key, &n, err)
					       : parse_number(h, f, &n, err);

	if (rc == 0 && n >= UINT32_MAX)
		rc = error_set(err, EINVAL, "its %s %llu is out of range", key,
			       (unsigned long long)n);
	if (rc == 0)
		*ret = (uint32_t)n;
	return rc;
}

/* Parse a time such as "-1350244992.023960108"; digits after the ninth are ignored. */
static int parse_time(const struct pax_text *t, struct tar_head *ret,
		      struct error *err)
{
	const uint8_t *dot = memchr(t->data, '.', t->len);
	bool is_negative = *t->data == '-';
	struct pax_text whole = { .data = t->data + is_negative,
				  .len = dot ? (size_t)(dot - t->data)
					     : t->len };
	uint64_t seconds, nsec = 0;
	size_t digits = 0;
	int rc;

	whole.len -= is_negative;
	rc = tar_decimal(&whole, "mtime", &seconds, err);
	if (rc < 0)
		return rc;
	for (const uint8_t *p = dot ? dot + 1 : t->data + t->len;
	     p < t->data + t->len; p++) {
		if (*p < '0' || *p > '9')
			return error_set(err, EBADMSG,
					 "its mtime is no number");
		if (digits < NSEC_DIGITS)
			nsec = nsec * 10 + *p - '0';
		digits++;
	}
	for (; digits < NSEC_DIGITS; digits++)
		nsec *= 10;
	ret->mtime = is_negative ? -(int64_t)seconds : (int64_t)seconds;
	if (is_negative && nsec) {
		ret->mtime--;
		nsec = 1000000000 - nsec;
	}
	ret->mtime_nsec = (uint32_t)nsec;
	return 0;
}

static int take_devices(const uint8_t *h, struct tar_head *ret,
			struct error *err)
{
	uint64_t major = 0, minor = 0;
	int rc = 0;

	if (dialect_of(h) == DIALECT_V7)
		return 0;
	rc = parse_number(h, &major_field, &major, err);
	if (rc == 0)
		rc = parse_number(h, &minor_field, &minor, err);
	if (rc == 0 && (major > UINT32_MAX || minor > UINT32_MAX))
		rc = error_set(err, EINVAL, "its device is out of range");
	ret->major = (uint32_t)major;
	ret->minor = (uint32_t)minor;
	return rc;
}

static int take_attributes(const uint8_t *h, struct tar_head *ret,
			   struct error *err)
{
	struct pax_text t;
	uint64_t mode;
	int rc = parse_number(h, &mode_field, &mode, err);

	/* Some writers add the file type to the mode. */
	ret->mode = (uint32_t)mode & 07777;
	if (rc == 0)
		rc = take_id(h, &uid_field, &ret->records, "uid", &ret->uid,
			     err);
	if (rc == 0)
		rc = take_id(h, &gid_field, &ret->records, "gid", &ret->gid,
			     err);
	if (rc == 0)
		rc = signed_number(h, &mtime_field, &ret->mtime, err);
	if (rc == 0 && find_record(&ret->records, "mtime", &t))
		rc = parse_time(&t, ret, err);
	return rc == 0 ? take_devices(h, ret, err) : rc;
}

/* ------------------------------------------------------------------- sizes --- */

static bool is_key(const struct pax_text *key, const char *text)
{
	return key->len == strlen(text) &&
	       memcmp(key->data, text, key->len) == 0;
}

static bool has_prefix(const struct pax_text *key, const char *prefix)
{
	size_t len = strlen(prefix);

	return key->len >= len && memcmp(key->data, prefix, len) == 0;
}

/* Refuse records that some readers use and Go does not, and repeated records of sparse files,
 * except the pairs of a map of version 0.0. */
static int check_records(const struct pax_text *records, struct error *err)
{
	static const char *const once[] = {
		"GNU.sparse.major",     "GNU.sparse.minor",
		"GNU.sparse.map",       "GNU.sparse.name",
		"GNU.sparse.size",      "GNU.sparse.realsize",
		"GNU.sparse.numblocks",
	};
	struct pax_text key, value;
	size_t at = 0, seen[ARRAY_SIZE(once)] = { 0 };
	bool has_pairs = false;

	while (records->data &&
	       pax_next(records->data, records->len, &at, &key, &value)) {
		has_pairs |= is_key(&key, "GNU.sparse.offset") ||
			     is_key(&key, "GNU.sparse.numbytes");
		for (size_t i = 0; i < ARRAY_SIZE(once); i++)
			seen[i] += is_key(&key, once[i]);
		if (has_prefix(&key, "SUN."))
			return refuse_odd_header(err,
						 "it has records of Solaris");
	}
	for (size_t i = 0; i < ARRAY_SIZE(once); i++)
		if (seen[i] > 1)
			return refuse_odd_header(err,
						 "it says twice what it is");
	if (has_pairs && seen[2])
		return refuse_odd_header(err, "it has two maps");
	return 0;
}

/* Find the version of a GNU sparse file in PAX headers: 0.0, 0.1 or 1.0. */
static int find_version(struct tar_head *h, struct error *err)
{
	struct pax_text major, minor, map;
	bool has_major = find_record(&h->records, "GNU.sparse.major", &major);
	bool has_minor = find_record(&h->records, "GNU.sparse.minor", &minor);
	bool has_map = find_record(&h->records, "GNU.sparse.map", &map) ||
		       find_record(&h->records, "GNU.sparse.offset", &map);

	if (!has_major && !has_minor) {
		h->sparse = has_map ? TAR_SPARSE_RECORDS : TAR_DENSE;
		return 0;
	}
	if (has_major && has_minor && major.len == 1 && minor.len == 1) {
		if (*major.data == '1' && *minor.data == '0') {
			h->sparse = TAR_SPARSE_CONTENT;
			return 0;
		}
		if (*major.data == '0' &&
		    (*minor.data == '0' || *minor.data == '1')) {
			h->sparse = TAR_SPARSE_RECORDS;
			return 0;
		}
	}
	return refuse_odd_header(err,
				 "it is a sparse file of an unknown version");
}

static int take_sparse_records(struct tar_head *h, struct error *err)
{
	struct pax_text name, size, real;
	uint64_t n = h->size, m = h->size;
	bool has_size, has_real;
	int rc = find_version(h, err);

	if (rc < 0 || h->sparse == TAR_DENSE)
		return rc;
	if (find_record(&h->records, "GNU.sparse.name", &name)) {
		if (has_nul(&name))
			return error_set(err, EBADMSG, "a NUL is in its name");
		h->prefix.data = NULL;
		h->name = name;
	}
	has_size = find_record(&h->records, "GNU.sparse.size", &size);
	has_real = find_record(&h->records, "GNU.sparse.realsize", &real);
	if (has_size)
		rc = tar_decimal(&size, "size", &n, err);
	if (rc == 0 && has_real)
		rc = tar_decimal(&real, "size", &m, err);
	if (rc == 0 && has_size && has_real && n != m)
		rc = refuse_odd_header(err, "it is a sparse file of two sizes");
	h->size = has_size ? n : m;
	return rc;
}

static int take_sizes(const uint8_t *h, struct tar_head *ret, struct error *err)
{
	struct pax_text t;
	int rc = find_record(&ret->records, "size", &t)
			 ? tar_decimal(&t, "size", &ret->stored, err)
			 : parse_number(h, &size_field, &ret->stored, err);

	if (rc < 0)
		return rc;
	if (!memchr("0S", ret->type, 2)) {
		ret->stored = 0;
		return 0;
	}
	ret->size = ret->stored;
	if (ret->type == '0')
		return take_sparse_records(ret, err);
	ret->sparse = TAR_SPARSE_OLD;
	if (dialect_of(h) != DIALECT_GNU)
		return error_set(err, EBADMSG,
				 "a sparse file in a header that is not GNU's");
	return parse_number(h, &real_size_field, &ret->size, err);
}

/* ------------------------------------------------------------------- whole --- */

bool tar_is_global_name(const struct pax_text *name)
{
	return is_key(name, "pax_global_header");
}

/* Check a global header.  containerd treats it as an entry: it makes the folders of its name,
 * takes a name such as .wh.x for a whiteout, and removes a file of that name. */
static int take_global(const uint8_t *headers, size_t len,
		       const struct tar_head *h, struct error *err)
{
	const struct pax_text body = { .data = headers + TAR_BLOCK };
	struct pax_text path;
	uint64_t size;
	int rc = parse_number(headers, &size_field, &size, err);

	if (rc < 0)
		return rc;
	if (size > len - TAR_BLOCK || !pax_is_whole(body.data, size))
		return error_set(err, EBADMSG, "a global header is damaged");
	path = pax_find(body.data, size, "path");
	if (path.len || h->prefix.data || !tar_is_global_name(&h->name))
		return refuse_odd_header(err,
					 "a global header that is not named "
					 "pax_global_header");
	return 0;
}

int tar_head_parse(const uint8_t *headers, size_t len, struct tar_head *ret,
		   struct error *err)
{
	struct extended e = { .records = { .data = NULL } };
	const uint8_t *h;
	int rc = 0;

	h = read_extended(headers, len, &e, &rc, err);
	if (!h)
		return rc;
	*ret = (struct tar_head){ .records = e.records, .header = h };
	rc = take_names(h, &e, ret, err);
	if (rc == 0)
		rc = take_type(ret, h[TYPE_AT], err);
	if (rc == 0 && ret->type == 'g')
		return h == headers
			       ? take_global(headers, len, ret, err)
			       : refuse_odd_header(
					 err, "a global header lies between "
					      "its own");
	if (rc == 0)
		rc = check_records(&ret->records, err);
	if (rc == 0)
		rc = take_attributes(h, ret, err);
	return rc == 0 ? take_sizes(h, ret, err) : rc;
}
