// SPDX-License-Identifier: Apache-2.0
/* Values of options: from text into the members of a configuration struct. */
#include "common/option_priv.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"

const char *const option_log_levels[] = { "error", "warning", "info", "debug",
					  NULL };

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit size_units[] = {
	{ "", 1 },
	{ "B", 1 },
	{ "K", UINT64_C(1) << 10 },
	{ "KiB", UINT64_C(1) << 10 },
	{ "M", UINT64_C(1) << 20 },
	{ "MiB", UINT64_C(1) << 20 },
	{ "G", UINT64_C(1) << 30 },
	{ "GiB", UINT64_C(1) << 30 },
	{ "T", UINT64_C(1) << 40 },
	{ "TiB", UINT64_C(1) << 40 },
	{ NULL, 0 },
};

static const struct unit duration_units[] = {
	{ "ns", 1 },
	{ "us", 1000 },
	{ "ms", 1000000 },
	{ "s", 1000000000 },
	{ "m", UINT64_C(60000000000) },
	{ "h", UINT64_C(3600000000000) },
	{ "d", UINT64_C(86400000000000) },
	{ NULL, 0 },
};

/* Digits, then a unit of the table; no sign, no white space. */
static int parse_units(const char *text, const struct unit *units, uint64_t max,
		       uint64_t *ret)
{
	unsigned long long n;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno)
		return -ERANGE;
	for (; units->name; units++) {
		if (strcmp(end, units->name) != 0)
			continue;
		if (n > max / units->factor)
			return -ERANGE;
		*ret = n * units->factor;
		return 0;
	}
	return -EINVAL;
}

int option_parse_size(const char *text, uint64_t *ret, struct error *err)
{
	int rc = parse_units(text, size_units, UINT64_MAX, ret);

	if (rc == -ERANGE)
		return error_set(err, ERANGE, "size '%s' is too large", text);
	if (rc < 0)
		return error_set(err, EINVAL,
				 "'%s' is not a size: want a number and K, M, "
				 "G or T, as in 10G",
				 text);
	return 0;
}

int option_parse_duration(const char *text, int64_t *ret_ns, struct error *err)
{
	uint64_t v = 0;
	/* "0" needs no unit. */
	int rc = strcmp(text, "0") == 0
			 ? 0
			 : parse_units(text, duration_units, INT64_MAX, &v);

	if (rc == -ERANGE)
		return error_set(err, ERANGE, "duration '%s' is too large",
				 text);
	if (rc < 0)
		return error_set(err, EINVAL,
				 "'%s' is not a duration: want a number and "
				 "ms, s, m, h or d, as in 5s",
				 text);
	*ret_ns = (int64_t)v;
	return 0;
}

int option_parse_bool(const char *text, bool *ret, struct error *err)
{
	static const char *const yes[] = { "yes", "true", "on", "1" };
	static const char *const no[] = { "no", "false", "off", "0" };

	for (size_t i = 0; i < ARRAY_SIZE(yes); i++) {
		if (strcmp(text, yes[i]) == 0 || strcmp(text, no[i]) == 0) {
			*ret = strcmp(text, yes[i]) == 0;
			return 0;
		}
	}
	return error_set(err, EINVAL, "'%s' is neither yes nor no", text);
}

static int parse_integer(const char *text, uint64_t *ret, struct error *err)
{
	static const struct unit plain[] = { { "", 1 }, { NULL, 0 } };

	if (parse_units(text, plain, UINT64_MAX, ret) < 0)
		return error_set(err, EINVAL, "'%s' is not a whole number",
				 text);
	return 0;
}

/* Parse a number by its type; the result always has 64 bits. */
static int parse_number(enum option_type type, const char *text, uint64_t *ret,
			struct error *err)
{
	int64_t ns = 0;
	int rc;

	if (type == OPTION_SIZE)
		return option_parse_size(text, ret, err);
	if (type == OPTION_INTEGER)
		return parse_integer(text, ret, err);
	rc = option_parse_duration(text, &ns, err);
	*ret = (uint64_t)ns;
	return rc;
}

static int set_number(const struct option_spec *o, void *member,
		      const char *text, struct error *err)
{
	uint64_t v = 0, bound = 0;
	int rc = parse_number(o->type, text, &v, err);

	if (rc < 0)
		return rc;
	if (o->min && parse_number(o->type, o->min, &bound, NULL) == 0 &&
	    v < bound)
		return error_set(err, ERANGE, "'%s' is below the least, %s",
				 text, o->min);
	if (o->max && parse_number(o->type, o->max, &bound, NULL) == 0 &&
	    v > bound)
		return error_set(err, ERANGE, "'%s' is above the most, %s",
				 text, o->max);
	memcpy(member, &v, sizeof(v));
	return 0;
}

static int set_string(void *member, const char *text, struct error *err)
{
	char **p = member;
	char *copy = strdup(text);

	if (!copy)
		return error_nomem(err);
	free(*p);
	*p = copy;
	return 0;
}

/* Check now that the file can be read; otherwise the mistake would only be noticed when the file
 * is first needed. */
static int set_file(const struct option_spec *o, void *member, const char *text,
		    struct error *err)
{
	bool is_there;
	struct stat st;

	for (const char *const *v = o->values; v && *v; v++)
		if (strcmp(text, *v) == 0)
			return set_string(member, text, err);
	is_there = access(text, R_OK) == 0;
	if (!is_there && errno == ENOENT && o->absent)
		return error_set(err, ENOENT, "'%s' is not there: %s", text,
				 o->absent);
	if (!is_there)
		return error_set(err, errno, "'%s': %s%s", text,
				 strerror(errno),
				 errno == ENOENT ? ": mend the path, or make "
						   "the file first"
						 : error_root_hint(errno));
	if (stat(text, &st) == 0 && S_ISDIR(st.st_mode))
		return error_set(err, EISDIR,
				 "'%s' is a folder: name a file in it", text);
	return set_string(member, text, err);
}

static int set_enum(const struct option_spec *o, void *member, const char *text,
		    struct error *err)
{
	AUTO_BUF all = BUF_INIT;

	for (const char *const *v = o->values; *v; v++) {
		if (strcmp(text, *v) == 0)
			return set_string(member, text, err);
		if (buf_printf(&all, "%s%s", all.len ? ", " : "", *v) < 0)
			return error_nomem(err);
	}
	return error_set(err, EINVAL, "'%s' is none of %s", text, all.data);
}

static int append_list(void *member, const char *text, struct error *err)
{
	char ***list = member;
	char **grown;
	size_t n = 0;

	while (*list && (*list)[n])
		n++;
	grown = realloc(*list, (n + 2) * sizeof(*grown));
	if (!grown)
		return error_nomem(err);
	*list = grown;
	grown[n] = strdup(text);
	grown[n + 1] = NULL;
	return grown[n] ? 0 : error_nomem(err);
}

int option_set(const struct option_spec *o, void *cfg, const char *text,
	       struct error *err)
{
	void *member = (char *)cfg + o->offset;

	switch (o->type) {
	case OPTION_BOOL:
		return option_parse_bool(text, member, err);
	case OPTION_STRING:
		return set_string(member, text, err);
	case OPTION_FILE:
		return set_file(o, member, text, err);
	case OPTION_LIST:
		return append_list(member, text, err);
	case OPTION_ENUM:
		return set_enum(o, member, text, err);
	case OPTION_INTEGER:
	case OPTION_SIZE:
	case OPTION_DURATION:
		return set_number(o, member, text, err);
	}
	return error_set(err, EINVAL, "option '%s' has no type", o->key);
}

bool option_is_text(enum option_type type)
{
	return type == OPTION_STRING || type == OPTION_FILE ||
	       type == OPTION_ENUM;
}

void option_clear(const struct option_spec *o, void *cfg)
{
	void *member = (char *)cfg + o->offset;
	char ***list = member;
	char **text = member;

	if (option_is_text(o->type)) {
		free(*text);
		*text = NULL;
	} else if (o->type == OPTION_LIST) {
		for (size_t i = 0; *list && (*list)[i]; i++)
			free((*list)[i]);
		free(*list);
		*list = NULL;
	}
}

void option_fini(const struct option_spec *options, void *cfg)
{
	for (const struct option_spec *o = options; o->key; o++)
		option_clear(o, cfg);
}

const struct option_spec *option_find(const struct option_spec *options,
				      const char *key, size_t len)
{
	for (const struct option_spec *o = options; o->key; o++)
		if (strlen(o->key) == len && memcmp(o->key, key, len) == 0)
			return o;
	return NULL;
}

const char *option_bare(const struct option_spec *o)
{
	return o->type == OPTION_BOOL ? "yes" : o->bare;
}
