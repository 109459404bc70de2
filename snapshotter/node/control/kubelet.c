// SPDX-License-Identifier: Apache-2.0
/*
 * Reads the kubelet's configuration without a YAML parser: a key is found wherever it stands
 * outside of a comment, and of several values the one counts that wants the most free disk.
 * evictionSoft and evictionMinimumReclaim have the same keys as evictionHard; as they evict
 * pods too, they count as well.
 */
#include "snapshotter/node/control/kubelet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "common/fs.h"

#define CONFIG "/var/lib/kubelet/config.yaml"
#define CONFIG_MAX (1u << 20)
#define PODS "/var/lib/kubelet"
#define IMAGES "/var/lib/containerd"

/* The kubelet's defaults: imagefs.available<15%, nodefs.available<10%, and images are removed
 * when more than 85 % of their disk are used. */
#define IMAGEFS_PERCENT 15u
#define NODEFS_PERCENT 10u
#define IMAGE_GC_PERCENT 85u

static bool is_in_comment(const char *config, const char *at)
{
	while (at > config && at[-1] != '\n')
		if (*--at == '#')
			return true;
	return false;
}

/* Find the next `key` and return its value's first character; NULL: there is no more. */
static const char *find_value(const char *config, const char **from,
			      const char *key)
{
	const char *at = *from;

	while ((at = strstr(at, key))) {
		const char *value = at + strlen(key);

		*from = value;
		value += strspn(value, "\"' \t");
		if (*value == ':' && !is_in_comment(config, at))
			return value + 1 + strspn(value + 1, "\"' \t");
		at = *from;
	}
	return NULL;
}

static double unit_bytes(const char *unit)
{
	static const struct {
		const char *name;
		double bytes;
	} units[] = {
		{ "Ki", 0x1p10 }, { "Mi", 0x1p20 }, { "Gi", 0x1p30 },
		{ "Ti", 0x1p40 }, { "k", 1e3 },     { "M", 1e6 },
		{ "G", 1e9 },     { "T", 1e12 },
	};

	for (size_t k = 0; k < ARRAY_SIZE(units); k++)
		if (strncmp(unit, units[k].name, strlen(units[k].name)) == 0)
			return units[k].bytes;
	return 1;
}

/* Read "15%" or "10Gi" as percent of the disk, rounded up; more than 100 counts as 0. */
static unsigned int read_percent(const char *value, uint64_t disk_bytes)
{
	char *end;
	double n = strtod(value, &end);

	if (end == value || !(n >= 0))
		return 0;
	if (*end != '%')
		n = n * unit_bytes(end) * 100 / (double)(disk_bytes + 1);
	return n > 100 ? 0 : (unsigned int)n + (n > (unsigned int)n);
}

static unsigned int read_threshold_percent(const char *config, const char *key,
					   uint64_t disk_bytes,
					   unsigned int otherwise)
{
	const char *from = config, *value;
	unsigned int most = 0;
	bool is_there = false;

	while (config && (value = find_value(config, &from, key))) {
		unsigned int percent = read_percent(value, disk_bytes);

		is_there = true;
		most = percent > most ? percent : most;
	}
	return is_there ? most : otherwise;
}

/* imageGCHighThresholdPercent is a percentage without a sign. */
static unsigned int read_image_gc_percent(const char *config)
{
	const char *from = config;
	const char *value = config ? find_value(config, &from,
						"imageGCHighThresholdPercent")
				   : NULL;
	long n = value ? strtol(value, NULL, 10) : 0;

	return n > 0 && n <= 100 ? (unsigned int)n : IMAGE_GC_PERCENT;
}

unsigned int kubelet_percent(const char *config,
			     const struct kubelet_disk *disk)
{
	unsigned int pods = 0, images = 0, unused;

	if (disk->has_pods)
		pods = read_threshold_percent(config, "nodefs.available",
					      disk->bytes, NODEFS_PERCENT);
	if (disk->has_images) {
		images = read_threshold_percent(config, "imagefs.available",
						disk->bytes, IMAGEFS_PERCENT);
		unused = 100 - read_image_gc_percent(config);
		images = unused > images ? unused : images;
	}
	return pods > images ? pods : images;
}

static bool is_on_disk_of(const char *root, const char *other)
{
	struct stat a, b;

	return stat(root, &a) == 0 && stat(other, &b) == 0 &&
	       a.st_dev == b.st_dev;
}

unsigned int kubelet_wants_free(const char *root)
{
	struct kubelet_disk disk = { .has_pods = is_on_disk_of(root, PODS),
				     .has_images =
					     is_on_disk_of(root, IMAGES) };
	AUTO_BUF text = BUF_INIT;
	struct statvfs fs;
	int rc = fs_read_file(CONFIG, CONFIG_MAX, &text, NULL);

	if (rc == -ENOENT || statvfs(root, &fs) < 0)
		return 0;
	disk.bytes = (uint64_t)fs.f_blocks * fs.f_frsize;
	/* A configuration that cannot be read still means that there is a
	 * kubelet. */
	return kubelet_percent(rc == 0 && buf_append(&text, "", 1) == 0
				       ? text.data
				       : NULL,
			       &disk);
}
