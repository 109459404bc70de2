// SPDX-License-Identifier: Apache-2.0
/*
 * `bootseer image convert-new`: converts images after their push; bootseer-registry
 * says which.  Only images below PREFIX are accepted, so that an intruder in the service cannot
 * have this machine's logins used for other repositories.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/image.h"
#include "cli/node_ask.h"
#include "cli/service.h"
#include "cli/signer.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/progress.h"
#include "common/registry_host.h"
#include "common/temp_file.h"
#include "common/text.h"

#define ASK_MS 5000 /* between requests while there is nothing to do */
/* between requests while the service does not answer */
#define ASK_MAX_MS 60000
#define IMAGE_MAX_NS (6 * 3600 * NS_PER_S)
#define RENEW_NS (60 * NS_PER_S) /* a tenth of the lease */
/* bytes of the reason that is sent; invalid UTF-8 takes four times as much */
#define REASON_MAX 255
#define WORKER_MAX 256

struct pushed_config {
	struct service_where where;
	struct image_access access;
	char *key, *repository, *temp_dir;
	int64_t expires;
	uint64_t jobs;
	bool drain;
};

static const struct option_spec options[] = {
	SERVICE_WHERE_OPTIONS(struct pushed_config),
	{ .key = "drain",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct pushed_config, drain),
	  .help = "End when nothing is to be converted now, instead of "
		  "waiting for more." },
	{ .key = "jobs",
	  .letter = 'j',
	  .type = OPTION_INTEGER,
	  .offset = offsetof(struct pushed_config, jobs),
	  .min = "1",
	  .max = "64",
	  .help = "Threads that compress blocks, and layers that are read at "
		  "once, at most 4; default is one for each processor, at "
		  "most 8." },
	{ .key = "temp-dir",
	  .type = OPTION_STRING,
	  .arg = "DIR",
	  .offset = offsetof(struct pushed_config, temp_dir),
	  .help = "Where blobs lie until they are uploaded; default is "
		  "$TMPDIR, or /var/tmp." },
	{ .key = "sign",
	  .type = OPTION_FILE,
	  .arg = "KEY",
	  .absent = SIGNER_ABSENT,
	  .offset = offsetof(struct pushed_config, key),
	  .help = "Sign with the private key in this file; default is the "
		  "user's own, ~/.config/bootseer/sign.key, which is made "
		  "when there is none." },
	SIGNER_OPTIONS(struct pushed_config),
	{ .key = "auth-file",
	  .type = OPTION_FILE,
	  .absent = "'docker login' makes one, ~/.docker/config.json",
	  .offset = offsetof(struct pushed_config, access.auth_file),
	  .help = "Credentials of the registry, as docker's config.json has "
		  "them; default is that file at its usual places." },
	{ .key = "registry-ca",
	  .type = OPTION_FILE,
	  .offset = offsetof(struct pushed_config, access.ca_file),
	  .help = "Certificates (PEM) that the registry is trusted by "
		  "instead of the system's." },
	IMAGE_PLAIN_HTTP_OPTION(
		offsetof(struct pushed_config, access.plain_http)),
	{ .key = NULL },
};

/* ----------------------------------------------------------------- the service --- */

/* This process's state, and the service that it works for. */
struct pushed_worker {
	const struct pushed_config *cfg;
	const char *prefix;
	struct service_client *service;
	struct signer_new signer;
	char name[WORKER_MAX];
};

/* An image being converted. */
struct pushed_image {
	struct convert_progress progress; /* renews the lease */
	struct pushed_worker *worker;
	const json_t *told; /* the service's reply */
	int64_t begun_ns, renewed_ns;
};

static int take_image(struct pushed_worker *w, json_t **ret, struct error *err)
{
	AUTO_BUF path = BUF_INIT;
	struct service_request r = { .method = "POST" };
	int rc = buf_printf(&path, "/v1/conversions");

	if (rc == 0)
		rc = service_client_param(&path, "repo", w->prefix);
	if (rc == 0)
		rc = service_client_param(&path, "worker", w->name);
	if (rc < 0)
		return error_nomem(err);
	r.path = path.data;
	return service_ask(w->service, &r, ret, err);
}

/* Report a state.  Errors do not matter: the service learns of a failure when the lease ends. */
static int report_image_state(struct pushed_image *i, const char *state,
			      const char *reason, struct error *err)
{
	char path[96], text[REASON_MAX + 1] = "";
	AUTO_JSON *body = NULL;
	AUTO_JSON *reply = NULL;
	AUTO_FREE char *json = NULL;
	struct service_request r = { .method = "PUT",
				     .path = path,
				     .headers = { "Content-Type: "
						  "application/json" } };

	(void)snprintf(path, sizeof(path), "/v1/conversions/%lld?try=%lld",
		       reply_number(i->told, "id"),
		       reply_number(i->told, "tries"));
	(void)snprintf(text, sizeof(text), "%s", reason);
	text_make_printable(text);
	body = json_pack("{s:s,s:s,s:o}", "worker", i->worker->name, "state",
			 state, "error", json_bytes(text));
	json = body ? json_dumps(body, JSON_COMPACT) : NULL;
	if (!json)
		return error_nomem(err);
	r.body = json;
	r.body_len = strlen(json);
	i->renewed_ns = clock_now_ns();
	return service_ask(i->worker->service, &r, &reply, err);
}

/* A conversion cannot be stopped, so end the process when it takes too long: an image that unpacks
 * to endless bytes must not block the images after it. */
static void end_overlong_conversion(struct pushed_image *i)
{
	struct error err = ERROR_INIT;

	if (clock_now_ns() - i->begun_ns < IMAGE_MAX_NS)
		return;
	if (report_image_state(i, "failed", "it took longer than 6 hours",
			       &err) < 0)
		fprintf(stderr, "the service was not told: %s\n", err.msg);
	fprintf(stderr, "%s:%s: not converted, it took longer than 6 hours\n",
		reply_text(i->told, "repo"), reply_text(i->told, "tag"));
	_exit(EXIT_FAILURE);
}

/* Called with each progress.  Without progress the lease is not renewed, and another worker gets
 * the image. */
static void renew_lease(struct convert_progress *p, const char *what,
			uint64_t done, uint64_t total)
{
	struct pushed_image *i = container_of(p, struct pushed_image, progress);
	struct error err = ERROR_INIT;

	(void)what;
	(void)done;
	(void)total;
	end_overlong_conversion(i);
	if (clock_now_ns() - i->renewed_ns >= RENEW_NS &&
	    report_image_state(i, "running", "", &err) < 0)
		fprintf(stderr, "the service was not told: %s\n", err.msg);
}

/* ------------------------------------------------------------------ conversion --- */

/* Name the image by its digest, as its tag may have moved. */
static int make_targets(struct pushed_image *i, struct image_target **src,
			struct image_target **dst, struct convert_result *ret,
			struct error *err)
{
	const struct image_access *a = &i->worker->cfg->access;
	const char *repo = reply_text(i->told, "repo");
	AUTO_BUF text = BUF_INIT;
	int rc;

	*ret = (struct convert_result){ .n_inodes = 0 };
	if (!registry_host_is_below(repo, i->worker->prefix,
				    strlen(i->worker->prefix))) {
		ret->is_at_fault = true;
		return error_set(err, EINVAL,
				 "the service named '%.200s', which is not "
				 "below %s",
				 repo, i->worker->prefix);
	}
	if (buf_printf(&text, "docker://%s", repo) < 0)
		return error_nomem(err);
	rc = image_target_new(text.data, a, dst, err);
	if (rc == 0 &&
	    buf_printf(&text, "@%s", reply_text(i->told, "image")) < 0)
		rc = error_nomem(err);
	if (rc == 0)
		rc = image_target_new(text.data, a, src, err);
	if (rc == 0 && !(*src)->ref.has_digest) {
		ret->is_at_fault = true;
		rc = error_set(err, EINVAL, "the service named no digest");
	}
	if (rc < 0)
		return rc;
	/* The artifact gets no tag. */
	free((*dst)->ref.tag);
	(*dst)->ref.tag = NULL;
	return 0;
}

static int convert_image(struct pushed_image *i, struct convert_result *ret,
			 struct error *err)
{
	struct pushed_worker *w = i->worker;
	const struct pushed_config *c = w->cfg;
	char pattern[TRUST_PATTERN_MAX + 1];
	const struct sign_terms terms = { .key = w->signer.key,
					  .repository = pattern,
					  .valid_s = c->expires / NS_PER_S,
					  .before = signer_keep_new,
					  .arg = &w->signer };
	AUTO(image_target) src = NULL;
	AUTO(image_target) dst = NULL;
	struct convert_options opt = {
		.platform = "all",
		.form = strcmp(reply_text(i->told, "form"), "index") == 0
				? CONVERT_FORM_INDEX
				: CONVERT_FORM_REFERRER,
		.jobs = c->jobs ? (unsigned int)c->jobs : image_default_jobs(),
		.temp_dir = c->temp_dir,
		.sign = &terms,
		.progress = &i->progress,
	};
	int rc = make_targets(i, &src, &dst, ret, err);

	if (rc == 0)
		rc = signer_pattern(c->repository, &dst->ref, pattern, err);
	if (rc < 0)
		return rc;
	opt.src_config = src->config;
	opt.dst_config = dst->config;
	return image_convert(&src->ref, &dst->ref, &opt, ret, err);
}

static void print_image_end(const struct pushed_image *i, const char *end,
			    const char *more)
{
	printf("%s:%s: %s, %s\n", reply_text(i->told, "repo"),
	       reply_text(i->told, "tag"), end, more);
	(void)fflush(stdout);
}

static int convert_and_report(struct pushed_worker *w, const json_t *told,
			      struct error *err)
{
	struct pushed_image i = { .progress = { .step = renew_lease },
				  .worker = w,
				  .told = told,
				  .begun_ns = clock_now_ns(),
				  .renewed_ns = clock_now_ns() };
	struct convert_result result = { .n_inodes = 0 };
	/* Errors of the image itself are not retried. */
	struct error why = ERROR_INIT;
	char bytes[PROGRESS_BYTES_MAX];
	int rc = convert_image(&i, &result, &why);

	if (rc < 0) {
		text_make_printable(why.msg);
		print_image_end(&i,
				result.is_at_fault ? "not converted" : "failed",
				why.msg);
		return report_image_state(&i,
					  result.is_at_fault ? "failed"
							     : "retry",
					  why.msg, err);
	}
	progress_format_bytes(result.new_bytes + result.meta_bytes, bytes);
	print_image_end(&i, "converted", result.existed ? "before" : bytes);
	return report_image_state(&i, "done", "", err);
}

/* -------------------------------------------------------------------- the loop --- */

/* Take and convert one image. 1: there was one.  A worker without room for temporary files takes
 * none, as a failure would be final for the image. */
static int convert_next_image(struct pushed_worker *w, struct error *err)
{
	AUTO_JSON *reply = NULL;
	AUTO_CLOSE int temp = -1;
	const json_t *told;
	int rc = temp_file(w->cfg->temp_dir, &temp, err);

	if (rc == 0)
		rc = take_image(w, &reply, err);
	told = json_object_get(reply, "conversion");
	if (rc < 0 || !json_is_object(told))
		return rc;
	rc = convert_and_report(w, told, err);
	return rc < 0 ? rc : 1;
}

static int convert_until_drained(struct pushed_worker *w, struct error *err)
{
	int wait_ms = ASK_MS, rc;

	for (;;) {
		rc = convert_next_image(w, err);
		if (w->cfg->drain && rc <= 0)
			return rc;
		/* A wrong token or address does not get right by waiting. */
		if (rc == -EINVAL || rc == -EACCES)
			return rc;
		if (rc < 0) {
			fprintf(stderr, "asked again in %d s: %s\n",
				wait_ms / 1000, err ? err->msg : "");
			(void)poll(NULL, 0, wait_ms);
			wait_ms = wait_ms * 2 < ASK_MAX_MS ? wait_ms * 2
							   : ASK_MAX_MS;
			continue;
		}
		wait_ms = ASK_MS;
		if (rc == 0)
			(void)poll(NULL, 0, ASK_MS);
	}
}

static int check_pushed(const void *config, char **args, struct error *err)
{
	const struct pushed_config *c = config;
	int rc = service_where_check(&c->where, err);

	if (rc == 0 && c->repository)
		rc = trust_pattern_check(c->repository, err);
	if (rc == 0 && (strstr(args[0], "://") || strchr(args[0], '*') ||
			!*args[0] || args[0][strlen(args[0]) - 1] == '/'))
		rc = error_set(err, EINVAL,
			       "'%s' is no PREFIX: HOST[:PORT][/PATH], as "
			       "images have it",
			       args[0]);
	return rc;
}

static int run_pushed(const void *config, char **args, struct error *err)
{
	const struct pushed_config *c = config;
	struct pushed_worker w = { .cfg = c, .prefix = args[0] };
	int rc = service_open(&c->where, &w.service, err);

	if (rc == 0 && gethostname(w.name, sizeof(w.name) - 1) < 0)
		rc = error_errno(err, errno, "name of this machine");
	if (rc == 0)
		rc = c->key ? signer_load(c->key, TRUST_USE_SIGN, &w.signer.key,
					  err)
			    : signer_load_or_new(&w.signer, err);
	if (rc == 0)
		rc = convert_until_drained(&w, err);
	signer_new_fini(&w.signer);
	service_client_free(w.service);
	return rc;
}

const struct command image_convert_new_command = {
	.brief = "Convert images as they are pushed",
	.program = {
		.name = "bootseer image convert-new",
		.usage = "[OPTIONS] PREFIX",
		.summary = "Take images below PREFIX (HOST[:PORT][/PATH]) that "
			   "were pushed from bootseer-registry's queue "
			   "(--convert), convert them where they are, and sign "
			   "them, one after another. Any number of these may "
			   "work at once; one that is killed loses nothing.",
		.options = options,
		.examples =
			"bootseer image convert-new --service "
			"https://traces.internal:9730 \\\n"
			"    --token-file convert.token registry.internal\n",
		.see_also = "bootseer-registry(8); docs/registries.md",
		.min_args = 1,
	},
	.config_size = sizeof(struct pushed_config),
	.check = check_pushed,
	.run = run_pushed,
};
