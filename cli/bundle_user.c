// SPDX-License-Identifier: Apache-2.0
/* Users in an image's /etc/passwd and /etc/group, which are unrelated to the host's users. */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "cli/bundle.h"

#define FIELDS_MAX 7

struct user_field {
	const char *at;
	size_t len;
};

/* Split the next line that has at least `want` fields, and move `*p` past it.  False: no such line
 * is left. */
static bool next_line(const char **p, size_t want, struct user_field *f)
{
	while (*p && **p) {
		const char *end = *p + strcspn(*p, "\n"), *at = *p;
		size_t n = 0;

		*p = *end ? end + 1 : end;
		while (n < FIELDS_MAX) {
			const char *colon = memchr(at, ':', (size_t)(end - at));

			f[n].at = at;
			f[n++].len = (size_t)((colon ? colon : end) - at);
			if (!colon)
				break;
			at = colon + 1;
		}
		if (n >= want)
			return true;
	}
	return false;
}

static bool is_text(const struct user_field *f, const char *text, size_t len)
{
	return f->len == len && memcmp(f->at, text, len) == 0;
}

static bool parse_number(const char *text, size_t len, uint32_t *ret)
{
	uint64_t v = 0;

	for (size_t i = 0; i < len; i++) {
		if (!isdigit((unsigned char)text[i]) || v > UINT32_MAX / 10)
			return false;
		v = v * 10 + (uint64_t)(text[i] - '0');
	}
	*ret = (uint32_t)v;
	return len > 0 && v < UINT32_MAX;
}

static bool entry_names_user(const struct user_field *name,
			     const struct user_field *id, const char *text,
			     size_t len)
{
	uint32_t a, b;

	if (is_text(name, text, len))
		return true;
	return parse_number(text, len, &a) &&
	       parse_number(id->at, id->len, &b) && a == b;
}

/* Find a user's line in /etc/passwd: name, password, uid, gid, comment, home, shell. */
static bool find_user(const char *passwd, const char *text, size_t len,
		      struct bundle_user *u, struct user_field *ret_name)
{
	struct user_field f[FIELDS_MAX];

	while (next_line(&passwd, 6, f)) {
		if (!entry_names_user(&f[0], &f[2], text, len) ||
		    !parse_number(f[2].at, f[2].len, &u->uid) ||
		    !parse_number(f[3].at, f[3].len, &u->gid))
			continue;
		if (f[5].len < sizeof(u->home)) {
			memcpy(u->home, f[5].at, f[5].len);
			u->home[f[5].len] = '\0';
		}
		*ret_name = f[0];
		return true;
	}
	return false;
}

static bool find_group(const char *group, const char *text, size_t len,
		       uint32_t *ret)
{
	struct user_field f[FIELDS_MAX];

	while (next_line(&group, 3, f))
		if (entry_names_user(&f[0], &f[2], text, len))
			return parse_number(f[2].at, f[2].len, ret);
	return false;
}

/* Is `name` in the list "a,b,c"? */
static bool has_member(const struct user_field *list,
		       const struct user_field *name)
{
	const char *p = list->at, *end = p + list->len;

	while (p < end) {
		const char *comma = memchr(p, ',', (size_t)(end - p));
		size_t len = (size_t)((comma ? comma : end) - p);

		if (is_text(name, p, len))
			return true;
		p += len + 1;
	}
	return false;
}

static void add_groups(const char *group, const struct user_field *name,
		       struct bundle_user *u)
{
	struct user_field f[FIELDS_MAX];

	while (u->n_groups < BUNDLE_GROUPS_MAX && next_line(&group, 4, f))
		if (has_member(&f[3], name) &&
		    parse_number(f[2].at, f[2].len, &u->groups[u->n_groups]))
			u->n_groups++;
}

int bundle_user_find(const char *who, const char *passwd, const char *group,
		     struct bundle_user *ret, struct error *err)
{
	size_t len = strcspn(who, ":");
	const char *wanted = who[len] ? who + len + 1 : "";
	struct user_field name = { .at = NULL };
	bool listed;

	*ret = (struct bundle_user){ .uid = 0 };
	if (len == 0) {
		who = "0";
		len = 1;
	}
	listed = find_user(passwd, who, len, ret, &name);
	if (!listed && !parse_number(who, len, &ret->uid))
		return error_set(err, ENOENT,
				 "its user '%.*s' is not in its /etc/passwd",
				 (int)len, who);
	if (!*wanted) {
		if (listed)
			add_groups(group, &name, ret);
		return 0;
	}
	if (!find_group(group, wanted, strlen(wanted), &ret->gid) &&
	    !parse_number(wanted, strlen(wanted), &ret->gid))
		return error_set(err, ENOENT,
				 "its group '%s' is not in its /etc/group",
				 wanted);
	return 0;
}
