// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/starts/pressure.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/statvfs.h>

#include "common/bytes.h"
#include "common/fs.h"

#define PROC_FILE_MAX 65536

uint64_t pressure_limit(const struct pressure_facts *f)
{
	uint64_t most = f->cached + f->disk_free;

	most = most > f->disk_reserve ? most - f->disk_reserve : 0;
	return most < f->quota ? most : f->quota;
}

uint64_t pressure_room(const struct pressure_facts *f)
{
	uint64_t limit = pressure_limit(f);

	return limit > f->pinned ? limit - f->pinned : 0;
}

static bool is_disk_short(const struct pressure_facts *f, struct error *why)
{
	uint64_t limit = pressure_limit(f), room = pressure_room(f);

	if (room >= PRESSURE_ROOM_MIN && room >= limit / PRESSURE_ROOM_SHARE)
		return false;
	if (limit < f->quota)
		error_set(why, ENOSPC,
			  "the disk is full: %" PRIu64 " MiB are free, and "
			  "%" PRIu64 " are to stay so (--cache-min-free)",
			  f->disk_free / MIB, f->disk_reserve / MIB);
	else
		error_set(why, ENOSPC,
			  "%" PRIu64 " of the cache's %" PRIu64
			  " MiB are in use by mounts (--cache-quota)",
			  f->pinned / MIB, f->quota / MIB);
	return true;
}

static bool is_memory_short(const struct pressure_facts *f, struct error *why)
{
	if (f->memory_stall >= PRESSURE_STALL_MAX) {
		error_set(why, EAGAIN,
			  "memory is short: all waited for it %u %% of the "
			  "last 10 seconds",
			  f->memory_stall / 100);
		return true;
	}
	if (f->memory_available >= f->memory / PRESSURE_MEMORY_SHARE)
		return false;
	error_set(why, EAGAIN,
		  "memory is short: %" PRIu64 " of %" PRIu64
		  " MiB are available",
		  f->memory_available / MIB, f->memory / MIB);
	return true;
}

bool pressure_judge(const struct pressure_facts *f, struct error *why)
{
	return is_disk_short(f, why) || is_memory_short(f, why);
}

static uint64_t kib_after(const char *text, const char *key)
{
	const char *p = strstr(text, key);
	unsigned long long kib;

	return p && sscanf(p + strlen(key), " %llu kB", &kib) == 1 ? kib * 1024
								   : 0;
}

void pressure_parse_meminfo(const char *text, struct pressure_facts *f)
{
	uint64_t all = kib_after(text, "MemTotal:");
	uint64_t available = kib_after(text, "MemAvailable:");

	if (!all || !available)
		return;
	f->memory = all;
	f->memory_available = available;
}

void pressure_parse_stall(const char *text, struct pressure_facts *f)
{
	const char *p = strstr(text, "full avg10=");
	unsigned int whole, hundredths;

	if (p && sscanf(p, "full avg10=%3u.%2u", &whole, &hundredths) == 2)
		f->memory_stall = whole * 100 + hundredths;
}

void pressure_gather(const char *root, uint64_t min_free, struct cache *c,
		     struct pressure_facts *ret)
{
	struct pressure_facts f = { .disk_free = UINT64_MAX / 2 };
	struct cache_stats cache;
	struct statvfs st;
	AUTO_BUF meminfo = BUF_INIT;
	AUTO_BUF stall = BUF_INIT;

	cache_get_stats(c, &cache);
	f.quota = cache.quota > cache.others ? cache.quota - cache.others : 0;
	f.cached = cache.bytes;
	f.pinned = cache.pinned_bytes;
	if (statvfs(root, &st) == 0) {
		f.disk_free = (uint64_t)st.f_bavail * st.f_frsize;
		f.disk_reserve =
			(uint64_t)st.f_blocks * st.f_frsize / 100 * min_free;
	}
	if (fs_read_file("/proc/meminfo", PROC_FILE_MAX, &meminfo, NULL) == 0 &&
	    meminfo.len > 0)
		pressure_parse_meminfo(meminfo.data, &f);
	/* Kernels may be built without pressure figures. */
	if (fs_read_file("/proc/pressure/memory", PROC_FILE_MAX, &stall,
			 NULL) == 0 &&
	    stall.len > 0)
		pressure_parse_stall(stall.data, &f);
	*ret = f;
}
