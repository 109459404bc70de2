// SPDX-License-Identifier: Apache-2.0
/* What options of peers must have in common. */
#include <errno.h>
#include <string.h>

#include "p2p/p2p.h"
#include "snapshotter/node/config.h"

/* Behind the host; a slash at the end is none. */
static bool has_path(const char *url)
{
	const char *host = strstr(url, "://") + 3;
	const char *rest = host + strcspn(host, "/?#");

	return *rest && strcmp(rest, "/") != 0;
}

static int check_trackers(const struct node_config *c, struct error *err)
{
	bool is_secret = c->p2p_token_file || c->p2p_capability_keys;

	for (char **url = c->p2p_trackers; url && *url; url++) {
		if (!node_config_is_url(*url))
			return error_set(err, EINVAL,
					 "--p2p-tracker '%s' is no http:// or "
					 "https:// URL",
					 *url);
		if (has_path(*url))
			return error_set(err, EINVAL,
					 "--p2p-tracker '%s': no path is "
					 "wanted, but scheme, host and port of "
					 "bootseer-registry",
					 *url);
		if (is_secret && !c->p2p_tracker_plain_http &&
		    !p2p_tracker_is_private(*url))
			return error_set(err, EINVAL,
					 "--p2p-tracker '%s' would get %s in "
					 "the clear: say https://, or "
					 "--p2p-tracker-plain-http",
					 *url,
					 c->p2p_token_file
						 ? "--p2p-token-file"
						 : "registry credentials");
	}
	return 0;
}

/* Nothing of peers is believed to be meant when there are none. */
int node_config_check_p2p(const struct node_config *c, struct error *err)
{
	bool open = strcmp(c->p2p_security, "open") == 0;

	if (!c->p2p_listen) {
		if (c->p2p_trackers && c->p2p_trackers[0])
			return error_set(err, EINVAL,
					 "--p2p-tracker without --p2p-listen: "
					 "say where this node serves others");
		return 0;
	}
	if (p2p_check_addrs(c->p2p_listen, c->p2p_advertise, err) < 0)
		return -EINVAL;
	if (!open && (!c->p2p_ca_file || !c->p2p_cert_file || !c->p2p_key_file))
		return error_set(err, EINVAL,
				 "--p2p-security %s wants --p2p-ca-file, "
				 "--p2p-cert-file and --p2p-key-file",
				 c->p2p_security);
	if (c->p2p_rdma && strcmp(c->p2p_security, "tls") == 0)
		return error_set(err, EINVAL,
				 "--p2p-rdma is not encrypted: say "
				 "--p2p-security signed, or do without");
	if (c->p2p_rdma && c->p2p_download_rate)
		return error_set(err, EINVAL,
				 "--p2p-rdma knows no --p2p-download-rate: do "
				 "without one of them");
	return check_trackers(c, err);
}
