// SPDX-License-Identifier: Apache-2.0
#include "envcache/work.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* Is stdin a pipe or file, from which a program could read prepared input? */
static bool has_input(void)
{
	struct stat st;

	return fstat(STDIN_FILENO, &st) == 0 &&
	       (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode));
}

int env_work_find_targets(struct env_work *w, struct error *err)
{
	const struct env_usual usual = { .root = "",
					 .path = getenv("PATH"),
					 .home = getenv("HOME") };
	char **named = w->parts->targets;

	return named && *named ? env_targets_make(named, &w->targets, err)
			       : env_targets_usual(&usual, &w->targets, err);
}

int env_work_find_inputs(struct env_work *w, struct error *err)
{
	const struct env_inputs_from from = { .command = w->command,
					      .targets = &w->targets,
					      .environment = environ,
					      .root = "",
					      .made = w->made,
					      .reads_script = has_input(),
					      .gpu_alone = w->parts->merge };

	env_inputs_fini(&w->inputs);
	return w->parts->no_auto ? 0
				 : env_inputs_gather(&from, &w->inputs, err);
}

int env_work_find_made(struct env_work *w, struct object_store *s,
		       struct error *err)
{
	struct env_key words;
	int rc = env_work_key_words(w, &words, err);

	if (rc < 0)
		return rc;
	rc = env_made_get(s, &words, &w->made, err);
	env_key_fini(&words);
	return rc == -ENOENT ? 0 : rc;
}

int env_work_key(const struct env_work *w, struct env_key *ret,
		 struct error *err)
{
	const struct env_spec spec = { .command = w->command,
				       .values = w->parts->values,
				       .files = w->parts->files,
				       .inputs = &w->inputs,
				       .image = w->parts->image,
				       .merges = w->parts->merge };

	return env_key_make(&spec, &w->targets, w->scan, ret, err);
}

int env_work_key_words(const struct env_work *w, struct env_key *ret,
		       struct error *err)
{
	const struct env_work words = { .parts = w->parts,
					.command = w->command,
					.targets = w->targets };

	return env_work_key(&words, ret, err);
}

int env_work_look_again(struct env_work *w, const struct env_key *key,
			struct error *err)
{
	struct env_key now;
	bool is_same;
	int rc;

	env_scan_free(steal_ptr(&w->scan));
	rc = env_scan_new(&w->targets, &w->scan, err);
	if (rc == 0)
		rc = env_work_find_inputs(w, err);
	if (rc == 0)
		rc = env_work_key(w, &now, err);
	if (rc < 0)
		return rc;
	is_same = digest_equal(&now.digest, &key->digest);
	env_key_fini(&now);
	if (!is_same)
		return error_set(err, ESTALE,
				 "what the key is of changed meanwhile");
	return env_scan_hash_recent(w->scan, err);
}

int env_work_note_made(const struct env_work *w, const struct env_key *key,
		       struct object_store *s, struct error *err)
{
	/* the state after the command */
	struct env_work after = *w;
	const char *unwritten = NULL;
	struct env_key words;
	char **names = NULL;
	int rc;

	after.inputs = (struct env_inputs){ .n = 0 };
	rc = env_work_find_inputs(&after, err);
	if (rc < 0)
		return w->made ? rc : 0;
	rc = env_inputs_made(&w->inputs, &after.inputs, w->made, &names,
			     &unwritten, err);
	env_inputs_fini(&after.inputs);
	if (rc == 1 && s && env_work_key_words(w, &words, NULL) == 0) {
		(void)!env_made_put(s, &words, &key->digest, names, NULL);
		env_key_fini(&words);
	}
	env_names_free(names);
	if (rc >= 0 && unwritten)
		rc = error_set(
			err, ESTALE,
			"'%s' is not in the key, as the command made it "
			"before, but did not now: the next run has it in "
			"its key",
			unwritten);
	return rc < 0 ? rc : 0;
}

void env_work_fini(struct env_work *w)
{
	env_scan_free(w->scan);
	env_inputs_fini(&w->inputs);
	env_names_free(w->made);
	env_targets_fini(&w->targets);
}
