// SPDX-License-Identifier: Apache-2.0
/*
 * libbootseer: ranks of a job save together, and programs keep blocks of a KV cache, through
 * mounts of BootSeer with --group-socket. The manual is bootseer(3).
 *
 * A function returns 0 or a negative errno, and describes the error in `err`, unless that is
 * NULL. Only one thread at a time may use a group, a save or a cache; other threads open their
 * own. A group may be closed before its saves are.
 */
#ifndef BOOTSEER_H
#define BOOTSEER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct bootseer_error {
	int code; /* a positive errno */
	char text[512];
};

/* ---- saves */

struct bootseer_group;
struct bootseer_save;

#define BOOTSEER_ADDRESS_MAX 64

/* Get the address at which the mounts of other nodes reach the mount with this
 * --group-socket. The ranks must exchange these addresses. */
int bootseer_address(const char *socket, char ret[BOOTSEER_ADDRESS_MAX],
		     struct bootseer_error *err);

struct bootseer_group_options {
	const char *socket; /* --group-socket of this node's mount */
	unsigned int rank;  /* rank of the caller */
	/* For each of the ranks, the address of its node's mount. */
	const char *const *addresses;
	size_t n_ranks;
	const char *
		/* a name that this run has on all ranks, and that no other run has */
		job;
	/* Longest time until a save is buffered, and from then until it is durable; 0: ten
	 * minutes, an hour. */
	unsigned int buffered_ms, durable_ms;
};

/* Copies the options. */
int bootseer_group_open(const struct bootseer_group_options *options,
			struct bootseer_group **ret,
			struct bootseer_error *err);
void bootseer_group_close(struct bootseer_group *g);

/* A tensor as a safetensors file describes it: dtype is "F32", "BF16", "U8", ... */
struct bootseer_tensor {
	const char *name, *dtype;
	const uint64_t *shape;
	size_t n_dims;
	const void *data;
	size_t len; /* bytes */
};

/* Save the tensors of all ranks as one file. `path` is on the mount, or relative to its
 * root. All ranks must make the same saves in the same order. Copies the tensors. */
int bootseer_put(struct bootseer_group *g, const char *path,
		 const struct bootseer_tensor *tensors, size_t n,
		 struct bootseer_save **ret, struct bootseer_error *err);

enum bootseer_state {
	/* Every byte is in the memory of two nodes, or of one if the job has only one node. */
	BOOTSEER_BUFFERED = 1,
	BOOTSEER_DURABLE = 2, /* the file is in the store, whole */
};

/* Wait until the save reaches the state; a negative timeout waits without limit. //
 * -ETIMEDOUT  not reached yet: wait again //   -EIO        it cannot be reached any more */
int bootseer_wait(struct bootseer_save *s, enum bootseer_state state,
		  int timeout_ms, struct bootseer_error *err);
/* Forget a save. If all ranks of a node forget it before it is buffered, it may fail. */
void bootseer_save_free(struct bootseer_save *s);

/* Read this rank's tensor `name`, of exactly `len` bytes, from a file on the mount that
 * bootseer_put() made. */
int bootseer_get(struct bootseer_group *g, const char *path, const char *name,
		 void *data, size_t len, struct bootseer_error *err);

/* ---- blocks of a KV cache: mounts with --group-blocks */

struct bootseer_cache;

/* `name` must differ wherever equal keys could mean different blocks: model, data type,
 * layout. */
int bootseer_cache_open(const char *socket, const char *name,
			struct bootseer_cache **ret,
			struct bootseer_error *err);
void bootseer_cache_close(struct bootseer_cache *c);

/* Keep the bytes under a key of 1 to 1024 bytes.  -ENOBUFS: there is no room. */
int bootseer_cache_put(struct bootseer_cache *c, const void *key,
		       size_t key_len, const void *data, size_t len,
		       struct bootseer_error *err);
/* Get a block's bytes, readable until bootseer_cache_release(). -ENOENT: no node has the
 * block. */
int bootseer_cache_get(struct bootseer_cache *c, const void *key,
		       size_t key_len, const void **ret, size_t *ret_len,
		       struct bootseer_error *err);
void bootseer_cache_release(const void *data, size_t len);
/* Does any node have the block? -ENOENT: no. */
int bootseer_cache_has(struct bootseer_cache *c, const void *key,
		       size_t key_len, struct bootseer_error *err);

#ifdef __cplusplus
}
#endif

#endif
