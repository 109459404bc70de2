// SPDX-License-Identifier: Apache-2.0
#include "objects/hdfs/hdfs_json.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/json.h"

#define MESSAGE_MAX 200
#define SUFFIX_MAX 255

static bool get_number(const json_t *j, const char *key, uint64_t *ret)
{
	const json_t *n = json_object_get(j, key);

	if (!json_is_integer(n) || json_integer_value(n) < 0)
		return false;
	*ret = (uint64_t)json_integer_value(n);
	return true;
}

static int parse_file_status(const json_t *j, struct hdfs_status *ret)
{
	const char *type = json_string_value(json_object_get(j, "type"));
	uint64_t modified;

	*ret = (struct hdfs_status){
		.suffix = json_string_value(json_object_get(j, "pathSuffix")),
	};
	if (!type || !get_number(j, "length", &ret->size) ||
	    !get_number(j, "modificationTime", &modified) ||
	    modified > INT64_MAX / 1000)
		return -EBADMSG;
	ret->modified_ms = (int64_t)modified;
	/* Gateways to other file systems leave these out. */
	(void)get_number(j, "fileId", &ret->id);
	(void)get_number(j, "blockSize", &ret->block_size);
	ret->is_file = strcmp(type, "FILE") == 0;
	return 0;
}

int hdfs_status_parse(const char *data, size_t len, struct hdfs_status *ret)
{
	AUTO_JSON *j = json_loadb(data, len, 0, NULL);
	int rc = parse_file_status(json_object_get(j, "FileStatus"), ret);

	ret->suffix = "";
	return rc;
}

/* Is this a plain name? A server's false name could lead elsewhere. */
static bool is_suffix(const char *s)
{
	return s && strlen(s) <= SUFFIX_MAX && !strchr(s, '/') &&
	       strcmp(s, ".") != 0 && strcmp(s, "..") != 0;
}

static int each_status(const json_t *list, hdfs_status_fn *fn, void *arg)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		struct hdfs_status s;
		int rc = parse_file_status(json_array_get(list, i), &s);

		if (rc == 0 && !is_suffix(s.suffix))
			rc = -EBADMSG;
		if (rc == 0)
			rc = fn(arg, &s);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static char *name_of_last_entry(const json_t *list)
{
	const json_t *last = json_array_get(list, json_array_size(list) - 1);
	const char *suffix =
		json_string_value(json_object_get(last, "pathSuffix"));

	return suffix && *suffix ? strdup(suffix) : NULL;
}

int hdfs_listing_parse(const char *data, size_t len, hdfs_status_fn *fn,
		       void *arg, char **ret_last)
{
	AUTO_JSON *j = json_loadb(data, len, 0, NULL);
	const json_t *whole = json_object_get(j, "DirectoryListing");
	const json_t *list = json_object_get(
		json_object_get(json_object_get(whole, "partialListing"),
				"FileStatuses"),
		"FileStatus");
	uint64_t left;
	int rc = -EBADMSG;

	*ret_last = NULL;
	if (json_is_array(list) &&
	    get_number(whole, "remainingEntries", &left)) {
		rc = each_status(list, fn, arg);
		if (rc == 0 && left) {
			/* Without a last name the same page would come again. */
			*ret_last = name_of_last_entry(list);
			rc = *ret_last ? 0 : -EBADMSG;
		}
	}
	return rc;
}

/* The first line of a message; some have a Java stack trace. */
static char *first_line(const char *text)
{
	size_t len = strcspn(text, "\r\n");
	char *line = strndup(text, len < MESSAGE_MAX ? len : MESSAGE_MAX);

	for (char *c = line; c && *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			*c = ' ';
	return line;
}

int hdfs_exception_parse(const char *data, size_t len, char **ret_name,
			 char **ret_message)
{
	AUTO_JSON *j = json_loadb(data, len, 0, NULL);
	const json_t *e = json_object_get(j, "RemoteException");
	const char *name = json_string_value(json_object_get(e, "exception"));
	const char *why = json_string_value(json_object_get(e, "message"));
	int rc = -EBADMSG;

	if (name) {
		*ret_name = first_line(name);
		*ret_message = first_line(why ? why : "");
		rc = *ret_name && *ret_message ? 0 : -ENOMEM;
		if (rc < 0) {
			free(*ret_name);
			free(*ret_message);
		}
	}
	return rc;
}

int hdfs_boolean_parse(const char *data, size_t len, bool *ret)
{
	AUTO_JSON *j = json_loadb(data, len, 0, NULL);
	const json_t *b = json_object_get(j, "boolean");
	int rc = json_is_boolean(b) ? 0 : -EBADMSG;

	*ret = json_is_true(b);
	return rc;
}

int hdfs_token_parse(const char *data, size_t len, char **ret)
{
	AUTO_JSON *j = json_loadb(data, len, 0, NULL);
	const char *token = json_string_value(
		json_object_get(json_object_get(j, "Token"), "urlString"));
	int rc = -EBADMSG;

	if (token && *token) {
		*ret = strdup(token);
		rc = *ret ? 0 : -ENOMEM;
	}
	return rc;
}

int hdfs_url_range(const char *location, uint64_t off, uint64_t len,
		   struct buf *ret)
{
	size_t n = strcspn(location, "?");
	const char *at = location + n;
	char mark = '?';
	int rc = buf_append(ret, location, n);

	while (*at && rc == 0) {
		at++;
		n = strcspn(at, "&");
		if (n && strncmp(at, "offset=", 7) != 0 &&
		    strncmp(at, "length=", 7) != 0) {
			rc = buf_append(ret, &mark, 1);
			if (rc == 0)
				rc = buf_append(ret, at, n);
			mark = '&';
		}
		at += n;
	}
	return rc == 0 ? buf_printf(ret, "%coffset=%" PRIu64 "&length=%" PRIu64,
				    mark, off, len)
		       : rc;
}
