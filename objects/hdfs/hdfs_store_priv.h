// SPDX-License-Identifier: Apache-2.0
/* The parts of the hdfs: back end, which speaks WebHDFS to name and data nodes, or to
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
	(16 * MIB) /* of one range: data nodes close each connection */
/* Bytes of a put's part, which is a block, too. Large parts are fewer blocks for the name
 * node; small ones let as many objects be written at a time as a striped file has
 * columns. */
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
	atomic_uint active; /* the one that answered last */
	char *root;         /* "/DIR", or "" */
	char *user;         /* user.name; NULL: by Kerberos, or by a token */
	char *doas;         /* whom we act for; NULL: ourselves */
	char *token_file;   /* of a delegation token; NULL: none */
	char *life; /* begins names of puts under way; NULL: none is known */
	bool by_kerberos;
	bool by_append; /* parts are appended: the server cannot join files */
	atomic_size_t block_min; /* shorter blocks were refused */

	pthread_mutex_t lock; /* protects token, and that one asks for it */
	char *token;          /* NULL: none yet */
};

static inline struct hdfs_store *hdfs_store_of(struct object_store *s)
{
	return container_of(s, struct hdfs_store, base);
}

struct hdfs_request {
	const char *method, *op;
	const char *name;   /* of the object or folder; "" is the root */
	const char *params; /* "&a=b", encoded; NULL: none */
	const void *body;   /* goes to where the redirect leads */
	size_t body_len;
	bool is_new_file; /* any data node takes it */
	uint64_t place;   /* of a new file, of hdfs_spread_row() */
	const char
		*not_at; /* another data node than that of this URL is wanted,
			     * if there is one; NULL: any */
	struct http_sink *sink;
	struct pace *pace;
	int64_t deadline_ns;
	char **moved; /* gets where the redirect led; NULL: nobody asks */
};

/* Make one attempt of the request; 0: an answer of 2xx came. */
int hdfs_try(struct hdfs_store *s, struct hdfs_request *r,
	     struct http_response *resp, struct retry_verdict *v,
	     struct error *err) MUST_CHECK;
/* Attempts within the store's budget. */
int hdfs_call(struct hdfs_store *s, struct hdfs_request *r,
	      struct http_response *resp, struct error *err) MUST_CHECK;
/* Is it the cluster's bound of the lengths of blocks?  `err` may be NULL. */
bool hdfs_refuses_block(const struct error *err);
/* Did a data node that ended so fail, so that no other file is sent there for now? */
bool hdfs_node_is_broken(int rc, const struct error *err);
/* Make one attempt at the URL of a data node. */
int hdfs_try_url(struct hdfs_store *s, const char *url,
		 const struct hdfs_request *r, struct http_response *resp,
		 struct retry_verdict *v, struct error *err) MUST_CHECK;

/* A parameter that names a place: "&KEY=/ROOT/NAME". */
int hdfs_add_path(const struct hdfs_store *s, struct buf *b, const char *key,
		  const char *name, struct error *err) MUST_CHECK;

/* File or folder.  -ENOENT: neither. */
int hdfs_look(struct hdfs_store *s, const char *name, struct hdfs_status *ret,
	      struct error *err) MUST_CHECK;
void hdfs_stat_fill(const struct hdfs_status *st, struct object_stat *ret);
/* As store_temporary(); object_store_fence() finds it. */
char *hdfs_temporary(const struct hdfs_store *s) MUST_CHECK;
/* Remove a file, or a folder with all that is in it; gone is well.  `deadline_ns` 0:
 * the store's budget alone ends it. */
int hdfs_remove_all(struct hdfs_store *s, const char *name, int64_t deadline_ns,
		    struct error *err) MUST_CHECK;
/* Send one RENAME. *ret_done is false when the server, an HttpFS, does not know
 * `renameoptions` and refuses without a reason. */
int hdfs_rename_once(struct hdfs_store *s, const char *from, const char *to,
		     bool replace, bool *ret_done,
		     struct error *err) MUST_CHECK;
/* Give the file of that inode another name; folders are made. */
int hdfs_move(struct hdfs_store *s, const char *from, uint64_t id,
	      const char *to, enum object_condition condition,
	      struct error *err) MUST_CHECK;
/* Call `fn` for all in a folder; -ENOENT: there is none. */
int hdfs_list_folder(struct hdfs_store *s, const char *folder,
		     hdfs_status_fn *fn, void *arg,
		     struct error *err) MUST_CHECK;

/* The vtable's. */
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
void *hdfs_store_put_room(struct object_put *p, size_t len);
int hdfs_store_put_write(struct object_put *p, const void *data, size_t len,
			 struct error *err);
int hdfs_store_put_commit(struct object_put *p, struct object_stat *ret,
			  struct error *err);
void hdfs_store_put_free(struct object_put *p);
int hdfs_store_probe(struct object_store *s, struct error *err);

#endif
