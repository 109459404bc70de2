// SPDX-License-Identifier: Apache-2.0
/* Configuration of bootseer-registry: its option table and the struct it fills. */
#ifndef BOOTSEER_REGISTRY_CONFIG_H
#define BOOTSEER_REGISTRY_CONFIG_H

#include "common/option.h"

struct registry_config {
	char *listen;
	char *db;
	int64_t db_timeout; /* ns */
	char *tls_cert, *tls_key, **tls_client_ca;
	char *tokens;
	bool insecure_no_auth;
	bool behind_tls_proxy;
	uint64_t threads;
	uint64_t max_connections;
	int64_t idle_timeout, request_timeout, grace; /* ns */
	uint64_t body_memory, list_memory;            /* bytes */
	uint64_t trace_max;                           /* bytes */
	int64_t retention;                            /* ns */
	/* path of a file; NULL: none */
	char *operations;
	uint64_t max_bytes, max_repo_bytes, max_node_bytes;
	uint64_t index_bytes;
	uint64_t max_node_hourly, max_node_events;
	char **convert; /* rules (push_events.h); NULL: none */
	uint64_t max_convert_hourly;
	uint64_t swarm_memory;  /* bytes */
	int64_t swarm_interval; /* ns */
	char *capability_key, *capability_old_keys;
	int64_t capability_time; /* ns */
	char **registries;       /* HOST[:PORT]; NULL: none */
	char **hosts;            /* names of this service; NULL: none */
	bool registry_plain_http;
	char *registry_ca;
	char *log_level;
	bool list_metrics;
	char *config;
};

extern const struct option_program registry_program;

/* Does the service listen on this machine's loopback address only? */
bool registry_config_is_local(const struct registry_config *c);

/* Check options that depend on each other. -EINVAL. */
int registry_config_check(const struct registry_config *c,
			  struct error *err) MUST_CHECK;

#endif
