// SPDX-License-Identifier: Apache-2.0
/* Read Slurm's job records for bootseer ops: run sacct, or read its saved output. */
#include "cli/ops.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>

#include "cli/child.h"
#include "common/clock.h"
#include "common/duration.h"
#include "common/fs.h"

#define SACCT_TIMEOUT_MS INT64_C(600000)
#define ERRORS_MAX (64u << 10)
#define LONG_S 9e9 /* 285 years, near the most nanoseconds in an int64_t */

/* A random delimiter: otherwise a job's name could contain it and forge another job's row. */
static int make_delimiter(char out[64], struct error *err)
{
	unsigned char random[16];
	int n;

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return error_errno(err, errno, "getrandom");
	n = snprintf(out, 64, "--delimiter=,");
	for (size_t i = 0; i < sizeof(random); i++)
		n += snprintf(out + n, 64 - (size_t)n, "%02x", random[i]);
	return 0;
}

static int run_sacct(uint64_t days, struct buf *ret, struct error *err)
{
	AUTO_BUF said = { .limit = ERRORS_MAX };
	char delimiter[64], since[64];
	/* Print times as seconds since 1970: local times are ambiguous when the clocks are put
	 * back. */
	char *env[] = { (char[]){ "SLURM_TIME_FORMAT=%s" }, NULL };
	char *argv[] = { (char[]){ "sacct" },
			 (char[]){ "--allusers" },
			 (char[]){ "--allocations" },
			 (char[]){ "--duplicates" },
			 (char[]){ "--parsable2" },
			 delimiter,
			 since,
			 (char[]){ "--format=" OPS_SACCT_COLUMNS },
			 NULL };
	int status = 0;
	int rc = make_delimiter(delimiter, err);

	(void)snprintf(since, sizeof(since), "--starttime=now-%lludays",
		       (unsigned long long)days);
	if (rc < 0)
		return rc;
	rc = child_read_output(argv, env, -1, OPS_TEXT_MAX, SACCT_TIMEOUT_MS,
			       ret, &said, &status, err);
	if (rc == -ENOENT)
		return error_set(err, ENOENT,
				 "no sacct here: run it on a node of Slurm as "
				 "--help says, and give its output by --sacct");
	if (rc == 0 && status != 0)
		return error_set(err, EIO, "sacct: %s", child_last_line(&said));
	return rc;
}

static int run_sacctmgr(uint64_t days, struct buf *ret, struct error *err)
{
	AUTO_BUF said = { .limit = ERRORS_MAX };
	char since[64];
	char *env[] = { (char[]){ "SLURM_TIME_FORMAT=%s" }, NULL };
	char *argv[] = { (char[]){ "sacctmgr" },
			 (char[]){ "--parsable2" },
			 (char[]){ "--noheader" },
			 (char[]){ "show" },
			 (char[]){ "event" },
			 since,
			 (char[]){ "format=" OPS_DRAIN_COLUMNS },
			 NULL };
	int status = 0, rc;

	(void)snprintf(since, sizeof(since), "start=now-%lludays",
		       (unsigned long long)days);
	rc = child_read_output(argv, env, -1, OPS_TEXT_MAX, SACCT_TIMEOUT_MS,
			       ret, &said, &status, err);
	if (rc == 0 && status != 0)
		rc = error_set(err, EIO, "sacctmgr: %s",
			       child_last_line(&said));
	return rc;
}

/* By default, more than half of the nodes: then no two such jobs can overlap. */
static uint32_t choose_nodes(const struct ops_set *s, uint64_t said)
{
	return said ? (uint32_t)said : (uint32_t)(s->n_nodes / 2 + 1);
}

static int read_slurm_jobs(const struct ops_config *c, struct ops_set **ret,
			   struct error *err)
{
	AUTO_BUF text = { .limit = OPS_TEXT_MAX };
	int64_t now_s = time(NULL);
	struct stat st;
	int rc = c->sacct ? fs_read_file(c->sacct, OPS_TEXT_MAX, &text, err)
			  : run_sacct(c->days, &text, err);

	/* Jobs that ran when the file was written are known only until then. */
	if (rc == 0 && c->sacct && stat(c->sacct, &st) == 0)
		now_s = st.st_mtime;
	if (rc == 0)
		rc = ops_read_sacct(&text, now_s, ret, err);
	return rc < 0 && c->sacct ? error_wrap(err, rc, "%s", c->sacct) : rc;
}

static bool is_of_kubernetes(const struct ops_config *c)
{
	return c->kubernetes || c->kubeconfig || c->kube_objects;
}

int ops_read_jobs(const struct ops_config *c, struct ops_set **ret,
		  struct ops_rule *rule, struct error *err)
{
	int rc = is_of_kubernetes(c) ? ops_read_kube_jobs(c, ret, err)
				     : read_slurm_jobs(c, ret, err);

	if (rc < 0)
		return rc;
	*rule = (struct ops_rule){ .nodes_min = choose_nodes(*ret, c->nodes),
				   .trained_s = c->trained_ns / NS_PER_S,
				   .name = c->name };
	return 0;
}

/* Without sacctmgr on this machine, no drains are known, which is no error. */
int ops_add_drains(const struct ops_config *c, struct ops_set *s,
		   struct error *err)
{
	AUTO_BUF text = { .limit = OPS_TEXT_MAX };
	int64_t now_s = time(NULL);
	int rc;

	if (is_of_kubernetes(c) || (c->sacct && !c->drains))
		return 0;
	rc = c->drains ? fs_read_file(c->drains, OPS_TEXT_MAX, &text, err)
		       : run_sacctmgr(c->days, &text, err);
	if (rc < 0 && !c->drains && rc != -ENOMEM) {
		(void)fprintf(stderr, "no drains: %s\n", err->msg);
		*err = (struct error)ERROR_INIT;
		return 0;
	}
	if (rc == 0 && text.len)
		rc = ops_read_drains(text.data, now_s, s, err);
	return rc < 0 && c->drains ? error_wrap(err, rc, "%s", c->drains) : rc;
}

void ops_print_scope(FILE *out, const struct ops_set *s,
		     const struct ops_rule *r)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_sessions; i++)
		n += ops_is_of(&s->sessions[i], r);
	fprintf(out,
		"%zu of %zu jobs ran on %u nodes or more (--nodes), of %zu\n",
		n, s->n_sessions, r->nodes_min, s->n_nodes);
	if (s->n_bad)
		fprintf(out,
			"%zu rows of sacct could not be read and are left out\n",
			s->n_bad);
}

const char *ops_text_of(double seconds, char out[DURATION_TEXT_MAX])
{
	if (!(seconds < LONG_S))
		return "for ever";
	duration_format((int64_t)(seconds * (double)NS_PER_S), out);
	return out;
}

json_t *ops_number(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

int ops_print_json(json_t *v, struct error *err)
{
	int rc = v ? json_dumpf(v, stdout, JSON_REAL_PRECISION(12)) : -1;

	json_decref(v);
	if (rc < 0)
		return error_nomem(err);
	putchar('\n');
	return 0;
}

int ops_check_metrics(const void *config, char **args, struct error *err)
{
	const struct ops_config *c = config;

	(void)args;
	if (c->xid && !prom_is_name(c->xid))
		return error_set(err, EINVAL, "'%s' is no name of a metric",
				 c->xid);
	return ops_prom_check(&c->prom, err);
}
