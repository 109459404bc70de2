// SPDX-License-Identifier: Apache-2.0
/* Reads rows of sacct: finds their ends, and reads their columns. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/array.h"
#include "profiler/ops/ops_priv.h"

#define DELIMITER_MAX 64u
#define COLUMNS 9

enum column { JOB, USER, STATE, EXIT, START, END, NODES, TRES, NAME };

static const char *const titles[COLUMNS] = {
	"JobID", "User",     "State",     "ExitCode", "Start",
	"End",   "NodeList", "AllocTRES", "JobName"
};

struct sacct_reader {
	char *at, *end;
	char delimiter[DELIMITER_MAX + 1];
	size_t len; /* bytes of the delimiter */
	int64_t now_s;
};

static int refuse_header(struct error *err)
{
	return error_set(err, EINVAL,
			 "this is not what sacct prints with --parsable2 "
			 "--format=" OPS_SACCT_COLUMNS);
}

/* Read the line of column titles; the text between the first two titles is the delimiter. */
static int read_header(struct sacct_reader *r, struct error *err)
{
	char *line = r->at, *end = memchr(line, '\n', (size_t)(r->end - line));
	const char *user;

	if (!end)
		return refuse_header(err);
	*end = '\0';
	user = strstr(line, titles[USER]);
	if (strncmp(line, titles[JOB], strlen(titles[JOB])) != 0 || !user)
		return refuse_header(err);
	line += strlen(titles[JOB]);
	r->len = (size_t)(user - line);
	if (r->len == 0 || r->len > DELIMITER_MAX)
		return refuse_header(err);
	memcpy(r->delimiter, line, r->len);
	r->delimiter[r->len] = '\0';
	for (size_t i = USER; i < COLUMNS; i++) {
		size_t n = strlen(titles[i]);

		if (strncmp(line, r->delimiter, r->len) != 0 ||
		    strncmp(line + r->len, titles[i], n) != 0)
			return refuse_header(err);
		line += r->len + n;
	}
	if (*line)
		return refuse_header(err);
	r->at = end + 1;
	return 0;
}

static char *find_delimiter(const struct sacct_reader *r, char *from)
{
	return memmem(from, (size_t)(r->end - from), r->delimiter, r->len);
}

/*
 * Find the newline that ends a row, whose name begins at `name`. It is the last newline before the
 * next delimiter, since a name may contain newlines, but a job id, which begins the next row, does
 * not. A delimiter in the same line belongs to the name (sacct does not quote).
 */
static char *find_row_end(const struct sacct_reader *r, char *name)
{
	char *next = find_delimiter(r, name);
	char *end = next ? memrchr(name, '\n', (size_t)(next - name)) : NULL;

	if (!next && r->end > name && r->end[-1] == '\n')
		return r->end - 1;
	if (!end && next)
		end = memchr(name, '\n', (size_t)(r->end - name));
	return end ? end : r->end;
}

/* Split the next row into its columns. False: it has too few. */
static bool cut_row(struct sacct_reader *r, char *v[COLUMNS])
{
	char *line_end = memchr(r->at, '\n', (size_t)(r->end - r->at));
	char *p = r->at;

	if (!line_end)
		line_end = r->end;
	for (size_t i = 0; i + 1 < COLUMNS; i++) {
		char *d = find_delimiter(r, p);

		if (!d || d > line_end) {
			r->at = line_end < r->end ? line_end + 1 : r->end;
			return false;
		}
		v[i] = p;
		*d = '\0';
		p = d + r->len;
	}
	v[NAME] = p;
	line_end = find_row_end(r, p);
	r->at = line_end < r->end ? line_end + 1 : r->end;
	*line_end = '\0';
	return true;
}

/* ------------------------------------------------------------------- columns --- */

bool ops_sacct_time(const char *s, int64_t *ret)
{
	struct tm tm = { .tm_isdst = -1 };
	char *end;

	if (s[0] >= '0' && s[0] <= '9' && !strchr(s, '-')) {
		errno = 0;
		*ret = strtoll(s, &end, 10);
		return *end == '\0' && errno == 0 && *ret > 0 &&
		       *ret < OPS_TIME_MAX;
	}
	end = strptime(s, "%Y-%m-%dT%H:%M:%S", &tm);
	if (!end || *end)
		return false;
	*ret = (int64_t)mktime(&tm);
	return *ret > 0 && *ret < OPS_TIME_MAX;
}

/* Map Slurm's job states (squeue(1), JOB STATE CODES); all others mean stopped. */
static enum ops_end read_state(const char *s)
{
	static const struct {
		const char *state;
		enum ops_end end;
	} ends[] = {
		{ "COMPLETED", OPS_DONE },
		{ "FAILED", OPS_FAILED },
		{ "NODE_FAIL", OPS_FAILED },
		{ "OUT_OF_MEMORY", OPS_FAILED },
		{ "BOOT_FAIL", OPS_FAILED },
		{ "LAUNCH_FAILED", OPS_FAILED },
		{ "RECONFIG_FAIL", OPS_FAILED },
		{ "REQUEUED", OPS_REQUEUED },
		{ "PREEMPTED", OPS_REQUEUED },
		{ "RUNNING", OPS_RUNS },
		{ "COMPLETING", OPS_RUNS },
		{ "RESIZING", OPS_RUNS },
		{ "SUSPENDED", OPS_RUNS },
	};

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++)
		if (strcmp(s, ends[i].state) == 0)
			return ends[i].end;
	return OPS_STOPPED;
}

/* Read the number of GPUs from "billing=16,cpu=8,gres/gpu=8,gres/gpu:h100=8,node=1". */
static uint32_t read_gpus(const char *s)
{
	static const char key[] = "gres/gpu=";

	for (; s; s = strchr(s, ',')) {
		if (*s == ',')
			s++;
		if (strncmp(s, key, strlen(key)) == 0) {
			unsigned long n = strtoul(s + strlen(key), NULL, 10);

			return n < OPS_GPUS_MAX ? (uint32_t)n : 0;
		}
	}
	return 0;
}

/* Read a session. False: the row is not of a job that began, or its times contradict each other. */
static bool read_session(const struct sacct_reader *r, char *v[COLUMNS],
			 struct ops_session *ret, bool *is_bad)
{
	*is_bad = v[JOB][0] < '0' || v[JOB][0] > '9';
	*ret = (struct ops_session){ .job = v[JOB],
				     .user = v[USER],
				     .name = v[NAME],
				     .state = v[STATE],
				     .exit = v[EXIT],
				     .end = read_state(v[STATE]),
				     .gpus = read_gpus(v[TRES]) };
	if (*is_bad || !ops_sacct_time(v[START], &ret->begin_s))
		return false;
	if (!ops_sacct_time(v[END], &ret->end_s)) {
		ret->end_s = r->now_s;
		if (ret->end != OPS_RUNS)
			*is_bad = true;
	}
	if (ret->end_s < ret->begin_s)
		*is_bad = true;
	return !*is_bad;
}

static int compare_sessions_by_name(const void *x, const void *y)
{
	const struct ops_session *a = x, *b = y;
	int c = strcmp(a->user, b->user);

	if (c == 0)
		c = strcmp(a->name, b->name);
	if (c == 0)
		c = (a->begin_s > b->begin_s) - (a->begin_s < b->begin_s);
	return c ? c : (a->end_s > b->end_s) - (a->end_s < b->end_s);
}

static int read_rows(struct sacct_reader *r, struct ops_set *s,
		     struct error *err)
{
	AUTO_FINI(ops_places) places = { .set = s };
	size_t cap = 0;
	int rc = 0;

	while (rc == 0 && r->at < r->end) {
		struct ops_session session;
		char *v[COLUMNS];
		bool is_bad = true;

		if (!cut_row(r, v) || !read_session(r, v, &session, &is_bad)) {
			s->n_bad += is_bad;
			continue;
		}
		if (s->n_sessions == OPS_SESSIONS_MAX)
			rc = error_set(err, EFBIG,
				       "more than %u sessions: ask sacct for "
				       "fewer days",
				       OPS_SESSIONS_MAX);
		else if (array_grow(&s->sessions, s->n_sessions, &cap, 256) < 0)
			rc = error_nomem(err);
		else
			rc = ops_places_add(&places, v[NODES], &session, err);
		if (rc == 0)
			s->sessions[s->n_sessions++] = session;
	}
	return rc;
}

int ops_read_sacct(struct buf *text, int64_t now_s, struct ops_set **ret,
		   struct error *err)
{
	AUTO(ops_set) s = calloc(1, sizeof(*s));
	struct sacct_reader r = { .now_s = now_s };
	int rc;

	if (!s) {
		buf_fini(text);
		return error_nomem(err);
	}
	s->text = *text;
	*text = (struct buf)BUF_INIT;
	if (!s->text.len)
		return refuse_header(err);
	r.at = s->text.data;
	r.end = r.at + s->text.len;
	rc = read_header(&r, err);
	if (rc == 0)
		rc = read_rows(&r, s, err);
	if (rc < 0)
		return rc;
	if (s->n_sessions)
		qsort(s->sessions, s->n_sessions, sizeof(*s->sessions),
		      compare_sessions_by_name);
	*ret = steal_ptr(&s);
	return 0;
}

void ops_set_free(struct ops_set *s)
{
	if (!s)
		return;
	buf_fini(&s->text);
	free(s->sessions);
	for (size_t i = 0; i < s->n_nodes; i++)
		free((char *)(uintptr_t)s->nodes[i]);
	free(s->nodes);
	free(s->places);
	for (size_t i = 0; i < s->n_outages; i++) {
		free((char *)(uintptr_t)s->outages[i].node);
		free((char *)(uintptr_t)s->outages[i].why);
	}
	free(s->outages);
	free(s);
}

bool ops_has_trained(const struct ops_session *s, const struct ops_rule *r)
{
	return ops_length(s) >= r->trained_s || s->end == OPS_DONE;
}

bool ops_is_of(const struct ops_session *s, const struct ops_rule *r)
{
	return s->n_nodes >= r->nodes_min &&
	       (!r->name || strcmp(s->name, r->name) == 0);
}
