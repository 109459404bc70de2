// SPDX-License-Identifier: Apache-2.0
/* The request handlers of a mount, grouped by subject. */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_OPS_H
#define BOOTSEER_CKPT_FUSE_MOUNT_OPS_H

#include <fuse3/fuse_lowlevel.h>

#include "ckpt-fuse/mount/mount.h"

static inline struct ckpt_mount *mount_of(fuse_req_t req)
{
	return session_owner(session_of(req));
}

/* Answer with 0, or with an errno that programs understand. Errors that need an explanation are
 * logged, with the file if known. */
void ops_reply(fuse_req_t req, struct ckpt_node *n, const char *what, int rc,
	       const struct error *err);
/* Answer a failed request that is about no file. */
void ops_fail(fuse_req_t req, const char *what, int rc,
	      const struct error *err);

/* Adapt the result `rc` of a request about a node, which may be NULL. If the file is gone, ENOENT
 * would be wrong for a name that the kernel has just looked up. With ESTALE the kernel looks the
 * name up again, so that O_CREAT makes a new file. */
int ops_of_node(struct ckpt_mount *m, struct ckpt_node *n, int rc);

/* Get the attributes of a file or folder for the kernel. -ENOENT, or the store's error. */
int ops_stat(struct ckpt_mount *m, struct ckpt_node *n, struct stat *ret,
	     struct error *err) MUST_CHECK;
void ops_reply_entry(fuse_req_t req, struct ckpt_mount *m, struct ckpt_node *n);
int ops_entry(struct ckpt_mount *m, struct ckpt_node *n,
	      struct fuse_entry_param *ret, struct error *err) MUST_CHECK;

/* Look a name up in the store; `*ret` is its node, with a reference. */
int ops_find(struct ckpt_mount *m, struct ckpt_node *parent, const char *name,
	     struct ckpt_node **ret, struct error *err) MUST_CHECK;
/* Set -ESTALE: the version that a reader of the previous process has open no longer exists. */
int ops_is_gone(struct error *err);

void ops_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void ops_forget(fuse_req_t req, fuse_ino_t ino, uint64_t n);
void ops_forget_multi(fuse_req_t req, size_t count,
		      struct fuse_forget_data *forgets);
void ops_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ops_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set,
		 struct fuse_file_info *fi);
void ops_statfs(fuse_req_t req, fuse_ino_t ino);

void ops_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ops_create(fuse_req_t req, fuse_ino_t parent, const char *name,
		mode_t mode, struct fuse_file_info *fi);
void ops_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
	      struct fuse_file_info *fi);
void ops_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size,
	       off_t off, struct fuse_file_info *fi);
void ops_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off,
		   off_t len, struct fuse_file_info *fi);
void ops_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ops_fsync(fuse_req_t req, fuse_ino_t ino, int datasync,
	       struct fuse_file_info *fi);
void ops_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);

void ops_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
		  const char *value, size_t size, int flags);
void ops_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);
void ops_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);
void ops_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name,
		  size_t size);

void ops_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ops_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
		 struct fuse_file_info *fi);
void ops_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void ops_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync,
		  struct fuse_file_info *fi);
void ops_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name,
	       mode_t mode);
void ops_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void ops_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void ops_rename(fuse_req_t req, fuse_ino_t parent, const char *name,
		fuse_ino_t to_parent, const char *to_name, unsigned int flags);
void ops_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent,
	      const char *name);
void ops_symlink(fuse_req_t req, const char *target, fuse_ino_t parent,
		 const char *name);
void ops_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode,
	       dev_t dev);

#endif
