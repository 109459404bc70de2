// SPDX-License-Identifier: Apache-2.0
/*
 * libbootseer: ranks of a job that save together, and blocks of a KV cache, by mounts of BootSeer
 * with --group-socket.  bootseer(3) is its manual.
 *
 * A function returns 0 or a negative errno, and says in `err`, unless that is NULL, what was the
 * matter.  One thread at a time may use a group, a save or a cache; several threads have several.
 * A group may be closed before its saves are.
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

/* The address of the mount with this --group-socket, by which the mounts of other nodes ask it.
 * Ranks tell each other theirs. */
int bootseer_address(const char *socket, char ret[BOOTSEER_ADDRESS_MAX],
		     struct bootseer_error *err);

struct bootseer_group_options {
	const char *socket; /* --group-socket of this node's mount */
	unsigned int rank;  /* this one */
	/* For each of the ranks, the address of its node's mount. */
	const char *const *addresses;
	size_t n_ranks;
	const char *
		job; /* a name of this run, the same on all ranks, that no other run has */
	/* Until a save is buffered, and from then until it is durable; 0: ten minutes, an hour. */
	unsigned int buffered_ms, durable_ms;
};

/* Copies the options. */
int bootseer_group_open(const struct bootseer_group_options *options,
			struct bootseer_group **ret,
			struct bootseer_error *err);
void bootseer_group_close(struct bootseer_group *g);

/* As a safetensors file has it: dtype is "F32", "BF16", "U8", .. */
struct bootseer_tensor {
	const char *name, *dtype;
	const uint64_t *shape;
	size_t n_dims;
	const void *data;
	size_t len; /* bytes */
};

/* Save the tensors of all ranks as one file.  `path` is on the mount, or from its root on.  Every
 * rank saves as often as the others do, and in their order.  Copies the tensors. */
int bootseer_put(struct bootseer_group *g, const char *path,
		 const struct bootseer_tensor *tensors, size_t n,
		 struct bootseer_save **ret, struct bootseer_error *err);

enum bootseer_state {
	/* Every byte is in the memory of two nodes; of one, where there is one alone. */
	BOOTSEER_BUFFERED = 1,
	BOOTSEER_DURABLE = 2, /* the file is in the store, whole */
};

/* Wait until the save has the state; a negative timeout is none.
 *   -ETIMEDOUT  it has not yet: wait again
 *   -EIO        it will not */
int bootseer_wait(struct bootseer_save *s, enum bootseer_state state,
		  int timeout_ms, struct bootseer_error *err);
/* Forget it.  A save that all ranks of a node forget before it is buffered may fail. */
void bootseer_save_free(struct bootseer_save *s);

/* Read this rank's tensor of that name, of exactly `len` bytes, from a file on the mount that
 * bootseer_put() made. */
int bootseer_get(struct bootseer_group *g, const char *path, const char *name,
		 void *data, size_t len, struct bootseer_error *err);

/* ---- blocks of a KV cache: mounts with --group-blocks */

struct bootseer_cache;

/* `name` is whatever makes blocks of equal keys equal: a model, its type, its layout. */
int bootseer_cache_open(const char *socket, const char *name,
			struct bootseer_cache **ret,
			struct bootseer_error *err);
void bootseer_cache_close(struct bootseer_cache *c);

/* Keep the bytes under a key of 1 to 1024 bytes.  -ENOBUFS: there is no room. */
int bootseer_cache_put(struct bootseer_cache *c, const void *key,
		       size_t key_len, const void *data, size_t len,
		       struct bootseer_error *err);
/* -ENOENT: nobody has the block.  Otherwise its bytes, to be read until
 * bootseer_cache_release(). */
int bootseer_cache_get(struct bootseer_cache *c, const void *key,
		       size_t key_len, const void **ret, size_t *ret_len,
		       struct bootseer_error *err);
void bootseer_cache_release(const void *data, size_t len);
/* -ENOENT: nobody has the block. */
int bootseer_cache_has(struct bootseer_cache *c, const void *key,
		       size_t key_len, struct bootseer_error *err);

#ifdef __cplusplus
}
#endif

#endif
