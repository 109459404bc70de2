// SPDX-License-Identifier: Apache-2.0
/*
 * Inside of the search for what a start reads.
 *
 *   closure.c         the search: files are looked into round by round
 *   closure_script.c  commands: "#!", shell scripts
 *   closure_elf.c     programs and libraries
 *   closure_python.c  the interpreter's start files, modules
 *   closure_java.c    the virtual machine's start files
 *   closure_search.c  files that were found, and their bytes
 *   elf.c, python_*.c, ld_cache.c, rootfs.c  know nothing of a search
 */
#ifndef BOOTSEER_IMAGE_CLOSURE_CLOSURE_PRIV_H
#define BOOTSEER_IMAGE_CLOSURE_CLOSURE_PRIV_H

#include "common/buf.h"
#include "image/closure/closure.h"
#include "image/closure/elf.h"
#include "image/closure/rootfs.h"

#define CLOSURE_TEXT_MAX (1u << 20) /* bytes of a script or module looked at */
#define PYTHON_FOLDERS_MAX 32u
#define CLOSURE_LIBRARIES_MAX 1024u

struct closure;
struct closure_file;

/* Looks into a file whose wanted bytes have been fetched. */
typedef int closure_look_fn(struct closure *c, struct closure_file *f,
			    struct error *err);

/* A file that is looked into, or will be. */
struct closure_file {
	struct erofs_inode inode;
	char *path;            /* without links */
	struct elf_range want; /* bytes of it that `look` needs */
	closure_look_fn *look;
	struct elf_head
		/* parsed head, kept between two steps of looking into the file */
		*elf;
	struct elf_dynamic *dynamic;
};

/* Where Python finds modules; `n` is 0 until an interpreter was found. */
struct python_paths {
	char *folders[PYTHON_FOLDERS_MAX];
	size_t n;
	size_t standard; /* index of the standard library's folder */
	unsigned int minor;
};

struct closure {
	const struct erofs_image *img;
	const struct closure_start *start;
	const struct closure_ops *ops;
	void *arg;
	/* Looks into programs: closure_look_program(), which knows all of their kinds. */
	closure_look_fn *look_program;
	uint8_t *seen; /* a bit for each nid: set for files that were found */
	uint64_t n_nids;
	struct closure_file *files; /* `done` of them were looked into */
	size_t n_files, cap_files, done;
	struct device_span *ranges;
	size_t n_ranges, cap_ranges;
	size_t n_told; /* of the ranges, that were fetched during the search */
	uint64_t told_bytes;
	uint64_t n_read; /* bytes read from files */
	/* names looked up in paths, and entries of folders that were listed */
	size_t n_lookups;
	unsigned int n_machines; /* times that a Java virtual machine is run */
	/* nested shells whose texts are being scanned */
	unsigned int n_shells;
	/* Names of libraries that were looked for, each only once, as by the loader. */
	char *libraries[CLOSURE_LIBRARIES_MAX];
	size_t n_libraries;
	struct buf ld_cache; /* content of /etc/ld.so.cache; empty: none */
	struct python_paths python;
};

/* Has the limit of look-ups been reached? Then each step of the search ends at once. */
bool closure_is_spent(const struct closure *c);

/* Find a regular file by its path, following links; false: there is none. */
bool closure_find_file(struct closure *c, const char *path,
		       struct rootfs_file *ret);
bool closure_find_folder(struct closure *c, const char *path,
			 struct rootfs_file *ret);
bool closure_is_folder(struct closure *c, const char *path);

void closure_file_fini(struct closure_file *f);

/* Append the places in the device at which bytes of a file lie. */
int closure_append_spans(const struct erofs_image *img,
			 const struct erofs_inode *i, uint64_t off,
			 uint64_t len, struct device_span **to, size_t *n,
			 size_t *cap, struct error *err) MUST_CHECK;
/* Add to the result that the start reads these bytes of a file. */
int closure_add_range(struct closure *c, const struct erofs_inode *i,
		      uint64_t off, uint64_t len, struct error *err) MUST_CHECK;
/* Add all of a file, if it exists and is no longer than CLOSURE_TEXT_MAX. */
int closure_add_whole(struct closure *c, const char *path,
		      struct error *err) MUST_CHECK;

/* Have a file looked into in the next round, unless it was before; 0 when it does not exist.
 * `want`: bytes from its beginning that are needed for that. */
int closure_visit(struct closure *c, const char *path, closure_look_fn *look,
		  uint64_t want, struct error *err) MUST_CHECK;
/* As closure_visit(), for a program or library. */
int closure_visit_program(struct closure *c, const char *path,
			  struct error *err) MUST_CHECK;
/* Have a file that `look` has seen looked into again, with other bytes of it; takes what `f`
 * owns. */
int closure_visit_again(struct closure *c, struct closure_file *f,
			const struct elf_range *want, closure_look_fn *look,
			struct error *err) MUST_CHECK;

/* Read bytes of a file, which must be within it. */
int closure_read(struct closure *c, const struct erofs_inode *i, uint64_t off,
		 void *buf, size_t len, struct error *err) MUST_CHECK;
/* Read up to the first CLOSURE_TEXT_MAX bytes of a file. */
int closure_read_text(struct closure *c, const struct erofs_inode *i,
		      struct buf *ret, struct error *err) MUST_CHECK;

/* The value of a variable of the environment, or NULL. */
const char *closure_env(const struct closure *c, const char *name);

/* closure_script.c: look into a command that is run, or may be. */
int closure_run(struct closure *c, const char *const *words, size_t n,
		struct error *err) MUST_CHECK;
/* Looks into a program or library, of which the first CLOSURE_HEAD bytes were fetched. */
#define CLOSURE_HEAD 4096u
closure_look_fn closure_look_program;
/* closure_elf.c: the same for an ELF file. */
closure_look_fn closure_look_elf;
closure_look_fn closure_look_ld_cache;

/* closure_python.c: look into a run of this interpreter with the arguments `words`. */
int closure_run_python(struct closure *c, const char *program,
		       const char *const *words, size_t n,
		       struct error *err) MUST_CHECK;
/* closure_java.c */
int closure_run_java(struct closure *c, const struct rootfs_file *program,
		     const char *const *words, size_t n,
		     struct error *err) MUST_CHECK;

/* ld_cache.c: the path of a library; NULL: the cache does not have it. */
const char *ld_cache_find(const void *data, size_t len, const char *name);

#endif
