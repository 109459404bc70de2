// SPDX-License-Identifier: Apache-2.0
/* What options of peers must have in common. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "net/url.h"
#include "p2p/p2p.h"
#include "snapshotter/node/config.h"

static int copy_text(const char *text, char **ret, struct error *err)
{
	if (text && !*ret)
		*ret = strdup(text);
	return text && !*ret ? error_nomem(err) : 0;
}

int node_config_complete(struct node_config *c, struct error *err)
{
	int rc;

	/* A service behind a path of its own is no tracker. */
	if (!c->p2p_listen || (c->p2p_trackers && c->p2p_trackers[0]) ||
	    !c->service || !url_is_http(c->service) ||
	    !url_is_origin(c->service))
		return 0;
	free(c->p2p_trackers);
	c->p2p_trackers = calloc(2, sizeof(*c->p2p_trackers));
	if (!c->p2p_trackers)
		return error_nomem(err);
	rc = copy_text(c->service, &c->p2p_trackers[0], err);
	if (rc == 0)
		rc = copy_text(c->service_token_file, &c->p2p_token_file, err);
	if (rc == 0)
		rc = copy_text(c->service_ca_file, &c->p2p_tracker_ca_file,
			       err);
	return rc;
}

static int check_trackers(const struct node_config *c, struct error *err)
{
	bool is_secret = c->p2p_token_file || c->p2p_capability_keys;

	for (char **url = c->p2p_trackers; url && *url; url++) {
		if (!url_is_http(*url))
			return error_set(err, EINVAL,
					 "--p2p-tracker '%s' is no http:// or "
					 "https:// URL",
					 *url);
		if (!url_is_origin(*url))
			return error_set(err, EINVAL,
					 "--p2p-tracker '%s': no path is "
					 "wanted, but scheme, host and port of "
					 "bootseer-registry",
					 *url);
		if (is_secret && !c->service_plain_http &&
		    !p2p_tracker_is_private(*url))
			return error_set(err, EINVAL,
					 "--p2p-tracker '%s' would get %s in "
					 "the clear: say https://, or "
					 "--service-plain-http",
					 *url,
					 c->p2p_token_file
						 ? "--p2p-token-file"
						 : "registry credentials");
	}
	return 0;
}

/* That every node may have every image is said, and does not follow from a key that
 * was forgotten. */
static int check_rights(const struct node_config *c, bool open,
			struct error *err)
{
	bool is_cluster = strcmp(c->p2p_rights, "cluster") == 0;

	if (is_cluster && c->p2p_capability_keys)
		return error_set(err, EINVAL,
				 "--p2p-rights cluster asks nobody for a "
				 "capability: do without it, or without "
				 "--p2p-capability-keys");
	if (!is_cluster && !open && !c->p2p_capability_keys)
		return error_set(
			err, EINVAL,
			"who may have images from this node?  Name "
			"--p2p-capability-keys (docs/peers.md, \"Who may have "
			"what\"), or say --p2p-rights cluster: every node with "
			"a certificate of --p2p-ca-file, any image");
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
	if (check_rights(c, open, err) < 0)
		return -EINVAL;
	return check_trackers(c, err);
}
