// SPDX-License-Identifier: Apache-2.0
/* Checks of a configuration that can be made without a running node. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fs.h"
#include "p2p/engine/engine_peer.h"
#include "p2p/net/net_addr.h"
#include "p2p/tracker/tracker_client.h"

#define TOKEN_MAX 8192u

bool p2p_tracker_is_private(const char *url)
{
	return tracker_is_private(url);
}

bool p2p_hides(const struct p2p_config *cfg)
{
	const char *addr = cfg->advertise ? cfg->advertise : cfg->listen;
	struct sockaddr_storage ss;
	socklen_t len;

	if (net_addr_parse(addr, &ss, &len, NULL) < 0 ||
	    !net_addr_is_loopback(&ss))
		return false;
	for (char *const *url = cfg->trackers; url && *url; url++)
		if (!tracker_is_here(*url))
			return true;
	return false;
}

int p2p_check_addrs(const char *listen, const char *advertise,
		    struct error *err)
{
	struct sockaddr_storage ss;
	socklen_t len;

	if (net_addr_parse(listen, &ss, &len, err) < 0)
		return error_wrap(err, -EINVAL, "--p2p-listen");
	if (!advertise && net_addr_is_any(&ss))
		return error_set(err, EINVAL,
				 "--p2p-listen %s is every address: say with "
				 "--p2p-advertise which one others reach",
				 listen);
	if (!advertise)
		return 0;
	if (net_addr_parse(advertise, &ss, &len, err) < 0)
		return error_wrap(err, -EINVAL, "--p2p-advertise");
	if (net_addr_is_any(&ss))
		return error_set(err, EINVAL,
				 "--p2p-advertise %s is every address: say "
				 "which one of this machine others reach",
				 advertise);
	if (net_addr_port(&ss) == 0)
		return error_set(
			err, EINVAL,
			"--p2p-advertise %s: nobody reaches port 0: "
			"say the one that --p2p-listen has, for others",
			advertise);
	return 0;
}

/* Is the token file unreadable or empty? */
static int check_token(const char *path, struct error *err)
{
	AUTO_BUF text = BUF_INIT;
	int rc = fs_read_file(path, TOKEN_MAX, &text, err);

	if (rc == 0 && text.len == 0)
		rc = error_set(err, EINVAL, "'%s' is empty", path);
	return rc < 0 ? error_wrap(err, rc, "token of the trackers") : 0;
}

int p2p_check(const struct p2p_config *cfg, struct error *err)
{
	AUTO(capability_keys) keys = NULL;
	int rc = 0;

	if (cfg->ca_file)
		rc = net_check_files(cfg->node, cfg->ca_file, cfg->cert_file,
				     cfg->key_file, err);
	if (rc == 0 && cfg->tracker_ca_file)
		rc = net_check_ca(cfg->tracker_ca_file, err);
	if (rc == 0 && cfg->token_file)
		rc = check_token(cfg->token_file, err);
	if (rc == 0 && cfg->capability_keys)
		rc = capability_keys_load(cfg->capability_keys, &keys, err);
	return rc;
}

int p2p_check_reach(const struct p2p_config *cfg, struct error *err)
{
	const char *addr = cfg->advertise ? cfg->advertise : cfg->listen;
	struct sockaddr_storage ss;
	AUTO_CLOSE int fd = -1;
	socklen_t len;

	if (net_addr_parse(addr, &ss, &len, err) < 0)
		return -EINVAL;
	if (p2p_hides(cfg))
		return error_set(err, EADDRNOTAVAIL,
				 "others are told of %s, which leads each to "
				 "himself",
				 addr);
	/* Try the address with a free port, so that the check does not collide with a running
	 * node. */
	net_addr_set_port(&ss, 0);
	fd = socket(ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && bind(fd, (struct sockaddr *)&ss, len) < 0 &&
	    errno == EADDRNOTAVAIL)
		return error_set(err, EADDRNOTAVAIL,
				 "others are told of %s, which is no address "
				 "of this machine",
				 addr);
	return 0;
}
