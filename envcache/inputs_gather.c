// SPDX-License-Identifier: Apache-2.0
/* Gather a command's inputs: files that its words name (inputs_words.c), settings of package
 * managers (inputs_tools.c), variables that these use, and the type of GPU. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "envcache/inputs_priv.h"
#include "envcache/words.h"

/* Variables that are inputs; "PIP_*" stands for all that begin with PIP_, except those of
 * no_inputs. */
static const char *const variables[] = {
	"PIP_*",
	"UV_*",
	"CONDA_OVERRIDE_*",
	"CONDARC",
	"CONDA_CHANNELS",
	"CONDA_DEFAULT_CHANNELS",
	"CONDA_CHANNEL_ALIAS",
	"CONDA_CHANNEL_PRIORITY",
	"CONDA_SUBDIR",
	"CONDA_PINNED_PACKAGES",
	"CONDA_PREFIX",
	"CONDA_DEFAULT_ENV",
	"MAMBA_ROOT_PREFIX",
	"POETRY_VIRTUALENVS_*",
	"VIRTUAL_ENV",
	"PYTHONHOME",
	"PYTHONUSERBASE",
	"NPM_CONFIG_REGISTRY",
	"NPM_CONFIG_USERCONFIG",
	"NPM_CONFIG_GLOBALCONFIG",
	"NPM_CONFIG_PRODUCTION",
	"NPM_CONFIG_OMIT",
	"NPM_CONFIG_INCLUDE",
	"NPM_CONFIG_ARCH",
	"NPM_CONFIG_PLATFORM",
	"NPM_CONFIG_TAG",
	"NPM_CONFIG_BUILD_FROM_SOURCE",
	"NPM_CONFIG_IGNORE_SCRIPTS",
	"NODE_ENV",
	"YARN_REGISTRY",
	"YARN_NPM_REGISTRY_SERVER",
	"APT_CONFIG",
	"GOPROXY",
	"GOFLAGS",
	"SOURCE_DATE_EPOCH",
	"CC",
	"CXX",
	"CFLAGS",
	"CXXFLAGS",
	"CPPFLAGS",
	"LDFLAGS",
	"CMAKE_ARGS",
	"CUDA_HOME",
	"CUDA_PATH",
	"CUDAARCHS",
	"TORCH_CUDA_ARCH_LIST",
	"FORCE_CUDA",
	"ROCM_HOME",
	"PYTORCH_ROCM_ARCH",
};

/* Parts of names of variables that differ between nodes and runs without changing what is
 * installed: folders of caches and logs, speed, verbosity, names of users. */
static const char *const no_inputs[] = {
	"CACHE",
	"LOG",
	"PROGRESS",
	"TIMEOUT",
	"RETRIES",
	"CONCURRENT",
	"QUIET",
	"VERBOSE",
	"COLOR",
	"PROXY",
	"CERT",
	"NATIVE_TLS",
	"KEYRING",
	"USERNAME",
	"TRUSTED_HOST",
	"INSECURE",
	"NO_INPUT",
	"VERSION_CHECK",
	"ROOT_USER_ACTION",
	"BUILD_TRACKER",
	"LINK_MODE",
};

static bool is_variable(const char *name, size_t len)
{
	bool is = false, is_begin = false;

	for (size_t i = 0; i < ARRAY_SIZE(variables) && !is; i++) {
		size_t n = strlen(variables[i]);

		is_begin = variables[i][n - 1] == '*';

		n -= is_begin;
		/* npm also accepts lower-case names. */
		is = (is_begin ? len > n : len == n) &&
		     (strncmp(variables[i], "NPM_", 4) == 0
			      ? strncasecmp(name, variables[i], n)
			      : strncmp(name, variables[i], n)) == 0;
	}
	for (size_t i = 0; is && is_begin && i < ARRAY_SIZE(no_inputs); i++)
		is = !memmem(name, len, no_inputs[i], strlen(no_inputs[i]));
	return is && !name_is_secret(name, len);
}

/* Some variables contain names of files with constraints or settings, separated by blanks; add
 * these files. */
static int add_files_of(struct gather *g, const char *value, struct error *err)
{
	AUTO_FREE char *copy = strdup(value);
	char *save = NULL;
	int rc = copy ? 0 : error_nomem(err);

	for (char *path = copy ? strtok_r(copy, " ", &save) : NULL;
	     rc == 0 && path; path = strtok_r(NULL, " ", &save))
		rc = inputs_look_at_list(g, path, err);
	return rc;
}

static int add_variables(struct gather *g, struct error *err)
{
	int rc = 0;

	for (char *const *v = g->from->environment; rc == 0 && v && *v; v++) {
		size_t n = strcspn(*v, "=");
		AUTO_FREE char *name = NULL;

		if (!(*v)[n] || !is_variable(*v, n))
			continue;
		name = strndup(*v, n);
		rc = name ? inputs_add_text(g, "variable", name, *v + n + 1,
					    err)
			  : error_nomem(err);
		if (rc == 0 && !strstr(*v, "://"))
			rc = add_files_of(g, *v + n + 1, err);
	}
	return rc;
}

static int add_inputs_of_command(struct gather *g, struct error *err)
{
	int rc = inputs_look_at_command(g, err);

	if (rc == 0)
		rc = inputs_add_tools(g, err);
	return rc < 0 ? rc : add_variables(g, err);
}

int env_inputs_gather(const struct env_inputs_from *from,
		      struct env_inputs *ret, struct error *err)
{
	struct env_inputs in = { .n = 0 };
	struct gather g = { .from = from, .in = &in, .whole = ENV_INPUT_BYTES };
	int rc = from->gpu_alone ? 0 : add_inputs_of_command(&g, err);

	if (rc == 0)
		rc = inputs_add_gpu(&g, err);
	for (size_t i = 0; i < g.n_folders; i++)
		free(g.folders[i]);
	free((void *)g.folders);
	for (size_t i = 0; i < g.n_texts; i++)
		free(g.texts[i].text);
	free(g.texts);
	if (rc < 0)
		env_inputs_fini(&in);
	else
		*ret = in;
	return rc;
}
