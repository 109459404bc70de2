// SPDX-License-Identifier: Apache-2.0
/* The options of peers, and the checks of how they fit together. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/buf.h"
#include "net/url.h"
#include "p2p/p2p.h"
#include "snapshotter/node/config.h"

static int name_tls_files(struct node_config *c, struct error *err)
{
	const struct {
		char **path;
		const char *name;
	} files[] = { { &c->p2p_ca_file, "ca.crt" },
		      { &c->p2p_cert_file, "tls.crt" },
		      { &c->p2p_key_file, "tls.key" } };

	for (size_t i = 0; c->p2p_tls && i < ARRAY_SIZE(files); i++)
		if (asprintf(files[i].path, "%s/%s", c->p2p_tls,
			     files[i].name) < 0) {
			*files[i].path = NULL;
			return error_nomem(err);
		}
	return 0;
}

int node_config_complete(struct node_config *c, struct error *err)
{
	int rc = name_tls_files(c, err);

	if (rc < 0)
		return rc;
	/* A service whose URL has a path is behind a proxy and serves no tracker, so there is
	 * no default. */
	if (!c->p2p_listen || (c->p2p_trackers && c->p2p_trackers[0]) ||
	    !c->service || !url_is_http(c->service) ||
	    !url_is_origin(c->service))
		return 0;
	free(c->p2p_trackers);
	c->p2p_trackers = calloc(2, sizeof(*c->p2p_trackers));
	if (c->p2p_trackers)
		c->p2p_trackers[0] = strdup(c->service);
	return c->p2p_trackers && c->p2p_trackers[0] ? 0 : error_nomem(err);
}

bool node_config_is_plain(const struct node_config *c, const char *url)
{
	AUTO_BUF host = BUF_INIT;
	struct url u;
	bool yes = false;
	size_t n = 0;

	if (!c->plain_http || url_parse(url, &u) < 0)
		return false;
	if (strcmp(u.scheme, "http") == 0 && buf_puts(&host, u.host) == 0) {
		n = host.len;
		if (buf_printf(&host, ":%s", u.port) < 0)
			n = 0;
	}
	for (char **h = c->plain_http; n && *h && !yes; h++)
		yes = strcasecmp(*h, host.data) == 0 ||
		      (strcmp(u.port, "80") == 0 && strlen(*h) == n &&
		       strncasecmp(*h, host.data, n) == 0);
	url_fini(&u);
	return yes;
}

static bool is_cluster(const struct node_config *c)
{
	return c->p2p_rights && strcmp(c->p2p_rights, "cluster") == 0;
}

const char *node_config_capability_keys(const struct node_config *c)
{
	return is_cluster(c) ? NULL : c->p2p_rights;
}

bool node_config_rdma(const struct node_config *c, const char **ret_device)
{
	bool is_on = true;

	*ret_device = NULL;
	if (option_parse_bool(c->p2p_rdma, &is_on, NULL) < 0)
		*ret_device = c->p2p_rdma;
	return is_on;
}

/* Refuse a misspelt yes or no, which would be taken as the name of an RDMA device. */
static int check_device(const char *device, struct error *err)
{
	static const char *const words[] = { "",      "yes", "no",  "true",
					     "false", "on",  "off", "none" };

	for (size_t i = 0; device && i < ARRAY_SIZE(words); i++)
		if (strcasecmp(device, words[i]) == 0)
			return error_set(err, EINVAL,
					 "--p2p-rdma '%s': want yes, no, or a "
					 "device as ibv_devices names it",
					 device);
	return 0;
}

int node_location_parse(const char *text, struct node_location *ret,
			struct error *err)
{
	const char **parts[] = { &ret->rack, &ret->zone, &ret->region };
	char *slash = NULL;

	*ret = (struct node_location){ .rack = NULL };
	if (text && strlen(text) >= sizeof(ret->text))
		return error_set(err, EINVAL, "--location '%s' is too long",
				 text);
	memcpy(ret->text, text ? text : "", text ? strlen(text) : 0);
	/* Read from the end of the text: the rack is the last part. */
	for (size_t i = 0; i < ARRAY_SIZE(parts) && (i == 0 || slash); i++) {
		slash = strrchr(ret->text, '/');
		*parts[i] = slash ? slash + 1 : ret->text;
		if (!**parts[i])
			*parts[i] = NULL;
		if (slash)
			*slash = '\0';
	}
	return slash ? error_set(err, EINVAL,
				 "--location '%s' is not REGION/ZONE/RACK, "
				 "ZONE/RACK or RACK",
				 text)
		     : 0;
}

static int check_trackers(const struct node_config *c, struct error *err)
{
	bool is_secret =
		c->service_token_file || node_config_capability_keys(c);

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
		if (is_secret && !node_config_is_plain(c, *url) &&
		    !p2p_tracker_is_private(*url))
			return error_set(err, EINVAL,
					 "--p2p-tracker '%s' would get %s in "
					 "the clear: say https://, or its "
					 "HOST:PORT with --plain-http",
					 *url,
					 c->service_token_file
						 ? "--service-token-file"
						 : "registry credentials");
	}
	return 0;
}

/* Check the files of --p2p-tls.  The key and the certificate also identify the node to
 * --service and trackers; the CA file is needed only to check other nodes. */
static int check_tls(const struct node_config *c, bool open, struct error *err)
{
	const char *const files[] = { c->p2p_cert_file, c->p2p_key_file,
				      c->p2p_listen && !open ? c->p2p_ca_file
							     : NULL };

	if (!c->p2p_tls)
		return c->p2p_listen && !open
			       ? error_set(err, EINVAL,
					   "--p2p-security %s wants --p2p-tls",
					   c->p2p_security)
			       : 0;
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		if (files[i] && access(files[i], R_OK) < 0)
			return error_set(err, EINVAL, "--p2p-tls: '%s': %s",
					 files[i], strerror(errno));
	return 0;
}

/* Without peers (--p2p-listen) the other options of peers are errors. */
int node_config_check_p2p(const struct node_config *c, struct error *err)
{
	bool open = strcmp(c->p2p_security, "open") == 0;
	struct node_location location;
	const char *device;
	bool is_rdma = node_config_rdma(c, &device);
	int rc = node_location_parse(c->location, &location, err);

	if (rc == 0)
		rc = check_device(device, err);
	if (rc == 0)
		rc = check_tls(c, open, err);
	if (rc < 0)
		return rc;
	if (!c->p2p_listen) {
		if (c->p2p_trackers && c->p2p_trackers[0])
			return error_set(err, EINVAL,
					 "--p2p-tracker without --p2p-listen: "
					 "say where this node serves others");
		return 0;
	}
	if (p2p_check_addrs(c->p2p_listen, c->p2p_advertise, err) < 0)
		return -EINVAL;
	if (is_rdma && strcmp(c->p2p_security, "tls") == 0)
		return error_set(err, EINVAL,
				 "--p2p-rdma is not encrypted: say "
				 "--p2p-security signed, or do without");
	/* A forgotten --p2p-rights must not open every image to every node: without TLS or with
	 * open access the operator has to ask for it. */
	if (!open && !c->p2p_rights)
		return error_set(
			err, EINVAL,
			"who may have images from this node?  Name the keys of "
			"capabilities by --p2p-rights FILE (docs/peers.md, "
			"\"Who may have what\"), or say --p2p-rights cluster: "
			"every node with a certificate by --p2p-tls' ca.crt, "
			"any image");
	return check_trackers(c, err);
}
