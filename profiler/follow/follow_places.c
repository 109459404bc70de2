// SPDX-License-Identifier: Apache-2.0
/*
 * Saves how far each log was read, in STATE/places: one line for each log, all replaced at once. It
 * is written after the events up to these places are in the spool. Events that are read again after
 * a crash get the same ids.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/fs.h"
#include "common/log.h"
#include "profiler/follow/follower.h"

#define HEADER "bootseer-events 1\n"
#define FILE_MAX (16u << 20)
#define NONE "-"

static char *places_path(const struct event_follower *f)
{
	return fs_join(f->cfg->state, "places");
}

static int put_log(const struct followed_log *l, struct buf *b)
{
	struct log_place p = followed_log_place(l);

	return buf_printf(b,
			  "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu32
			  " %" PRIu32 " %" PRIu64 " %s %" PRId64 " %" PRId64
			  " %" PRId64 " %" PRId64 " %d %s %s\n",
			  p.dev, p.ino, p.offset, p.head_n, p.head_crc, p.salt,
			  *p.rotated ? p.rotated : NONE, l->attempt, l->rank,
			  l->begin_ns, l->stage_end_ns, l->is_training,
			  *l->job ? l->job : NONE, l->key);
}

int follow_save(struct event_follower *f, struct error *err)
{
	AUTO_FREE char *path = places_path(f);
	AUTO_BUF b = BUF_INIT;
	struct followed_log *l, *next;
	int rc = path ? buf_puts(&b, HEADER) : -ENOMEM;

	HASH_ITER(hh, f->logs, l, next)
	if (rc == 0 && (l->at.ino || *l->at.rotated || l->has_held))
		rc = put_log(l, &b);
	if (rc < 0)
		return error_nomem(err);
	rc = fs_replace_file(path, b.data, b.len, 0600, err);
	if (rc == 0)
		f->is_dirty = false;
	return rc;
}

static const struct log_kind *kind_of(const char *key, const char **ret_path)
{
	static const struct log_kind *const kinds[] = { &log_kind_pod,
							&log_kind_own,
							&log_kind_file };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		size_t n = strlen(kinds[i]->name);

		if (strncmp(key, kinds[i]->name, n) == 0 && key[n] == ' ') {
			*ret_path = key + n + 1;
			return kinds[i];
		}
	}
	return NULL;
}

static bool read_log(struct event_follower *f, char *line)
{
	struct log_place p = { .dev = 0 };
	int64_t attempt, rank, begin, end;
	char rotated[POD_ROTATED_LEN + 1], job[STAGE_JOB_MAX + 1];
	const struct log_kind *kind;
	struct followed_log *l;
	const char *path;
	char *slash;
	int training, at = 0;

	if (sscanf(line,
		   "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu32 " %" SCNu32
		   " %" SCNu64 " %15s %" SCNd64 " %" SCNd64 " %" SCNd64
		   " %" SCNd64 " %d %128s %n",
		   &p.dev, &p.ino, &p.offset, &p.head_n, &p.head_crc, &p.salt,
		   rotated, &attempt, &rank, &begin, &end, &training, job,
		   &at) != 13 ||
	    !at || p.head_n > LOG_HEAD_MAX)
		return false;
	kind = kind_of(line + at, &path);
	slash = kind ? strrchr(line + at, '/') : NULL;
	if (slash)
		*slash = '\0';
	l = kind ? follow_find(f, kind,
			       !slash          ? ""
			       : slash == path ? "/"
					       : path,
			       slash ? slash + 1 : path)
		 : NULL;
	if (!l)
		return false;
	if (strcmp(rotated, NONE) != 0)
		memcpy(p.rotated, rotated, sizeof(rotated));
	l->at = p;
	l->attempt = attempt;
	l->rank = rank;
	l->begin_ns = begin;
	l->stage_end_ns = end;
	l->is_training = training != 0;
	if (strcmp(job, NONE) != 0)
		memcpy(l->job, job, sizeof(job));
	return true;
}

int follow_load(struct event_follower *f, struct error *err)
{
	AUTO_FREE char *path = places_path(f);
	AUTO_BUF text = BUF_INIT;
	char *line, *rest;
	int rc = path ? fs_read_file(path, FILE_MAX, &text, err)
		      : error_nomem(err);

	f->is_first = rc == -ENOENT;
	if (rc < 0)
		return f->is_first ? 0 : rc;
	if (!text.data || strncmp(text.data, HEADER, strlen(HEADER)) != 0)
		return error_set(err, EBADMSG,
				 "'%s' is not what this version writes: remove "
				 "it to read all logs again, whose events are "
				 "told apart",
				 path);
	line = strtok_r(text.data + strlen(HEADER), "\n", &rest);
	for (; line; line = strtok_r(NULL, "\n", &rest))
		if (!read_log(f, line))
			log_warning("events", "a place was not understood");
	return 0;
}
