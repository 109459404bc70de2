// SPDX-License-Identifier: Apache-2.0
#include "registry/route.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/digest.h"
#include "common/text.h"
#include "profiler/stage_event.h"
#include "profiler/start_export.h"

#define WORKLOAD_MAX 255
#define REPO_MAX 512
#define NODE_MAX 255
#define HOST_MAX 255
#define KEY_HEX (2 * DIGEST_SIZE) /* hex digits of a key's id */
#define CAPTURE_HEX 32

/* ---------------------------------------------------------------- parameters --- */

static bool is_digest(const char *s)
{
	struct digest d;

	return digest_parse(s, &d, NULL) == 0;
}

static bool is_workload(const char *s)
{
	return *s && text_is_word(s, WORKLOAD_MAX);
}

static bool is_repo(const char *s)
{
	return text_is_word(s, REPO_MAX);
}

static bool is_node(const char *s)
{
	size_t n = strlen(s);

	for (; *s; s++) {
		if (!isalnum((unsigned char)*s) && !strchr("._-", *s))
			return false;
	}
	return n >= 1 && n <= NODE_MAX;
}

static bool is_flag(const char *s)
{
	return strcmp(s, "0") == 0 || strcmp(s, "1") == 0;
}

static bool is_limit(const char *s)
{
	char *end;
	unsigned long n;

	if (!isdigit((unsigned char)*s) || strlen(s) > 4)
		return false;
	n = strtoul(s, &end, 10);
	return !*end && n >= 1 && n <= 1000;
}

static bool is_id(const char *s)
{
	size_t n = strspn(s, "0123456789");

	return n >= 1 && n <= 18 && !s[n];
}

static bool is_authorization(const char *s)
{
	size_t n = 0;

	while (s[n] >= ' ' && s[n] <= '~')
		n++;
	return !s[n] && n <= 8192;
}

/* Is it HOST[:PORT], as in the name of an image? */
static bool is_host(const char *s)
{
	size_t n = strlen(s);

	return n >= 1 && n <= HOST_MAX &&
	       !s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789.:[]-")];
}

static bool is_job(const char *s)
{
	return stage_is_job(stage_text(s));
}

/* Skip a number of at most `max` digits; `*s` then points behind it. */
static bool skip_number(const char **s, size_t max)
{
	size_t n = strspn(*s, "0123456789");

	*s += n;
	return n >= 1 && n <= max;
}

/* Skip a colon and a number that may be negative. */
static bool skip_offset(const char **s, size_t max)
{
	if (*(*s)++ != ':')
		return false;
	*s += **s == '-';
	return skip_number(s, max);
}

static bool is_clock(const char *s)
{
	size_t n = strspn(s, "0123456789abcdef");

	if (n < 1 || n > 16)
		return false;
	s += n;
	return skip_offset(&s, 19) && skip_offset(&s, 15) && *s++ == ':' &&
	       skip_number(&s, 15) && !*s;
}

static bool is_key(const char *s)
{
	return strlen(s) == KEY_HEX && !s[strspn(s, "0123456789abcdef")];
}

static bool is_image_name(const char *s)
{
	return stage_is_image(stage_text(s));
}

static bool is_label(const char *s)
{
	return stage_is_name(stage_text(s));
}

static bool is_format(const char *s)
{
	return start_export_find(s) != NULL;
}

static bool is_trend_grouping(const char *s)
{
	return strcmp(s, "day") == 0 || strcmp(s, "image") == 0 ||
	       strcmp(s, "label") == 0 || strcmp(s, "class") == 0;
}

static bool is_class(const char *s)
{
	return strcmp(s, start_class_name(START_FULL)) == 0 ||
	       strcmp(s, start_class_name(START_HOT_UPDATE)) == 0;
}

static bool is_days(const char *s)
{
	size_t n = strspn(s, "0123456789");

	return n >= 1 && n <= 3 && !s[n] && atoi(s) >= 1 && atoi(s) <= 400;
}

static bool is_hex(const char *s, size_t least, size_t most)
{
	size_t n = strspn(s, "0123456789abcdef");

	return n >= least && n <= most && !s[n];
}

static bool is_capture(const char *s)
{
	return is_hex(s, CAPTURE_HEX, CAPTURE_HEX);
}

static bool is_key_begin(const char *s)
{
	return is_hex(s, 1, KEY_HEX);
}

#define STRING "{\"type\":\"string\","
const struct param_kind param_digest = {
	"a digest, sha256:HEX",
	STRING "\"pattern\":\"^sha256:[0-9a-f]{64}$\"}",
	is_digest,
};
const struct param_kind param_workload = {
	"1 to 255 bytes of printable ASCII without spaces",
	STRING "\"pattern\":\"^[!-~]{1,255}$\"}",
	is_workload,
};
const struct param_kind param_repo = {
	"up to 512 bytes of printable ASCII without spaces",
	STRING "\"pattern\":\"^[!-~]{0,512}$\"}",
	is_repo,
};
const struct param_kind param_node = {
	"1 to 255 of A-Z a-z 0-9 . _ -",
	STRING "\"pattern\":\"^[A-Za-z0-9._-]{1,255}$\"}",
	is_node,
};
const struct param_kind param_flag = {
	"0 or 1",
	STRING "\"enum\":[\"0\",\"1\"]}",
	is_flag,
};
const struct param_kind param_limit = {
	"1 to 1000",
	"{\"type\":\"integer\",\"minimum\":1,\"maximum\":1000}",
	is_limit,
};

const struct param_kind param_id = {
	"a number",
	"{\"type\":\"integer\",\"minimum\":0}",
	is_id,
};

const struct param_kind param_key = {
	"the id of a key, 64 lower-case hex digits",
	STRING "\"pattern\":\"^[0-9a-f]{64}$\"}",
	is_key,
};

const struct param_kind param_job = {
	"1 to 128 of A-Z a-z 0-9 . _ - : / @ +",
	STRING "\"pattern\":\"^[A-Za-z0-9._:/@+-]{1,128}$\"}",
	is_job,
};

const struct param_kind param_authorization = {
	"a header's value, 8192 bytes at most",
	STRING "\"maxLength\":8192}",
	is_authorization,
};

const struct param_kind param_clock = {
	"BOOT:MONO:WALL:RTT, hex and nanoseconds",
	STRING "\"pattern\":\"^[0-9a-f]{1,16}:-?[0-9]{1,19}:-?[0-9]{1,15}:"
	       "[0-9]{1,15}$\"}",
	is_clock,
};

const struct param_kind param_capture = {
	"the id of a capture, 32 lower-case hex digits",
	STRING "\"pattern\":\"^[0-9a-f]{32}$\"}",
	is_capture,
};

const struct param_kind param_key_begin = {
	"1 to 64 lower-case hex digits",
	STRING "\"pattern\":\"^[0-9a-f]{1,64}$\"}",
	is_key_begin,
};

size_t route_param(const struct route *r, const char *name)
{
	size_t i = 0;

	while (i < ROUTE_PARAMS_MAX - 1 && r->params[i].name &&
	       strcmp(r->params[i].name, name) != 0)
		i++;
	return i;
}

static int take_query(const struct route *r, char *query,
		      const char *values[ROUTE_PARAMS_MAX], struct error *err)
{
	struct httpd_field fields[HTTPD_PARAMS_MAX];
	size_t n = 0;
	int rc = httpd_query_parse(query, fields, &n, err);

	for (size_t k = 0; k < n && rc == 0; k++) {
		size_t i = route_param(r, fields[k].name);

		if (!r->params[i].name || r->params[i].in != PARAM_QUERY)
			rc = error_set(err, EINVAL,
				       "parameter '%s' is not known here",
				       fields[k].name);
		else
			values[i] = fields[k].value;
	}
	return rc;
}

int route_params(const struct route *r, struct httpd_head *h,
		 const char *values[ROUTE_PARAMS_MAX], struct error *err)
{
	int rc = take_query(r, h->query, values, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < ROUTE_PARAMS_MAX && r->params[i].name; i++) {
		const struct route_param *p = &r->params[i];

		if (p->in == PARAM_HEADER)
			values[i] = httpd_head_get(h, p->name);
		if (!values[i] && p->required)
			return error_set(err, EINVAL, "%s is missing", p->name);
		if (values[i] && !p->kind->ok(values[i]))
			return error_set(err, EINVAL, "%s must be %s", p->name,
					 p->kind->name);
	}
	return 0;
}

/* -------------------------------------------------------------------- routing --- */

/* Does the path match the route's pattern? "{name}" matches one part of the path. */
static bool matches_path(const struct route *r, const char *path)
{
	const char *p = r->path;

	while (*p && *path) {
		if (*p == '{') {
			size_t n = strcspn(path, "/");

			if (n == 0)
				return false;
			path += n;
			p += strcspn(p, "}") + 1;
		} else if (*p++ != *path++) {
			return false;
		}
	}
	return !*p && !*path;
}

static int take_parts(const struct route *r, char *path,
		      const char *values[ROUTE_PARAMS_MAX])
{
	const char *p = r->path;
	char *part;

	while (*p) {
		if (*p != '{') {
			p++;
			path++;
			continue;
		}
		part = path;
		path += strcspn(path, "/");
		p += strcspn(p, "}") + 1;
		if (*path) {
			*path++ = '\0';
			p++;
		}
		if (httpd_decode(part) < 0)
			return HTTPD_BAD_REQUEST;
		/* Parts of the path are the route's first parameters, in order. */
		*values++ = part;
	}
	return 0;
}

int route_find(const struct route *routes, size_t n, enum httpd_method method,
	       char *path, const struct route **ret,
	       const char *values[ROUTE_PARAMS_MAX])
{
	*ret = NULL;
	if (method == HTTPD_HEAD)
		method = HTTPD_GET;
	for (size_t i = 0; i < n; i++) {
		if (!matches_path(&routes[i], path))
			continue;
		*ret = &routes[i];
		if (routes[i].method == method)
			return take_parts(&routes[i], path, values);
	}
	return *ret ? HTTPD_METHOD_NOT_ALLOWED : HTTPD_NOT_FOUND;
}

int route_allow(const struct route *routes, size_t n, const struct route *like,
		struct buf *ret)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		if (strcmp(routes[i].path, like->path) != 0)
			continue;
		rc = buf_printf(ret, "%s%s%s", ret->len ? ", " : "",
				httpd_method_name(routes[i].method),
				routes[i].method == HTTPD_GET ? ", HEAD" : "");
	}
	return rc;
}

const struct param_kind param_host = {
	"HOST[:PORT] in lower case",
	STRING "\"pattern\":\"^[a-z0-9.:\\\\[\\\\]-]{1,255}$\"}",
	is_host,
};
const struct param_kind param_image = {
	"1 to 255 of A-Z a-z 0-9 . _ - : / @ +",
	STRING "\"pattern\":\"^[A-Za-z0-9._:/@+-]{1,255}$\"}",
	is_image_name,
};
const struct param_kind param_label = {
	"1 to 64 of A-Z a-z 0-9 . _ -",
	STRING "\"pattern\":\"^[A-Za-z0-9._-]{1,64}$\"}",
	is_label,
};
const struct param_kind param_format = {
	"chrome, otlp or csv",
	STRING "\"enum\":[\"chrome\",\"otlp\",\"csv\"]}",
	is_format,
};
const struct param_kind param_by = {
	"day, image, label or class",
	STRING "\"enum\":[\"day\",\"image\",\"label\",\"class\"]}",
	is_trend_grouping,
};
const struct param_kind param_class = {
	"full or hot_update",
	STRING "\"enum\":[\"full\",\"hot_update\"]}",
	is_class,
};
const struct param_kind param_days = {
	"1 to 400",
	"{\"type\":\"integer\",\"minimum\":1,\"maximum\":400}",
	is_days,
};
