// SPDX-License-Identifier: Apache-2.0
#include "cli/bundle.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "common/json.h"

#define DEFAULT_PATH \
	"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Capabilities that docker and containerd grant to an ordinary container. */
static const char *const capabilities[] = {
	"CAP_CHOWN",
	"CAP_DAC_OVERRIDE",
	"CAP_FSETID",
	"CAP_FOWNER",
	"CAP_MKNOD",
	"CAP_NET_RAW",
	"CAP_SETGID",
	"CAP_SETUID",
	"CAP_SETFCAP",
	"CAP_SETPCAP",
	"CAP_NET_BIND_SERVICE",
	"CAP_SYS_CHROOT",
	"CAP_KILL",
	"CAP_AUDIT_WRITE",
};

static const char *const masked[] = {
	"/proc/acpi",          "/proc/kcore",      "/proc/keys",
	"/proc/latency_stats", "/proc/timer_list", "/proc/sched_debug",
	"/proc/scsi",          "/sys/firmware",
};

static const char *const read_only[] = {
	"/proc/bus",           "/proc/fs", "/proc/irq", "/proc/sys",
	"/proc/sysrq-trigger",
};

static const struct {
	const char *target, *type, *source, *options;
} mounts[] = {
	{ "/proc", "proc", "proc", "nosuid noexec nodev" },
	{ "/dev", "tmpfs", "tmpfs", "nosuid strictatime mode=755 size=65536k" },
	{ "/dev/pts", "devpts", "devpts",
	  "nosuid noexec newinstance ptmxmode=0666 mode=0620 gid=5" },
	{ "/dev/shm", "tmpfs", "shm", "nosuid noexec nodev mode=1777" },
	{ "/dev/mqueue", "mqueue", "mqueue", "nosuid noexec nodev" },
	{ "/sys", "sysfs", "sysfs", "nosuid noexec nodev ro" },
	/* The container uses the host's network. */
	{ "/etc/resolv.conf", "bind", "/etc/resolv.conf", "rbind ro" },
	{ "/etc/hosts", "bind", "/etc/hosts", "rbind ro" },
};

static json_t *json_of_texts(const char *const *v, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		(void)json_array_append_new(list, json_string(v[i]));
	return list;
}

static json_t *split_words_json(const char *text)
{
	json_t *list = json_array();

	while (*text) {
		size_t n = strcspn(text, " ");

		(void)json_array_append_new(list, json_stringn(text, n));
		text += n + (text[n] == ' ');
	}
	return list;
}

static const json_t *config_of(const struct bundle_spec *s, const char *key)
{
	return json_object_get(json_object_get(s->image, "config"), key);
}

/* ------------------------------------------------------------------ process --- */

static json_t *make_args(const struct bundle_spec *s)
{
	json_t *args = json_array();

	for (char *const *a = s->command; a && *a; a++)
		(void)json_array_append_new(args, json_string(*a));
	if (json_array_size(args) > 0)
		return args;
	/* Each may be an array, null, or missing. */
	(void)json_array_extend(args,
				(json_t *)(uintptr_t)config_of(s,
							       "Entrypoint"));
	(void)json_array_extend(args, (json_t *)(uintptr_t)config_of(s, "Cmd"));
	return args;
}

static bool is_same_variable_name(const char *a, const char *b)
{
	size_t n = strcspn(a, "=");

	return strncmp(a, b, n) == 0 && b[n] == '=';
}

/* Set "NAME=VALUE"; replaces a variable of the same name. */
static void set_env(json_t *list, const char *text)
{
	const json_t *old;
	size_t i;

	json_array_foreach(list, i, old)
	{
		const char *was = json_string_value(old);

		if (was && is_same_variable_name(was, text)) {
			(void)json_array_set_new(list, i, json_string(text));
			return;
		}
	}
	(void)json_array_append_new(list, json_string(text));
}

static json_t *make_env(const struct bundle_spec *s)
{
	json_t *list = json_array();
	AUTO_BUF home = BUF_INIT;
	const json_t *e;
	size_t i;

	set_env(list, DEFAULT_PATH);
	if (*s->user->home && buf_printf(&home, "HOME=%s", s->user->home) == 0)
		set_env(list, home.data);
	json_array_foreach(config_of(s, "Env"), i, e)
	{
		if (json_is_string(e))
			set_env(list, json_string_value(e));
	}
	for (char *const *v = s->env; v && *v; v++)
		set_env(list, *v);
	return list;
}

static json_t *make_capabilities(void)
{
	json_t *list = json_of_texts(capabilities, ARRAY_SIZE(capabilities));

	return json_pack("{s:O, s:O, s:o}", "bounding", list, "effective", list,
			 "permitted", list);
}

static json_t *make_process(const struct bundle_spec *s)
{
	const char *dir = json_string_value(config_of(s, "WorkingDir"));
	json_t *groups = json_array();

	for (size_t i = 0; i < s->user->n_groups; i++)
		(void)json_array_append_new(groups,
					    json_integer(s->user->groups[i]));
	return json_pack("{s:b, s:{s:I, s:I, s:o}, s:o, s:o, s:s, s:o}",
			 "terminal", 0, "user", "uid", (json_int_t)s->user->uid,
			 "gid", (json_int_t)s->user->gid, "additionalGids",
			 groups, "args", make_args(s), "env", make_env(s),
			 "cwd", dir && *dir == '/' ? dir : "/", "capabilities",
			 make_capabilities());
}

/* ------------------------------------------------------------------- mounts --- */

static json_t *make_mount(const char *target, const char *type,
			  const char *source, const char *options)
{
	return json_pack("{s:s, s:s, s:s, s:o}", "destination", target, "type",
			 type, "source", source, "options",
			 split_words_json(options));
}

struct bind {
	char *source; /* owned; `target` points into the same memory */
	const char *target;
	bool ro;
};

/* Split "SOURCE:TARGET[:ro]". */
static int split_mount(const char *text, struct bind *ret, struct error *err)
{
	AUTO_FREE char *source = strdup(text);
	char *target = source ? strchr(source, ':') : NULL, *mode;
	bool ro = false;

	if (!source)
		return error_nomem(err);
	if (target)
		*target++ = '\0';
	mode = target ? strchr(target, ':') : NULL;
	if (mode) {
		*mode++ = '\0';
		ro = strcmp(mode, "ro") == 0;
	}
	if (!target || *source != '/' || *target != '/' || (mode && !ro))
		return error_set(err, EINVAL,
				 "--mount '%s' is not SOURCE:TARGET[:ro] with "
				 "absolute paths",
				 text);
	*ret = (struct bind){ .source = steal_ptr(&source),
			      .target = target,
			      .ro = ro };
	return 0;
}

int bundle_mount_check(const char *text, struct error *err)
{
	struct bind b = { .source = NULL };
	int rc = split_mount(text, &b, err);

	free(b.source);
	return rc;
}

static int add_mount(json_t *list, const char *text, struct error *err)
{
	struct bind b = { .source = NULL };
	AUTO_FREE char *source = NULL;
	json_t *m;
	int rc = split_mount(text, &b, err);

	if (rc < 0)
		return rc;
	source = b.source;
	if (access(source, F_OK) < 0)
		return error_errno(err, errno, "--mount '%s'", source);
	m = make_mount(b.target, "bind", source,
		       b.ro ? "rbind ro" : "rbind rw");
	return m && json_array_append_new(list, m) == 0
		       ? 0
		       : error_set(err, EINVAL, "--mount '%s' is not UTF-8",
				   text);
}

static int make_mounts(const struct bundle_spec *s, json_t *list,
		       struct error *err)
{
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(mounts); i++)
		if (strcmp(mounts[i].type, "bind") != 0 ||
		    access(mounts[i].source, F_OK) == 0)
			(void)json_array_append_new(
				list,
				make_mount(mounts[i].target, mounts[i].type,
					   mounts[i].source,
					   mounts[i].options));
	for (char *const *m = s->mounts; rc == 0 && m && *m; m++)
		rc = add_mount(list, *m, err);
	return rc;
}

static json_t *make_linux(void)
{
	return json_pack("{s:[{s:s}, {s:s}, {s:s}, {s:s}], s:{s:[{s:b, s:s}]}, "
			 "s:o, s:o}",
			 "namespaces", "type", "pid", "type", "ipc", "type",
			 "uts", "type", "mount", "resources", "devices",
			 "allow", 0, "access", "rwm", "maskedPaths",
			 json_of_texts(masked, ARRAY_SIZE(masked)),
			 "readonlyPaths",
			 json_of_texts(read_only, ARRAY_SIZE(read_only)));
}

/* All texts must be UTF-8, as JSON has no other texts. */
static int check_texts(char *const *v, struct error *err)
{
	for (; v && *v; v++) {
		AUTO_JSON *text = json_string(*v);

		if (!text)
			return error_set(err, EINVAL, "'%s' is not UTF-8", *v);
	}
	return 0;
}

int bundle_make(const struct bundle_spec *s, json_t **ret, struct error *err)
{
	AUTO_JSON *list = json_array();
	AUTO_JSON *all = NULL;
	int rc = check_texts(s->command, err);

	if (rc == 0)
		rc = check_texts(s->env, err);
	if (rc == 0)
		rc = make_mounts(s, list, err);
	if (rc < 0)
		return rc;
	all = json_pack("{s:s, s:o, s:{s:s, s:b}, s:s, s:O, s:o}", "ociVersion",
			"1.0.2", "process", make_process(s), "root", "path",
			s->rootfs, "readonly", 0, "hostname", "bootseer",
			"mounts", list, "linux", make_linux());
	if (!all)
		return error_nomem(err);
	if (json_array_size(json_object_get(json_object_get(all, "process"),
					    "args")) == 0)
		return error_set(err, EINVAL,
				 "the image has no entry point: name a command "
				 "after --");
	*ret = steal_ptr(&all);
	return 0;
}
