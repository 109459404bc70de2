// SPDX-License-Identifier: Apache-2.0
#include "cli/ops_export.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/bounded_json.h"
#include "common/buf.h"
#include "profiler/prom/prom.h"

#define LINE_MAX_BYTES (64u << 20)
#define VALUES_MAX (LINE_MAX_BYTES / 16)
#define READ_SIZE 4096u
#define MS 1000

/* Write {name="value",..} with quotes, backslashes and line ends escaped. */
static int write_labels(const json_t *metric, FILE *to)
{
	const char *name, *sign = "{";
	json_t *value;

	json_object_foreach((json_t *)(uintptr_t)metric, name, value)
	{
		const char *text = json_string_value(value);

		if (strcmp(name, "__name__") == 0)
			continue;
		if (!text || !prom_is_name(name) || strchr(name, ':'))
			return -1;
		fprintf(to, "%s%s=\"", sign, name);
		for (; *text; text++)
			if (*text == '\n')
				(void)fputs("\\n", to);
			else
				fprintf(to, "%s%c",
					*text == '"' || *text == '\\' ? "\\"
								      : "",
					*text);
		(void)fputc('"', to);
		sign = ",";
	}
	if (*sign == ',')
		(void)fputc('}', to);
	return 0;
}

static int write_series(const json_t *series, FILE *to)
{
	const json_t *metric = json_object_get(series, "metric");
	const json_t *values = json_object_get(series, "values");
	const json_t *times = json_object_get(series, "timestamps");
	const char *name =
		json_string_value(json_object_get(metric, "__name__"));
	size_t n = json_array_size(values);

	if (!name || !prom_is_name(name) || n != json_array_size(times))
		return -1;
	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_array_get(values, i);
		const json_t *t = json_array_get(times, i);
		int64_t at_ms = json_integer_value(t);

		if (json_is_null(v) || json_is_string(v))
			continue; /* missing, or not a finite number */
		if (!json_is_number(v) || !json_is_integer(t) || at_ms < 0)
			return -1;
		(void)fputs(name, to);
		if (write_labels(metric, to) < 0)
			return -1;
		fprintf(to, " %.17g %" PRId64 ".%03d\n", json_number_value(v),
			at_ms / MS, (int)(at_ms % MS));
	}
	return 0;
}

/* Read the next line; empty at the end.  -EFBIG: it is longer than the limit of `ret`. */
static int read_line(FILE *in, struct buf *ret)
{
	char some[READ_SIZE];
	int c = 0, rc = 0;

	buf_reset(ret);
	while (rc == 0 && c != EOF && c != '\n') {
		size_t n = 0;

		while (n < sizeof(some) && c != '\n' &&
		       (c = getc_unlocked(in)) != EOF)
			some[n++] = (char)c;
		rc = n ? buf_append(ret, some, n) : 0;
	}
	return rc;
}

static int convert_lines(FILE *in, FILE *to, struct error *err)
{
	AUTO_BUF line = { .limit = LINE_MAX_BYTES };
	size_t number = 0;
	int rc;

	while ((rc = read_line(in, &line)) == 0 && line.len) {
		AUTO_JSON *series = NULL;

		number++;
		if (strspn(line.data, " \r\n") == line.len)
			continue;
		rc = bounded_json_load_large(line.data, line.len, VALUES_MAX,
					     "it", &series, err);
		if (rc < 0 || write_series(series, to) < 0)
			return error_set(err, EINVAL,
					 "line %zu is none of an export of "
					 "VictoriaMetrics",
					 number);
	}
	if (rc == -EFBIG)
		return error_set(err, EFBIG, "line %zu is longer than %u MiB",
				 number + 1, LINE_MAX_BYTES >> 20);
	if (rc < 0)
		return error_nomem(err);
	(void)fputs("# EOF\n", to);
	return ferror(in) ? error_set(err, EIO, "read: %s", strerror(errno))
			  : 0;
}

int ops_export_convert(int in, const char *path, struct error *err)
{
	int fd = dup(in);
	FILE *from = fd < 0 ? NULL : fdopen(fd, "r");
	FILE *to = from ? fopen(path, "wxe") : NULL;
	int rc = to ? convert_lines(from, to, err)
		    : error_errno(err, errno, "%s", path);

	if (to && (ferror(to) | fclose(to)) && rc == 0)
		rc = error_set(err, EIO, "%s: %s", path, strerror(errno));
	if (from)
		(void)fclose(from);
	else if (fd >= 0)
		(void)close(fd);
	return rc;
}
