// SPDX-License-Identifier: Apache-2.0
/* Checks for what bootseerd lacks, with advice how to get it. Checks that need no privileges
 * are made by the command line (cli/doctor_host.c). */
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "common/doctor.h"
#include "fuse/fuse.h"
#include "objects/oci_hosts.h"
#include "snapshotter/datapath.h"
#include "snapshotter/node/control/environment.h"
#include "snapshotter/node/control/holder.h"
#include "snapshotter/node/control/kubelet.h"
#include "snapshotter/node/control/node.h"
#include "snapshotter/node/control/registries.h"
#include "snapshotter/node/control/status.h"
#include "snapshotter/node/images/kept_logins.h"
#include "snapshotter/node/mirror/mirror.h"
#include "snapshotter/node/parser/confine.h"
#include "snapshotter/node/parser/parser.h"
#include "snapshotter/node/peers/image_swarm.h"
#include "snapshotter/node/trust/admission.h"
#include "snapshotter/node/trust/key_revocations.h"

#define NOFILE_WANTED 65536u
#define TMPFS_MAGIC 0x01021994

static void check_datapaths(struct node *n, json_t *list)
{
	const struct datapath_config cfg = {
		.run_dir = n->cfg->run,
		.state_dir = n->cfg->root,
		.threads = 1,
		.keeper = n->keeper,
	};
	const struct datapath_ops *const *k;
	char name[64];
	int rc;

	for (k = datapath_kinds; *k; k++) {
		struct error err = ERROR_INIT;

		snprintf(name, sizeof(name), "datapath %s", (*k)->name);
		rc = (*k)->probe(&cfg, &err);
		doctor_add(list, name, rc == 0, DOCTOR_ADVICE, err.msg, "%s%s",
			   rc == 0 ? "works" : "does not work here",
			   *k == n->datapath->ops ? "; in use" : "");
	}
	if (atomic_load(&n->holder_gone)) {
		doctor_add(list, "crash safety", false, DOCTOR_NEEDED,
			   HOLDER_CURE,
			   "the holder (--hold) was killed: nothing keeps the "
			   "descriptors of mounts");
		return;
	}
	doctor_add(
		list, "crash safety", fd_keeper_is_durable(n->keeper),
		DOCTOR_ADVICE,
		"run it by systemd with FileDescriptorStoreMax=, or with --hold",
		"descriptors of mounts %s a crash of bootseerd",
		fd_keeper_is_durable(n->keeper) ? "survive" : "do not survive");
}

/* Can images be mounted?  The data path's check also repairs what it can. */
static void check_mounting(struct node *n, json_t *list)
{
	struct error err = ERROR_INIT;
	int rc = n->datapath->ops->check(n->datapath, &err);

	doctor_add(
		list, "mounting", rc == 0, DOCTOR_NEEDED,
		"systemctl restart bootseerd; containers that run keep their mounts",
		"%s", rc == 0 ? "images can be mounted" : err.msg);
}

/* Check which privileged calls the kernel would still accept from this process if an attacker
 * had taken it over. */
static void check_confined(json_t *list)
{
	struct error err = ERROR_INIT;
	struct confined c = { .effective = 0 };
	uint64_t keep = confine_node_capabilities();
	int rc = confine_look(getpid(), &c, &err);
	bool bounded = !((c.effective | c.bounding) & ~keep);

	doctor_add(
		list, "confinement",
		rc == 0 && bounded && c.no_new_privs && c.has_filter,
		DOCTOR_ADVICE,
		"run it as root of the machine, on a kernel with "
		"CONFIG_SECCOMP_FILTER; its log says what could not be given up",
		"%s%u capabilities, %s, %s", rc < 0 ? err.msg : "",
		c.n_effective,
		bounded ? "no more can be got" : "more can be got",
		c.has_filter ? "seccomp filter" : "no seccomp filter");
}

/* Check that the parser process is confined and has a uid of its own: any other process with
 * that uid could stop it. */
static void check_parser(struct node *n, json_t *list)
{
	struct error err = ERROR_INIT;
	struct confined c = { .uid = 0 };
	int rc = confine_look(parser_pid(n->parser), &c, &err);
	bool confined = c.n_effective == 0 && c.no_new_privs && c.has_filter;

	if (rc < 0) {
		doctor_add(list, "parser", false, DOCTOR_ADVICE,
			   "its log says why it does not run, or is hidden",
			   "%s", err.msg);
		return;
	}
	doctor_add(
		list, "parser", confined && c.uid == CONFINE_PARSER_ID,
		DOCTOR_ADVICE,
		"run bootseerd as root of the machine, or in a user namespace that "
		"maps uid and gid 2063621869: whatever else has the uid of the "
		"parser can stop it",
		"uid %u%s, %s", c.uid,
		c.uid == CONFINE_PARSER_ID ? ", which nothing else has"
					   : ", which others may have too",
		confined ? "without rights" : "not wholly confined");
}

static void check_disk(struct node *n, json_t *list)
{
	struct statfs fs;
	struct statvfs vfs;
	struct rlimit nofile = { .rlim_cur = 0 };
	struct cache_stats c;
	uint64_t free_bytes;

	if (statfs(n->cfg->root, &fs) == 0)
		doctor_add(
			list, "root on a disk", fs.f_type != TMPFS_MAGIC,
			DOCTOR_ADVICE,
			"choose another --root: EROFS cannot read from tmpfs",
			"%s", n->cfg->root);
	if (statvfs(n->cfg->root, &vfs) == 0) {
		cache_get_stats(n->cache, &c);
		free_bytes = (uint64_t)vfs.f_bavail * vfs.f_frsize;
		doctor_add(
			list, "disk space", free_bytes + c.bytes >= c.quota,
			DOCTOR_ADVICE,
			"make room on its disk ('bootseer node status --json' "
			"tells under disk what is BootSeer's), or lower "
			"--cache-quota: the cache keeps less than it may",
			"%s: %llu MiB free, cache %llu of %llu MiB",
			n->cfg->root, (unsigned long long)(free_bytes >> 20),
			(unsigned long long)(c.bytes >> 20),
			(unsigned long long)(c.quota >> 20));
	}
	(void)getrlimit(RLIMIT_NOFILE, &nofile);
	doctor_add(list, "open files", nofile.rlim_cur >= NOFILE_WANTED,
		   DOCTOR_ADVICE,
		   "LimitNOFILE=65536 in the unit, or 'ulimit -n 65536'",
		   "limit %llu", (unsigned long long)nofile.rlim_cur);
}

static void check_environments(struct node *n, json_t *list)
{
	struct error err = ERROR_INIT;
	int rc;

	if (!n->cfg->env_stores || !*n->cfg->env_stores)
		return;
	rc = environments_probe(&n->environments, &err);
	doctor_add(
		list, "environments", rc == 0, DOCTOR_ADVICE,
		"install e2fsprogs, 'modprobe loop', have --root on a disk and "
		"--cache-quota at twice --env-write-max or more; "
		"until then environments are unpacked",
		"%s", rc == 0 ? "can be mounted and written to" : err.msg);
}

/* Check that the kubelet wants less free disk than the cache leaves.  If not, a full cache
 * makes the kubelet remove images, which frees no block of the cache, and then evict pods. */
static void check_kubelet(struct node *n, json_t *list)
{
	unsigned int wanted = kubelet_wants_free(n->cfg->root);
	AUTO_BUF cure = BUF_INIT;

	if (!wanted ||
	    buf_printf(&cure,
		       "say cache-min-free = \"auto\", or %u or more, and "
		       "restart bootseerd: below %u %% the kubelet removes "
		       "images, which frees no block, and evicts pods",
		       wanted + 1, wanted) < 0)
		return;
	doctor_add(list, "kubelet's disk", n->min_free > wanted, DOCTOR_ADVICE,
		   cure.data,
		   "the cache leaves %u %% free, the kubelet wants %u %%",
		   n->min_free, wanted);
}

static void check_cache(struct node *n, json_t *list)
{
	struct cache_stats c;

	cache_get_stats(n->cache, &c);
	doctor_add(
		list, "cache", !c.frozen_files, DOCTOR_ADVICE,
		"end the containers on complete mounts of an earlier bootseerd, or "
		"the program that has files in ROOT/cache open: it frees itself",
		"%llu files frozen, with %llu MiB of unknown blocks; %llu mounts "
		"in use after their unmount",
		(unsigned long long)c.frozen_files,
		(unsigned long long)(c.frozen_bytes >> 20),
		(unsigned long long)c.mounts_lingering);
}

/* Which images start the ordinary way, and why. */
static void check_trust(struct node *n, json_t *list)
{
	AUTO_JSON *refused = admission_refusals(n->admission);
	struct key_revocations_stats revoked;
	struct error err = ERROR_INIT;
	const json_t *one;
	size_t k;
	int rc = admission_check(n->admission, &err);

	doctor_add(
		list, "trust", rc == 0, DOCTOR_ADVICE,
		"mend that file, or where there is none copy the .pub file of who "
		"converts images there ('bootseer key new' makes one); then "
		"systemctl reload bootseerd",
		"%s",
		rc == 0 ? "keys to check signatures with are here" : err.msg);
	key_revocations_get_stats(n->key_revocations, &revoked);
	if (revoked.is_damaged || revoked.error[0])
		doctor_add(
			list, "revoked keys", false, DOCTOR_ADVICE,
			"check that bootseer-registry runs, and --service or "
			"--p2p-tracker here; what was revoked before holds; without "
			"a service remove ROOT/trust-revoked when it is damaged",
			"%s",
			revoked.is_damaged
				? "the list in --root is damaged: no key "
				  "is believed until the service answers"
				: revoked.error);
	json_array_foreach(refused, k, one)
	{
		doctor_add(list, "ordinary start", false, DOCTOR_ADVICE,
			   json_string_value(json_object_get(one, "cure")),
			   "%s: %s",
			   json_string_value(json_object_get(one, "image")),
			   json_string_value(json_object_get(one, "reason")));
		if (k + 1 == 8)
			break;
	}
}

static const char *trouble_text(const json_t *trouble, const char *key)
{
	return json_string_value(json_object_get(trouble, key));
}

/* Are the trouble's seconds the time until the registry is asked again, not the time since it
 * failed? */
static bool trouble_is_until(const json_t *trouble)
{
	return strcmp(trouble_text(trouble, "state"), "not asked") == 0;
}

/* Check that no registry has trouble: reads of containers wait for it, or fail. */
static void check_registries(struct node *n, json_t *list)
{
	AUTO_JSON *troubles = node_registries(n->origins);
	const json_t *one;
	size_t k;

	json_array_foreach(troubles, k, one)
	{
		char name[64];

		(void)snprintf(name, sizeof(name), "registry %s",
			       trouble_text(one, "state"));
		doctor_add(list, name, false, DOCTOR_ADVICE,
			   trouble_text(one, "cure"),
			   "%.80s, for %s%lld s: %.600s",
			   trouble_text(one, "registry"),
			   trouble_is_until(one) ? "the next " : "",
			   (long long)json_integer_value(
				   json_object_get(one, "seconds")),
			   trouble_text(one, "reason"));
	}
}

static void add_hosts_fault(void *list, enum oci_hosts_fault fault,
			    const char *file, const char *why)
{
	static const struct {
		const char *text, *cure;
	} faults[] = {
		[OCI_HOSTS_UNREAD] = {
			"left aside: ",
			"mend what it names, then systemctl reload bootseerd; "
			"until then the registry is asked without it",
		},
		[OCI_HOSTS_IGNORED] = {
			"not heeded here: ",
			"docs/operations.md, Mirrors, has what is; containerd "
			"may heed it",
		},
		[OCI_HOSTS_UNREACHED] = {
			"no answer: ",
			"see that this host runs and can be reached from here, "
			"by the ca, client and skip_verify of the file, or take "
			"it out; the next one of the file is asked meanwhile",
		},
	};

	doctor_add(list, "hosts.toml", false, DOCTOR_ADVICE, faults[fault].cure,
		   "%s: %s%s", file, faults[fault].text, why);
}

/* Check the hosts.toml folders, which may have changed since the last pull. */
static void check_hosts(struct node *n, json_t *list)
{
	const struct oci_config cfg = {
		.ca_file = n->cfg->ca_file,
		.hosts_dirs = n->cfg->hosts_dir,
	};

	oci_hosts_examine(&cfg, add_hosts_fault, list);
}

static void check_registry(struct node *n, json_t *list, const char *registry,
			   struct remote_call *call)
{
	AUTO_FREE char *text = NULL;
	struct store_lease *lease = NULL;
	struct origin *origin = NULL;
	struct error err = ERROR_INIT;
	struct oci_manifest m = { .body = BUF_INIT };
	struct oci_ref ref = { .host = NULL };
	int rc;

	/* For a host without a repository, any repository name will do to get an answer. */
	if (asprintf(&text, "%s%s", registry,
		     strchr(registry, '/') ? "" : "/bootseer/doctor") < 0)
		text = NULL;
	rc = text ? oci_ref_parse(text, &ref, &err) : error_nomem(&err);
	if (rc == 0 && ref.transport != OCI_TRANSPORT_REGISTRY)
		rc = error_set(&err, EINVAL, "no registry");
	if (rc == 0)
		rc = origin_get(n->origins, ref.host, ref.repo, false, &origin,
				&err);
	if (rc == 0)
		rc = origin_lease_paced(origin, &call->pace, &lease, &err);
	if (rc == 0)
		rc = oci_get_manifest(lease->store, ref.tag, &m, &err);
	rc = remote_call_why(call, registry, rc, &err);
	/* -ENOENT ("no such repository") shows too that the registry answers. */
	doctor_add(
		list, "registry", rc == 0 || rc == -ENOENT, DOCTOR_NEEDED,
		"check name, network, --ca-file, --auth-file, and --plain-http "
		"for one without TLS",
		"%s: %s", registry,
		rc == 0 || rc == -ENOENT ? "answers" : err.msg);
	oci_manifest_fini(&m);
	store_lease_end(lease);
	origin_put(origin);
	oci_ref_fini(&ref);
}

static void add_tracker(void *list, const char *url, const char *why)
{
	doctor_add(
		list, "tracker", !*why, DOCTOR_ADVICE,
		"check that it runs, and --service or --p2p-tracker here, with "
		"the token and authority of it; the registry is read meanwhile",
		"%s%s", *why ? why : url,
		*why ? "" : " answers, and takes calls of this node");
}

/* An image has two swarms, one of blocks and one of metadata; report a refusal of the blocks'
 * swarm only. */
static void add_refusal(void *list, const struct p2p_image_info *i)
{
	if (*i->refusal && !i->is_metadata)
		doctor_add(
			list, "capability", false, DOCTOR_ADVICE,
			"mend what that names; the trackers' own are "
			"--capability-key and --registry; the registry is read "
			"meanwhile",
			"none was given for %s: %s", i->label, i->refusal);
}

/* Counts of the other nodes that trackers name now. */
struct others {
	unsigned int linked, failed[P2P_FAULTS], all_failed;
	/* for each fault: the last node that has it, and why */
	char last[P2P_FAULTS][ERROR_MSG_MAX];
};

static void count_peer_fault(void *arg, const struct p2p_peer_info *i)
{
	struct others *o = arg;

	o->linked += i->is_up;
	if (i->is_up || !i->failures)
		return;
	o->all_failed++;
	o->failed[i->fault]++;
	(void)snprintf(o->last[i->fault], ERROR_MSG_MAX, "%.64s at %s: %.150s",
		       i->node, i->addr, i->why);
}

/* Check that peers can be reached: a node that reaches none reads the registry as if it were
 * alone. */
static void check_links(struct node *n, json_t *list)
{
	static const struct {
		const char *what, *cure;
	} faults[P2P_FAULTS] = {
		[P2P_FAULT_UNREACHABLE] = {
			"out of reach",
			"let the port of --p2p-listen through firewalls "
			"between nodes, and see that each names with "
			"--p2p-advertise where it is reached",
		},
		[P2P_FAULT_UNTRUSTED] = {
			"not trusted, here or there",
			"have certificates of all nodes, with their names, "
			"signed by an authority that is in ca.crt of "
			"--p2p-tls of all; then systemctl reload bootseerd",
		},
		[P2P_FAULT_UNLIKE] = {
			"of another --p2p-security, or no bootseerd",
			"give all nodes one --p2p-security",
		},
		[P2P_FAULT_NAMESAKE] = {
			"of this node's name",
			"give each node its own --node-name",
		},
		[P2P_FAULT_REFUSED] = {
			"closed by the other side",
			"see what their log says",
		},
	};
	struct others o = { .linked = 0 };
	struct error err = ERROR_INIT;

	if (p2p_each_peer(image_swarms_p2p(n->peers), count_peer_fault, &o,
			  &err) < 0) {
		doctor_add(list, "peers' links", false, DOCTOR_ADVICE,
			   "try again", "%s", err.msg);
		return;
	}
	if (o.linked || !o.all_failed)
		doctor_add(list, "peers' links", true, DOCTOR_ADVICE, "",
			   "%u up, %u do not come about", o.linked,
			   o.all_failed);
	for (size_t k = 0; k < P2P_FAULTS && !o.linked; k++)
		if (o.failed[k])
			doctor_add(list, "peers' links", false, DOCTOR_ADVICE,
				   faults[k].cure,
				   "none is up; %u of %u %s: %s", o.failed[k],
				   o.all_failed, faults[k].what, o.last[k]);
}

/* Check that the key is readable by its owner alone: any holder of it is this
 * node to all others. */
static void check_key(struct node *n, json_t *list)
{
	const char *file = n->cfg->p2p_key_file;
	struct error err = ERROR_INIT;
	AUTO_FREE char *cure = NULL;
	int rc = image_swarms_check_key(n->cfg, &err);

	if (rc == 0)
		return;
	if (asprintf(&cure, "chmod 600 %s, or mount it with that mode", file) <
	    0)
		cure = NULL;
	doctor_add(list, "peers' key", false, DOCTOR_ADVICE,
		   cure ? cure : "chmod 600", "%s", err.msg);
}

/* Check this node's certificate, by which other nodes trust it, and the address where they
 * reach it. */
static void check_peers(struct node *n, json_t *list)
{
	struct error err = ERROR_INIT;
	struct p2p_stats s;
	char end[32] = "none, --p2p-security open";
	struct tm tm;
	time_t t;
	int rc;

	if (!n->peers)
		return;
	p2p_get_stats(image_swarms_p2p(n->peers), &s);
	t = (time_t)s.cert_not_after;
	if (t && gmtime_r(&t, &tm))
		(void)strftime(end, sizeof(end), "good until %F", &tm);
	rc = image_swarms_check(n->cfg, &err);
	doctor_add(list, "peers", rc == 0, DOCTOR_ADVICE,
		   "mend that file, then systemctl reload bootseerd", "%s%s",
		   rc == 0 ? "certificate: " : err.msg, rc == 0 ? end : "");
	check_key(n, list);
	rc = image_swarms_check_reach(n->cfg, &err);
	doctor_add(
		list, "peers' address", rc == 0, DOCTOR_ADVICE,
		"name with --p2p-advertise where others reach this machine; all is "
		"well if something between translates it",
		"%s",
		rc < 0                  ? err.msg
		: n->cfg->p2p_advertise ? n->cfg->p2p_advertise
					: n->cfg->p2p_listen);
	check_links(n, list);
	if (s.trackers == 0)
		doctor_add(list, "tracker", false, DOCTOR_ADVICE,
			   "name one: --p2p-tracker",
			   "none is named: nobody tells this node of others");
	p2p_probe_trackers(image_swarms_p2p(n->peers), add_tracker, list);
	if (p2p_each_image(image_swarms_p2p(n->peers), add_refusal, list,
			   &err) < 0)
		doctor_add(list, "capability", false, DOCTOR_ADVICE,
			   "try again", "%s", err.msg);
}

json_t *node_doctor(struct node *n, const char *registry,
		    struct remote_call *call)
{
	json_t *list = json_array();

	if (!list)
		return NULL;
	check_datapaths(n, list);
	check_mounting(n, list);
	check_confined(list);
	check_parser(n, list);
	check_disk(n, list);
	check_kubelet(n, list);
	kubelet_check_images(list, oci_logins_has_secrets(
					   kept_logins_table(n->logins)));
	check_cache(n, list);
	check_environments(n, list);
	check_trust(n, list);
	check_peers(n, list);
	mirror_check(n->mirror, list);
	check_hosts(n, list);
	check_registries(n, list);
	if (registry)
		check_registry(n, list, registry, call);
	return json_pack("{s:o}", "checks", list);
}
