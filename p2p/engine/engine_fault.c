// SPDX-License-Identifier: Apache-2.0
/*
 * Problems reported to the operator: links that cannot be made, and a certificate that expires. A
 * node that fails once is not reported; only when it fails again.
 */
#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "p2p/engine/engine_peer.h"

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

/* How each kind of failed link is reported. */
static const struct {
	enum p2p_fault fault;
	enum p2p_note note;
	/* Report the first failure too, and for incoming links. */
	bool at_once;
	const char *cure; /* advice after the reason; "": the reason has it */
} tales[NET_FAULTS] = {
	[NET_UNREACHABLE] = { P2P_FAULT_UNREACHABLE, P2P_UNREACHABLE, false,
			      ": does bootseerd run there, is its "
			      "--p2p-advertise right, and does a firewall let "
			      "the port through?" },
	[NET_UNTRUSTED] = { P2P_FAULT_UNTRUSTED, P2P_UNTRUSTED, true, "" },
	[NET_UNLIKE] = { P2P_FAULT_UNLIKE, P2P_LINK_REFUSED, true, "" },
	[NET_NAMESAKE] = { P2P_FAULT_NAMESAKE, P2P_NAMESAKE, true, "" },
	[NET_REFUSED] = { P2P_FAULT_REFUSED, P2P_LINK_REFUSED, false, "" },
};

static void fault_keep(struct p2p *p, const char *node, const char *addr,
		       bool is_outgoing, const char *why)
{
	struct p2p_failure_info *last = &p->faults.last;

	(void)snprintf(last->node, sizeof(last->node), "%s", node);
	(void)snprintf(last->addr, sizeof(last->addr), "%s", addr);
	(void)snprintf(last->why, sizeof(last->why), "%s", why);
	last->is_outgoing = is_outgoing;
	p->faults.last_at = clock_now_ns();
}

/* Advice to the operator, if the reason does not contain it. */
static const char *fault_advice(const struct net_failure *f)
{
	if (f->fault == NET_UNLIKE &&
	    (f->why->code == EBADMSG || f->why->code == EPROTO))
		return ": is it a bootseerd, of this --p2p-security?";
	return tales[f->fault].cure;
}

void fault_link(void *arg, const struct net_failure *f)
{
	struct p2p *p = arg;
	struct member *m = f->outgoing ? member_by_name(p, f->name) : NULL;
	const char *cure = fault_advice(f);
	char about[sizeof(struct net_node)], why[ERROR_MSG_MAX] = "";

	(void)snprintf(why, sizeof(why), "%.*s%s",
		       (int)(sizeof(why) - 1 - strlen(cure)), f->why->msg,
		       cure);
	p->faults.links[f->fault]++;
	fault_keep(p, f->name, f->addr, f->outgoing, why);
	if (m) {
		memcpy(m->why, why, sizeof(why));
		m->fault = tales[f->fault].fault;
	}
	/* Report the second failure in a row, once for each time that the link is lost. */
	if (!tales[f->fault].at_once && (!m || m->failures != 1))
		return;
	(void)snprintf(about, sizeof(about), "%s%s%s", f->name,
		       *f->name ? " at " : "", f->addr);
	engine_note(p, tales[f->fault].note, about, why);
}

bool fault_is_own(const struct error *why)
{
	return why->code == ENOSPC || why->code == ESHUTDOWN ||
	       why->code == ENOMEM;
}

void fault_dial(struct p2p *p, const struct member *m, const struct error *why)
{
	struct net_failure f = { .fault = NET_UNREACHABLE,
				 .outgoing = true,
				 .name = m->node.name,
				 .why = why };

	if (fault_is_own(why))
		return;
	memcpy(f.addr, m->node.addr, sizeof(f.addr));
	fault_link(p, &f);
}

void fault_namesake(struct p2p *p, const char *addr)
{
	static const char why[] =
		"the tracker hears of both, and nodes take them for one: give "
		"each its own --node-name";

	if (!*addr)
		return;
	p->faults.links[NET_NAMESAKE]++;
	fault_keep(p, p->self.name, addr, true, why);
	engine_note(p, P2P_NAMESAKE, addr, why);
}

void fault_denied(struct p2p *p, const struct net_node *peer, bool by_us,
		  const char *why)
{
	p->denied++;
	fault_keep(p, peer->name, peer->addr, !by_us, why);
	engine_note(p, by_us ? P2P_DENIED : P2P_DENIED_US, peer->name, why);
}

#define DAY_S INT64_C(86400)
/* Warn this long before, or a quarter of the lifetime if less. */
#define ENDS_S (14 * DAY_S)

static enum cert_state cert_state(const struct net_times *t, int64_t now_s)
{
	int64_t left = t->not_after - now_s;
	int64_t quarter = (t->not_after - t->not_before) / 4;

	if (!t->not_after)
		return CERT_GOOD;
	if (left <= 0)
		return CERT_OVER;
	return left < (quarter < ENDS_S ? quarter : ENDS_S) ? CERT_ENDS
							    : CERT_GOOD;
}

/* Write a duration in the largest unit that fits. */
static void put_time(char *to, size_t size, int64_t s)
{
	if (s >= 2 * DAY_S)
		(void)snprintf(to, size, "%lld days", (long long)(s / DAY_S));
	else if (s >= 2 * 3600)
		(void)snprintf(to, size, "%lld hours", (long long)(s / 3600));
	else
		(void)snprintf(to, size, "%lld s", (long long)s);
}

void fault_check_cert(struct p2p *p, int64_t now_s, bool is_told)
{
	static const struct {
		enum p2p_note note;
		/* The time left is put between the two. */
		const char *text, *end;
	} certs[] = {
		[CERT_GOOD] = { P2P_CERT_GOOD, "it ends in ", "" },
		[CERT_ENDS] = { P2P_CERT_ENDS,
				"it, or its authority's, ends in ",
				": renew it, then reload bootseerd" },
		[CERT_OVER] = { P2P_CERT_OVER,
				"other nodes refuse this one, which reads "
				"registries: renew it, then reload bootseerd",
				NULL },
	};
	struct faults *f = &p->faults;
	char left[32], why[ERROR_MSG_MAX];
	enum cert_state state;
	struct net_times t;
	int64_t days;

	net_get_times(p->net, &t);
	state = cert_state(&t, now_s);
	days = (t.not_after - now_s) / DAY_S;
	if (state == f->cert && (state != CERT_ENDS || days == f->cert_days))
		return;
	f->cert = state;
	f->cert_days = days;
	if (is_told && state == CERT_OVER)
		return;
	put_time(left, sizeof(left), t.not_after - now_s);
	(void)snprintf(why, sizeof(why), "%s%s%s", certs[state].text,
		       certs[state].end ? left : "",
		       certs[state].end ? certs[state].end : "");
	engine_note(p, certs[state].note, p->cfg.cert_file, why);
}
