// SPDX-License-Identifier: Apache-2.0
/* Searches for what a start reads, in small images whose files lie in a device of memory. */
#include <criterion/criterion.h>
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "closure_compiled.h"
#include "common/buf.h"
#include "common/bytes.h"
#include "image/closure/closure_priv.h"
#include "image/closure/python_imports.h"
#include "image/erofs/file_map.h"

TestSuite(closure, .timeout = 120);

#define PAGE 4096u
#define DEVICE_SIZE (8u << 20)

struct fixture {
	struct tree *t;
	uint8_t *device;
	size_t used;
	void *data;
	struct erofs_image img;
	struct file_map *files;
	struct buf found; /* paths of what the start reads, a line each */
	unsigned int rounds;
	uint64_t fetched; /* bytes, in all rounds */
	const char *words[8], *env[8];
	struct closure_start start;
};

static void set_up(struct fixture *f)
{
	*f = (struct fixture){ .t = tree_new(),
			       .device = calloc(1, DEVICE_SIZE) };
	cr_assert(f->t && f->device);
	f->start.words = f->words;
	f->start.env = f->env;
}

static void tear_down(struct fixture *f)
{
	erofs_file_map_free(f->files);
	buf_fini(&f->found);
	free(f->data);
	free(f->device);
	tree_free(f->t);
}

/* The folder that a path lies in, made with those around it; `*ret_name` is its last
 * part. */
static struct inode *make_folders(struct fixture *f, const char *path,
				  const char **ret_name)
{
	struct inode *dir = tree_root(f->t), *next;
	const char *end;

	for (path++; (end = strchr(path, '/')); path = end + 1) {
		size_t len = (size_t)(end - path);
		struct dentry *d = tree_find(f->t, dir, path, len);

		next = d ? d->inode : tree_inode_new(f->t, S_IFDIR | 0755);
		cr_assert(next);
		if (!d)
			cr_assert_eq(tree_link(f->t, dir, path, len, next), 0);
		dir = next;
	}
	*ret_name = path;
	return dir;
}

static void add_file(struct fixture *f, const char *path, const void *data,
		     size_t len)
{
	struct inode *i = tree_inode_new(f->t, S_IFREG | 0755);
	const char *name;
	struct inode *dir = make_folders(f, path, &name);

	cr_assert_eq(tree_link(f->t, dir, name, strlen(name), i), 0);
	i->size = len;
	i->data = INODE_DATA_EXTENTS;
	i->extents = tree_alloc(f->t, sizeof(*i->extents));
	i->n_extents = 1;
	i->extents[0] = (struct extent){ 0, len, f->used };
	memcpy(f->device + f->used, data, len);
	f->used += round_up(len, PAGE);
}

static void add_text(struct fixture *f, const char *path, const char *text)
{
	add_file(f, path, text, strlen(text));
}

static void add_link(struct fixture *f, const char *path, const char *target)
{
	struct inode *i = tree_inode_new(f->t, S_IFLNK | 0777);
	const char *name;
	struct inode *dir = make_folders(f, path, &name);

	cr_assert_eq(tree_link(f->t, dir, name, strlen(name), i), 0);
	i->target = target;
	i->size = strlen(target);
}

/* An ELF file with a page for its head, and one for its dynamic section and strings. */
static void add_elf(struct fixture *f, const char *path,
		    const char *interpreter, const char *run_path,
		    const char *needed)
{
	uint8_t data[2 * PAGE] = { 0 };
	Elf64_Ehdr *h = (void *)data;
	Elf64_Phdr *p = (void *)(data + sizeof(*h));
	Elf64_Dyn *d = (void *)(data + PAGE);
	char *strings = (char *)data + PAGE + 1024;

	memcpy(h->e_ident, ELFMAG, SELFMAG);
	h->e_ident[EI_CLASS] = ELFCLASS64;
	h->e_ident[EI_DATA] = ELFDATA2LSB;
	h->e_machine = EM_X86_64;
	h->e_phoff = sizeof(*h);
	h->e_phentsize = sizeof(*p);
	h->e_phnum = 3;
	p[0] = (Elf64_Phdr){ .p_type = PT_LOAD,
			     .p_vaddr = 0x10000,
			     .p_filesz = sizeof(data) };
	p[1] = (Elf64_Phdr){ .p_type = PT_DYNAMIC,
			     .p_offset = PAGE,
			     .p_filesz = 1024 };
	p[2] = (Elf64_Phdr){ .p_type = PT_INTERP,
			     .p_offset = 512,
			     .p_filesz = strlen(interpreter) + 1 };
	(void)snprintf((char *)data + 512, 256, "%s", interpreter);
	h->e_phnum = *interpreter ? 3 : 2;
	d[0] = (Elf64_Dyn){ DT_STRTAB, { 0x10000 + PAGE + 1024 } };
	d[1] = (Elf64_Dyn){ DT_STRSZ, { 1024 } };
	d[2] = (Elf64_Dyn){ *needed ? DT_NEEDED : DT_DEBUG, { 1 } };
	d[3] = (Elf64_Dyn){ *run_path ? DT_RUNPATH : DT_DEBUG, { 512 } };
	(void)snprintf(strings + 1, 256, "%s", needed);
	(void)snprintf(strings + 512, 256, "%s", run_path);
	add_file(f, path, data, sizeof(data));
}

static int note_file(void *arg, const struct file_range *r)
{
	return buf_printf(arg, "%s\n", r->path);
}

static int count_round(void *arg, const struct device_span *spans, size_t n,
		       struct error *err)
{
	struct fixture *f = arg;

	(void)err;
	f->rounds++;
	for (size_t i = 0; i < n; i++)
		f->fetched += spans[i].len;
	return 0;
}

static int read_memory(void *arg, uint64_t voff, void *buf, size_t len,
		       struct error *err)
{
	const struct fixture *f = arg;

	(void)err;
	cr_assert(voff <= DEVICE_SIZE && len <= DEVICE_SIZE - voff);
	memcpy(buf, f->device + voff, len);
	return 0;
}

/* Find what a start of the words reads. */
static void find_reads(struct fixture *f)
{
	static const struct closure_ops ops = { count_round, read_memory };
	const struct erofs_device device = { .size = DEVICE_SIZE, .tag = "d" };
	const struct erofs_params params = { .devices = &device,
					     .n_devices = 1 };
	AUTO_FREE struct device_span *spans = NULL;
	struct error err = ERROR_INIT;
	size_t len, n;

	while (f->words[f->start.n_words])
		f->start.n_words++;
	while (f->env[f->start.n_env])
		f->start.n_env++;
	cr_assert_eq(erofs_write(f->t, &params, &f->data, &len, &err), 0, "%s",
		     err.msg);
	cr_assert_eq(erofs_open(f->data, len, &f->img, &err), 0);
	cr_assert_eq(erofs_file_map_new(&f->img, &f->files, &err), 0);
	cr_assert_eq(closure_find(&f->img, &f->start, &ops, f, &spans, &n,
				  &err),
		     0, "%s", err.msg);
	cr_assert_eq(buf_puts(&f->found, "\n"), 0);
	for (size_t i = 0; i < n; i++)
		cr_assert_eq(f->files->ops->at(f->files, spans[i].voff,
					       spans[i].len, note_file,
					       &f->found, NULL),
			     0);
}

static void expect_found(const struct fixture *f, const char *path, bool is)
{
	AUTO_BUF line = BUF_INIT;

	cr_assert_eq(buf_printf(&line, "\n%s\n", path), 0);
	cr_expect_eq(strstr(f->found.data, line.data) != NULL, is, "%s in %s",
		     path, f->found.data);
}

/* /etc/ld.so.cache that has one library. */
static void add_cache(struct fixture *f, const char *name, const char *path)
{
	uint8_t data[256] = { 0 };

	memcpy(data, "glibc-ld.so.cache1.1", 20);
	put_le32(data + 20, 1);
	put_le32(data + 48 + 4, 80);
	put_le32(data + 48 + 8, 120);
	(void)snprintf((char *)data + 80, 40, "%s", name);
	(void)snprintf((char *)data + 120, 100, "%s", path);
	add_file(f, "/etc/ld.so.cache", data, sizeof(data));
}

Test(closure, follows_libraries_by_run_path_cache_and_default_folders)
{
	struct fixture f;

	set_up(&f);
	f.words[0] = "prog";
	add_link(&f, "/bin", "usr/bin");
	add_elf(&f, "/usr/bin/prog", "/lib64/ld.so", "/none:$ORIGIN/../own",
		"libone.so");
	add_file(&f, "/usr/lib64/ld.so", "x", 1);
	add_link(&f, "/lib64", "/usr/lib64");
	add_elf(&f, "/usr/own/libone.so", "", "", "libtwo.so");
	add_elf(&f, "/opt/libtwo.so", "", "", "libthree.so");
	add_elf(&f, "/usr/lib/libthree.so", "", "", "libone.so");
	add_elf(&f, "/usr/lib/libother.so", "", "", "");
	add_cache(&f, "libtwo.so", "/opt/libtwo.so");
	find_reads(&f);
	expect_found(&f, "/usr/bin/prog", true);
	expect_found(&f, "/etc/ld.so.cache", true);
	expect_found(&f, "/usr/own/libone.so", true);
	expect_found(&f, "/opt/libtwo.so", true);
	expect_found(&f, "/usr/lib/libthree.so", true);
	expect_found(&f, "/usr/lib/libother.so", false);
	/* A program and each library: its head, its dynamic section, its strings. */
	cr_expect_leq(f.rounds, 12u);
	tear_down(&f);
}

Test(closure, runs_the_interpreters_and_commands_of_scripts)
{
	struct fixture f;

	set_up(&f);
	f.words[0] = "/run";
	f.words[1] = "server";
	f.env[0] = "PATH=/opt/bin:/bin";
	add_text(&f, "/run",
		 "#!/usr/bin/env bash\n# /bin/comment\n. /lib.sh\n"
		 "if A=1 tool --flag; then exec \"$@\" /etc/conf; fi\n");
	add_text(&f, "/lib.sh", "other /etc/other >/etc/out\n");
	add_elf(&f, "/usr/bin/env", "", "", "");
	add_elf(&f, "/bin/bash", "", "", "");
	add_elf(&f, "/bin/comment", "", "", "");
	add_elf(&f, "/opt/bin/tool", "", "", "");
	add_elf(&f, "/bin/tool", "", "", "");
	add_elf(&f, "/bin/server", "", "", "");
	add_text(&f, "/etc/other", "x");
	find_reads(&f);
	expect_found(&f, "/run", true);
	expect_found(&f, "/usr/bin/env", true);
	expect_found(&f, "/bin/bash", true);
	expect_found(&f, "/bin/comment", false);
	expect_found(&f, "/lib.sh", true);
	expect_found(&f, "/opt/bin/tool", true);
	expect_found(&f, "/bin/tool", false);
	expect_found(&f, "/bin/server", true);
	tear_down(&f);
}

Test(closure, imports_what_a_python_program_does)
{
	struct fixture f;

	set_up(&f);
	f.words[0] = "python3";
	f.words[1] = "-u";
	f.words[2] = "main.py";
	f.start.folder = "/app";
	add_link(&f, "/usr/bin/python3", "python3.11");
	add_elf(&f, "/usr/bin/python3.11", "", "", "");
	add_text(
		&f, "/app/main.py",
		"import os, pkg.sub as s\nfrom pkg import (item, # x\n other)\n"
		"def f():\n    import late\n");
	add_text(&f, "/usr/lib/python3.11/os.py", "import never");
	add_text(&f, "/usr/lib/python3.11/late.py", "");
	add_text(&f, "/usr/lib/python3.11/encodings/__init__.py", "import up");
	add_text(&f, "/usr/lib/python3.11/up.py", "x = 1");
	add_text(&f, "/usr/local/lib/python3.11/dist-packages/pkg/__init__.py",
		 "from . import near\nfrom .near import thing\n");
	add_text(&f, "/usr/local/lib/python3.11/dist-packages/pkg/near.py",
		 "from .. import nothing\n");
	add_text(&f, "/usr/local/lib/python3.11/dist-packages/pkg/sub.py", "1");
	add_text(&f, "/usr/local/lib/python3.11/dist-packages/pkg/un.py", "1");
	add_elf(&f,
		"/usr/local/lib/python3.11/dist-packages/pkg/"
		"item.cpython-311-x86_64-linux-gnu.so",
		"", "$ORIGIN/../pkg.libs", "libx.so");
	add_elf(&f, "/usr/local/lib/python3.11/dist-packages/pkg.libs/libx.so",
		"", "", "");
	find_reads(&f);
	expect_found(&f, "/app/main.py", true);
	expect_found(&f, "/usr/lib/python3.11/os.py", false);
	expect_found(&f, "/usr/lib/python3.11/late.py", false);
	expect_found(&f, "/usr/lib/python3.11/up.py", true);
	expect_found(&f, "/usr/local/lib/python3.11/dist-packages/pkg/near.py",
		     true);
	expect_found(&f, "/usr/local/lib/python3.11/dist-packages/pkg/sub.py",
		     true);
	expect_found(&f, "/usr/local/lib/python3.11/dist-packages/pkg/un.py",
		     false);
	expect_found(&f,
		     "/usr/local/lib/python3.11/dist-packages/pkg.libs/libx.so",
		     true);
	tear_down(&f);
}

Test(closure, ends_where_links_lead_nowhere)
{
	struct fixture f;

	set_up(&f);
	f.words[0] = "/a/prog";
	add_link(&f, "/a", "../../../b");
	add_link(&f, "/b", "a");
	find_reads(&f);
	cr_expect_str_eq(f.found.data, "\n");
	tear_down(&f);
}

/* Imports as one text: "module level item;" */
static int note_import(void *arg, const struct python_import *i)
{
	return buf_printf(arg, "%.*s %u %.*s;", (int)i->module_len, i->module,
			  i->level, (int)i->item_len, i->item ? i->item : "");
}

/* The module was compiled from:
 *	import numpy.core as nc
 *	from . import a, b
 *	from ..up import c
 *	try: import d
 *	except ImportError: pass
 *	def f(): import never
 *	from e import *
 */
Test(closure, finds_imports_in_byte_code)
{
	AUTO_BUF got = BUF_INIT;

	cr_assert_eq(python_scan_code(compiled, sizeof(compiled), note_import,
				      &got),
		     0);
	cr_expect_str_eq(got.data, "numpy.core 0 ; 1 ; 1 a; 1 b;up 2 ;up 2 c;"
				   "d 0 ;e 0 ;");
	for (size_t n = 0; n < sizeof(compiled); n++)
		(void)!python_scan_code(compiled, n, note_import, &got);
}

Test(closure, finds_imports_in_source)
{
	static const char text[] =
		"import a, b.c as d ; import e\nfrom .x import (y as z,\n"
		"\tw)\n@d\nclass C:\n    import no\nif 1:\n  from q import *\n"
		"imports = 1\nfrom . import v\nimport \\\n long";
	AUTO_BUF got = BUF_INIT;

	cr_assert_eq(python_scan_text(text, strlen(text), note_import, &got),
		     0);
	cr_expect_str_eq(got.data, "a 0 ;b.c 0 ;x 1 ;x 1 y;x 1 w;q 0 ; 1 ;"
				   " 1 v;long 0 ;");
}

/* Each shell's text has the next: without a bound they would fill the thread's stack. */
Test(closure, ends_shells_that_run_themselves)
{
	struct fixture f;

	set_up(&f);
	f.words[0] = "sh";
	f.words[1] = "-c";
	f.words[2] = "sh -c $X";
	f.env[0] = "X=sh -c $X;prog";
	add_elf(&f, "/bin/sh", "", "", "");
	add_elf(&f, "/bin/prog", "", "", "");
	find_reads(&f);
	expect_found(&f, "/bin/sh", true);
	expect_found(&f, "/bin/prog", true);
	tear_down(&f);
}

/* As much of a long text is fetched as is looked at. */
Test(closure, fetches_little_of_a_long_text)
{
	AUTO_FREE char *text = malloc(6u << 20);
	struct fixture f;

	set_up(&f);
	f.words[0] = "/start";
	cr_assert_not_null(text);
	memset(text, '\n', 6u << 20);
	add_file(&f, "/start", text, 6u << 20);
	find_reads(&f);
	expect_found(&f, "/start", true);
	cr_expect_leq(f.fetched, 3u << 20);
	tear_down(&f);
}

/* Leaving a folder costs a look-up of each around it. */
Test(closure, leads_a_path_through_a_bounded_number_of_names)
{
	AUTO_BUF path = BUF_INIT;
	struct rootfs_file file;
	struct fixture f;

	set_up(&f);
	for (int i = 0; i < 100; i++)
		cr_assert_eq(buf_puts(&path, "/d"), 0);
	cr_assert_eq(buf_puts(&path, "/file"), 0);
	add_text(&f, path.data, "x");
	find_reads(&f);
	cr_expect_eq(rootfs_find(&f.img, path.data, &file, NULL), 0);
	cr_expect_eq(file.n_steps, 101u);
	buf_reset(&path);
	for (int i = 0; i < 100; i++)
		cr_assert_eq(buf_puts(&path, "/d"), 0);
	for (int i = 0; i < 90; i++)
		cr_assert_eq(buf_puts(&path, "/.."), 0);
	cr_expect_eq(rootfs_find(&f.img, path.data, &file, NULL), -ENOENT);
	tear_down(&f);
}

static int count_import(void *arg, const struct python_import *i)
{
	size_t *n = arg;

	(void)i;
	++*n;
	return 0;
}

/* Byte code with a thousand times "from a import" what is a list of half a million things. */
Test(closure, passes_over_a_long_list_of_no_names_a_few_times)
{
	enum { IMPORTS = 1000, THINGS = 500000 };
	static const uint8_t import[] = { 100, 0, 100, 1, 108, 0 };
	uint8_t head[16 + 1 + 5 * 4] = { 3495 % 256, 3495 / 256 };
	AUTO_BUF code = BUF_INIT;
	uint8_t number[4];
	size_t n = 0;

	head[16] = 'c';
	put_le32(number, IMPORTS * sizeof(import));
	cr_assert(buf_append(&code, head, sizeof(head)) == 0 &&
		  buf_puts(&code, "s") == 0 &&
		  buf_append(&code, number, 4) == 0);
	for (int i = 0; i < IMPORTS; i++)
		cr_assert_eq(buf_append(&code, import, sizeof(import)), 0);
	cr_assert_eq(buf_append(&code, ")\2i\0\0\0\0)\1(", 10), 0);
	put_le32(number, THINGS);
	cr_assert_eq(buf_append(&code, number, 4), 0);
	for (int i = 0; i < THINGS; i++)
		cr_assert_eq(buf_append(&code, "N", 1), 0);
	cr_assert_eq(buf_append(&code, ")\1z\1a", 5), 0);
	cr_assert_eq(python_scan_code(code.data, code.len, count_import, &n),
		     0);
	cr_expect(n > 0 && n < 20, "%zu", n);
}
