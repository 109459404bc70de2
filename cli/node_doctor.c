// SPDX-License-Identifier: Apache-2.0
/* `bootseer node doctor`: checks from outside, then bootseerd's checks of itself, if it runs. */
#include <errno.h>
#include <stdio.h>

#include "cli/command.h"
#include "cli/doctor.h"
#include "cli/nfs_mounts.h"
#include "cli/node_ask.h"
#include "common/fs.h"
#include "common/json.h"
#include "common/log.h"
#include "common/toml.h"

struct doctor_config {
	struct node_options node;
	bool json, report;
	char *registry, *containerd;
};

static const struct option_spec options[] = {
	{ .key = "registry",
	  .type = OPTION_STRING,
	  .offset = offsetof(struct doctor_config, registry),
	  .arg = "HOST[:PORT]",
	  .help = "Have bootseerd ask whether this registry answers." },
	{ .key = "containerd",
	  .type = OPTION_STRING,
	  .offset = offsetof(struct doctor_config, containerd),
	  .arg = "FILE",
	  .help = "containerd's configuration; default is what the running "
		  "ones were started with." },
	{ .key = "json",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct doctor_config, json),
	  .def = "no",
	  .help = "Print the checks as JSON." },
	{ .key = "report",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct doctor_config, report),
	  .def = "no",
	  .help = "Have bootseerd show the result in its figures, and tell "
		  "its --service." },
	NODE_OPTIONS(struct doctor_config),
	{ .key = NULL },
};

/* Is everything there that is needed? */
static bool is_well(const json_t *list)
{
	const json_t *check;
	size_t k;

	json_array_foreach(list, k, check)
	{
		if (!reply_flag(check, "ok") && reply_flag(check, "needed"))
			return false;
	}
	return true;
}

static void print_checks(const json_t *list)
{
	const json_t *check;
	size_t k;

	json_array_foreach(list, k, check)
	{
		bool ok = reply_flag(check, "ok");

		printf("%-8s %-26s %s\n",
		       ok                            ? "ok"
		       : reply_flag(check, "needed") ? "missing"
						     : "advice",
		       reply_text(check, "name"), reply_text(check, "detail"));
		if (!ok)
			printf("%-8s %-26s %s\n", "",
			       "  cure:", reply_text(check, "cure"));
	}
}

static void add_daemon(json_t *list, int rc, const struct error *err)
{
	bool runs = rc == 0;

	doctor_add(list, "bootseerd", runs, DOCTOR_NEEDED,
		   rc == -EACCES || rc == -EPERM
			   ? "run this command as root"
			   : "systemctl start bootseerd; if it listens "
			     "elsewhere, name its --socket",
		   "%s", runs ? "answers" : err->msg);
}

/* Read the hosts.toml entry of bootseerd's mirror; false: there is no mirror. */
static bool read_mirror_entry(const json_t *status, struct buf *ret)
{
	AUTO_FREE char *path = NULL;

	if (!json_is_string(json_object_get(status, "mirror")))
		return false;
	if (asprintf(&path, "%s/mirror/hosts.toml", reply_raw(status, "root")) <
	    0) {
		path = NULL;
		return false;
	}
	return fs_read_file(path, TOML_BYTES_MAX, ret, NULL) == 0 && ret->data;
}

/* Run all checks into one list; `c` is NULL when bootseerd does not run. */
static void gather_checks(const struct doctor_config *cfg,
			  struct node_client *c, json_t *list)
{
	json_t *params = cfg->registry
				 ? json_pack("{s:s}", "registry", cfg->registry)
				 : json_object();
	struct error err = ERROR_INIT;
	AUTO_JSON *reply = NULL;
	AUTO_JSON *status = NULL;
	AUTO_BUF entry = BUF_INIT;
	struct doctor_node node = { .mirror = NULL };

	if (c &&
	    node_ask_on(c, "node.status", json_object(), &status, NULL) == 0) {
		node.containerd_root = reply_raw(status, "containerd_root");
		if (read_mirror_entry(status, &entry))
			node.mirror = entry.data;
	}
	doctor_check_host(list, c != NULL);
	nfs_mounts_check(list, NULL);
	if (!c)
		json_decref(params);
	else if (node_ask_on(c, "node.doctor", params, &reply, &err) == 0)
		(void)json_array_extend(list, json_object_get(reply, "checks"));
	else
		doctor_add(list, "bootseerd's checks", false, DOCTOR_NEEDED,
			   "journalctl -u bootseerd", "%s", err.msg);
	doctor_check_containerd(list, cfg->containerd, &node);
}

/* Send the list to bootseerd.  A failure is an error, and does not change the list. */
static int report_checks(struct node_client *c, json_t *list,
			 const struct error *why, struct error *err)
{
	AUTO_JSON *reply = NULL;
	int rc =
		c ? node_ask_on(c, "node.doctor_report",
				json_pack("{s:O}", "checks", list), &reply, err)
		  : error_set(err, why->code ? why->code : ENOENT, "%s",
			      why->msg);

	return rc < 0 ? error_wrap(err, rc, "the result was not reported") : 0;
}

static int run_node_doctor(const void *config, char **args, struct error *err)
{
	const struct doctor_config *cfg = config;
	struct node_client *c = NULL;
	struct error why = ERROR_INIT;
	AUTO_JSON *list = json_array();
	AUTO_JSON *all = NULL;
	int rc;

	(void)args;
	if (!list)
		return error_nomem(err);
	rc = node_connect(&cfg->node, &c, &why);
	add_daemon(list, rc, &why);
	gather_checks(cfg, c, list);
	if (cfg->json) {
		all = json_pack("{s:O}", "checks", list);
		reply_print(all);
	} else {
		print_checks(list);
	}
	rc = cfg->report ? report_checks(c, list, &why, err) : 0;
	node_client_close(c);
	if (is_well(list))
		return rc;
	if (rc < 0)
		log_warning("doctor", "%s", err->msg);
	return error_set(err, ENOENT,
			 "the node cannot do its work, see what is missing");
}

const struct command node_doctor_command = {
	.brief = "Tell what this node lacks and how to get it",
	.program = {
		.name = "bootseer node doctor",
		.usage = "[OPTIONS]",
		.summary = "Tell what the node lacks and how to get it, "
			   "bootseerd running or not.  The exit status is 0 "
			   "when nothing that is needed is missing (there may "
			   "be advice), 1 otherwise.",
		.options = options,
		.see_also = "bootseerd(8)",
	},
	.config_size = sizeof(struct doctor_config),
	.run = run_node_doctor,
};
