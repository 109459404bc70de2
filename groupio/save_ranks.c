// SPDX-License-Identifier: Apache-2.0
/*
 * Serves the ranks of this node on a Unix socket, with one request for each connection.
 * docs/formats/group-save.md has the messages.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bounded_json.h"
#include "common/bytes.h"
#include "common/clock.h"
#include "common/cond.h"
#include "common/log.h"
#include "groupio/blocks_priv.h"
#include "groupio/rank_socket.h"
#include "groupio/read_session.h"
#include "groupio/save_peers.h"
#include "net/listener.h"
#include "net/shortage.h"

#define REQUEST_MAX (16u << 20)
#define REQUEST_VALUES_MAX (1u << 19)
#define REQUEST_S 10 /* seconds of silence allowed within a request */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE)
#define DIMS_MAX 32u
#define NUMBER_MAX 999999999
#define STAGE_MS_MAX (INT64_C(3600) * 1000)
#define STORE_MS_MAX (INT64_C(24) * 3600 * 1000)
#define AGAIN_NS (60 * NS_PER_S)

/* ----------------------------------------------------------------------- receiving --- */

/* Receive a length, JSON of that length, and a descriptor if one comes. */
static int receive_request(int sock, json_t **ret, int *fd, struct error *err)
{
	AUTO_FREE char *text = NULL;
	uint8_t head[4];
	uint32_t len;
	int rc = rank_receive(sock, head, sizeof(head), fd, err);

	if (rc < 0)
		return rc;
	len = get_le32(head);
	if (!len || len > REQUEST_MAX)
		return error_set(err, EPROTO, "a request of %" PRIu32 " bytes",
				 len);
	text = malloc(len);
	if (!text)
		return error_nomem(err);
	rc = rank_receive(sock, text, len, fd, err);
	return rc < 0 ? rc
		      : bounded_json_load_large(text, len, REQUEST_VALUES_MAX,
						"a request", ret, err);
}

static void send_json(int sock, json_t *j)
{
	AUTO_FREE char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
	size_t len = text ? strlen(text) : 0, at = 0;

	if (text)
		text[len++] = '\n';
	while (at < len) {
		const ssize_t n = send(sock, text + at, len - at, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			/* Part of a line was sent: nothing may follow it, so end the
			 * connection. */
			(void)shutdown(sock, SHUT_RDWR);
			break;
		}
		at += (size_t)n;
	}
	json_decref(j);
}

static void send_error(int sock, const struct error *err)
{
	json_t *j = json_pack("{s:s,s:o}", "state", "failed", "reason",
			      json_bytes(err->msg));

	send_json(sock, j);
}

/* ---------------------------------------------------------------------- what is said --- */

static int refuse_request(struct error *err)
{
	return error_set(err, EINVAL,
			 "the request is none of this version's: have mount "
			 "and bootseer.py of one version");
}

static int take_path(const struct saves *s, const char *path, char **ret,
		     struct error *err)
{
	const size_t n = strlen(s->mount);

	if (path[0] == '/') {
		if (strncmp(path, s->mount, n) != 0 || path[n] != '/')
			return error_set(err, EINVAL,
					 "'%.100s' is not on this mount, '%s'",
					 path, s->mount);
		path += n + 1;
	}
	*ret = strdup(path);
	return *ret ? 0 : error_nomem(err);
}

static bool is_job_id(const char *id)
{
	return strlen(id) == SAVE_JOB_LEN &&
	       strspn(id, "0123456789abcdef") == SAVE_JOB_LEN;
}

/* Is it an address that is safe in URLs? */
static bool is_address(const char *a)
{
	return strlen(a) < 64 &&
	       strspn(a, "0123456789abcdefABCDEF.:[]") == strlen(a) &&
	       strchr(a, ':');
}

static int take_members(struct save_terms *t, const json_t *members,
			const json_t *nodes, struct error *err)
{
	t->n_nodes = json_array_size(members);
	t->n_ranks = json_array_size(nodes);
	if (!t->n_nodes || t->n_nodes > SAVE_NODES_MAX || !t->n_ranks ||
	    t->n_ranks > SAVE_RANKS_MAX)
		return error_set(err, EINVAL,
				 "%zu nodes, %zu ranks: 1 to %u, "
				 "and to %u",
				 t->n_nodes, t->n_ranks, SAVE_NODES_MAX,
				 SAVE_RANKS_MAX);
	t->members = calloc(t->n_nodes, sizeof(*t->members));
	t->node_of = calloc(t->n_ranks, 1);
	if (!t->members || !t->node_of)
		return error_nomem(err);
	for (size_t i = 0; i < t->n_nodes; i++) {
		const char *a = json_string_value(json_array_get(members, i));

		if (!a || !is_address(a))
			return refuse_request(err);
		(void)snprintf(t->members[i], sizeof(t->members[i]), "%s", a);
	}
	for (size_t i = 0; i < t->n_ranks; i++) {
		const json_t *v = json_array_get(nodes, i);
		const json_int_t node = json_integer_value(v);

		if (!json_is_integer(v) || node < 0 ||
		    (size_t)node >= t->n_nodes)
			return refuse_request(err);
		t->node_of[i] = (uint8_t)node;
	}
	return 0;
}

static int take_tensor(struct save_rank *r, json_t *v, struct error *err)
{
	uint64_t shape[DIMS_MAX];
	const char *name, *dtype;
	json_int_t off, len;
	json_t *dims;
	size_t n;
	int rc;

	if (json_unpack(v, "[s,s,o,I,I!]", &name, &dtype, &dims, &off, &len) <
		    0 ||
	    !json_is_array(dims) || json_array_size(dims) > DIMS_MAX ||
	    off < 0 || len < 0 || (uint64_t)off > r->size ||
	    (uint64_t)len > r->size - (uint64_t)off)
		return refuse_request(err);
	n = json_array_size(dims);
	for (size_t i = 0; i < n; i++) {
		const json_t *d = json_array_get(dims, i);

		if (!json_is_integer(d) || json_integer_value(d) < 0)
			return refuse_request(err);
		shape[i] = (uint64_t)json_integer_value(d);
	}
	/* Several tensors may share bytes, so the memory's size does not bound the number of
	 * chunks: check it. */
	r->n_chunks += ((uint64_t)len + SAVE_CHUNK - 1) / SAVE_CHUNK;
	if (r->n_chunks > SAVE_CHUNKS_MAX)
		return error_set(err, EFBIG, "tensors of more than %u MiB",
				 SAVE_CHUNKS_MAX);
	rc = save_table_add(&r->table, name, dtype, shape, n, (uint64_t)len,
			    err);
	if (rc == 0)
		r->table.tensors[r->table.n - 1].data =
			r->map ? (const char *)r->map + off : NULL;
	return rc;
}

/* Map the rank's memory. It must be sealed, so that its bytes keep matching their digests,
 * and reading never faults because it was truncated. */
static int map_bytes(struct save_rank *r, int fd, struct error *err)
{
	const int seals = fd < 0 ? 0 : fcntl(fd, F_GET_SEALS);
	struct stat st;

	if (fd < 0)
		return 0;
	/* F_GET_SEALS fails for an ordinary file with -1, whose bits are all set. */
	if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) < 0 ||
	    st.st_size < 0)
		return error_set(err, EINVAL, "the memory is not sealed");
	r->size = (size_t)st.st_size;
	if (!r->size)
		return 0;
	r->map = mmap(NULL, r->size, PROT_READ, MAP_SHARED, fd, 0);
	if (r->map != MAP_FAILED)
		return 0;
	r->map = NULL;
	return error_set(err, errno, "map a rank's memory: %s",
			 strerror(errno));
}

static int parse_rank_tensors(struct save_rank *r, const struct save_terms *t,
			      json_int_t rank, json_t *tensors, int fd,
			      struct error *err)
{
	size_t i;
	json_t *v;
	int rc;

	if (rank < 0 || (size_t)rank >= t->n_ranks || !json_is_array(tensors))
		return refuse_request(err);
	r->rank = (unsigned int)rank;
	rc = map_bytes(r, fd, err);
	json_array_foreach(tensors, i, v)
	{
		if (rc == 0)
			rc = take_tensor(r, v, err);
	}
	return rc;
}

static int parse_put_request(struct saves *s, json_t *j, int fd,
			     struct save_terms *t, struct save_rank *r,
			     struct error *err)
{
	const char *job, *path;
	json_t *members, *nodes, *tensors;
	json_int_t number, rank, stage_ms, store_ms;
	int rc;

	if (json_unpack(j, "{s:s,s:I,s:s,s:I,s:o,s:o,s:o,s:I,s:I}", "job", &job,
			"number", &number, "path", &path, "rank", &rank,
			"members", &members, "nodes", &nodes, "tensors",
			&tensors, "stage_ms", &stage_ms, "store_ms",
			&store_ms) < 0 ||
	    !is_job_id(job) || number < 1 || number > NUMBER_MAX ||
	    stage_ms < 1 || stage_ms > STAGE_MS_MAX || store_ms < 1 ||
	    store_ms > STORE_MS_MAX)
		return refuse_request(err);
	memcpy(t->job, job, SAVE_JOB_LEN + 1);
	t->number = (uint32_t)number;
	(void)snprintf(t->id, sizeof(t->id), "%s-%" PRIu32, job, t->number);
	t->stage_ns = stage_ms * NS_PER_MS;
	t->store_ns = store_ms * NS_PER_MS;
	rc = take_path(s, path, &t->path, err);
	if (rc == 0)
		rc = take_members(t, members, nodes, err);
	if (rc == 0)
		rc = parse_rank_tensors(r, t, rank, tensors, fd, err);
	if (rc < 0)
		return rc;
	t->self = t->node_of[r->rank];
	if (strcmp(t->members[t->self], s->addr) == 0)
		return 0;
	return error_set(err, EINVAL,
			 "rank %u is said to be on another node than this, "
			 "%s",
			 r->rank, s->addr);
}

/* ------------------------------------------------------------------------ answering --- */

/* List the place in the file of each tensor of the rank. */
static json_t *places_json(const struct save *v, unsigned int rank)
{
	const struct save_table *t = &v->tables[v->terms.self];
	json_t *all = json_object();

	for (size_t i = 0; i < t->n; i++) {
		const struct save_entry *e;

		if (t->tensors[i].rank != rank)
			continue;
		e = &v->plan->entries[t->tensors[i].entry];
		if (json_object_set_new(all, t->tensors[i].name,
					json_pack("[I,I]", (json_int_t)e->start,
						  (json_int_t)e->tensor->len)) <
		    0) {
			json_decref(all);
			return NULL;
		}
	}
	return all;
}

static json_t *state_json(const struct save *v, unsigned int rank,
			  const char *state)
{
	return json_pack("{s:s,s:I,s:I,s:I,s:o}", "state", state, "given",
			 (json_int_t)v->plan->given, "unique",
			 (json_int_t)v->plan->unique, "stored",
			 (json_int_t)v->plan->to_store, "places",
			 places_json(v, rank));
}

/* Wait until the save is buffered (`is_buffered`), or until it is over. */
static enum save_state wait_for_save_state(struct save *v, bool is_buffered,
					   struct error *ret_why)
{
	struct saves *s = v->all;
	enum save_state state;

	(void)pthread_mutex_lock(&s->lock);
	while (!v->is_over && (is_buffered || v->state < SAVE_BUFFERED))
		(void)cond_wait_until(&s->told, &s->lock,
				      clock_now_ns() + AGAIN_NS);
	state = v->state;
	*ret_why = v->err;
	(void)pthread_mutex_unlock(&s->lock);
	return state;
}

static void follow_save(struct save *v, unsigned int rank, int sock)
{
	struct error why = ERROR_INIT;
	enum save_state state = wait_for_save_state(v, false, &why);

	if (state == SAVE_BUFFERED) {
		send_json(sock, state_json(v, rank, "buffered"));
		state = wait_for_save_state(v, true, &why);
	}
	if (state == SAVE_DURABLE)
		send_json(sock, state_json(v, rank, "durable"));
	else
		send_error(sock, &why);
}

/* Look at the file's path, and refuse a save whose ID is there already: that is from an
 * earlier run with the same job name, and all nodes would take this save for done. */
static int look_at_path(const struct save *v, struct save_seen *ret,
			struct error *err)
{
	const struct save_terms *t = &v->terms;
	char id[SAVE_ID_MAX] = "";
	int rc = saves_look(v->all, t->path, ret, err);

	if (rc == 0 && ret->owner >= 0)
		rc = saves_look_id(v->all, t->path, id, err);
	if (rc < 0 || strcmp(id, t->id) != 0)
		return rc;
	return error_set(err, EEXIST,
			 "'%.100s' is of a save with the same job and number: "
			 "give each run of the job a name of its own",
			 t->path);
}

/* Look at the path for all nodes. The client that began the save does it while other ranks
 * arrive, since a store may be slow. The save is in the list before, so no other save of the
 * path can go unnoticed. */
static void look_at_path_for_all_nodes(struct save *v)
{
	struct save_seen seen = { .owner = -1 };
	struct error err = ERROR_INIT;
	const int rc = look_at_path(v, &seen, &err);

	(void)pthread_mutex_lock(&v->all->lock);
	seen.is_behind = v->seen.is_behind;
	v->seen = seen;
	v->look = rc < 0 ? LOOK_FAILED : LOOK_DONE;
	if (rc < 0)
		save_doom(v, &err);
	(void)pthread_cond_broadcast(&v->all->changed);
	(void)pthread_mutex_unlock(&v->all->lock);
}

/* Is an older request still unread? It may be an earlier save of the same rank, which is
 * known only after reading. With the lock. */
static bool has_earlier_client(const struct save_client *c)
{
	const struct saves *s = c->all;

	for (size_t i = 0; i < SAVE_CLIENTS_MAX; i++) {
		const struct save_client *o = &s->clients[i];

		if (o->is_used && !o->is_over && o->number < c->number &&
		    o->pid == c->pid &&
		    (o->step == CLIENT_READS ||
		     (o->step == CLIENT_JOINS && o->rank == c->rank &&
		      strcmp(o->job, c->job) == 0)))
			return true;
	}
	return false;
}

static void set_client_step(struct save_client *c, enum client_step step)
{
	(void)pthread_mutex_lock(&c->all->lock);
	c->step = step;
	(void)pthread_cond_broadcast(&c->all->changed);
	(void)pthread_mutex_unlock(&c->all->lock);
}

/* Fail a save if all its ranks here have left and its tables are not complete: it may lack
 * ranks that will never come, and would hold its memory until the deadline. With the lock. */
static void cancel_save_if_ranks_left(struct save *v)
{
	const struct saves *s = v->all;
	struct error why = ERROR_INIT;

	for (size_t i = 0; i < SAVE_CLIENTS_MAX; i++)
		if (s->clients[i].save == v && !s->clients[i].has_left)
			return;
	(void)error_set(&why, ECANCELED,
			"its ranks of node %s ended before all had handed in "
			"their tensors",
			v->terms.members[v->terms.self]);
	save_doom(v, &why);
}

/* Set the save that this client waits for; NULL: none. */
static void client_follow(struct save_client *c, struct save *v)
{
	(void)pthread_mutex_lock(&c->all->lock);
	c->save = v;
	if (v && c->has_left)
		cancel_save_if_ranks_left(v);
	(void)pthread_mutex_unlock(&c->all->lock);
}

/* Check whether the rank has gone. The descriptor belongs to this client as long as it is
 * not over. */
static void check_rank_has_left(struct save_client *c, uint64_t number)
{
	struct saves *s = c->all;
	struct pollfd p;

	(void)pthread_mutex_lock(&s->lock);
	p = (struct pollfd){ .fd = c->fd, .events = POLLRDHUP };
	if (c->number == number && !c->is_over && poll(&p, 1, 0) > 0) {
		c->has_left = true;
		if (c->save)
			cancel_save_if_ranks_left(c->save);
		(void)pthread_cond_broadcast(&s->changed);
	}
	(void)pthread_mutex_unlock(&s->lock);
}

/* Wait for the rank's earlier requests: threads may overtake each other, but the rank's
 * saves must begin in the order in which it sent them. */
static int wait_turn(struct save_client *c, const struct save_terms *t,
		     unsigned int rank, int64_t until_ns, struct error *err)
{
	struct saves *s = c->all;
	bool in_time = true, is_turn;

	(void)pthread_mutex_lock(&s->lock);
	c->rank = rank;
	memcpy(c->job, t->job, sizeof(c->job));
	c->step = CLIENT_JOINS;
	(void)pthread_cond_broadcast(&s->changed);
	(void)eventfd_write(s->wake_fd, 1);
	while (has_earlier_client(c) && in_time && !c->has_left &&
	       !atomic_load(&s->is_ending))
		in_time = cond_wait_until(&s->changed, &s->lock, until_ns);
	is_turn = !has_earlier_client(c);
	(void)pthread_mutex_unlock(&s->lock);
	return is_turn ? 0
		       : error_set(err, ETIMEDOUT,
				   "the rank's save before has not begun");
}

static int join_save(struct save_client *c, json_t *j, int fd,
		     const struct ucred *who, struct save **ret,
		     bool *ret_is_new, unsigned int *ret_rank,
		     struct error *err)
{
	struct saves *s = c->all;
	struct save_terms t = { .path = NULL };
	struct save_rank r = { .uid = who->uid, .gid = who->gid };
	int rc = parse_put_request(s, j, fd, &t, &r, err);
	const size_t bytes = r.size;
	const int64_t until_ns = clock_now_ns() + t.stage_ns;

	*ret_rank = r.rank;
	if (rc == 0 && s->cfg.read_only)
		rc = error_set(err, EROFS, "the mount is read-only");
	if (rc == 0)
		rc = wait_turn(c, &t, r.rank, until_ns, err);
	if (rc == 0)
		rc = saves_take_rank(s, &t, &r, &c->has_left, until_ns, err);
	if (rc == 0) {
		/* Joined with the lock held, so that other ranks of the save that leave see
		 * this client. */
		rc = saves_join(s, &t, &r, &c->save, ret_is_new, err);
		if (rc == 0)
			*ret = c->save;
		else
			saves_give(s, bytes);
	}
	save_terms_fini(&t);
	rank_fini(&r);
	return rc;
}

static void serve_put(struct save_client *c, int sock, json_t *j, int *fd,
		      const struct ucred *who)
{
	struct error err = ERROR_INIT;
	struct save *v = NULL;
	bool is_new = false;
	unsigned int rank;
	int rc = join_save(c, j, *fd, who, &v, &is_new, &rank, &err);

	set_client_step(c, CLIENT_WAITS);
	if (*fd >= 0)
		(void)close(steal_fd(fd));
	if (rc < 0) {
		send_error(sock, &err);
		return;
	}
	client_follow(c, v);
	if (is_new && v->terms.self == 0)
		look_at_path_for_all_nodes(v);
	follow_save(v, rank, sock);
	client_follow(c, NULL);
	save_put(v);
}

static int check_user(const struct saves *s, int sock, struct ucred *ret,
		      struct error *err)
{
	socklen_t len = sizeof(*ret);

	if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, ret, &len) < 0)
		return error_set(err, errno, "peer: %s", strerror(errno));
	if (ret->uid == 0 || ret->uid == s->cfg.owner)
		return 0;
	return error_set(err, EACCES,
			 "user %u is not the one whose --group-key is (%u)",
			 ret->uid, s->cfg.owner);
}

/* Refuse a client. Its unread bytes are read first: closing a socket with unread bytes would
 * discard the answer. */
static void refuse_client(int sock, const struct error *why)
{
	char rest[4096];
	size_t n = 0;
	ssize_t got;

	send_error(sock, why);
	(void)shutdown(sock, SHUT_WR);
	do {
		got = recv(sock, rest, sizeof(rest), 0);
		n += got > 0 ? (size_t)got : 0;
	} while (got > 0 && n <= REQUEST_MAX);
}

/* Serve blocks on the connection from now on; no save waits for this client then. */
static int serve_blocks(struct save_client *c, int sock, json_t *j,
			struct error *err)
{
	const char *cache = json_string_value(json_object_get(j, "cache"));

	if (!c->all->cfg.blocks)
		return error_set(err, EOPNOTSUPP,
				 "the mount keeps no blocks: give it "
				 "--group-blocks");
	if (!cache || strlen(cache) > BLOCK_CACHE_MAX)
		return refuse_request(err);
	set_client_step(c, CLIENT_WAITS);
	blocks_serve(c->all->cfg.blocks, sock, cache);
	return 0;
}

static int serve_reads(struct save_client *c, int sock, json_t *j,
		       const struct ucred *who, struct error *err)
{
	const char *name = json_string_value(json_object_get(j, "path"));
	AUTO_FREE char *path = NULL;
	int rc = name && !c->all->cfg.has_mount
			 ? take_path(c->all, name, &path, err)
			 : refuse_request(err);

	set_client_step(c, CLIENT_WAITS);
	return rc < 0 ? rc : reads_serve(c->all, sock, path, who, err);
}

static void serve_client(struct save_client *c, int sock)
{
	struct saves *s = c->all;
	const struct timeval patience = { .tv_sec = REQUEST_S };
	struct error err = ERROR_INIT;
	AUTO_JSON *j = NULL;
	AUTO_CLOSE int fd = -1;
	struct ucred who;
	const char *op;
	int rc = check_user(s, sock, &who, &err);

	(void)setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &patience,
			 sizeof(patience));
	(void)setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &patience,
			 sizeof(patience));
	if (rc == 0)
		rc = receive_request(sock, &j, &fd, &err);
	op = json_string_value(json_object_get(j, "op"));
	/* Reads need no server address: without other members only the store is read. */
	if (rc == 0 && op && strcmp(op, "read") != 0 &&
	    strcmp(op, "reads") != 0)
		rc = peers_begin(s, &err);
	if (rc == 0 && op && strcmp(op, "hello") == 0)
		send_json(sock, json_pack("{s:s}", "address", s->addr));
	else if (rc == 0 && op && strcmp(op, "reads") == 0)
		send_json(sock, json_pack("{s:b}", "reads", !s->cfg.has_mount));
	else if (rc == 0 && op && strcmp(op, "put") == 0)
		serve_put(c, sock, j, &fd, &who);
	else if (rc == 0 && op && strcmp(op, "blocks") == 0)
		rc = serve_blocks(c, sock, j, &err);
	else if (rc == 0 && op && strcmp(op, "read") == 0)
		rc = serve_reads(c, sock, j, &who, &err);
	else if (rc == 0)
		rc = refuse_request(&err);
	set_client_step(c, CLIENT_WAITS);
	if (rc < 0)
		refuse_client(sock, &err);
}

static pid_t client_pid(int sock)
{
	struct ucred who = { .pid = 0 };
	socklen_t len = sizeof(who);

	(void)!getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &who, &len);
	return who.pid;
}

/* ------------------------------------------------------------------------- the socket --- */

static void *client_main(void *arg)
{
	struct save_client *c = arg;
	struct saves *s = c->all;

	serve_client(c, c->fd);
	/* The accepting thread may be polling the descriptor, which would keep the
	 * connection open: shut it down first. */
	(void)shutdown(c->fd, SHUT_RDWR);
	(void)pthread_mutex_lock(&s->lock);
	(void)close(steal_fd(&c->fd));
	c->is_over = true;
	(void)pthread_mutex_unlock(&s->lock);
	return NULL;
}

/* A free place for a client, or one whose client is over. */
static struct save_client *find_free_client(struct saves *s)
{
	struct save_client *found = NULL;

	(void)pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < SAVE_CLIENTS_MAX && !found; i++)
		if (!s->clients[i].is_used || s->clients[i].is_over)
			found = &s->clients[i];
	(void)pthread_mutex_unlock(&s->lock);
	if (found && found->is_used)
		thread_join(&found->thread);
	return found;
}

static void accept_client(struct saves *s, struct accept_shortage *shortage)
{
	const int fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	struct pollfd end = { .fd = s->end_fd, .events = POLLIN };
	struct save_client *c = fd < 0 ? NULL : find_free_client(s);
	struct error err = ERROR_INIT;

	if (fd < 0) {
		if (shortage_is(errno)) {
			shortage_note(shortage, "save", errno);
			(void)poll(&end, 1, SHORTAGE_PAUSE_NS / NS_PER_MS);
		}
		return;
	}
	if (!c) {
		(void)error_set(&err, EBUSY, "%u requests are under way",
				SAVE_CLIENTS_MAX);
		send_error(fd, &err);
		(void)close(fd);
		return;
	}
	(void)pthread_mutex_lock(&s->lock);
	*c = (struct save_client){ .all = s,
				   .fd = fd,
				   .is_used = true,
				   .number = ++s->n_clients,
				   .pid = client_pid(fd) };
	(void)pthread_mutex_unlock(&s->lock);
	if (thread_start(&c->thread, client_main, c, &err) < 0) {
		send_error(fd, &err);
		(void)close(fd);
		(void)pthread_mutex_lock(&s->lock);
		c->is_used = false;
		(void)pthread_cond_broadcast(&s->changed);
		(void)pthread_mutex_unlock(&s->lock);
	}
}

/* Descriptors that the accepting thread polls: three of its own, and those of clients whose
 * ranks may leave. */
struct watched {
	struct pollfd fds[3 + SAVE_CLIENTS_MAX];
	struct save_client *clients[SAVE_CLIENTS_MAX];
	uint64_t numbers[SAVE_CLIENTS_MAX];
	size_t n; /* clients */
};

static void watch_clients(struct saves *s, struct watched *w)
{
	w->fds[0] = (struct pollfd){ .fd = s->listen_fd, .events = POLLIN };
	w->fds[1] = (struct pollfd){ .fd = s->end_fd, .events = POLLIN };
	w->fds[2] = (struct pollfd){ .fd = s->wake_fd, .events = POLLIN };
	w->n = 0;
	(void)pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < SAVE_CLIENTS_MAX; i++) {
		struct save_client *c = &s->clients[i];

		if (!c->is_used || c->is_over || c->has_left ||
		    c->step == CLIENT_READS)
			continue;
		w->fds[3 + w->n] =
			(struct pollfd){ .fd = c->fd, .events = POLLRDHUP };
		w->clients[w->n] = c;
		w->numbers[w->n++] = c->number;
	}
	(void)pthread_mutex_unlock(&s->lock);
}

static void *accept_main(void *arg)
{
	struct saves *s = arg;
	struct accept_shortage shortage = { .total = 0 };
	struct watched w;
	eventfd_t ignored;
	int rc;

	for (;;) {
		watch_clients(s, &w);
		rc = poll(w.fds, 3 + w.n, -1);
		if (rc < 0 && errno == EINTR)
			continue;
		if (rc < 0 || w.fds[1].revents)
			break;
		if (w.fds[2].revents)
			(void)eventfd_read(s->wake_fd, &ignored);
		for (size_t i = 0; i < w.n; i++)
			if (w.fds[3 + i].revents)
				check_rank_has_left(w.clients[i], w.numbers[i]);
		if (w.fds[0].revents)
			accept_client(s, &shortage);
	}
	return NULL;
}

/* Listen with a mode that only admits users whose requests are accepted, so that others
 * cannot occupy connections. */
static int listen_for_ranks(struct saves *s, struct error *err)
{
	struct stat st;
	int rc = listener_open_unix(s->socket, 0600, 64,
				    "name another --group-socket",
				    &s->listen_fd, err);

	if (rc < 0)
		return rc;
	s->end_fd = eventfd(0, EFD_CLOEXEC);
	s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (s->end_fd >= 0 && s->wake_fd >= 0 &&
	    fcntl(s->listen_fd, F_SETFL, O_NONBLOCK) == 0 &&
	    (s->cfg.owner == geteuid() ||
	     chown(s->socket, s->cfg.owner, (gid_t)-1) == 0) &&
	    lstat(s->socket, &st) == 0) {
		s->socket_dev = st.st_dev;
		s->socket_ino = st.st_ino;
		return 0;
	}
	return error_set(err, errno, "--group-socket '%s': %s", s->socket,
			 strerror(errno));
}

static void close_socket(struct saves *s)
{
	if (s->listen_fd >= 0)
		(void)close(s->listen_fd);
	if (s->end_fd >= 0)
		(void)close(s->end_fd);
	if (s->wake_fd >= 0)
		(void)close(s->wake_fd);
}

int ranks_begin(struct saves *s, struct error *err)
{
	int rc = listen_for_ranks(s, err);

	if (rc == 0)
		rc = thread_start(&s->accepting, accept_main, s, err);
	if (rc < 0)
		close_socket(s);
	return rc;
}

void ranks_end(struct saves *s)
{
	const uint64_t one = 1;
	struct stat st;

	if (lstat(s->socket, &st) == 0 && st.st_dev == s->socket_dev &&
	    st.st_ino == s->socket_ino)
		(void)unlink(s->socket);
	(void)!write(s->end_fd, &one, sizeof(one));
	thread_join(&s->accepting);
	(void)pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < SAVE_CLIENTS_MAX; i++)
		if (s->clients[i].is_used && !s->clients[i].is_over)
			(void)shutdown(s->clients[i].fd, SHUT_RD);
	(void)pthread_mutex_unlock(&s->lock);
	for (size_t i = 0; i < SAVE_CLIENTS_MAX; i++)
		if (s->clients[i].is_used)
			thread_join(&s->clients[i].thread);
	close_socket(s);
}
