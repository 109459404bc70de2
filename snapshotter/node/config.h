// SPDX-License-Identifier: Apache-2.0
/* The configuration of bootseerd: its option table and the struct that it
 * fills. */
#ifndef BOOTSEER_NODE_CONFIG_H
#define BOOTSEER_NODE_CONFIG_H

#include "common/option.h"
#include "net/service_client.h"

struct node_config {
	char *root, *run;
	char *datapath;       /* "auto" or a kind's name */
	uint64_t cache_quota; /* bytes */
	/* percent or "auto"; node_config_min_free() reads it */
	char *cache_min_free;
	uint64_t fetch_window_max; /* bytes */
	int64_t read_timeout;      /* ns that a reader waits for a block */
	int64_t stall_timeout;     /* ns in which a registry must send bytes */
	int64_t prepare_timeout;   /* ns that preparing an image may take */
	char *prefetch;            /* "off", "hot", "all" */
	/* how long a start waits for its prefetch; wait_policy_parse() */
	char *wait;
	/* bytes a second of a prefetch of the rest; 0: no limit */
	uint64_t cold_rate;
	/* which starts are recorded, and how long; recording_policy_parse() */
	char *record;
	char *service, *service_token_file, *service_ca_file;
	char *trust_revoked_file; /* file of revoked keys; NULL: none */
	char *trace_oci;          /* "no", "read", "push" */
	/* this node's name; NULL: the machine's host name */
	char *node_name;
	char *p2p_listen; /* "address:port"; NULL: no peers */
	/* address that peers connect to; NULL: that of p2p_listen */
	char *p2p_advertise;
	/* URLs; node_config_complete() has a default */
	char **p2p_trackers;
	char *p2p_security; /* "tls", "signed", "open" */
	/* folder with the CA, certificate and key files; node_config_complete() names them */
	char *p2p_tls;
	char *p2p_ca_file, *p2p_cert_file, *p2p_key_file;
	/* "cluster" or a file of capability keys; NULL: the option is not given */
	char *p2p_rights;
	char *p2p_rdma;    /* yes, no or a device: node_config_rdma() */
	char *location;    /* node_location_parse() */
	uint64_t p2p_rate; /* bytes a second, each way; 0 no limit */
	/* "address:port" of the Prometheus figures; NULL: not served */
	char *metrics;
	/* "address:port" of containerd's registry mirror; NULL: not served */
	char *mirror;
	/* rules which artifacts are trusted; policy_parse() */
	char **trust;
	/* rules which indexes of the service are used; policy_parse_index() */
	char **index;
	char *trust_keys;  /* file or folder of public keys */
	char **env_stores; /* URLs whose environments are mounted */
	/* bytes that may be written into one mounted environment */
	uint64_t env_write_max;
	char *auth_file, *ca_file;
	/* file of the key to pods' logins; "": logins are not kept */
	char *login_key;
	/* of the kubelet, "CONFIG:BINDIR"; NULL: none */
	char *credential_providers;
	/* containerd's hosts.toml folders, "DIR:DIR"; "": none */
	char *hosts_dir;
	/* folder of containerd's content store; "": none */
	char *containerd_root;
	char **plain_http; /* "host:port": node_config_is_plain() */
	char *log_level;
	bool hold;
	bool list_metrics;
	char *config;
};

extern const struct option_program node_program;

/* Fill in the defaults that depend on other options.  With --p2p-listen and no --p2p-tracker,
 * --service is the tracker, with its token and its CA; --p2p-tls names the CA, certificate and
 * key files.  Call it once, before the check.  -ENOMEM. */
int node_config_complete(struct node_config *c, struct error *err) MUST_CHECK;
void node_config_fini(struct node_config *c);

/* Check the options that depend on each other. -EINVAL. */
int node_config_check(const struct node_config *c,
		      struct error *err) MUST_CHECK;
/* Check the options of peers; node_config_check() calls it. */
int node_config_check_p2p(const struct node_config *c,
			  struct error *err) MUST_CHECK;

/* Percent of ROOT's disk that --cache-min-free says, or NODE_MIN_FREE_AUTO.  -EINVAL. */
#define NODE_MIN_FREE_AUTO 101u
int node_config_min_free(const struct node_config *c, unsigned int *ret,
			 struct error *err) MUST_CHECK;

/* May secrets be sent to this http:// URL, since --plain-http names its host and port? */
bool node_config_is_plain(const struct node_config *c, const char *url);

/* The keys of --p2p-rights; NULL: peers need no capability.  Borrowed from `c`. */
const char *node_config_capability_keys(const struct node_config *c);

/* Is RDMA to be used?  *ret_device is borrowed from `c`; NULL: any device. */
bool node_config_rdma(const struct node_config *c, const char **ret_device);

/* A --location and its parts, which point into `text`; a part that is NULL is not given. */
struct node_location {
	char text[192]; /* three names of p2p, with '/' and NUL */
	const char *rack, *zone, *region;
};
/* `text` may be NULL: no location.  -EINVAL: it is too long, or has too many parts. */
int node_location_parse(const char *text, struct node_location *ret,
			struct error *err) MUST_CHECK;

/* The --service, for service_client_new(); borrows from `c`.  Its address is
 * NULL when there is none. */
struct service_client_config node_config_service(const struct node_config *c,
						 uint32_t timeout_ms);

#endif
