// SPDX-License-Identifier: Apache-2.0
/* Lists of key ids: parsing, merging and searching them.  Does no I/O. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/digest.h"
#include "snapshotter/node/trust/key_revocations.h"

#define SPACE " \t\r"
#define HEX_DIGITS (2u * DIGEST_SIZE)

void key_ids_fini(struct key_ids *k)
{
	free(k->v);
	*k = (struct key_ids){ .n = 0 };
}

bool key_ids_has(const struct key_ids *k, const struct digest *id)
{
	return k->n > 0 &&
	       bsearch(id, k->v, k->n, sizeof(*k->v), compare_digests);
}

static void key_ids_sort(struct key_ids *k)
{
	size_t n = 0;

	if (k->n > 0)
		qsort(k->v, k->n, sizeof(*k->v), compare_digests);
	for (size_t i = 0; i < k->n; i++)
		if (n == 0 || !digest_equal(&k->v[n - 1], &k->v[i]))
			k->v[n++] = k->v[i];
	k->n = n;
}

/* Append an id to a list; only this function must have filled it, since the room grows by
 * powers of two. */
static int key_ids_add(struct key_ids *k, const char *hex, size_t len,
		       size_t max, struct error *err)
{
	char text[DIGEST_STR_MAX];
	struct digest *v;

	if (k->n == max)
		return error_set(err, E2BIG, "more than %zu keys", max);
	if (len > 7 && strncmp(hex, "sha256:", 7) == 0) {
		hex += 7;
		len -= 7;
	}
	if (len != HEX_DIGITS)
		return error_set(err, EINVAL,
				 "'%.*s' is no id of a key: wanted are %u hex "
				 "digits",
				 len > HEX_DIGITS ? (int)HEX_DIGITS : (int)len,
				 hex, HEX_DIGITS);
	/* Double the room. */
	if ((k->n & (k->n - 1)) == 0) {
		v = reallocarray(k->v, k->n ? 2 * k->n : 1, sizeof(*v));
		if (!v)
			return error_nomem(err);
		k->v = v;
	}
	(void)snprintf(text, sizeof(text), "sha256:%.*s", (int)len, hex);
	if (digest_parse(text, &k->v[k->n], err) < 0)
		return -EINVAL;
	k->n++;
	return 0;
}

int key_ids_merge(struct key_ids *k, const struct key_ids *more,
		  struct error *err)
{
	struct digest *v;

	if (more->n == 0)
		return 0;
	v = reallocarray(k->v, k->n + more->n, sizeof(*v));
	if (!v)
		return error_nomem(err);
	memcpy(v + k->n, more->v, more->n * sizeof(*v));
	k->v = v;
	k->n += more->n;
	key_ids_sort(k);
	return 0;
}

int key_ids_parse(const char *text, size_t len, size_t max, struct key_ids *ret,
		  struct error *err)
{
	AUTO_FREE char *copy = strndup(text, len);
	struct key_ids k = { .n = 0 };
	char *rest = copy, *line;
	int rc = 0, number = 0;
	size_t n;

	if (!copy)
		return error_nomem(err);
	if (strlen(copy) != len)
		return error_set(err, EINVAL, "it is no text");
	while (rc == 0 && (line = strsep(&rest, "\n"))) {
		number++;
		line[strcspn(line, "#")] = '\0';
		line += strspn(line, SPACE);
		n = strlen(line);
		while (n > 0 && strchr(SPACE, line[n - 1]))
			n--;
		if (n > 0)
			rc = key_ids_add(&k, line, n, max, err);
	}
	if (rc < 0) {
		key_ids_fini(&k);
		return error_wrap(err, rc, "line %d", number);
	}
	key_ids_sort(&k);
	*ret = k;
	return 0;
}

#define SEAL "# complete: "

int key_ids_seal(struct buf *text, struct error *err)
{
	char hex[DIGEST_STR_MAX];
	struct digest d;

	if (digest_of(text->data, text->len, &d) < 0)
		return error_nomem(err);
	digest_format(&d, hex);
	return buf_printf(text, SEAL "%s\n", hex) < 0 ? error_nomem(err) : 0;
}

int key_ids_check_seal(const char *text, size_t len, struct error *err)
{
	/* the NUL of DIGEST_STR_MAX counts for "\
	 * " */
	const size_t seal_len = strlen(SEAL) + DIGEST_STR_MAX;
	char hex[DIGEST_STR_MAX] = "";
	struct digest want, is;

	if (len >= seal_len &&
	    memcmp(text + len - seal_len, SEAL, strlen(SEAL)) == 0 &&
	    text[len - 1] == '\n')
		memcpy(hex, text + len - DIGEST_STR_MAX, DIGEST_STR_MAX - 1);
	if (digest_parse(hex, &want, NULL) < 0 ||
	    digest_of(text, len - seal_len, &is) < 0 ||
	    !digest_equal(&want, &is))
		return error_set(err, EBADMSG,
				 "it does not end with its digest: it was cut "
				 "or changed");
	return 0;
}

static int keys_from_list(const json_t *list, struct key_ids *k,
			  struct error *err)
{
	const json_t *one;
	size_t i;
	int rc = 0;

	json_array_foreach(list, i, one)
	{
		const json_t *key = json_object_get(one, "key");

		if (!json_is_string(key))
			return error_set(err, EINVAL, "no list of keys");
		rc = key_ids_add(k, json_string_value(key),
				 json_string_length(key), TRUST_REVOKED_MAX,
				 err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int key_ids_from_json(const char *text, size_t len, struct key_ids *ret,
		      struct error *err)
{
	struct key_ids k = { .n = 0 };
	json_t *all = json_loadb(text, len, 0, NULL);
	const json_t *list = json_object_get(all, "revoked");
	int rc = json_is_array(list)
			 ? keys_from_list(list, &k, err)
			 : error_set(err, EINVAL, "no list of keys");

	json_decref(all);
	if (rc < 0) {
		key_ids_fini(&k);
		return rc;
	}
	key_ids_sort(&k);
	*ret = k;
	return 0;
}
