// SPDX-License-Identifier: Apache-2.0
/*
 * What the one who runs the nodes has to mend: links that do not come about.  A link
 * that is lost is no fault, and nor is one node that is away; so that is told when it
 * fails again.
 */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "p2p/engine_peer.h"

#define NOTE_NS (60 * NS_PER_S)

void engine_note(struct p2p *p, enum p2p_note what, const char *about,
		 const char *why)
{
	struct faults *f = &p->faults;
	int64_t now = clock_now_ns();
	char text[ERROR_MSG_MAX];

	if (!p->cfg.note)
		return;
	if (what >= P2P_DENIED && f->notes[what].at &&
	    now - f->notes[what].at < NOTE_NS) {
		f->notes[what].n++;
		return;
	}
	(void)snprintf(text, sizeof(text), "%s", why);
	if (f->notes[what].n)
		(void)snprintf(text, sizeof(text), "%.180s (and %u others)",
			       why, f->notes[what].n);
	p->cfg.note(p->cfg.note_arg, what, about, text);
	f->notes[what].at = now;
	f->notes[what].n = 0;
}

/* How each is told of. */
static const struct {
	enum p2p_note note;
	bool at_once;     /* also of who came, and the first time */
	const char *cure; /* behind the reason; "": that has it */
} tales[NET_FAULTS] = {
	[NET_UNREACHABLE] = { P2P_UNREACHABLE, false,
			      ": does bootseerd run there, is its "
			      "--p2p-advertise right, and does a firewall let "
			      "the port through?" },
	[NET_UNTRUSTED] = { P2P_LINK_REFUSED, true, "" },
	[NET_UNLIKE] = { P2P_LINK_REFUSED, true, "" },
	[NET_NAMESAKE] = { P2P_NAMESAKE, true, "" },
	[NET_REFUSED] = { P2P_LINK_REFUSED, false, "" },
};

static void keep(struct p2p *p, const struct net_failure *f,
		 const char why[ERROR_MSG_MAX])
{
	struct p2p_failure_info *last = &p->faults.last;
	struct member *m = f->outgoing ? member_by_name(p, f->name) : NULL;

	(void)snprintf(last->node, sizeof(last->node), "%s", f->name);
	(void)snprintf(last->addr, sizeof(last->addr), "%s", f->addr);
	memcpy(last->why, why, ERROR_MSG_MAX);
	last->is_outgoing = f->outgoing;
	p->faults.last_at = clock_now_ns();
	if (m)
		memcpy(m->why, why, ERROR_MSG_MAX);
}

void fault_link(void *arg, const struct net_failure *f)
{
	struct p2p *p = arg;
	const struct member *m =
		f->outgoing ? member_by_name(p, f->name) : NULL;
	char about[sizeof(struct net_node)], why[ERROR_MSG_MAX] = "";

	(void)snprintf(why, sizeof(why), "%.140s%s", f->why->msg,
		       tales[f->fault].cure);
	if (!*tales[f->fault].cure)
		(void)snprintf(why, sizeof(why), "%s", f->why->msg);
	p->faults.links[f->fault]++;
	keep(p, f, why);
	/* The second time on end, once for each time that it is lost. */
	if (!tales[f->fault].at_once && (!m || m->failures != 1))
		return;
	(void)snprintf(about, sizeof(about), "%s%s%s", f->name,
		       *f->name ? " at " : "", f->addr);
	engine_note(p, tales[f->fault].note, about, why);
}

void fault_dial(struct p2p *p, const struct member *m, const struct error *why)
{
	struct net_failure f = { .fault = NET_UNREACHABLE,
				 .outgoing = true,
				 .name = m->node.name,
				 .why = why };

	/* This node's own affair. */
	if (why->code == ENOSPC || why->code == ESHUTDOWN ||
	    why->code == ENOMEM)
		return;
	memcpy(f.addr, m->node.addr, sizeof(f.addr));
	fault_link(p, &f);
}
