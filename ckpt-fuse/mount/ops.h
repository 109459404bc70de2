// SPDX-License-Identifier: Apache-2.0
/* The operations of a mount, by what they are about. */
#ifndef BOOTSEER_CKPT_FUSE_MOUNT_OPS_H
#define BOOTSEER_CKPT_FUSE_MOUNT_OPS_H

#include <fuse3/fuse_lowlevel.h>

#include "ckpt-fuse/mount/mount.h"

static inline struct ckpt_mount *mount_of(fuse_req_t req)
{
	return session_owner(session_of(req));
}

/* Answer with 0, or the errno that a program knows what to do with; what nobody could guess
 * is in the log, with the file, where that is known. */
void ops_reply(fuse_req_t req, struct ckpt_node *n, const char *what, int rc,
	       const struct error *err);
/* A failure of no file. */
void ops_fail(fuse_req_t req, const char *what, int rc,
	      const struct error *err);

/* The result `rc` of a request about a node, which may be NULL.  That its file is not there
 * any more would be an answer about a name that the kernel has known for up to a second; of
 * ESTALE it looks the name up again, so that O_CREAT makes a new one. */
int ops_of_node(struct ckpt_mount *m, struct ckpt_node *n, int rc);

/* Attributes of a file or folder for the kernel. -ENOENT, and what the store says. */
int ops_stat(struct ckpt_mount *m, struct ckpt_node *n, struct stat *ret,
	     struct error *err) MUST_CHECK;
void ops_reply_entry(fuse_req_t req, struct ckpt_mount *m, struct ckpt_node *n);
int ops_entry(struct ckpt_mount *m, struct ckpt_node *n,
	      struct fuse_entry_param *ret, struct error *err) MUST_CHECK;

/* Look a name up in the store: its node, in use. */
int ops_find(struct ckpt_mount *m, struct ckpt_node *parent, const char *name,
	     struct ckpt_node **ret, struct error *err) MUST_CHECK;
/* -ESTALE: what a predecessor's reader has open is not there any more. */
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
