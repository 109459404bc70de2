// SPDX-License-Identifier: Apache-2.0
/* Shared by the files of the hdfs: back end, which speaks WebHDFS to name and data nodes, or to
 * HttpFS. */
#ifndef BOOTSEER_OBJECTS_HDFS_STORE_PRIV_H
#define BOOTSEER_OBJECTS_HDFS_STORE_PRIV_H

#include <pthread.h>

#include "common/bytes.h"
#include "net/http.h"
#include "objects/hdfs/hdfs_json.h"
#include "objects/hdfs/hdfs_spread.h"
#include "objects/store/fetch.h"
#include "objects/store/store_lock.h"

#define HDFS_READ \
	(16 * MIB) /* bytes of one range; large, as data nodes close each
	            * connection */
/* Bytes of a put's part, which is also a block. Large parts mean fewer blocks for the name
 * node; small ones allow as many objects to be written at once as a striped file has columns. */
#define HDFS_PART (32 * MIB)
#define HDFS_PART_MIN (4 * MIB)
#define HDFS_PARTS 32u /* parts that the store's memory has to hold */

struct hdfs_store {
	struct object_store base;
	struct http *http;
	struct fetch_history *history;
	struct hdfs_spread spread;
	char **nodes; /* "http://HOST:PORT" of name nodes, or of HttpFS */
	unsigned int n_nodes;
	atomic_uint active; /* index of the node that answered last */
	char *root;         /* "/DIR", or "" */
	/* user.name; NULL: Kerberos or a token names the user. */
	char *user;
	char *doas;       /* user to act for; NULL: none */
	char *token_file; /* file with a delegation token; NULL: none */
	char *life;       /* prefix of the names of running puts; NULL: none */
	bool by_kerberos;
	bool by_append; /* parts are appended: the server cannot join files */
	atomic_size_t block_min; /* shorter blocks were refused */

	/* Protects `token`, and lets one thread request it. */
	pthread_mutex_t lock;
	char *token; /* NULL: none yet */
};

static inline struct hdfs_store *hdfs_store_of(struct object_store *s)
{
	return container_of(s, struct hdfs_store, base);
}

struct hdfs_request {
	const char *method, *op;
	const char *name;   /* name of object or folder; "" is the root */
	const char *params; /* "&a=b", encoded; NULL: none */
	const void *body;   /* sent to the target of the redirect */
	size_t body_len;
	bool is_new_file; /* a new file: any data node accepts it */
	uint64_t place;   /* place of a new file, see hdfs_spread_row() */
	/* Use another data node than that of this URL, if there is one; NULL: any. */
	const char *not_at;
	struct http_sink *sink;
	struct pace *pace;
	int64_t deadline_ns;
	char **moved; /* set to the redirect's target; NULL: not wanted */
};

/* Make one attempt of the request; 0: an answer of 2xx came. */
int hdfs_try(struct hdfs_store *s, struct hdfs_request *r,
	     struct http_response *resp, struct retry_verdict *v,
	     struct error *err) MUST_CHECK;
/* Make the request, with retries within the store's budget. */
int hdfs_call(struct hdfs_store *s, struct hdfs_request *r,
	      struct http_response *resp, struct error *err) MUST_CHECK;
/* Does the error say that the block is shorter than the cluster allows? `err` may be NULL. */
bool hdfs_refuses_block(const struct error *err);
/* Does this result mean that the data node is broken and should get no more files for now? */
bool hdfs_node_is_broken(int rc, const struct error *err);
/* Make one attempt at the URL of a data node. */
int hdfs_try_url(struct hdfs_store *s, const char *url,
		 const struct hdfs_request *r, struct http_response *resp,
		 struct retry_verdict *v, struct error *err) MUST_CHECK;

/* Append a parameter with a path: "&KEY=/ROOT/NAME". */
int hdfs_add_path(const struct hdfs_store *s, struct buf *b, const char *key,
		  const char *name, struct error *err) MUST_CHECK;

/* Get the status of a file or folder. -ENOENT: neither. */
int hdfs_look(struct hdfs_store *s, const char *name, struct hdfs_status *ret,
	      struct error *err) MUST_CHECK;
void hdfs_stat_fill(const struct hdfs_status *st, struct object_stat *ret);
/* As store_temporary(); object_store_fence() finds it. */
char *hdfs_temporary(const struct hdfs_store *s) MUST_CHECK;
/* Remove a file, or a folder with its contents; success if it is gone already. `deadline_ns` 0:
 * only the store's budget limits it. */
int hdfs_remove_all(struct hdfs_store *s, const char *name, int64_t deadline_ns,
		    struct error *err) MUST_CHECK;
/* Send one RENAME. *ret_done is false when the server, an HttpFS, does not know
 * `renameoptions` and refuses without a reason. */
int hdfs_rename_once(struct hdfs_store *s, const char *from, const char *to,
		     bool replace, bool *ret_done,
		     struct error *err) MUST_CHECK;
/* Rename the file with inode `id`; makes missing folders. */
int hdfs_move(struct hdfs_store *s, const char *from, uint64_t id,
	      const char *to, enum object_condition condition,
	      struct error *err) MUST_CHECK;
/* Call `fn` for each entry of a folder; -ENOENT: no such folder. */
int hdfs_list_folder(struct hdfs_store *s, const char *folder,
		     hdfs_status_fn *fn, void *arg,
		     struct error *err) MUST_CHECK;

/* Members of the vtable. */
int hdfs_store_stat(struct object_store *s, const char *name,
		    struct object_stat *ret, struct error *err);
int hdfs_store_list(struct object_store *s, const char *folder, bool deep,
		    object_list_fn *fn, void *arg, struct error *err);
int hdfs_store_fence(struct object_store *s, const char *life,
		     struct error *err);
int hdfs_store_sweep(struct object_store *s, const char *folder,
		     int64_t before_ms, size_t *ret_n, struct error *err);
int hdfs_store_open_object(struct object_store *s, const char *name,
			   struct object **ret, struct error *err);
int hdfs_store_read(struct object *o, const struct object_range *ranges,
		    size_t n, int64_t deadline_ns, struct error *err);
void hdfs_store_close(struct object *o);
int hdfs_store_put_open(struct object_store *s, const char *name,
			const struct object_put_options *opts,
			struct object_put **ret, struct error *err);
int hdfs_store_put_commit(struct object_put *p, struct object_stat *ret,
			  struct error *err);
void hdfs_store_put_free(struct object_put *p);
int hdfs_store_probe(struct object_store *s, struct error *err);

#endif
