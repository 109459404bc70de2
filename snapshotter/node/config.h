// SPDX-License-Identifier: Apache-2.0
/* The configuration of bootseerd: its option table and the struct that it
 * fills. */
#ifndef BOOTSEER_NODE_CONFIG_H
#define BOOTSEER_NODE_CONFIG_H

#include "common/option.h"
#include "net/service_client.h"

struct node_config {
	char *root, *run;
	char *datapath;            /* "auto" or a kind's name */
	uint64_t cache_quota;      /* bytes */
	char *cache_min_free;      /* node_config_min_free() */
	uint64_t fetch_window_max; /* bytes */
	int64_t read_timeout;      /* ns; of a reader that waits for a block */
	int64_t stall_timeout;     /* ns; of the registry */
	int64_t prepare_timeout;   /* ns */
	char *prefetch;            /* "off", "hot", "all" */
	char *wait;                /* wait_policy_parse() */
	uint64_t cold_rate;        /* bytes a second; 0 no limit */
	char *record;              /* recording_policy_parse() */
	char *service, *service_token_file, *service_ca_file;
	char *trust_revoked_file; /* NULL: none */
	char *trace_oci;          /* "no", "read", "push" */
	char *node_name;          /* NULL: the machine's */
	char *p2p_listen;         /* "address:port"; NULL: no peers */
	char *p2p_advertise;      /* NULL: what is listened on */
	char **p2p_trackers;      /* URLs; see node_config_complete() */
	char *p2p_security;       /* "tls", "signed", "open" */
	char *p2p_tls;            /* folder of these, node_config_complete() */
	char *p2p_ca_file, *p2p_cert_file, *p2p_key_file;
	char *p2p_rights;  /* "cluster" or a file of keys; NULL: not said */
	char *p2p_rdma;    /* yes, no or a device: node_config_rdma() */
	char *location;    /* node_location_parse() */
	uint64_t p2p_rate; /* bytes a second, each way; 0 no limit */
	char *metrics;     /* "address:port"; NULL is none */
	char *mirror;      /* the same */
	char **trust;      /* rules; policy_parse() */
	char **index;      /* rules; policy_parse_index() */
	char *trust_keys;  /* file or folder of public keys */
	char **env_stores; /* URLs whose environments are mounted */
	uint64_t env_write_max; /* bytes written to one that is mounted */
	char *auth_file, *ca_file;
	char *login_key;            /* file; "" keeps no login of a pod */
	char *credential_providers; /* "CONFIG:BINDIR"; NULL: none */
	char *hosts_dir;            /* "DIR:DIR"; "" is none */
	char *containerd_root;      /* "" is none */
	char **plain_http;          /* "host:port": node_config_is_plain() */
	char *log_level;
	bool hold;
	bool list_metrics;
	char *config;
};

extern const struct option_program node_program;

/* Fill in what follows from options: with --p2p-listen and no --p2p-tracker the tracker
 * is --service, with its token and its authority; and the files of --p2p-tls.  To be
 * called once, before the check.  -ENOMEM. */
int node_config_complete(struct node_config *c, struct error *err) MUST_CHECK;
void node_config_fini(struct node_config *c);

/* Check what no option alone can know. -EINVAL. */
int node_config_check(const struct node_config *c,
		      struct error *err) MUST_CHECK;
/* A part of that. */
int node_config_check_p2p(const struct node_config *c,
			  struct error *err) MUST_CHECK;

/* Percent of ROOT's disk that --cache-min-free says, or NODE_MIN_FREE_AUTO.  -EINVAL. */
#define NODE_MIN_FREE_AUTO 101u
int node_config_min_free(const struct node_config *c, unsigned int *ret,
			 struct error *err) MUST_CHECK;

/* May this http:// URL be told secrets, since --plain-http names its host and port? */
bool node_config_is_plain(const struct node_config *c, const char *url);

/* The keys of --p2p-rights; NULL: no capability is asked for.  Borrowed from `c`. */
const char *node_config_capability_keys(const struct node_config *c);

/* Is RDMA wanted?  *ret_device is borrowed from `c`; NULL: any. */
bool node_config_rdma(const struct node_config *c, const char **ret_device);

/* A --location, cut in its parts, which point into `text`; NULL: not known. */
struct node_location {
	char text[192]; /* three names of p2p, with '/' and NUL */
	const char *rack, *zone, *region;
};
/* `text` may be NULL.  -EINVAL: it is too long, or has too many parts. */
int node_location_parse(const char *text, struct node_location *ret,
			struct error *err) MUST_CHECK;

/* The --service, for service_client_new(); borrows from `c`.  Its address is
 * NULL when there is none. */
struct service_client_config node_config_service(const struct node_config *c,
						 uint32_t timeout_ms);

#endif
