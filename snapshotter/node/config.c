// SPDX-License-Identifier: Apache-2.0
/* The options of bootseerd. */
#include "common/registry_host.h"
#include "net/url.h"
#include "snapshotter/node/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/fs.h"
#include "net/listen_address.h"
#include "objects/store.h"
#include "prefetcher/prefetcher.h"
#include "snapshotter/node/starts/recording_state.h"
#include "snapshotter/node/trust/policy.h"

#define MIN_FREE_MAX 90
#define AT(member) offsetof(struct node_config, member)

static const char *const datapaths[] = { "auto", "erofs-fuse", "erofs-loop",
					 "fuse", NULL };
static const char *const prefetches[] = { "off", "hot", "all", NULL };
static const char *const p2p_securities[] = { "tls", "signed", "open", NULL };
static const char *const p2p_rights[] = { "cluster", NULL };
static const char *const trace_ocis[] = { "no", "read", "push", NULL };

static const struct option_spec options[] = {
	{ .key = "root",
	  .type = OPTION_STRING,
	  .offset = AT(root),
	  .def = "/var/lib/bootseer",
	  .arg = "DIR",
	  .help = "Where images and the block cache are kept; on a disk." },
	{ .key = "run",
	  .type = OPTION_STRING,
	  .offset = AT(run),
	  .def = "/run/bootseer",
	  .arg = "DIR",
	  .help = "Where the control socket and the mounts are." },
	{ .key = "datapath",
	  .type = OPTION_ENUM,
	  .offset = AT(datapath),
	  .def = "auto",
	  .values = datapaths,
	  .help = "How files reach the kernel; auto takes the first that "
		  "works, and mounts an image that is whole on the node "
		  "without a daemon in the path." },
	{ .key = "cache-quota",
	  .type = OPTION_SIZE,
	  .offset = AT(cache_quota),
	  .def = "50G",
	  .min = "64M",
	  .help = "Bytes below --root at most: blocks, which give way to "
		  "images' metadata, recordings and all else there." },
	{ .key = "cache-min-free",
	  .type = OPTION_STRING,
	  .offset = AT(cache_min_free),
	  .def = "auto",
	  .arg = "PERCENT",
	  .help = "Share of --root's disk that is left free, at most 90; auto is "
		  "5, and where the kubelet uses this disk 5 more than what it "
		  "wants free, so that the cache gives way before pods do." },
	{ .key = "fetch-window-max",
	  .type = OPTION_SIZE,
	  .offset = AT(fetch_window_max),
	  .def = "4M",
	  .min = "4K",
	  .max = "64M",
	  .help = "Bytes fetched around a block that is missing, at most: 1M, "
		  "and more while reads are sequential." },
	{ .key = "read-timeout",
	  .type = OPTION_DURATION,
	  .offset = AT(read_timeout),
	  .def = "5m",
	  .min = "1s",
	  .max = "24h",
	  .help = "A read of a container fails after it waited so long for a "
		  "registry that is slow, silent, or refuses." },
	{ .key = "stall-timeout",
	  .type = OPTION_DURATION,
	  .offset = AT(stall_timeout),
	  .def = "30s",
	  .min = "100ms",
	  .max = "10m",
	  .help = "A transfer without a byte for so long is begun again." },
	{ .key = "prepare-timeout",
	  .type = OPTION_DURATION,
	  .offset = AT(prepare_timeout),
	  .def = "2m",
	  .min = "100ms",
	  .max = "1h",
	  .help = "What a registry must send before an image can be mounted "
		  "is given up after so long." },
	{ .key = "prefetch",
	  .type = OPTION_ENUM,
	  .offset = AT(prefetch),
	  .def = "all",
	  .values = prefetches,
	  .arg = "WHAT",
	  .help = "What is fetched before it is read: what a recorded start "
		  "has read (hot), then the whole image (all), or nothing "
		  "(off)." },
	{ .key = "wait",
	  .type = OPTION_STRING,
	  .offset = AT(wait),
	  .def = "none",
	  .arg = "POLICY",
	  .help = "What a container's start waits for: all of the recorded "
		  "blocks, share:90%, deadline:5s, or none." },
	{ .key = "cold-rate",
	  .type = OPTION_SIZE,
	  .offset = AT(cold_rate),
	  .def = "0",
	  .max = "16G",
	  .help = "Bytes a second of what no start was seen to read, of all "
		  "images together; 0: no limit." },
	{ .key = "record",
	  .type = OPTION_STRING,
	  .offset = AT(record),
	  .def = "auto:2m",
	  .arg = "WHEN[:TIME]",
	  .help = "Record what starts read: auto while more recordings are "
		  "wanted, always, or off.  A start that nothing says to be "
		  "ready is watched for TIME, 2m without one." },
	{ .key = "service",
	  .type = OPTION_STRING,
	  .offset = AT(service),
	  .arg = "URL",
	  .help = "bootseer-registry, which merges the recordings of all nodes, "
		  "has orders for them, revoked keys and indexes (--index), "
		  "takes the figures of starts, and tells nodes of each "
		  "other (--p2p-listen)." },
	{ .key = "service-token-file",
	  .type = OPTION_FILE,
	  .offset = AT(service_token_file),
	  .help = "Bearer token for --service and each --p2p-tracker, with the "
		  "roles read and write there." },
	{ .key = "service-ca-file",
	  .type = OPTION_FILE,
	  .offset = AT(service_ca_file),
	  .help = "Certificates that --service and each --p2p-tracker are "
		  "trusted by, PEM." },
	{ .key = "trust-revoked-file",
	  .type = OPTION_FILE,
	  .offset = AT(trust_revoked_file),
	  .help = "Believe no image that one of these keys signed, by their "
		  "ids, one a line; besides those that --service or a "
		  "--p2p-tracker has revoked." },
	{ .key = "trace-oci",
	  .type = OPTION_ENUM,
	  .offset = AT(trace_oci),
	  .def = "read",
	  .values = trace_ocis,
	  .arg = "HOW",
	  .help = "Look for traces beside the image in its registry; push: "
		  "put recordings there, too." },
	{ .key = "node-name",
	  .type = OPTION_STRING,
	  .offset = AT(node_name),
	  .arg = "NAME",
	  .help = "What --service, trackers and other nodes know this "
		  "node as: no two have the same, and its certificate says it "
		  "(--p2p-tls); the machine's name else." },
	{ .key = "p2p-listen",
	  .type = OPTION_STRING,
	  .offset = AT(p2p_listen),
	  .arg = "ADDR:PORT",
	  .help = "Exchange blocks with other nodes, and serve them here, by "
		  "TCP, as 0.0.0.0:9740 with --p2p-advertise; without it "
		  "blocks come from registries only.  docs/peers.md has the "
		  "steps." },
	{ .key = "p2p-advertise",
	  .type = OPTION_STRING,
	  .offset = AT(p2p_advertise),
	  .arg = "ADDR:PORT",
	  .help = "Where other nodes reach --p2p-listen, in digits, when that "
		  "is not the address itself, as with 0.0.0.0." },
	{ .key = "p2p-tracker",
	  .type = OPTION_LIST,
	  .offset = AT(p2p_trackers),
	  .arg = "URL",
	  .help = "bootseer-registry, which tells nodes of each other, with "
		  "its port and without a path: https://HOST:9730; several "
		  "share the images.  --service without it.  Each gets "
		  "--service-token-file." },
	{ .key = "p2p-security",
	  .type = OPTION_ENUM,
	  .offset = AT(p2p_security),
	  .def = "tls",
	  .values = p2p_securities,
	  .arg = "HOW",
	  .help = "Links to nodes: tls for all bytes; signed, where blocks "
		  "travel in the clear, each checked by its digest, inside "
		  "one fabric; open, without any of it, for a lab." },
	{ .key = "p2p-tls",
	  .type = OPTION_STRING,
	  .offset = AT(p2p_tls),
	  .arg = "DIR",
	  .help = "Folder of this node's certificate for the name "
		  "URI:bootseer://node/NAME, tls.crt, its key, tls.key, which "
		  "nobody else is to read (mode 600), and the certificates "
		  "that other nodes are trusted by, ca.crt, all PEM: names "
		  "as in a secret of Kubernetes.  Trackers and --service see "
		  "the certificate too." },
	{ .key = "p2p-rights",
	  .type = OPTION_FILE,
	  .offset = AT(p2p_rights),
	  .values = p2p_rights,
	  .arg = "FILE|cluster",
	  .absent = "name a file of public keys, or say cluster",
	  .help = "Who may have an image from this node: who shows that it "
		  "may pull it, signed by one of the public keys of FILE, "
		  "PEM; or cluster: every node that has a certificate of "
		  "ca.crt of --p2p-tls, any image.  With --p2p-security open "
		  "and without this, everybody." },
	{ .key = "p2p-rdma",
	  .type = OPTION_STRING,
	  .offset = AT(p2p_rdma),
	  .arg = "DEVICE",
	  .def = "no",
	  .bare = "yes",
	  .help = "Move blocks by RDMA between nodes that both can, and by "
		  "TCP else: by DEVICE, as ibv_devices names it, or, of yes "
		  "or the option alone, that of the address of --p2p-listen, "
		  "or any; not with --p2p-security tls, since nothing "
		  "encrypts it." },
	{ .key = "p2p-rate",
	  .type = OPTION_SIZE,
	  .offset = AT(p2p_rate),
	  .def = "0",
	  .max = "64G",
	  .help = "Bytes a second sent to other nodes, and as many taken from "
		  "them (not by RDMA, where the senders bound it); 0: no limit." },
	{ .key = "location",
	  .type = OPTION_STRING,
	  .offset = AT(location),
	  .arg = "REGION/ZONE/RACK",
	  .help = "Where this node is, or ZONE/RACK, or RACK alone; ZONE/ and "
		  "REGION// where no more is known: near nodes are asked "
		  "first." },
	{ .key = "metrics",
	  .type = OPTION_STRING,
	  .offset = AT(metrics),
	  .arg = "ADDR:PORT",
	  .help = "Serve Prometheus text at http://ADDR:PORT/metrics." },
	{ .key = "mirror",
	  .type = OPTION_STRING,
	  .offset = AT(mirror),
	  .arg = "ADDR:PORT",
	  .help = "Be a registry mirror for this machine's containerd, on an "
		  "address of it alone, as 127.0.0.1:9745: layers of ordinary "
		  "images come by ranges from their registry and from other "
		  "nodes (--p2p-listen).  docs/images.md says how containerd "
		  "is told." },
	{ .key = "env-store",
	  .type = OPTION_LIST,
	  .offset = AT(env_stores),
	  .arg = "URL",
	  .help = "Environments of this store may be mounted here for whoever "
		  "is root on this machine: file:///DIR, s3://BUCKET/PREFIX, "
		  "hdfs://HOST:PORT/DIR or docker://REGISTRY/REPOSITORY, as "
		  "'bootseer env run --store' has it. "
		  "Without it they are unpacked." },
	{ .key = "env-write-max",
	  .type = OPTION_SIZE,
	  .offset = AT(env_write_max),
	  .def = "1G",
	  .min = "16M",
	  .max = "1T",
	  .help = "What may be written into one mounted environment: a file "
		  "system of this size below --root takes it, which is part "
		  "of --cache-quota from the mount on.  All of them have half "
		  "of the quota; beyond it environments are unpacked." },
	{ .key = "trust",
	  .type = OPTION_LIST,
	  .offset = AT(trust),
	  .arg = "PREFIX=MODE",
	  .help = "Whose artifacts are used for images of repositories below "
		  "PREFIX (a host, or a host and a path; * for all): sign, "
		  "those with a signature by one of --trust-keys; verified, "
		  "those that such a key compared with the image's layers; "
		  "registry, whatever is in the repository, with which nobody "
		  "else's snapshots are shared; off, none.  sign:FILE takes "
		  "the keys from FILE.  The longest PREFIX counts; without "
		  "any, *=sign.  Other images start the ordinary way." },
	{ .key = "trust-keys",
	  .type = OPTION_STRING,
	  .offset = AT(trust_keys),
	  .def = "/etc/bootseer/trust.pem",
	  .arg = "FILE",
	  .help = "Public keys of who signs artifacts, as 'bootseer key new' "
		  "writes them, or a folder of such files." },
	{ .key = "index",
	  .type = OPTION_LIST,
	  .offset = AT(index),
	  .arg = "PREFIX=MODE",
	  .help = "Indexes of ordinary images of repositories below PREFIX "
		  "(as of --trust): ask, --service is asked whether another "
		  "node made one; build:KEY, this node makes the one that the "
		  "service has not, when containerd has pulled the image "
		  "whole, and offers it, signed by the private key KEY (PEM, "
		  "Ed25519; 'bootseer key new KEY' makes one); off.  Without "
		  "a rule off.  They are believed by --trust, where a key is "
		  "asked for.  docs/trust.md, 'Nobody converts'." },
	{ .key = "auth-file",
	  .type = OPTION_FILE,
	  .offset = AT(auth_file),
	  .absent = "'docker login' makes one, ~/.docker/config.json",
	  .help = "Registry credentials: a docker "
		  "config.json." },
	{ .key = "credential-providers",
	  .type = OPTION_STRING,
	  .offset = AT(credential_providers),
	  .arg = "CONFIG:BINDIR",
	  .help = "The kubelet's --image-credential-provider-config and "
		  "--image-credential-provider-bin-dir: these plugins are asked "
		  "for a login when a registry wants one that is not in "
		  "--auth-file, or no longer takes what a pod showed." },
	{ .key = "login-key",
	  .type = OPTION_STRING,
	  .offset = AT(login_key),
	  .def = "/etc/bootseer/login.key",
	  .arg = "FILE",
	  .help = "Key that logins shown by pods are encrypted with below "
		  "--root (bootseer-snapshotter(8), --image-service); it is "
		  "made when it is needed, for root alone.  '': they are kept "
		  "in memory only, and a restart forgets them." },
	{ .key = "ca-file",
	  .type = OPTION_FILE,
	  .offset = AT(ca_file),
	  .help = "Certificates that registries and the servers of --env-store "
		  "are trusted by, PEM, instead of the system's." },
	{ .key = "hosts-dir",
	  .type = OPTION_STRING,
	  .offset = AT(hosts_dir),
	  .def = "/etc/containerd/certs.d",
	  .arg = "DIR",
	  .help = "Folder of containerd's hosts.toml, its config_path, which "
		  "names mirrors of registries; several with ':' between "
		  "them, '': none." },
	{ .key = "containerd-root",
	  .type = OPTION_STRING,
	  .offset = AT(containerd_root),
	  .def = "/var/lib/containerd",
	  .arg = "DIR",
	  .help = "containerd's root folder: a manifest that it has pulled "
		  "is read there, not asked for once more, and layers that are "
		  "unpacked for it; '': never." },
	{ .key = "plain-http",
	  .type = OPTION_LIST,
	  .offset = AT(plain_http),
	  .arg = "HOST:PORT",
	  .help = "A registry that is spoken to without TLS; or that of the "
		  "http:// of --service or a --p2p-tracker on another "
		  "machine, to which tokens, and with --p2p-rights FILE "
		  "credentials of registries, are sent so: who listens on "
		  "the way has them." },
	OPTION_LOG_LEVEL(AT(log_level)),
	{ .key = "hold",
	  .type = OPTION_BOOL,
	  .offset = AT(hold),
	  .no_file = true,
	  .help = "Run as the parent that keeps the mounts' descriptors and "
		  "starts bootseerd again when it dies." },
	OPTION_CONFIG(AT(config)),
	{ .key = "list-metrics",
	  .type = OPTION_BOOL,
	  .offset = AT(list_metrics),
	  .no_file = true,
	  .help = "Print the names and meanings of the metrics and end." },
	{ .key = NULL },
};

const struct option_program node_program = {
	.name = "bootseerd",
	.usage = "[OPTIONS]",
	.summary = "BootSeer's daemon of a node: caches blocks of images and "
		   "mounts images whose blocks are still remote.",
	.options = options,
	.examples = "bootseerd --plain-http 127.0.0.1:5000\n"
		    "bootseerd --root /data/bootseer --cache-quota 200G --hold",
	.see_also = "bootseer(1), bootseer-snapshotter(8), "
		    "bootseer-registry(8); docs/peers.md on --p2p-listen",
};

void node_config_fini(struct node_config *c)
{
	option_fini(node_program.options, c);
	free(c->p2p_ca_file);
	free(c->p2p_cert_file);
	free(c->p2p_key_file);
}

/* Is `path` an entry directly in `folder`? */
static bool is_direct_entry(const char *path, const char *folder)
{
	size_t len = strlen(folder);

	while (len > 1 && folder[len - 1] == '/')
		len--;
	if (strncmp(path, folder, len) != 0 || path[len] != '/')
		return false;
	path += len + strspn(path + len, "/");
	return *path && *path != '.' && !strchr(path, '/');
}

int node_config_min_free(const struct node_config *c, unsigned int *ret,
			 struct error *err)
{
	char *end;
	long percent = strtol(c->cache_min_free, &end, 10);

	*ret = NODE_MIN_FREE_AUTO;
	if (strcmp(c->cache_min_free, "auto") == 0)
		return 0;
	if (end == c->cache_min_free || *end || percent < 0 ||
	    percent > MIN_FREE_MAX)
		return error_set(err, EINVAL,
				 "--cache-min-free '%.40s' is neither a number "
				 "from 0 to %d nor auto",
				 c->cache_min_free, MIN_FREE_MAX);
	*ret = (unsigned int)percent;
	return 0;
}

static int check_index(const struct node_config *c, struct error *err)
{
	struct policy p;
	int rc = policy_parse_index(c->index, &p, err);

	if (rc < 0)
		return rc;
	if (p.n && !c->service)
		rc = error_set(err, EINVAL,
			       "--index asks a service: name it, --service");
	policy_fini(&p);
	return rc;
}

/* The mirror's key is known to this machine's containerd alone, so --mirror has to be an
 * address of this machine. */
static int check_mirror(const char *at, struct error *err)
{
	AUTO_FREE char *url = NULL;
	struct sockaddr_storage addr;
	socklen_t len;

	if (listen_address_parse("--mirror", at, &addr, &len, err) < 0)
		return -EINVAL;
	if (asprintf(&url, "https://%s", at) < 0) {
		url = NULL;
		return error_nomem(err);
	}
	if (url_is_loopback(url))
		return 0;
	return error_set(
		err, EINVAL,
		"--mirror %s is reached from elsewhere: it is for this "
		"machine's containerd, say 127.0.0.1:PORT",
		at);
}

int node_config_check(const struct node_config *c, struct error *err)
{
	unsigned int min_free;
	struct sockaddr_storage addr;
	struct wait_policy wait;
	struct recording_policy record;
	struct policy policy;
	socklen_t len;
	int rc;

	if (wait_policy_parse(c->wait, &wait, err) < 0)
		return error_wrap(err, -EINVAL, "--wait");
	if (recording_policy_parse(c->record, &record, err) < 0)
		return error_wrap(err, -EINVAL, "--record");
	if (c->root[0] != '/' || c->run[0] != '/')
		return error_set(err, EINVAL,
				 "%s '%s' is no absolute path: begin it with /",
				 c->root[0] != '/' ? "--root" : "--run",
				 c->root[0] != '/' ? c->root : c->run);
	rc = node_config_min_free(c, &min_free, err);
	if (rc < 0)
		return rc;
	rc = fs_check_parent(c->root, err);
	if (rc < 0)
		return error_wrap(err, rc, "--root");
	/* No check of ROOT's parent folder is needed here: ROOT is created before RUN. */
	rc = is_direct_entry(c->run, c->root) ? 0
					      : fs_check_parent(c->run, err);
	if (rc < 0)
		return error_wrap(err, rc, "--run");
	if (c->service && !url_is_http(c->service))
		return error_set(err, EINVAL,
				 "--service '%s' is no http:// or "
				 "https:// URL",
				 c->service);
	if (c->service && c->service_token_file &&
	    !node_config_is_plain(c, c->service) &&
	    !url_is_secret(c->service) && !url_is_loopback(c->service))
		return error_set(err, EINVAL,
				 "--service '%s' would get "
				 "--service-token-file in the clear: say "
				 "https://, or its HOST:PORT with --plain-http",
				 c->service);
	if (c->metrics &&
	    listen_address_parse("--metrics", c->metrics, &addr, &len, err) < 0)
		return -EINVAL;
	rc = c->mirror ? check_mirror(c->mirror, err) : 0;
	if (rc < 0)
		return rc;
	for (char **h = c->plain_http; h && *h; h++) {
		if (!**h || strchr(*h, '/'))
			return error_set(err, EINVAL,
					 "--plain-http '%s' is not HOST:PORT: "
					 "name the registry as images do, "
					 "without http:// and path",
					 *h);
	}
	for (char **u = c->env_stores; u && *u; u++) {
		if (!registry_host_is_store(*u))
			return error_set(err, EINVAL,
					 "--env-store '%s' is no URL of a "
					 "store: say file:///DIR, "
					 "s3://BUCKET/PREFIX, "
					 "hdfs://HOST:PORT/DIR or "
					 "docker://REGISTRY/REPOSITORY",
					 *u);
	}
	if (c->trust_keys[0] != '/')
		return error_set(
			err, EINVAL,
			"--trust-keys '%s' is no absolute path: begin it with /",
			c->trust_keys);
	rc = policy_parse(c->trust, &policy, err);
	if (rc < 0)
		return rc;
	policy_fini(&policy);
	rc = check_index(c, err);
	return rc < 0 ? rc : node_config_check_p2p(c, err);
}

struct service_client_config node_config_service(const struct node_config *c,
						 uint32_t timeout_ms)
{
	return (struct service_client_config){
		.url = c->service,
		.token_file = c->service_token_file,
		.ca_file = c->service_ca_file,
		.plain_token =
			c->service && node_config_is_plain(c, c->service),
		.cert_file = c->p2p_cert_file,
		.key_file = c->p2p_key_file,
		.timeout_ms = timeout_ms,
	};
}
