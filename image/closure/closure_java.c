// SPDX-License-Identifier: Apache-2.0
/* The start files of a Java virtual machine, which loads its libraries by name. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/bytes.h"
#include "image/closure/closure_priv.h"

static const char *const libraries[] = {
	"server/libjvm.so", "libjava.so", "libjimage.so", "libzip.so",
	"libnio.so",        "libnet.so",  "libextnet.so", "libverify.so",
};
static const char *const files[] = {
	"lib/jvm.cfg",
	"conf/security/java.security",
	"conf/net.properties",
};
/* The class data archive, which the virtual machine maps. */
#define ARCHIVE "lib/server/classes.jsa"
#define ARCHIVE_MAX (32u << 20)

/* Java virtual machines that are considered, of all that scripts run */
#define MACHINES_MAX 4u
#define MODULES "lib/modules"
#define MODULES_MAGIC 0xcafedadau
#define MODULES_HEAD 28u

/* Look into lib/modules, the file with the platform's classes: its table of contents is read
 * at every start. */
static int read_modules_file(struct closure *c, struct closure_file *f,
			     struct error *err)
{
	uint8_t head[MODULES_HEAD];
	uint64_t len;
	int rc;

	if (f->want.len < sizeof(head))
		return 0;
	rc = closure_read(c, &f->inode, 0, head, sizeof(head), err);
	if (rc < 0 || get_le32(head) != MODULES_MAGIC)
		return rc;
	len = MODULES_HEAD + UINT64_C(8) * get_le32(head + 16) +
	      get_le32(head + 20) + get_le32(head + 24);
	return closure_add_range(c, &f->inode, 0, len, err);
}

static int add_archive(struct closure *c, const char *path, struct error *err)
{
	struct rootfs_file f;

	if (!closure_find_file(c, path, &f) || f.inode.size > ARCHIVE_MAX)
		return 0;
	return closure_add_range(c, &f.inode, 0, f.inode.size, err);
}

/* A folder of a class path, in which archives are looked for. */
struct archive_folder {
	struct closure *c;
	const char *path;
	struct error *err;
};

static bool is_archive(const char *name, size_t len)
{
	return len > 4 && memcmp(name + len - 4, ".jar", 4) == 0;
}

static int visit_archive(void *arg, const char *name, size_t len, uint64_t nid,
			 uint8_t type, uint64_t cookie)
{
	const struct archive_folder *a = arg;
	char path[2 * ROOTFS_PATH_MAX + 2];

	(void)nid;
	(void)type;
	(void)cookie;
	if (closure_is_spent(a->c))
		return 1; /* ends the list */
	a->c->n_lookups++;
	if (!is_archive(name, len))
		return 0;
	(void)snprintf(path, sizeof(path), "%s/%.*s", a->path, (int)len, name);
	return add_archive(a->c, path, a->err);
}

/* Add an archive, or all archives of FOLDER for an entry "FOLDER/" and '*'. */
static int add_class_path_entry(struct closure *c, char *path,
				struct error *err)
{
	struct archive_folder a = { .c = c, .path = path, .err = err };
	size_t len = strlen(path);
	struct rootfs_file f;
	int rc;

	if (is_archive(path, len))
		return add_archive(c, path, err);
	if (len < 2 || strcmp(path + len - 2, "/*") != 0)
		return 0;
	path[len - 2] = '\0';
	if (!closure_find_folder(c, path, &f))
		return 0;
	rc = erofs_readdir(c->img, &f.inode, 0, visit_archive, &a, err);
	return rc < 0 ? rc : 0;
}

static int add_class_path(struct closure *c, const char *list,
			  struct error *err)
{
	char path[ROOTFS_PATH_MAX + 1];
	int rc = 0;

	while (*list && rc == 0) {
		size_t len = strcspn(list, ":");

		if (len <= ROOTFS_PATH_MAX) {
			memcpy(path, list, len);
			path[len] = '\0';
			rc = add_class_path_entry(c, path, err);
		}
		list += len + (list[len] == ':');
	}
	return rc;
}

static int add_class_paths_of_words(struct closure *c, const char *const *words,
				    size_t n, struct error *err)
{
	static const char *const options[] = { "-jar", "-cp", "-classpath",
					       "--class-path" };
	int rc = 0;

	for (size_t i = 0; i + 1 < n && rc == 0; i++)
		for (size_t k = 0; k < ARRAY_SIZE(options) && rc == 0; k++)
			if (strcmp(words[i], options[k]) == 0)
				rc = add_class_path(c, words[i + 1], err);
	return rc;
}

int closure_run_java(struct closure *c, const struct rootfs_file *program,
		     const char *const *words, size_t n, struct error *err)
{
	char home[ROOTFS_PATH_MAX + 1], path[ROOTFS_PATH_MAX + 64];
	int rc = 0;

	if (c->n_machines++ >= MACHINES_MAX)
		return 0;
	/* `home` becomes the folder HOME of HOME/bin/java. */
	memcpy(home, program->path, strlen(program->path) + 1);
	for (int i = 0; i < 2 && strrchr(home, '/'); i++)
		*strrchr(home, '/') = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(libraries) && rc == 0; i++) {
		(void)snprintf(path, sizeof(path), "%s/lib/%s", home,
			       libraries[i]);
		rc = closure_visit_program(c, path, err);
	}
	for (size_t i = 0; i < ARRAY_SIZE(files) && rc == 0; i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", home, files[i]);
		rc = closure_add_whole(c, path, err);
	}
	(void)snprintf(path, sizeof(path), "%s/" ARCHIVE, home);
	if (rc == 0)
		rc = add_archive(c, path, err);
	(void)snprintf(path, sizeof(path), "%s/" MODULES, home);
	if (rc == 0)
		rc = closure_visit(c, path, read_modules_file, MODULES_HEAD,
				   err);
	return rc < 0 ? rc : add_class_paths_of_words(c, words, n, err);
}
