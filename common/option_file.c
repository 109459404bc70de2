// SPDX-License-Identifier: Apache-2.0
/* Configuration files: libconfig's syntax, the keys of the option table. */
#include "common/option_priv.h"

#include <errno.h>
#include <libconfig.h>
#include <stdio.h>
#include <string.h>

#include "common/buf.h"
#include "common/fs.h"

#define FILE_BYTES_MAX (1u << 20)

static int set_setting_value(const struct option_spec *o, void *cfg,
			     const config_setting_t *value, struct error *err)
{
	char number[32];

	switch (config_setting_type(value)) {
	case CONFIG_TYPE_STRING:
		return option_set(o, cfg, config_setting_get_string(value),
				  err);
	case CONFIG_TYPE_BOOL:
		return option_set(o, cfg,
				  config_setting_get_bool(value) ? "yes" : "no",
				  err);
	case CONFIG_TYPE_INT:
	case CONFIG_TYPE_INT64:
		(void)snprintf(number, sizeof(number), "%lld",
			       config_setting_get_int64(value));
		return option_set(o, cfg, number, err);
	default:
		return error_set(err, EINVAL, "want one value%s",
				 o->type == OPTION_LIST ? " or a list" : "");
	}
}

static int set_setting(const struct option_spec *o, void *cfg,
		       const config_setting_t *value, struct error *err)
{
	int rc = 0;

	option_clear(o, cfg);
	if (!config_setting_is_aggregate(value))
		return set_setting_value(o, cfg, value, err);
	if (o->type != OPTION_LIST || config_setting_is_group(value))
		return error_set(err, EINVAL, "want one value");
	for (int i = 0; i < config_setting_length(value) && rc == 0; i++)
		rc = set_setting_value(o, cfg,
				       config_setting_get_elem(value,
							       (unsigned int)i),
				       err);
	return rc;
}

static int set_all_settings(const struct option_program *prog, void *cfg,
			    const char *path, const config_setting_t *root,
			    struct error *err)
{
	for (int i = 0; i < config_setting_length(root); i++) {
		const config_setting_t *value =
			config_setting_get_elem(root, (unsigned int)i);
		const char *key = config_setting_name(value);
		unsigned int line = config_setting_source_line(value);
		const struct option_spec *o =
			option_find(prog->options, key, strlen(key));
		int rc;

		if (o && o->no_file)
			return error_set(
				err, EINVAL,
				"line %u: '%s' is for the command line "
				"only: start it with --%s",
				line, key, key);
		if (!o)
			return error_set(err, EINVAL,
					 "line %u: unknown key '%s': see "
					 "--help for the keys",
					 line, key);
		rc = set_setting(o, cfg, value, err);
		if (rc < 0)
			return error_wrap(err, rc, "line %u: key '%s'", line,
					  key);
	}
	return 0;
}

int option_read_file(const struct option_program *prog, void *cfg,
		     const char *path, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	config_t file;
	int rc = fs_read_file(path, FILE_BYTES_MAX, &text, err);

	if (rc < 0)
		return error_wrap(err, rc, "option '--config'");
	config_init(&file);
	/* Parse from memory: a text parsed like that cannot @include other files. */
	if (!config_read_string(&file, text.data ? text.data : ""))
		rc = error_set(err, EINVAL,
			       "line %d: %s: want KEY = VALUE; with texts, "
			       "sizes and times in quotes, and true or false "
			       "for yes or no",
			       config_error_line(&file),
			       config_error_text(&file));
	else
		rc = set_all_settings(prog, cfg, path,
				      config_root_setting(&file), err);
	config_destroy(&file);
	return rc < 0 ? error_wrap(err, rc, "configuration '%s'", path) : 0;
}

unsigned int option_file_line(const char *path, const char *key)
{
	AUTO_BUF text = BUF_INIT;
	const config_setting_t *found;
	unsigned int line = 0;
	config_t file;

	if (fs_read_file(path, FILE_BYTES_MAX, &text, NULL) < 0)
		return 0;
	config_init(&file);
	if (config_read_string(&file, text.data ? text.data : "")) {
		found = config_setting_get_member(config_root_setting(&file),
						  key);
		line = found ? config_setting_source_line(found) : 0;
	}
	config_destroy(&file);
	return line;
}
