// SPDX-License-Identifier: Apache-2.0
/* `bootseer p2p status`: what this node exchanges with its peers. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/command.h"
#include "cli/node_ask.h"

struct p2p_config_cli {
	struct node_options node;
	bool json;
};

static const struct option_spec options[] = {
	{ .key = "json",
	  .type = OPTION_BOOL,
	  .offset = offsetof(struct p2p_config_cli, json),
	  .help = "Print bootseerd's answer as it is." },
	NODE_OPTIONS(struct p2p_config_cli),
	{ .key = NULL },
};

/* Texts for a tracker's states. */
static const struct {
	const char *state, *text;
} tracker_texts[] = {
	{ "good", "answers" },
	{ "lost", "does not answer" },
	{ "refuses", "refuses this node" },
	{ "new", "not asked yet" },
};

static void print_tracker(const json_t *t)
{
	const char *state = reply_text(t, "state"), *why;

	for (size_t k = 0; k < ARRAY_SIZE(tracker_texts); k++)
		if (strcmp(tracker_texts[k].state, state) == 0)
			state = tracker_texts[k].text;
	why = reply_text(t, "error");
	printf("tracker   %s: %s%s%s\n", reply_text(t, "url"), state,
	       *why ? ": " : "", why);
}

static void print_trackers(const json_t *trackers)
{
	const json_t *t;
	size_t k;

	if (json_array_size(trackers) == 0)
		puts("tracker   none is named (--p2p-tracker of bootseerd): "
		     "nobody tells this node of others");
	json_array_foreach(trackers, k, t) print_tracker(t);
}

static void print_failures(const json_t *s)
{
	static const char *const kinds[] = { "unreachable", "untrusted",
					     "unlike",      "namesake",
					     "refused",     "denied" };
	const json_t *f = json_object_get(s, "failures"),
		     *last = json_object_get(s, "last_failure");
	const char *before = "failures  ";

	for (size_t k = 0; k < ARRAY_SIZE(kinds); k++) {
		if (reply_number(f, kinds[k]) == 0)
			continue;
		printf("%s%lld %s", before, reply_number(f, kinds[k]),
		       kinds[k]);
		before = ", ";
	}
	if (!json_is_object(last))
		return;
	printf("; the last %lld s ago, %s %s%s%s\n          %s\n",
	       reply_number(last, "ago_ms") / 1000,
	       reply_flag(last, "outgoing") ? "to" : "from",
	       reply_text(last, "node"),
	       *reply_text(last, "node") ? " at " : "",
	       reply_text(last, "addr"), reply_text(last, "error"));
}

static void print_certificate(const json_t *s)
{
	time_t end = (time_t)reply_number(s, "certificate_not_after");
	long long days = (end - time(NULL)) / 86400;
	char text[32];
	struct tm tm;

	if (!end || !gmtime_r(&end, &tm) ||
	    strftime(text, sizeof(text), "%F %TZ", &tm) == 0)
		return;
	if (end <= time(NULL))
		printf("cert      over since %s: renew it, then reload "
		       "bootseerd\n",
		       text);
	else
		printf("cert      good until %s, %lld %s\n", text, days,
		       days == 1 ? "day" : "days");
}

static void print_totals(const json_t *s)
{
	const json_t *t = json_object_get(s, "totals");
	char rack[PROGRESS_BYTES_MAX], zone[PROGRESS_BYTES_MAX],
		remote[PROGRESS_BYTES_MAX], origin[PROGRESS_BYTES_MAX],
		served[PROGRESS_BYTES_MAX];

	printf("node      %s, port %lld\n", reply_text(s, "node"),
	       reply_number(s, "port"));
	print_certificate(s);
	print_trackers(json_object_get(s, "trackers"));
	printf("received  %s from its rack, %s from its zone, %s from further "
	       "away, %s from registries\n",
	       reply_bytes(t, "rack_bytes", rack),
	       reply_bytes(t, "zone_bytes", zone),
	       reply_bytes(t, "remote_bytes", remote),
	       reply_bytes(t, "origin_bytes", origin));
	printf("served    %s\n", reply_bytes(t, "served_bytes", served));
	print_failures(s);
}

static void print_image(const json_t *i)
{
	char peers[PROGRESS_BYTES_MAX], origin[PROGRESS_BYTES_MAX];
	char nodes[PROGRESS_COUNT_MAX];

	printf("\n%s%s\n  id        %s\n", reply_text(i, "name"),
	       reply_flag(i, "metadata") ? ": metadata and block map" : "",
	       reply_text(i, "id"));
	printf("  pieces    %lld of %lld\n", reply_number(i, "have"),
	       reply_number(i, "pieces"));
	printf("  sources   %s: %s; registry: %s\n",
	       reply_count(i, "peers", "node", nodes),
	       reply_bytes(i, "peer_bytes", peers),
	       reply_bytes(i, "origin_bytes", origin));
	if (*reply_text(i, "error"))
		printf("  no right  the registry is read: %s\n",
		       reply_text(i, "error"));
}

static void print_peer(const json_t *p)
{
	char in[PROGRESS_BYTES_MAX], out[PROGRESS_BYTES_MAX],
		rate[PROGRESS_BYTES_MAX];
	char times[PROGRESS_COUNT_MAX];
	long long left = reply_number(p, "quarantine_ms");

	printf("%-24s %-21s %-7s %-5s %10s %10s %10s/s", reply_text(p, "node"),
	       reply_text(p, "addr"), reply_text(p, "distance"),
	       !reply_flag(p, "up")    ? "down"
	       : reply_flag(p, "rdma") ? "rdma"
				       : "tcp",
	       reply_bytes(p, "received_bytes", in),
	       reply_bytes(p, "sent_bytes", out), reply_bytes(p, "rate", rate));
	if (left > 0)
		printf("  left alone for %lld s", (left + 999) / 1000);
	if (reply_number(p, "failures"))
		printf("\n  failed %s: %s",
		       reply_count(p, "failures", "time", times),
		       reply_text(p, "error"));
	putchar('\n');
}

static void print_status(const json_t *s)
{
	const json_t *peers = json_object_get(s, "peers"), *j;
	size_t k;

	if (!reply_flag(s, "on")) {
		puts("This node exchanges no blocks: --p2p-listen of bootseerd "
		     "turns it on.");
		return;
	}
	print_totals(s);
	json_array_foreach(json_object_get(s, "images"), k, j) print_image(j);
	if (json_array_size(peers) == 0)
		return;
	printf("\n%-24s %-21s %-7s %-5s %10s %10s %12s\n", "NODE", "ADDRESS",
	       "WHERE", "BY", "RECEIVED", "SENT", "RATE");
	json_array_foreach(peers, k, j) print_peer(j);
}

static int run_p2p(const void *config, char **args, struct error *err)
{
	const struct p2p_config_cli *cfg = config;

	(void)args;
	return node_show(&cfg->node, "p2p.status",
			 cfg->json ? reply_print : print_status, err);
}

const struct command p2p_status_command = {
	.program = {
		.name = "bootseer p2p status",
		.usage = "[OPTIONS]",
		.summary = "Show the nodes that this one exchanges blocks with, "
			   "the images, where their blocks came from, and how "
			   "fast; trackers and links that fail, and why.  Of a "
			   "node: WHERE it is (rack, zone, remote: by "
			   "--location), BY what the link is (tcp, rdma, down), "
			   "RECEIVED and SENT bytes of the images that both "
			   "have now, RATE of what comes.  Left alone is one "
			   "that sent wrong blocks or none.  Failures: "
			   "unreachable, nobody answers there; untrusted, a "
			   "certificate or name; unlike, another "
			   "--p2p-security; namesake, a node of this name; "
			   "refused, by the other side; denied, one of the two "
			   "has no right to an image.",
		.options = options,
		.examples = "bootseer p2p status\n"
			    "bootseer p2p status --json",
		.see_also = "bootseer(1), bootseerd(8)",
	},
	.brief = "Show which nodes blocks are exchanged with",
	.config_size = sizeof(struct p2p_config_cli),
	.run = run_p2p,
};
