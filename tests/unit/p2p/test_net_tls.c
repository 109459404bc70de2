// SPDX-License-Identifier: Apache-2.0
/* Who is let in, and as whom. */
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "certs.h"
#include "common/buf.h"
#include "common/fs.h"
#include "nodes.h"
#include "p2p/net/net_priv.h"
#include "tests/unit/talker.h"

TestSuite(net_tls, .timeout = 120);

#define DAY 86400L
#define MODES 2

static const enum net_security modes[MODES] = { NET_MUTUAL_TLS,
						NET_SIGNED_BULK };

struct secured {
	struct nodes all;
	char dir[64];
	struct ca *ca;
	char ca_file[128], cert[128], key[128];
};

static void begin(struct secured *s, enum net_security security)
{
	(void)snprintf(s->dir, sizeof(s->dir), "/tmp/bootseer-net.XXXXXX");
	cr_assert_not_null(mkdtemp(s->dir));
	s->ca = ca_new(s->dir, "ca");
	nodes_init(&s->all);
	s->all.cfg.security = security;
	s->all.cfg.handshake_ns = INT64_C(5000000000);
	(void)snprintf(s->ca_file, sizeof(s->ca_file), "%s/ca.pem", s->dir);
	s->all.cfg.ca_file = s->ca_file;
	s->all.cfg.cert_file = s->cert;
	s->all.cfg.key_file = s->key;
}

static void end(struct secured *s)
{
	struct error err = ERROR_INIT;

	nodes_fini(&s->all);
	ca_free(s->ca);
	cr_expect_eq(fs_remove_tree(s->dir, &err), 0, "%s", err.msg);
}

static void use(struct secured *s, const char *cert)
{
	(void)snprintf(s->cert, sizeof(s->cert), "%s/%s.pem", s->dir, cert);
	(void)snprintf(s->key, sizeof(s->key), "%s/%s.key", s->dir, cert);
}

/* A node with a certificate of its own, of this CA. */
static struct node *add(struct secured *s, struct ca *ca, const char *name,
			long seconds)
{
	char san[64];

	(void)snprintf(san, sizeof(san), "URI:bootseer://node/%s", name);
	ca_issue(ca, name, san, seconds);
	use(s, name);
	return nodes_add(&s->all, name);
}

static void pair(struct secured *s, enum net_security security, struct node **a,
		 struct node **b)
{
	begin(s, security);
	*a = add(s, s->ca, "a", DAY);
	*b = add(s, s->ca, "b", DAY);
	nodes_link(*a, *b);
}

/* a of this authority, b and c of another one; c believes only that. */
static struct ca *add_two_authorities(struct secured *s, struct node *n[3])
{
	struct ca *other;

	n[0] = add(s, s->ca, "a", DAY);
	other = ca_new(s->dir, "other");
	n[1] = add(s, other, "b", DAY);
	(void)snprintf(s->ca_file, sizeof(s->ca_file), "%s/other.pem", s->dir);
	n[2] = add(s, other, "c", DAY);
	return other;
}

/* a cannot reach b; what a is told (0: anything). */
static void refuse(struct node *a, struct node *b, const char *name, int code)
{
	struct error err = ERROR_INIT;
	struct net_link *l;
	struct net_stats st;
	char addr[64];
	int downs = a->downs, ups = a->ups + b->ups;
	uint64_t links;

	net_get_stats(b->net, &st);
	links = st.links;

	cr_assert_eq(net_connect(a->net, nodes_addr(b, addr), name, &l, &err),
		     0, "%s", err.msg);
	until(a->all, a->downs > downs);
	cr_expect_eq(a->why.code, code ? code : a->why.code, "%d: %s",
		     a->why.code, a->why.msg);
	cr_expect_neq(a->why.code, 0);
	cr_expect_eq(a->ups + b->ups, ups);
	net_get_stats(b->net, &st);
	cr_expect_eq(st.links, links);
}

Test(net_tls, brings_pieces_in_both_forms_and_directions)
{
	for (int m = 0; m < MODES; m++) {
		struct secured s;
		struct node *a, *b;

		pair(&s, modes[m], &a, &b);
		cr_expect_str_eq(net_peer(a->link)->name, "b");
		cr_expect_str_eq(net_peer(b->link)->name, "a");
		nodes_open(a, b);
		b->serves = SERVES_MEMORY;
		nodes_ask(a, 0, 64, SOURCE_HOT);
		nodes_ask(b, 0, 32, SOURCE_COLD);
		nodes_ask(b, 32, 32, SOURCE_DEMAND);
		until(&s.all, a->gots == 64 && b->gots == 64);
		cr_expect_eq(a->bad_bytes + b->bad_bytes, 0);
		until(&s.all, a->sents == 64 && b->sents == 64);
		end(&s);
	}
}

/* Both sides are told why, with what mends it. */
static void blame(struct node *a, struct node *b, enum net_fault fault,
		  const char *at_a, const char *at_b)
{
	int before_a = a->failures, before_b = b->failures;

	refuse(a, b, NULL, 0);
	until(a->all, a->failures > before_a && b->failures > before_b);
	cr_expect_eq(a->fault, fault, "%d: %s", a->fault, a->fault_why);
	cr_expect_eq(b->fault, fault, "%d: %s", b->fault, b->fault_why);
	cr_expect(a->fault_outgoing);
	cr_expect_not(b->fault_outgoing);
	cr_expect(strstr(a->fault_why, at_a), "%s", a->fault_why);
	cr_expect(strstr(b->fault_why, at_b), "%s", b->fault_why);
	cr_expect(strncmp(b->fault_addr, "127.0.0.1:", 10) == 0, "%s",
		  b->fault_addr);
}

Test(net_tls, tells_both_sides_of_another_authority)
{
	static const char mine[] = "in ca.crt of --p2p-tls",
			  theirs[] = "ca.crt of its --p2p-tls has not";

	for (int m = 0; m < MODES; m++) {
		struct secured s;
		struct node *n[3];
		struct ca *other;

		begin(&s, modes[m]);
		other = add_two_authorities(&s, n);
		blame(n[0], n[1], NET_UNTRUSTED, mine, theirs);
		blame(n[1], n[0], NET_UNTRUSTED, theirs, mine);
		blame(n[0], n[2], NET_UNTRUSTED, mine, theirs);
		blame(n[2], n[0], NET_UNTRUSTED, mine, theirs);
		ca_free(other);
		end(&s);
	}
}

Test(net_tls, refuses_who_has_a_certificate_of_another_authority)
{
	for (int m = 0; m < MODES; m++) {
		struct secured s;
		struct node *n[3];
		struct ca *other;

		begin(&s, modes[m]);
		other = add_two_authorities(&s, n);
		refuse(n[0], n[1], NULL, EACCES);
		refuse(n[1], n[0], NULL, EACCES);
		refuse(n[2], n[0], NULL, EACCES);
		ca_free(other);
		end(&s);
	}
}

static void copy_file(const struct secured *s, const char *from, FILE *to)
{
	AUTO_BUF text = BUF_INIT;
	struct error err = ERROR_INIT;
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s.pem", s->dir, from);
	cr_assert_eq(fs_read_file(path, 65536, &text, &err), 0, "%s", err.msg);
	cr_assert_eq(fwrite(text.data, 1, text.len, to), text.len);
}

/* The authority above, as cert-manager's, signs certificates of others of the cluster, who
 * may have any name in them that they like. */
Test(net_tls, believes_an_authority_and_not_the_one_that_signed_it)
{
	for (int m = 0; m < MODES; m++) {
		struct secured s;
		struct node *a, *b, *stranger;
		struct ca *nodes;
		FILE *f;

		begin(&s, modes[m]);
		nodes = ca_below(s.ca, "nodes");
		(void)snprintf(s.ca_file, sizeof(s.ca_file), "%s/nodes.pem",
			       s.dir);
		a = add(&s, nodes, "a", DAY);
		b = add(&s, nodes, "b", DAY);
		nodes_link(a, b);
		/* A list, which begins with a root: the stranger believes all. */
		(void)snprintf(s.ca_file, sizeof(s.ca_file), "%s/all.pem",
			       s.dir);
		f = fopen(s.ca_file, "w");
		cr_assert_not_null(f);
		copy_file(&s, "ca", f);
		copy_file(&s, "nodes", f);
		cr_assert_eq(fclose(f), 0);
		stranger = add(&s, s.ca, "c", DAY);
		blame(stranger, a, NET_UNTRUSTED,
		      "ca.crt of its --p2p-tls has not",
		      "in ca.crt of --p2p-tls");
		refuse(a, stranger, NULL, EACCES);
		ca_free(nodes);
		end(&s);
	}
}

Test(net_tls, refuses_another_name_than_the_certificates)
{
	for (int m = 0; m < MODES; m++) {
		struct secured s;
		struct node *a, *b;

		begin(&s, modes[m]);
		a = add(&s, s.ca, "a", DAY);
		b = add(&s, s.ca, "b", DAY);
		refuse(a, b, "c", EACCES);
		/* One that lies. */
		(void)strcpy(b->net->self.name, "z");
		refuse(a, b, NULL, EACCES);
		refuse(b, a, NULL, ESHUTDOWN);
		end(&s);
	}
}

Test(net_tls, refuses_a_certificate_that_is_over)
{
	struct secured s;
	struct node *a, *b;

	begin(&s, NET_MUTUAL_TLS);
	a = add(&s, s.ca, "a", DAY);
	b = add(&s, s.ca, "b", -60);
	refuse(a, b, NULL, EACCES);
	cr_expect_not_null(strstr(a->why.msg, "expired"), "%s", a->why.msg);
	blame(b, a, NET_UNTRUSTED, "node's certificate has expired",
	      "renew it");
	end(&s);
}

static void refuse_own(struct secured *s, const char *san)
{
	struct net_config cfg = s->all.cfg;
	struct error err = ERROR_INIT;
	struct net *n = NULL;

	ca_issue(s->ca, "n", san, DAY);
	use(s, "n");
	(void)strcpy(cfg.self.name, "n");
	cr_expect_lt(net_new(&cfg, &n, &err), 0);
	cr_expect_not_null(strstr(err.msg, "n.pem"), "%s", err.msg);
}

Test(net_tls, does_not_begin_with_a_certificate_that_is_not_its_own)
{
	struct secured s;

	begin(&s, NET_MUTUAL_TLS);
	refuse_own(&s, NULL);
	refuse_own(&s, "URI:bootseer://node/m");
	refuse_own(&s, "URI:bootseer://node/");
	refuse_own(&s, "DNS:n,URI:spiffe://x/n");
	refuse_own(&s, "URI:bootseer://node/n,URI:bootseer://node/m");
	end(&s);
}

Test(net_tls, takes_new_certificates_for_new_links)
{
	struct secured s;
	struct node *a, *b, *c;
	struct error err = ERROR_INIT;
	struct ca *other;
	char path[128];

	pair(&s, NET_MUTUAL_TLS, &a, &b);
	/* A new authority, and what it signed, in the same files. */
	other = ca_new(s.dir, "ca");
	ca_issue(other, "a", "URI:bootseer://node/a", DAY);
	cr_assert_eq(net_reload(a->net, &err), 0, "%s", err.msg);
	c = add(&s, other, "c", DAY);
	nodes_link(a, c);
	refuse(b, c, NULL, EACCES);
	/* The old link did not notice. */
	cr_expect_eq(a->downs, 0);
	/* What cannot be read changes nothing. */
	(void)snprintf(path, sizeof(path), "%s/a.key", s.dir);
	cr_assert_eq(unlink(path), 0);
	cr_expect_eq(net_reload(a->net, &err), -ENOENT, "%s", err.msg);
	cr_expect_not_null(strstr(err.msg, "a.key"), "%s", err.msg);
	net_close(a->link, "again");
	until(&s.all, c->downs == 1);
	c->ups = 0;
	nodes_link(c, a);
	ca_free(other);
	end(&s);
}

Test(net_tls, does_not_link_with_another_security)
{
	struct secured s;
	struct node *a, *b, *c;

	begin(&s, NET_MUTUAL_TLS);
	a = add(&s, s.ca, "a", DAY);
	s.all.cfg.security = NET_SIGNED_BULK;
	b = add(&s, s.ca, "b", DAY);
	s.all.cfg.security = NET_OPEN;
	c = nodes_add(&s.all, "c");
	refuse(a, b, NULL, ESHUTDOWN);
	cr_expect_str_eq(a->why.msg,
			 "the other side closed the link: --p2p-security of "
			 "'a' is tls, of 'b' it is signed");
	cr_expect_eq(b->fault, NET_UNLIKE);
	refuse(b, a, NULL, ESHUTDOWN);
	cr_expect_eq(a->fault, NET_UNLIKE);
	/* What one says to the other may be lost, as it closes. */
	for (int k = 0; k < 2; k++) {
		struct node *n = k ? b : a;

		refuse(n, c, NULL, 0);
		until(&s.all, c->failures > 2 * k);
		cr_expect_eq(c->fault, NET_UNLIKE, "%s", c->fault_why);
		cr_expect(strstr(c->fault_why, "is not open"), "%s",
			  c->fault_why);
		refuse(c, n, NULL, 0);
		until(&s.all, n->fault == NET_UNLIKE && !n->fault_outgoing &&
				      c->failures > 2 * k + 1);
		cr_expect(strstr(n->fault_why, "--p2p-security"), "%s",
			  n->fault_why);
	}
	end(&s);
}

/* A frame as it should be, but for the MAC. */
static void forge(int fd, uint32_t piece)
{
	uint8_t frame[WIRE_HEAD_SIZE + WIRE_MAC_SIZE + WIRE_DATA_SIZE + 1] = {
		0
	};
	struct wire_head h = { .len = WIRE_DATA_SIZE + 1, .type = WIRE_DATA };
	struct wire_data d = { .piece = piece, .total = 1 };

	wire_put_head(frame, &h);
	wire_put_data(frame + WIRE_HEAD_SIZE + WIRE_MAC_SIZE, &d);
	cr_assert_eq(send(fd, frame, sizeof(frame), MSG_NOSIGNAL),
		     (ssize_t)sizeof(frame));
}

Test(net_tls, leaves_who_sends_what_is_not_signed)
{
	struct secured s;
	struct node *a, *b;

	pair(&s, NET_SIGNED_BULK, &a, &b);
	nodes_open(a, b);
	forge(b->link->bulk->fd, 1);
	until(&s.all, a->downs == 1 && b->downs == 1);
	cr_expect_eq(a->why.code, EBADMSG, "%s", a->why.msg);
	cr_expect_eq(a->rooms, 0);
	end(&s);
}

Test(net_tls, takes_a_signed_message_once)
{
	uint8_t frame[WIRE_HEAD_SIZE + WIRE_MAC_SIZE + WIRE_DATA_SIZE + 1] = {
		0
	};
	uint8_t *mac = frame + WIRE_HEAD_SIZE, *fields = mac + WIRE_MAC_SIZE;
	struct wire_head h = { .len = WIRE_DATA_SIZE + 1, .type = WIRE_DATA };
	struct wire_data d = { .piece = 1, .total = 1 };
	struct secured s;
	struct node *a, *b;

	pair(&s, NET_SIGNED_BULK, &a, &b);
	nodes_open(a, b);
	b->serves = HOLDS;
	nodes_ask(a, 1, 1, SOURCE_HOT);
	until(&s.all, b->wants == 1);
	h.req = b->link->wants[1 % NET_WANT_ROWS]->req;
	wire_put_head(frame, &h);
	wire_put_data(fields, &d);
	cr_assert_eq(signer_sign(b->link->bulk->signer, frame, fields,
				 WIRE_DATA_SIZE, mac),
		     0);
	cr_assert_eq(send(b->link->bulk->fd, frame, sizeof(frame),
			  MSG_NOSIGNAL),
		     (ssize_t)sizeof(frame));
	until(&s.all, a->gots == 1);
	cr_expect_eq(a->downs, 0);
	/* Who is on the way and sends it again. */
	cr_assert_eq(send(b->link->bulk->fd, frame, sizeof(frame),
			  MSG_NOSIGNAL),
		     (ssize_t)sizeof(frame));
	until(&s.all, a->downs == 1);
	cr_expect_eq(a->why.code, EBADMSG, "%s", a->why.msg);
	end(&s);
}

Test(net_tls, reads_no_piece_on_a_plain_connection_that_is_not_bound)
{
	struct secured s;
	struct node *a;
	struct sockaddr_storage ss;
	struct net_stats st;
	struct error err = ERROR_INIT;
	socklen_t len = sizeof(ss);
	AUTO_CLOSE int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	begin(&s, NET_SIGNED_BULK);
	a = add(&s, s.ca, "a", DAY);
	cr_assert_eq(getsockname(a->net->listener.fd, (struct sockaddr *)&ss,
				 &len),
		     0);
	cr_assert_eq(connect(fd, (struct sockaddr *)&ss, len), 0);
	forge(fd, 1);
	until(&s.all,
	      (net_get_stats(a->net, &st), st.handshakes_failed_total == 1));
	cr_expect_eq(st.protocol_errors_total, 1, "%s", err.msg);
	end(&s);
}

Test(net_tls, files_that_nobody_would_believe_are_told)
{
	static const struct {
		const char *node, *cert, *key, *ca, *why;
	} all[] = {
		{ "a", "good", "good", "ca", NULL },
		{ "b", "good", "good", "ca", "is of node 'a'" },
		{ "a", "old", "old", "ca", "expired" },
		{ "a", "good", "good", "other",
		  "no authority in ca.crt of --p2p-tls" },
		{ "a", "good", "old", "ca", "key" },
		{ "a", "none", "good", "ca", "No such file" },
		{ "a", "good", "none", "ca", "No such file" },
		{ "a", "good", "good", "none", "No such file" },
		{ "a", "good", "good", "good.key", "none in it" },
	};
	struct secured s;
	struct ca *other;

	begin(&s, NET_MUTUAL_TLS);
	other = ca_new(s.dir, "other");
	ca_issue(s.ca, "good", "URI:bootseer://node/a", DAY);
	ca_issue(s.ca, "old", "URI:bootseer://node/a", -1);
	for (size_t k = 0; k < ARRAY_SIZE(all); k++) {
		char ca[128], cert[128], key[128];
		struct error err = ERROR_INIT;
		int rc;

		(void)snprintf(ca, sizeof(ca), "%s/%s%s", s.dir, all[k].ca,
			       strchr(all[k].ca, '.') ? "" : ".pem");
		(void)snprintf(cert, sizeof(cert), "%s/%s.pem", s.dir,
			       all[k].cert);
		(void)snprintf(key, sizeof(key), "%s/%s.key", s.dir,
			       all[k].key);
		rc = net_check_files(all[k].node, ca, cert, key, &err);
		if (!all[k].why) {
			cr_expect_eq(rc, 0, "%s", err.msg);
			continue;
		}
		cr_expect_lt(rc, 0, "case %zu", k);
		cr_expect(strstr(err.msg, all[k].why), "%s: %s", all[k].why,
			  err.msg);
	}
	ca_free(other);
	end(&s);
}

Test(net_tls, knows_when_its_certificate_ends_and_its_authoritys)
{
	struct net_times t;
	struct secured s;
	struct node *a, *b, *c;
	int64_t now = time(NULL);

	begin(&s, NET_MUTUAL_TLS);
	a = add(&s, s.ca, "a", DAY);
	net_get_times(a->net, &t);
	cr_expect(t.not_after > now + DAY - 600 && t.not_after <= now + 2 * DAY,
		  "%lld", (long long)(t.not_after - now));
	cr_expect_leq(t.not_before, now);
	/* One that is over is told of, too. */
	b = add(&s, s.ca, "b", -60);
	net_get_times(b->net, &t);
	cr_expect_leq(t.not_after, now);
	cr_expect_geq(t.not_after, now - 120);
	/* Its authority ends before it. */
	c = add(&s, s.ca, "c", 5000 * DAY);
	net_get_times(c->net, &t);
	cr_expect_lt(t.not_after, now + 2 * DAY);
	end(&s);
}

Test(net_tls, who_changes_keys_over_and_over_has_no_long_turn)
{
	struct talker t;
	struct secured s;
	struct node *a;
	struct tcp_info info;
	socklen_t len = sizeof(info);
	size_t sent;

	begin(&s, NET_MUTUAL_TLS);
	a = add(&s, s.ca, "a", DAY);
	ca_issue(s.ca, "c", "URI:bootseer://node/c", DAY);
	use(&s, "c");
	talker_call(&t, a->net->listener.fd, s.cert, s.key);
	while (!talker_shakes_hands(&t))
		nodes_turn(&s.all);
	talker_change_keys(&t, 20000);
	sent = talker_send(&t);
	cr_assert_gt(sent, 300 << 10);
	until(&s.all, a->failures > 0);
	cr_expect(strstr(a->fault_why, "changes its keys"), "%s", a->fault_why);
	/* What it had sent was not all read first. */
	cr_assert_eq(getsockopt(t.fd, IPPROTO_TCP, TCP_INFO, &info, &len), 0);
	cr_expect_lt(info.tcpi_bytes_acked, sent / 2);
	talker_end(&t);
	end(&s);
}
