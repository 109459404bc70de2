// SPDX-License-Identifier: Apache-2.0
/* Unix sockets of servers: identifies the peers, and limits strangers where everybody may
 * connect. */
#include <sys/socket.h>

#include "common/clock.h"
#include "common/log.h"
#include "net/httpd_priv.h"
#include "net/nudge.h"
#include "net/places.h"

#define BACKLOG 512
#define QUIET_NS NS_PER_S /* closing of ended connections takes no longer */

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif
#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

static void httpd_on_quiet(struct loop_timer *t)
{
	struct httpd *s = container_of(t, struct httpd, quiet);

	if (s->stats.connections == 0)
		nudge_end(s->nudge);
	else
		(void)!httpd_unix_nudge(s);
}

bool httpd_unix_nudge(struct httpd *s)
{
	struct error err = ERROR_INIT;

	if (!s->is_nudged)
		return true;
	if (!s->nudge && nudge_new(&s->nudge, &err) < 0) {
		log_error(s->cfg.name, "refused reason=\"%s\"", err.msg);
		return false;
	}
	nudge_begin(s->nudge);
	/* If the timer fails, the signals just go on, which costs little. */
	(void)!loop_timer_start(s->cfg.loop, &s->quiet, QUIET_NS, NULL);
	return true;
}

int httpd_unix_listen(struct httpd *s, int *ret, struct error *err)
{
	const int off = 0;
	int rc;

	s->quiet.fn = httpd_on_quiet;
	rc = listener_open_unix(s->cfg.path, s->cfg.group ? 0666 : 0600,
				BACKLOG, s->cfg.option, ret, err);
	/* If the kernel can, forbid peers to send descriptors: see nudge.h. */
	if (rc == 0 && s->cfg.group &&
	    setsockopt(*ret, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off)) < 0)
		s->is_nudged = true;
	return rc;
}

void httpd_unix_peer(const struct httpd *s, int fd, struct httpd_peer *ret)
{
	struct ucred peer = { .pid = 0 };
	socklen_t len = sizeof(peer);

	(void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
	ret->pid = peer.pid;
	len = sizeof(ret->pidfd);
	if (getsockopt(fd, SOL_SOCKET, SO_PEERPIDFD, &ret->pidfd, &len) < 0)
		ret->pidfd = -1;
	if (s->cfg.group)
		ret->group = s->cfg.group(ret);
}

struct httpd_conn *httpd_unix_silent(const struct httpd *s)
{
	struct place v[HTTPD_SILENT_MAX] = { { .group = 0 } };
	struct httpd_conn *all[HTTPD_SILENT_MAX], *c;
	size_t n = 0, i;

	TAILQ_FOREACH_REVERSE(c, &s->conns, httpd_conn_list, all)
	{
		if (n == HTTPD_SILENT_MAX)
			break;
		v[n] = (struct place){ .group = c->peer.group,
				       .is_silent = c->state == CONN_HEAD };
		all[n++] = c;
	}
	i = places_choose(v, n);
	return i < n ? all[i] : NULL;
}
