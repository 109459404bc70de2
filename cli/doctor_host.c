// SPDX-License-Identifier: Apache-2.0
/* Checks of kernel, programs and units, which need no rights. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli/child.h"
#include "cli/doctor.h"
#include "common/fs.h"

#define MODULES_MAX (16u << 20)
#define PROGRAM_TIMEOUT_MS 20000
#define OUTPUT_MAX 4096u
#define EROFS_BLOCK_SIZE 4096 /* of metadata images, see docs/formats */
#define NODE_CONFIG "/etc/bootseer/bootseerd.conf"

/* ------------------------------------------------------------------- kernel --- */

static bool is_loaded(const char *name)
{
	AUTO_BUF text = BUF_INIT;
	const char *p, *end;
	size_t len = strlen(name);

	if (fs_read_file("/proc/filesystems", 65536, &text, NULL) < 0)
		return false;
	for (p = text.data; p && *p; p = *end ? end + 1 : end) {
		end = p + strcspn(p, "\n");
		if ((size_t)(end - p) > len &&
		    memcmp(end - len, name, len) == 0 &&
		    end[-(int)len - 1] == '\t')
			return true;
	}
	return false;
}

/* Is there a module that the kernel would load at the first mount? */
static bool can_load(const char *name)
{
	AUTO_FREE char *path = NULL;
	AUTO_FREE char *file = NULL;
	AUTO_BUF text = BUF_INIT;
	struct utsname u;

	if (uname(&u) < 0 ||
	    asprintf(&path, "/lib/modules/%s/modules.dep", u.release) < 0) {
		path = NULL;
		return false;
	}
	if (asprintf(&file, "/%s.ko", name) < 0) {
		file = NULL;
		return false;
	}
	return fs_read_file(path, MODULES_MAX, &text, NULL) == 0 && text.data &&
	       strstr(text.data, file);
}

static void check_filesystem(json_t *list, const char *name,
			     enum doctor_need need, const char *cure,
			     const char *what)
{
	bool loaded = is_loaded(name), later = !loaded && can_load(name);

	doctor_add(list, name, loaded || later, need, cure, "%s%s", what,
		   later ? "; the first mount loads its module" : "");
}

void doctor_check_pages(json_t *list, long size, unsigned int major,
			unsigned int minor)
{
	bool ok = size == EROFS_BLOCK_SIZE || major > 6 ||
		  (major == 6 && minor >= 4);

	doctor_add(
		list, "pages", ok, DOCTOR_ADVICE,
		"Linux 6.4 or newer, or a kernel with pages of 4096 bytes "
		"(Debian's and Ubuntu's arm64 kernels without -16k or -64k); "
		"until then the data path 'fuse' is used",
		"pages of %ld bytes%s", size,
		ok ? "" : ", which EROFS of this kernel wants for blocks, too");
}

static void check_kernel(json_t *list)
{
	unsigned int major = 0, minor = 0;
	bool dev = access("/dev/fuse", R_OK | W_OK) == 0;
	struct utsname u = { .release = "" };

	(void)uname(&u);
	(void)sscanf(u.release, "%u.%u", &major, &minor);
	doctor_add(list, "kernel", major > 5 || (major == 5 && minor >= 16),
		   DOCTOR_ADVICE,
		   "5.16 or newer for EROFS, 6.12 to need no loop devices; "
		   "until then the data path is 'fuse'",
		   "Linux %s", u.release);
	doctor_check_pages(list, sysconf(_SC_PAGESIZE), major, minor);
	check_filesystem(list, "overlay", DOCTOR_NEEDED, "modprobe overlay",
			 "overlayfs puts a container's writable layer over an "
			 "image");
	check_filesystem(list, "erofs", DOCTOR_ADVICE,
			 "modprobe erofs (package with the kernel's modules); "
			 "without it the data path 'fuse' is used",
			 "EROFS reads the metadata images");
	doctor_add(list, "fuse", dev, DOCTOR_NEEDED,
		   "modprobe fuse; in a container: give it the device "
		   "/dev/fuse",
		   "/dev/fuse %s", dev ? "can be opened" : "cannot be opened");
}

/* ----------------------------------------------------------- programs, units --- */

/* Run a program; false when it is missing or does not end in time. */
static bool run_short_program(char *const argv[], struct buf *ret,
			      int *ret_status)
{
	struct error err = ERROR_INIT;

	ret->limit = OUTPUT_MAX;
	*ret_status = -1;
	return child_capture(argv, PROGRAM_TIMEOUT_MS, ret, ret_status, &err) ==
	       0;
}

/* Cut the output of a program after its first line. */
static const char *first_line(struct buf *text)
{
	if (!text->data)
		return "";
	text->data[strcspn(text->data, "\n")] = '\0';
	return text->data;
}

static void check_program(json_t *list, const char *name, const char *program,
			  enum doctor_need need, const char *cure,
			  const char *what)
{
	char *argv[] = { (char *)(uintptr_t)program, (char[]){ "--version" },
			 NULL };
	AUTO_BUF text = BUF_INIT;
	int status;
	bool ok = run_short_program(argv, &text, &status) && status == 0;

	doctor_add(list, name, ok, need, cure, "%s%s%s", what,
		   text.len ? ": " : "", text.len ? first_line(&text) : "");
}

static bool has_text(const struct buf *text, const char *what)
{
	return text->data && strstr(text->data, what);
}

static void check_unit(json_t *list, const char *unit)
{
	char *argv[] = { (char[]){ "systemctl" }, (char[]){ "show" },
			 (char[]){ "--property=LoadState,ActiveState,"
				   "UnitFileState,Result" },
			 (char *)(uintptr_t)unit, NULL };
	AUTO_BUF text = BUF_INIT;
	AUTO_FREE char *cure = NULL;
	AUTO_FREE char *name = NULL;
	bool loaded, active, enabled;
	int status;

	/* Without systemd, bootseerd is started by other means. */
	if (!run_short_program(argv, &text, &status) || status != 0)
		return;
	loaded = has_text(&text, "LoadState=loaded");
	active = has_text(&text, "ActiveState=active");
	enabled = has_text(&text, "UnitFileState=enabled");
	if (asprintf(&name, "unit %s", unit) < 0)
		name = NULL;
	if (asprintf(&cure,
		     loaded ? "systemctl enable --now %s, and if it "
			      "ends again: journalctl -u %s"
			    : "install it (./dev install), then "
			      "systemctl enable --now %s",
		     unit, unit) < 0)
		cure = NULL;
	if (!name || !cure)
		return;
	doctor_add(list, name, loaded && active && enabled, DOCTOR_ADVICE, cure,
		   "%s",
		   !loaded   ? "is not installed"
		   : !active ? "does not run"
		   : enabled ? "runs"
			     : "runs, but not after the next boot");
}

static void check_node_config(json_t *list)
{
	char *argv[] = { (char[]){ "bootseerd" }, (char[]){ "--check-config" },
			 (char[]){ "--config" }, (char[]){ NODE_CONFIG },
			 NULL };
	AUTO_BUF text = BUF_INIT;
	int status;

	if (access(NODE_CONFIG, R_OK) < 0 ||
	    !run_short_program(argv, &text, &status))
		return;
	doctor_add(list, "bootseerd.conf", status == 0, DOCTOR_NEEDED,
		   "mend " NODE_CONFIG "; bootseerd(8) tells of each key", "%s",
		   status == 0 ? "is in order" : first_line(&text));
}

void doctor_check_host(json_t *list, bool runs)
{
	check_kernel(list);
	if (!runs)
		check_program(list, "program bootseerd", "bootseerd",
			      DOCTOR_NEEDED, "install it: ./dev install",
			      "serves the mounts");
	check_node_config(list);
	check_unit(list, "bootseerd");
	check_unit(list, "bootseer-snapshotter");
	check_program(list, "program runc", "runc", DOCTOR_ADVICE,
		      "apt install runc",
		      "runs containers, also of 'bootseer image record'");
}
