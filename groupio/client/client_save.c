// SPDX-License-Identifier: Apache-2.0
/* Saves of ranks (docs/formats/group-save.md), and reads of the files that they make. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/bounded_json.h"
#include "common/bytes.h"
#include "common/clock.h"
#include "common/digest.h"
#include "groupio/client/client_priv.h"

#define ALIGN 64u
#define ANSWER_NS (60 * NS_PER_S)
#define BUFFERED_MS 600000u
#define DURABLE_MS 3600000u
#define HEADER_MAX (100u << 20) /* bytes; limit of safetensors */
#define HEADER_VALUES_MAX (1u << 22)
#define JOB_LEN 32

struct bootseer_group {
	char *socket;
	unsigned int rank, number;
	unsigned int buffered_ms, durable_ms;
	char job[JOB_LEN + 1];
	json_t *members, *nodes;
};

struct bootseer_save {
	int sock;
	struct buf rest;
	int state;        /* enum bootseer_state; 0: none yet */
	struct error err; /* code 0: the save has not failed */
};

CLIENT_API int bootseer_address(const char *socket,
				char ret[BOOTSEER_ADDRESS_MAX],
				struct bootseer_error *err)
{
	struct error why = ERROR_INIT;
	AUTO_BUF rest = BUF_INIT;
	AUTO_JSON *said = NULL;
	AUTO_CLOSE int sock = -1;
	const char *address;
	int rc = client_call(socket, json_pack("{s:s}", "op", "hello"), -1,
			     &sock, &why);

	if (rc == 0)
		rc = client_line(sock, &rest, clock_now_ns() + ANSWER_NS, &said,
				 &why);
	address = json_string_value(json_object_get(said, "address"));
	if (rc == 0 && (!address || strlen(address) >= BOOTSEER_ADDRESS_MAX))
		rc = error_set(&why, EACCES, "the mount at '%s': %.300s",
			       socket,
			       json_string_value(
				       json_object_get(said, "reason"))
				       ?: "it has no address");
	if (rc == 0)
		(void)snprintf(ret, BOOTSEER_ADDRESS_MAX, "%s", address);
	return client_error(rc, &why, err);
}

/* ------------------------------------------------------------------------ groups --- */

static int find_member(const json_t *members, const char *address)
{
	const size_t n = json_array_size(members);
	size_t i = 0;

	while (i < n && strcmp(json_string_value(json_array_get(members, i)),
			       address) != 0)
		i++;
	return (int)i;
}

static bool add_rank(struct bootseer_group *g, const char *address)
{
	const int at = find_member(g->members, address);

	if ((size_t)at == json_array_size(g->members) &&
	    json_array_append_new(g->members, json_string(address)) < 0)
		return false;
	return json_array_append_new(g->nodes, json_integer(at)) == 0;
}

static int fill_group_options(struct bootseer_group *g,
			      const struct bootseer_group_options *o,
			      struct error *err)
{
	char text[DIGEST_STR_MAX];
	struct digest d;
	bool ok;

	g->socket = strdup(o->socket);
	g->rank = o->rank;
	g->buffered_ms = o->buffered_ms ? o->buffered_ms : BUFFERED_MS;
	g->durable_ms = o->durable_ms ? o->durable_ms : DURABLE_MS;
	g->members = json_array();
	g->nodes = json_array();
	ok = g->socket && g->members && g->nodes &&
	     digest_of(o->job, strlen(o->job), &d) == 0;
	for (size_t i = 0; ok && i < o->n_ranks; i++)
		ok = add_rank(g, o->addresses[i]);
	if (!ok)
		return error_nomem(err);
	digest_format(&d, text);
	(void)snprintf(g->job, sizeof(g->job), "%.*s", JOB_LEN,
		       strchr(text, ':') + 1);
	return 0;
}

CLIENT_API int bootseer_group_open(const struct bootseer_group_options *options,
				   struct bootseer_group **ret,
				   struct bootseer_error *err)
{
	struct bootseer_group *g = calloc(1, sizeof(*g));
	struct error why = ERROR_INIT;
	int rc = g ? fill_group_options(g, options, &why) : error_nomem(&why);

	if (rc < 0)
		bootseer_group_close(g);
	else
		*ret = g;
	return client_error(rc, &why, err);
}

CLIENT_API void bootseer_group_close(struct bootseer_group *g)
{
	if (!g)
		return;
	json_decref(g->members);
	json_decref(g->nodes);
	free(g->socket);
	free(g);
}

/* ------------------------------------------------------------------------- saving --- */

static size_t pad_len(size_t len)
{
	return (len + ALIGN - 1) / ALIGN * ALIGN;
}

static json_t *describe_tensors(const struct bootseer_tensor *tensors, size_t n,
				size_t *ret_size)
{
	json_t *table = json_array();
	size_t at = 0;

	for (size_t i = 0; table && i < n; i++) {
		const struct bootseer_tensor *t = &tensors[i];
		json_t *shape = json_array();
		bool ok = shape != NULL;

		for (size_t k = 0; ok && k < t->n_dims; k++)
			ok = json_array_append_new(shape,
						   json_integer(
							   (json_int_t)t->shape
								   [k])) == 0;
		ok = ok &&
		     json_array_append_new(table,
					   json_pack("[s,s,O,I,I]", t->name,
						     t->dtype, shape,
						     (json_int_t)at,
						     (json_int_t)t->len)) == 0;
		json_decref(shape);
		at += pad_len(t->len);
		if (!ok) {
			json_decref(table);
			table = NULL;
		}
	}
	*ret_size = at;
	return table;
}

static int stage_tensors(const struct bootseer_tensor *tensors, size_t n,
			 size_t size, int *ret_fd, struct error *err)
{
	char *map;
	size_t at = 0;
	int rc = client_memory_new(size, ret_fd, &map, err);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < n; i++) {
		if (tensors[i].len)
			memcpy(map + at, tensors[i].data, tensors[i].len);
		at += pad_len(tensors[i].len);
	}
	return client_memory_seal(*ret_fd, map, size, err);
}

static json_t *describe_save(const struct bootseer_group *g, const char *path,
			     json_t *table)
{
	return json_pack("{s:s,s:s,s:I,s:s,s:I,s:O,s:O,s:O,s:I,s:I}", "op",
			 "put", "job", g->job, "number", (json_int_t)g->number,
			 "path", path, "rank", (json_int_t)g->rank, "members",
			 g->members, "nodes", g->nodes, "tensors", table,
			 "stage_ms", (json_int_t)g->buffered_ms, "store_ms",
			 (json_int_t)g->durable_ms);
}

CLIENT_API int bootseer_put(struct bootseer_group *g, const char *path,
			    const struct bootseer_tensor *tensors, size_t n,
			    struct bootseer_save **ret,
			    struct bootseer_error *err)
{
	struct bootseer_save *s = calloc(1, sizeof(*s));
	struct error why = ERROR_INIT;
	AUTO_CLOSE int fd = -1;
	size_t size;
	AUTO_JSON *table = describe_tensors(tensors, n, &size);
	int rc = s && table ? 0 : error_nomem(&why);

	/* Count the save before it can fail: otherwise this rank's later saves would have
	 * other numbers than the other ranks'. */
	g->number++;
	if (rc == 0)
		rc = stage_tensors(tensors, n, size, &fd, &why);
	if (rc == 0)
		rc = client_call(g->socket, describe_save(g, path, table), fd,
				 &s->sock, &why);
	if (rc < 0)
		free(s);
	else
		*ret = s;
	return client_error(rc, &why, err);
}

static void set_save_state(struct bootseer_save *s, const json_t *said)
{
	const char *state = json_string_value(json_object_get(said, "state"));
	const char *reason = json_string_value(json_object_get(said, "reason"));

	if (state && strcmp(state, "buffered") == 0)
		s->state = BOOTSEER_BUFFERED;
	else if (state && strcmp(state, "durable") == 0)
		s->state = BOOTSEER_DURABLE;
	else
		(void)error_set(&s->err, EIO, "not saved: %.400s",
				reason ? reason : "the mount did not say why");
}

CLIENT_API int bootseer_wait(struct bootseer_save *s, enum bootseer_state state,
			     int timeout_ms, struct bootseer_error *err)
{
	const int64_t until_ns =
		timeout_ms < 0 ? INT64_MAX
			       : clock_now_ns() + timeout_ms * NS_PER_MS;
	struct error why = ERROR_INIT;

	while (s->state < (int)state && !s->err.code) {
		AUTO_JSON *said = NULL;
		const int rc =
			client_line(s->sock, &s->rest, until_ns, &said, &why);

		if (rc == -ETIMEDOUT)
			return client_error(rc, &why, err);
		if (rc < 0)
			(void)error_set(&s->err, EIO,
					"it is not known whether it was saved: "
					"%.300s",
					why.msg);
		else
			set_save_state(s, said);
	}
	return s->state >= (int)state ? 0 : client_error(-EIO, &s->err, err);
}

CLIENT_API void bootseer_save_free(struct bootseer_save *s)
{
	if (!s)
		return;
	(void)close(s->sock);
	buf_fini(&s->rest);
	free(s);
}

/* ------------------------------------------------------------------------ reading --- */

static int read_at(int fd, void *data, size_t len, uint64_t off,
		   struct error *err)
{
	char *to = data;

	while (len) {
		const ssize_t n = pread(fd, to, len, (off_t)off);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_errno(err, errno, "read");
		if (!n)
			return error_set(err, EINVAL, "the file is cut");
		to += n;
		len -= (size_t)n;
		off += (uint64_t)n;
	}
	return 0;
}

static int read_header(int fd, json_t **ret, uint64_t *ret_at,
		       struct error *err)
{
	AUTO_FREE char *text = NULL;
	uint8_t head[8];
	struct stat st;
	uint64_t len;
	int rc = read_at(fd, head, sizeof(head), 0, err);

	if (rc < 0)
		return rc;
	len = get_le64(head);
	if (fstat(fd, &st) < 0 || !len || len > HEADER_MAX ||
	    len > (uint64_t)st.st_size)
		return error_set(err, EINVAL, "it is no safetensors file");
	text = malloc((size_t)len);
	if (!text)
		return error_nomem(err);
	*ret_at = 8 + len;
	rc = read_at(fd, text, (size_t)len, 8, err);
	return rc < 0 ? rc
		      : bounded_json_load_large(text, (size_t)len,
						HEADER_VALUES_MAX, "the header",
						ret, err);
}

/* Find a tensor in the header by its name or by an alias, which stands for a tensor with the
 * same bytes. */
static json_t *find_name(const json_t *header, const char *name)
{
	json_t *entry = json_object_get(header, name);
	const char *other = json_string_value(
		json_object_get(json_object_get(header, "__metadata__"), name));

	return entry || !other ? entry : json_object_get(header, other);
}

static json_t *find_tensor(const struct bootseer_group *g, const json_t *header,
			   const char *name)
{
	AUTO_BUF own = BUF_INIT;
	json_t *entry = NULL;

	if (buf_printf(&own, "%s@rank%u", name, g->rank) == 0)
		entry = find_name(header, own.data);
	return entry ? entry : find_name(header, name);
}

static int read_tensor(const struct bootseer_group *g, int fd, const char *name,
		       void *data, size_t len, struct error *err)
{
	AUTO_JSON *header = NULL;
	json_int_t from, to;
	uint64_t at = 0;
	json_t *entry;
	int rc = read_header(fd, &header, &at, err);

	if (rc < 0)
		return rc;
	entry = find_tensor(g, header, name);
	if (!entry)
		return error_set(err, ENOENT, "it has no tensor '%s'", name);
	if (json_unpack(entry, "{s:[I,I]}", "data_offsets", &from, &to) < 0 ||
	    from < 0 || to < from)
		return error_set(err, EINVAL, "it is no safetensors file");
	if ((uint64_t)(to - from) != len)
		return error_set(err, EINVAL,
				 "'%s' has %" PRIu64 " bytes, not %zu", name,
				 (uint64_t)(to - from), len);
	return read_at(fd, data, len, at + (uint64_t)from, err);
}

CLIENT_API int bootseer_get(struct bootseer_group *g, const char *path,
			    const char *name, void *data, size_t len,
			    struct bootseer_error *err)
{
	struct error why = ERROR_INIT;
	AUTO_CLOSE int fd = open(path, O_RDONLY | O_CLOEXEC);
	int rc = fd < 0 ? error_set(&why, errno, "%s", strerror(errno))
			: read_tensor(g, fd, name, data, len, &why);

	if (rc < 0)
		rc = error_wrap(&why, rc, "'%s'", path);
	return client_error(rc, &why, err);
}
