// SPDX-License-Identifier: Apache-2.0
/* The options of bootseer-registry. */
#include "registry/config.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "net/listen_address.h"
#include "registry/db.h"
#include "registry/push_events.h"

#define AT(member) offsetof(struct registry_config, member)

static const struct option_spec options[] = {
	{ .key = "listen",
	  .type = OPTION_STRING,
	  .offset = AT(listen),
	  .def = "127.0.0.1:9730",
	  .arg = "ADDR:PORT",
	  .help = "Serve here; port 0 takes a free one.  Beyond loopback a "
		  "tokens file, the authority of nodes or "
		  "--insecure-no-auth is needed." },
	{ .key = "db",
	  .type = OPTION_STRING,
	  .offset = AT(db),
	  .def = "sqlite:/var/lib/bootseer-registry/registry.db",
	  .arg = "URL",
	  .help = "Where traces are kept: sqlite:PATH, or "
		  "postgresql://HOST/NAME for several replicas." },
	{ .key = "db-timeout",
	  .type = OPTION_DURATION,
	  .offset = AT(db_timeout),
	  .def = "5s",
	  .min = "100ms",
	  .max = "5m",
	  .help = "Wait for the database for so long: to connect, for an "
		  "answer, for a lock." },
	{ .key = "tls-cert",
	  .type = OPTION_STRING,
	  .offset = AT(tls_cert),
	  .arg = "FILE",
	  .help = "Serve TLS with this certificate chain, PEM." },
	{ .key = "tls-key",
	  .type = OPTION_STRING,
	  .offset = AT(tls_key),
	  .arg = "FILE",
	  .help = "Its key, PEM, which nobody else is to read (mode 600)." },
	{ .key = "tls-client-ca",
	  .type = OPTION_LIST,
	  .offset = AT(tls_client_ca),
	  .arg = "FILE",
	  .help = "Clients may show a certificate of this CA, PEM, of each "
		  "one named here; of an intermediate one too, which is "
		  "the first of its file, and those after it are not "
		  "believed; one for "
		  "bootseer://node/NAME speaks for that node only, and "
		  "without --tokens may do what nodes do." },
	{ .key = "tokens",
	  .type = OPTION_STRING,
	  .offset = AT(tokens),
	  .arg = "FILE",
	  .help = "Who may do what: a line for each token, read again at "
		  "SIGHUP." },
	{ .key = "insecure-no-auth",
	  .type = OPTION_BOOL,
	  .offset = AT(insecure_no_auth),
	  .help = "Without a tokens file, let everybody who reaches --listen "
		  "do everything, but no page that a browser has from "
		  "elsewhere; without this, nobody does anything, also "
		  "on loopback, but nodes with a certificate of "
		  "--tls-client-ca." },
	{ .key = "host",
	  .type = OPTION_LIST,
	  .offset = AT(hosts),
	  .arg = "NAME",
	  .help = "With --insecure-no-auth: a name, as a Service's, by which "
		  "this service is asked beside its addresses, localhost and "
		  "the machine's name; what asks by another one is refused." },
	{ .key = "behind-tls-proxy",
	  .type = OPTION_BOOL,
	  .offset = AT(behind_tls_proxy),
	  .help = "Take tokens without TLS beyond loopback: something in "
		  "front of this has it, and nobody else reaches --listen." },
	{ .key = "threads",
	  .type = OPTION_INTEGER,
	  .offset = AT(threads),
	  .def = "8",
	  .min = "1",
	  .max = "64",
	  .help = "Requests that work on the database at once, and as many that "
		  "ask registries; of one token or node three quarters." },
	{ .key = "max-connections",
	  .type = OPTION_INTEGER,
	  .offset = AT(max_connections),
	  .def = "4096",
	  .min = "16",
	  .max = "100000",
	  .help = "Clients at once; idle ones give way." },
	{ .key = "idle-timeout",
	  .type = OPTION_DURATION,
	  .offset = AT(idle_timeout),
	  .def = "60s",
	  .min = "100ms",
	  .max = "1h",
	  .help = "Close a connection without a request for so long." },
	{ .key = "request-timeout",
	  .type = OPTION_DURATION,
	  .offset = AT(request_timeout),
	  .def = "30s",
	  .min = "100ms",
	  .max = "10m",
	  .help = "Time for a request's head to come, for its body, and for "
		  "its turn." },
	{ .key = "grace",
	  .type = OPTION_DURATION,
	  .offset = AT(grace),
	  .def = "10s",
	  .min = "0ms",
	  .max = "5m",
	  .help = "At SIGTERM, time for requests under way." },
	{ .key = "body-memory",
	  .type = OPTION_SIZE,
	  .offset = AT(body_memory),
	  .def = "24M",
	  .min = "1M",
	  .max = "64G",
	  .help = "Memory for recordings that come in; further ones wait." },
	{ .key = "list-memory",
	  .type = OPTION_SIZE,
	  .offset = AT(list_memory),
	  .def = "32M",
	  .min = "1M",
	  .max = "64G",
	  .help = "Memory for merged lists." },
	{ .key = "trace-max",
	  .type = OPTION_SIZE,
	  .offset = AT(trace_max),
	  .def = "4M",
	  .min = "64K",
	  .max = "16M",
	  .help = "The largest recording that is taken; four times as much "
		  "decoded." },
	{ .key = "operations",
	  .type = OPTION_STRING,
	  .offset = AT(operations),
	  .arg = "FILE",
	  .help = "The page's view of operations shows this report, which "
		  "'bootseer ops report --out FILE.json' writes, for example "
		  "each hour." },
	{ .key = "retention",
	  .type = OPTION_DURATION,
	  .offset = AT(retention),
	  .def = "2160h",
	  .min = "1s",
	  .max = "87600h",
	  .help = "Forget traces that nobody asked for in so long, and starts "
		  "of jobs that nothing was heard of; 2160h are 90 days." },
	{ .key = "max-bytes",
	  .type = OPTION_SIZE,
	  .offset = AT(max_bytes),
	  .def = "8G",
	  .min = "1M",
	  .help = "Bytes of recordings in all; the largest repository gives "
		  "what it used least recently." },
	{ .key = "max-repo-bytes",
	  .type = OPTION_SIZE,
	  .offset = AT(max_repo_bytes),
	  .def = "1G",
	  .min = "256K",
	  .help = "Bytes of recordings of one repository." },
	{ .key = "max-node-bytes",
	  .type = OPTION_SIZE,
	  .offset = AT(max_node_bytes),
	  .def = "64M",
	  .min = "64K",
	  .help = "Bytes of recordings of one node." },
	{ .key = "index-bytes",
	  .type = OPTION_SIZE,
	  .offset = AT(index_bytes),
	  .def = "4G",
	  .help = "Bytes of indexes of images in all, of registries that "
		  "--registry names; the token with most gives what was used "
		  "least recently; 0: none." },
	{ .key = "convert",
	  .type = OPTION_LIST,
	  .offset = AT(convert),
	  .arg = "PREFIX=FORM",
	  .help = "Have images that a registry says were pushed below PREFIX "
		  "(HOST[:PORT][/PATH], the longest counts) converted by "
		  "'bootseer image convert-new': index, referrer; off." },
	{ .key = "max-convert-hourly",
	  .type = OPTION_INTEGER,
	  .offset = AT(max_convert_hourly),
	  .def = "120",
	  .min = "1",
	  .max = "1000000",
	  .help = "Conversions that begin in an hour for HOST and the first "
		  "part of the repository; others wait." },
	{ .key = "max-node-hourly",
	  .type = OPTION_INTEGER,
	  .offset = AT(max_node_hourly),
	  .def = "120",
	  .min = "1",
	  .max = "1000000",
	  .help = "Starts that one node may send recordings of in an hour." },
	{ .key = "max-node-events",
	  .type = OPTION_INTEGER,
	  .offset = AT(max_node_events),
	  .def = "200000",
	  .min = "1",
	  .max = "100000000",
	  .help = "Stage events that one node may send in an hour." },
	{ .key = "swarm-memory",
	  .type = OPTION_SIZE,
	  .offset = AT(swarm_memory),
	  .def = "256M",
	  .min = "1M",
	  .max = "64G",
	  .help = "Memory for who reads what from the origin; images where a "
		  "node is alone give way first." },
	{ .key = "swarm-interval",
	  .type = OPTION_DURATION,
	  .offset = AT(swarm_interval),
	  .def = "2s",
	  .min = "100ms",
	  .max = "1m",
	  .help = "Time between two announcements of a node; five of them "
		  "missed, and it is gone." },
	{ .key = "capability-key",
	  .type = OPTION_STRING,
	  .offset = AT(capability_key),
	  .arg = "FILE",
	  .help = "Sign capabilities with this private Ed25519 key, PEM, "
		  "which nobody else may read (mode 600); read again at "
		  "SIGHUP." },
	{ .key = "capability-old-keys",
	  .type = OPTION_STRING,
	  .offset = AT(capability_old_keys),
	  .arg = "FILE",
	  .help = "Public keys that nodes shall believe too, PEM: of other "
		  "replicas, the last one, the next one." },
	{ .key = "capability-time",
	  .type = OPTION_DURATION,
	  .offset = AT(capability_time),
	  .def = "15m",
	  .min = "1s",
	  .max = "24h",
	  .help = "A capability is good for so long." },
	{ .key = "registry",
	  .type = OPTION_LIST,
	  .offset = AT(registries),
	  .arg = "HOST[:PORT]",
	  .help = "Ask this registry whether a node may pull an image; no "
		  "other is asked." },
	{ .key = "registry-plain-http",
	  .type = OPTION_BOOL,
	  .offset = AT(registry_plain_http),
	  .help = "Ask these registries over http://: credentials travel in "
		  "the open." },
	{ .key = "registry-ca",
	  .type = OPTION_STRING,
	  .offset = AT(registry_ca),
	  .arg = "FILE",
	  .help = "Their certificates are of this CA, PEM; not the "
		  "system's." },
	OPTION_LOG_LEVEL(AT(log_level)),
	OPTION_CONFIG(AT(config)),
	{ .key = "list-metrics",
	  .type = OPTION_BOOL,
	  .offset = AT(list_metrics),
	  .no_file = true,
	  .help = "Print the names and meanings of the metrics and end." },
	{ .key = NULL },
};

const struct option_program registry_program = {
	.name = "bootseer-registry",
	.usage = "[OPTIONS]",
	.summary = "BootSeer's service of a cluster: keeps what container "
		   "starts read, merged from the recordings of all nodes, "
		   "indexes of images and of environments, and the stages of "
		   "jobs' starts; and is the tracker of nodes that give each "
		   "other blocks (bootseerd's --p2p-tracker).",
	.options = options,
	.examples = "bootseer-registry --db sqlite:/srv/traces.db\n"
		    "bootseer-registry --config /etc/bootseer/registry.conf",
	.see_also = "bootseerd(8), bootseer(1); docs/operations.md, "
		    "docs/peers.md",
};

/* Is it 127.0.0.0/8 or ::1? The text is an address, because --listen takes no names. */
static bool is_loopback(const char *listen)
{
	return strncmp(listen, "127.", 4) == 0 ||
	       strncmp(listen, "[::1]:", 6) == 0;
}

bool registry_config_is_local(const struct registry_config *c)
{
	return is_loopback(c->listen);
}

/* Refuse a URL: the entries are compared with the host in an image's name, which a URL never
 * equals. */
static int check_registries(char *const *list, struct error *err)
{
	for (; list && *list; list++) {
		if (!**list || strchr(*list, '/'))
			return error_set(
				err, EINVAL,
				"--registry '%s' is not HOST[:PORT]: name "
				"it as images do, without http:// and "
				"path",
				*list);
	}
	return 0;
}

int registry_config_check(const struct registry_config *c, struct error *err)
{
	struct sockaddr_storage addr;
	socklen_t len;

	if (listen_address_parse("--listen", c->listen, &addr, &len, err) < 0)
		return -EINVAL;
	if (!c->tokens && !c->tls_client_ca && !c->insecure_no_auth &&
	    !is_loopback(c->listen))
		return error_set(err, EINVAL,
				 "--listen %s is not loopback: name a --tokens "
				 "file or --tls-client-ca, or say "
				 "--insecure-no-auth",
				 c->listen);
	if ((c->tokens || c->capability_key) && !c->tls_cert &&
	    !c->behind_tls_proxy && !is_loopback(c->listen))
		return error_set(err, EINVAL,
				 "--listen %s is not loopback, and %s would "
				 "travel in the clear: name --tls-cert and "
				 "--tls-key, or say --behind-tls-proxy",
				 c->listen,
				 c->tokens ? "tokens" : "capabilities");
	if (!c->tls_cert != !c->tls_key)
		return error_set(err, EINVAL,
				 "--tls-cert and --tls-key go together: name "
				 "%s too",
				 c->tls_cert ? "--tls-key" : "--tls-cert");
	if (c->tls_client_ca && !c->tls_cert)
		return error_set(err, EINVAL,
				 "--tls-client-ca needs --tls-cert");
	if (c->registry_ca && access(c->registry_ca, R_OK) < 0)
		return error_set(err, errno,
				 "--registry-ca '%s': %s: mend the path, or "
				 "the file's mode",
				 c->registry_ca, strerror(errno));
	if (c->capability_key && !c->registries && !c->tokens)
		return error_set(err, EINVAL,
				 "--capability-key needs a --registry to ask, "
				 "or --tokens with stores=");
	if (check_registries(c->registries, err) < 0 ||
	    convert_rules_check(c->convert, err) < 0)
		return -EINVAL;
	if (db_check_url(c->db, err) < 0)
		return -EINVAL;
	if (c->body_memory < c->trace_max)
		return error_set(err, EINVAL,
				 "--body-memory is smaller than --trace-max");
	if (c->max_repo_bytes < 4 * c->trace_max ||
	    c->max_node_bytes < c->trace_max ||
	    c->max_bytes < c->max_repo_bytes)
		return error_set(err, EINVAL,
				 "wanted: --max-bytes >= --max-repo-bytes >= 4 "
				 "x --trace-max, and --max-node-bytes >= "
				 "--trace-max");
	return 0;
}
