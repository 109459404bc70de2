// SPDX-License-Identifier: Apache-2.0
/* Functions that the commands on traces share. */
#ifndef BOOTSEER_CLI_TRACE_H
#define BOOTSEER_CLI_TRACE_H

#include "cli/image.h"
#include "recorder/recorder.h"

/* Where traces are; first member of the configuration of commands on traces. */
struct trace_where {
	struct image_access access;
	char *platform, *workload, *service, *token_file, *root;
	bool local;
};

#define TRACE_WORKLOAD_OPTION(text) \
	{ \
		.key = "workload", .type = OPTION_STRING, .arg = "KEY", \
		.offset = offsetof(struct trace_where, workload), .help = text \
	}

#define TRACE_WHERE_OPTIONS \
	{ .key = "service", \
	  .type = OPTION_STRING, \
	  .arg = "URL", \
	  .offset = offsetof(struct trace_where, service), \
	  .help = "Traces of this bootseer-registry, instead of those in the " \
		  "image's repository." }, \
		{ .key = "token-file", \
		  .type = OPTION_FILE, \
		  .offset = offsetof(struct trace_where, token_file), \
		  .help = "The bearer token for --service." }, \
		{ .key = "local", \
		  .type = OPTION_BOOL, \
		  .offset = offsetof(struct trace_where, local), \
		  .help = "Traces that this node keeps, instead of those in " \
			  "the image's repository." }, \
		{ .key = "root", \
		  .type = OPTION_STRING, \
		  .arg = "DIR", \
		  .def = "/var/lib/bootseer", \
		  .offset = offsetof(struct trace_where, root), \
		  .help = "bootseerd's folder, for --local." }, \
		IMAGE_PLATFORM_OPTION(struct trace_where, \
				      "Which image of an index; default is " \
				      "this machine's."), \
		IMAGE_ACCESS_OPTIONS(struct trace_where)

/* A store of traces, opened for an image. */
struct trace_place {
	const char *ref;   /* image's name as the user gave it; borrowed */
	const char *where; /* description of the store for messages */
	struct image_target *target;
	struct oci_store *oci;
	struct trace_store *store;
	char *repo;
	struct trace_query query; /* image, repo, workload */
};

/* Open the store that the (checked) options name.  `ref` NULL: no image, only with --local. */
int trace_place_new(const struct trace_where *w, const char *ref,
		    struct trace_place **ret, struct error *err) MUST_CHECK;
void trace_place_free(struct trace_place *p);
DEFINE_AUTO(trace_place)

/* Check that the options and `ref` (NULL: none) fit together; for struct command.check. */
int trace_where_check(const struct trace_where *w, const char *ref,
		      struct error *err) MUST_CHECK;
/* trace_where_check() for a command whose configuration begins with `where`. */
int trace_check_first(const void *config, char **args,
		      struct error *err) MUST_CHECK;

/* Open the folder of this node's traces. */
int trace_open_local(const struct trace_where *w, struct trace_store **ret,
		     struct error *err) MUST_CHECK;

/* Get the trace for `p->query` from `s`.  Without a workload in the query, the image must have
 * traces of only one; otherwise the message names the workloads. */
int trace_get_for(struct trace_place *p, struct trace_store *s,
		  struct trace_found *ret, struct error *err) MUST_CHECK;

/* Print on standard error which trace was found for `ref`. */
void trace_tell(const struct trace_found *f, const char *ref);

/* Read a trace from a file, encoded or as JSON; "-" is standard input. */
int trace_read(const char *path, struct trace **ret,
	       struct error *err) MUST_CHECK;
/* Write the trace encoded; "-" is standard output. */
int trace_write(const char *path, const struct trace *t,
		struct error *err) MUST_CHECK;

/* Give a trace another workload key. */
int trace_rename(struct trace *t, const char *workload,
		 struct error *err) MUST_CHECK;

#define TRACE_TIME_MAX 32
/* Format a time as "2026-01-02 03:04:05Z". */
void trace_format_time(uint64_t s, char out[TRACE_TIME_MAX]);

#endif
