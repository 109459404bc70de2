// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "ckpt-fuse/ckpt.h"
#include "cli/child.h"
#include "cli/job_read.h"
#include "cli/job_run.h"
#include "common/array.h"
#include "common/mount.h"
#include "common/mountinfo.h"

#define ASK_MS 30000 /* timeout of the requests of --explain */

/* Read in a background process, so that the page cache has the data; print its number, for
 * job_part_end_group(). */
#define IN_BACKGROUND "\"$@\" >/dev/null 2>&1 & echo $!"

/* ------------------------------------------------------------------- environment --- */

/* Without an image, the set-up runs on the host, like the program. */
static void add_environment(struct job_plan *p)
{
	const struct job_environment *e = &p->file->environment;
	struct job_part *part = &p->parts[p->n++];
	struct job_words *w = job_way_step(&part->way);

	part->stage = "env";
	part->is_open = true;
	(void)snprintf(part->what, sizeof(part->what), "environment");
	job_words_add(w, "%s", p->self);
	job_words_add(w, "env");
	job_words_add(w, "run");
	job_words_add(w, "--store=%s", e->store);
	job_words_add_each(w, "--target", e->targets);
	job_words_add_each(w, "--key", e->keys);
	job_words_add_each(w, "--key-file", e->key_files);
	job_words_add_all(w, e->options);
	job_words_add(w, "--");
	job_words_add_all(w, e->command);
}

/* Fetch the environment that this job last used with this image.  The real key depends on files in
 * the container, which does not run yet; it is the same unless something changed. */
static void add_environment_ahead(struct job_plan *p)
{
	const struct job_environment *e = &p->file->environment;
	struct job_part *part = &p->parts[p->n++];
	struct job_words *w = job_way_step(&part->way);

	part->stage = "env.prefetch";
	part->is_ahead = true;
	(void)snprintf(part->what, sizeof(part->what),
		       "environment, fetched ahead");
	job_words_add(w, "%s", p->self);
	job_words_add(w, "env");
	job_words_add(w, "prefetch");
	job_words_add(w, "--quiet");
	job_words_add_option(w, e->options, "--service");
	job_words_add_option(w, e->options, "--token-file");
	job_words_add_option(w, e->options, "--ca-file");
	job_words_add(w, "--name");
	job_words_add(w, "%s", e->store);
	job_words_add(w, "%s %s", p->file->name, p->file->image.reference);
}

/* -------------------------------------------------------------------- checkpoints --- */

/* Write the text into `ret`, with each mark replaced by the value. */
static void replace_mark(const char *text, const char *mark, const char *value,
			 struct buf *ret, bool *is_short)
{
	const char *at;
	int rc = 0;

	buf_reset(ret);
	while (rc == 0 && (at = strstr(text, mark))) {
		rc = buf_append(ret, text, (size_t)(at - text));
		if (rc == 0)
			rc = buf_puts(ret, value);
		text = at + strlen(mark);
	}
	if (rc == 0)
		rc = buf_puts(ret, text);
	*is_short |= rc < 0;
}

/* The master's address; an IPv6 address gets brackets, as options append a port. */
static const char *master_address(struct buf *room, bool *is_short)
{
	const char *master = job_master();

	if (!master || !strchr(master, ':') || *master == '[')
		return master;
	*is_short |= buf_printf(room, "[%s]", master) < 0;
	return *is_short ? master : room->data;
}

static void fill_rank_in_name(const struct job_plan *p, const char *name,
			      struct buf *ret, bool *is_short)
{
	replace_mark(name, JOB_RANK, p->file->rank, ret, is_short);
}

static void add_mount_step(const struct job_plan *p, const struct job_ckpt *c,
			   struct job_way *way)
{
	struct job_words *w = job_way_step(way);
	AUTO_BUF address = BUF_INIT;
	AUTO_BUF option = BUF_INIT;
	const char *master = master_address(&address, &w->is_short);

	job_words_add(w, "%s", p->self);
	job_words_add(w, "ckpt");
	job_words_add(w, "mount");
	if (c->read_only)
		job_words_add(w, "--read-only");
	for (char **o = c->options; o && *o; o++) {
		replace_mark(*o, JOB_MASTER, master, &option, &w->is_short);
		job_words_add(w, "%s", option.len ? option.data : "");
	}
	job_words_add(w, "%s", c->store);
	job_words_add(w, "%s", c->dir);
}

static bool has_prefetch(const struct job_ckpt *c)
{
	return c->prefetch && *c->prefetch;
}

static void add_read_step(const struct job_plan *p, const struct job_ckpt *c,
			  struct job_way *way)
{
	struct job_words *w = job_way_step(way);
	AUTO_BUF name = BUF_INIT;

	job_words_add(w, "/bin/sh");
	job_words_add(w, "-c");
	job_words_add(w, IN_BACKGROUND);
	job_words_add(w, "sh");
	job_words_add(w, "%s", p->self);
	job_words_add(w, JOB_READ);
	job_words_add(w, "%d", (int)getpid());
	job_words_add(w, "%d", p->go[0]);
	for (char **f = c->prefetch; *f; f++) {
		fill_rank_in_name(p, *f, &name, &w->is_short);
		job_words_add(w, "%s/%s", c->dir, name.len ? name.data : "");
	}
}

/* Download and load the named parts: a whole store may not fit on the node. */
static int add_copy_steps(const struct job_plan *p, const struct job_ckpt *c,
			  struct job_way *way, struct error *err)
{
	AUTO_BUF name = BUF_INIT;

	for (char **f = c->prefetch; f && *f; f++) {
		struct job_words *w = job_way_step(way);
		bool is_folder = (*f)[strlen(*f) - 1] == '/';
		char *slash;

		if (!w || way->n + 1 > JOB_STEPS_MAX)
			return error_set(err, E2BIG,
					 "more than %u names in 'prefetch'",
					 JOB_STEPS_MAX / 2);
		fill_rank_in_name(p, *f, &name, &w->is_short);
		if (w->is_short)
			return error_nomem(err);
		job_words_add(w, "mkdir");
		job_words_add(w, "-p");
		slash = is_folder ? NULL : strrchr(name.data, '/');
		job_words_add(w, "%s/%.*s", c->dir,
			      slash       ? (int)(slash - name.data)
			      : is_folder ? (int)name.len
					  : 0,
			      name.data);
		w = job_way_step(way);
		if (!w)
			return error_set(err, E2BIG,
					 "more than %u names in 'prefetch'",
					 JOB_STEPS_MAX / 2);
		job_words_add(w, "%s", p->self);
		job_words_add(w, "ckpt");
		job_words_add(w, "cp");
		if (is_folder)
			job_words_add(w, "-r");
		job_words_add_option(w, c->options, "--ca-file");
		job_words_add(w, "%s", c->store);
		job_words_add(w, ":%s", name.data);
		job_words_add(w, "%s/%s", c->dir, name.data);
	}
	return 0;
}

/* Mount a checkpoint.  Without alternative: if the mount fails, the program would save into a
 * folder that is not stored. */
static int add_ckpt(struct job_plan *p, const struct job_ckpt *c,
		    struct error *err)
{
	struct job_part *part = &p->parts[p->n++];

	part->stage = "ckpt.mount";
	(void)snprintf(part->what, sizeof(part->what), "checkpoint %.100s",
		       c->dir);
	add_mount_step(p, c, &part->way);
	if (has_prefetch(c))
		add_read_step(p, c, &part->way);
	part->ordinary = "the files are copied before they are read";
	return c->read_only ? add_copy_steps(p, c, &part->otherwise, err) : 0;
}

/* Read a checkpoint ahead that a pod's volume or another job has mounted already. */
static void add_read_part(struct job_plan *p, const struct job_ckpt *c)
{
	struct job_part *part = &p->parts[p->n++];

	part->stage = "ckpt.prefetch";
	(void)snprintf(part->what, sizeof(part->what),
		       "prefetch of checkpoint %.90s", c->dir);
	add_read_step(p, c, &part->way);
}

/* ------------------------------------------------------------------------- plan --- */

bool job_plan_is_mounted(const struct job_ckpt *c)
{
	struct mount_line l = { .major = 0 };
	bool is = false;

	if (mount_find(c->dir, &l, NULL) == 1) {
		is = strcmp(l.fstype, CKPT_MOUNT_FSTYPE) == 0;
		mount_line_fini(&l);
	}
	return is;
}

/* Make the pipe that readers wait at; they inherit its reading end. */
static int open_go_pipe(struct job_plan *p, struct error *err)
{
	if (pipe2(p->go, O_CLOEXEC) < 0 || fcntl(p->go[0], F_SETFD, 0) < 0)
		return error_set(err, errno, "pipe: %s", strerror(errno));
	return 0;
}

/* Let the readers start.  The byte is never read, so that each of them sees it. */
void job_plan_let_read(const struct job_plan *p)
{
	if (p->go[1] > 0)
		(void)!write(p->go[1], "", 1);
}

int job_plan_make(struct job_plan *p, struct error *err)
{
	const struct job_file *f = p->file;
	int rc = 0;

	if (f->image.reference) {
		rc = open_go_pipe(p, err);
		p->image = &p->parts[p->n++];
		job_container_pull(f, p->image);
		if (f->environment.store)
			add_environment_ahead(p);
	} else if (f->environment.store) {
		add_environment(p);
	}
	for (size_t i = 0; rc == 0 && i < f->n_ckpts; i++) {
		const struct job_ckpt *c = &f->ckpts[i];

		if (c->store && !job_plan_is_mounted(c)) {
			p->mounts[i] = &p->parts[p->n];
			rc = add_ckpt(p, c, err);
		} else if (has_prefetch(c)) {
			add_read_part(p, c);
		}
	}
	for (size_t i = 0; rc == 0 && i < p->n; i++)
		for (size_t k = 0; rc == 0 && k < p->parts[i].way.n; k++)
			if (p->parts[i].way.steps[k].is_short)
				rc = error_nomem(err);
	return rc;
}

void job_plan_fini(struct job_plan *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(p->go); i++)
		if (p->go[i] > 0)
			(void)close(p->go[i]);
	for (size_t i = 0; i < p->n; i++)
		job_part_fini(&p->parts[i]);
	p->n = 0;
}

/* --------------------------------------------------------------------- for people --- */

static int print_words(const char *before, char *const *v, struct error *err)
{
	AUTO_BUF line = BUF_INIT;

	if (job_words_quote(v, &line) < 0)
		return error_nomem(err);
	printf("%s%s\n", before, line.len ? line.data : "");
	return 0;
}

static int print_part(const struct job_part *p, struct error *err)
{
	int rc = 0;

	printf("%s, beside the others:\n", p->what);
	for (size_t k = 0; rc == 0 && k < p->way.n; k++)
		rc = print_words("  ", p->way.steps[k].v, err);
	if (p->otherwise.n)
		printf("  where that fails, %s:\n", p->ordinary);
	for (size_t k = 0; rc == 0 && k < p->otherwise.n; k++)
		rc = print_words("    ", p->otherwise.steps[k].v, err);
	return rc;
}

/* Print the first lines that one of our own commands prints. */
static void print_answer(char *const *argv)
{
	AUTO_BUF said = { .limit = 16384 };
	int status = 0;
	char *save = NULL;

	if (child_capture(argv, ASK_MS, &said, &status, NULL) < 0 || !said.len)
		return;
	for (char *line = strtok_r(said.data, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save))
		printf("  | %s\n", line);
}

static void explain_image(const struct job_plan *p)
{
	char image[] = "image", explain[] = "explain";
	char *argv[] = { (char *)(uintptr_t)p->self, image, explain,
			 p->file->image.reference, NULL };

	printf("  what this node has of the image, and its starts before:\n");
	print_answer(argv);
}

static void explain_ckpt(const struct job_plan *p, const struct job_ckpt *c)
{
	char ckpt[] = "ckpt", ls[] = "ls", l[] = "-l";
	AUTO_BUF name = BUF_INIT;
	bool is_short = false;

	for (char **f = c->prefetch; f && *f; f++) {
		char *argv[] = { (char *)(uintptr_t)p->self,
				 ckpt,
				 ls,
				 l,
				 c->store,
				 NULL,
				 NULL };

		fill_rank_in_name(p, *f, &name, &is_short);
		if (is_short)
			return;
		argv[5] = name.data;
		print_answer(argv);
	}
}

static void explain_environment(const struct job_plan *p)
{
	const struct job_environment *e = &p->file->environment;
	struct job_words w = { .v = NULL };

	if (p->image) {
		printf("environment: its key is of the container's files: "
		       "'bootseer env run' looks for its snapshot there, and "
		       "runs the command when there is none\n");
		return;
	}
	printf("environment: the key, by which its snapshot is found; without "
	       "one the command is run:\n");
	job_words_add(&w, "%s", p->self);
	job_words_add(&w, "env");
	job_words_add(&w, "key");
	job_words_add(&w, "--explain");
	job_words_add_each(&w, "--target", e->targets);
	job_words_add_each(&w, "--key", e->keys);
	job_words_add_each(&w, "--key-file", e->key_files);
	job_words_add(&w, "--");
	job_words_add_all(&w, e->command);
	if (!w.is_short)
		print_answer(w.v);
	job_words_fini(&w);
}

int job_plan_print(const struct job_plan *p, bool explains, struct error *err)
{
	const struct job_file *f = p->file;
	struct job_container c = { .file = f, .self = p->self };
	int rc = 0;

	printf("job %s, node %s\n", f->name, f->rank);
	for (size_t i = 0; rc == 0 && i < p->n; i++) {
		(void)fflush(stdout);
		rc = print_part(&p->parts[i], err);
		if (explains && &p->parts[i] == p->image)
			explain_image(p);
	}
	for (size_t i = 0; i < f->n_ckpts; i++) {
		if (!p->mounts[i])
			printf("checkpoint %s: mounted already, and stays\n",
			       f->ckpts[i].dir);
		if (explains && f->ckpts[i].store)
			explain_ckpt(p, &f->ckpts[i]);
	}
	if (explains && f->environment.store)
		explain_environment(p);
	if (rc < 0)
		return rc;
	printf("then:\n");
	if (!p->image)
		return print_words("  ", p->command, err);
	job_container_words(&c, true, p->command);
	rc = c.words.is_short ? error_nomem(err)
			      : print_words("  ", c.words.v, err);
	job_words_fini(&c.words);
	return rc;
}
