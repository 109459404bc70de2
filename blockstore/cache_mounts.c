// SPDX-License-Identifier: Apache-2.0
/*
 * Files of complete mounts. MOUNTS/NAME.erofs is the metadata image of a mount: only the kernel
 * holds it open, for as long as the superblock lives, so a write lease on it is granted exactly
 * when the mount is gone. MOUNTS/NAME.blocks lists the blocks that the mount reads and their
 * places; it is read before the index, which may be damaged. Format: docs/formats/cache.md.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "blockstore/cache.h"
#include "common/bytes.h"
#include "common/clock.h"
#include "common/fs.h"
#include "common/mutex.h"

#define MOUNTS_DIR "mounts"
#define LIST_BYTES_MAX (1u << 30)
/* Pause before damage is reported again; it doubles each time up to TELL_MOST_NS, since each
 * report restarts the retries of failed prefetches. */
#define TELL_AGAIN_NS (10 * NS_PER_S)
#define TELL_MOST_NS (1800 * NS_PER_S)
/* Without damage for so long, a mount counts as mended: a disk that fails to write reports
 * it within 35 s, when the kernel has written. */
#define MENDED_NS (60 * NS_PER_S)

/* A mount that reads our files, from cache_mount_keep() until it is gone. */
struct cache_mount {
	struct cache_mount *next;
	char *name;
	struct log_record *blocks; /* each with a pin of the mount's */
	size_t n_blocks;
	bool wanted;           /* cache_mount_drop() was not called */
	bool is_broken;        /* the blocks that it reads are not known */
	bool is_told;          /* the current report of damage is about it */
	int64_t told_ns;       /* when its damage was last reported; 0: never */
	int64_t tell_pause_ns; /* pause from then to the next report */
	/* since when no reported damage is visible; 0: there is some */
	int64_t whole_ns;
};

static void cache_mount_free(struct cache_mount *m)
{
	if (!m)
		return;
	free(m->name);
	free(m->blocks);
	free(m);
}
DEFINE_AUTO(cache_mount)

int cache_mount_path(struct cache *c, const char *name, const char *suffix,
		     char **ret, struct error *err)
{
	if (asprintf(ret, "%s/" MOUNTS_DIR "/%s.%s", c->dir, name, suffix) < 0)
		return error_nomem(err);
	return 0;
}

/* ------------------------------------------------------------------- room --- */

static uint64_t cache_mounts_measure(struct cache *c)
{
	int fd = openat(c->dir_fd, MOUNTS_DIR,
			O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	uint64_t sum = 0;
	struct stat st;

	if (!dir && fd >= 0)
		(void)close(fd);
	while (dir && (e = readdir(dir)))
		if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) ==
			    0 &&
		    S_ISREG(st.st_mode))
			sum += (uint64_t)st.st_blocks * 512;
	if (dir)
		(void)closedir(dir);
	return sum;
}

/* Recount the room of mounts' files after a change; `no_longer_laying` bytes are not
 * reserved any more. */
static void recount_mount_files(struct cache *c, uint64_t no_longer_laying)
{
	uint64_t sum;

	/* The lock is held over both, so that an older sum never replaces a newer one. */
	(void)pthread_mutex_lock(&c->mounts_lock);
	sum = cache_mounts_measure(c);
	(void)pthread_mutex_lock(&c->space);
	c->laid = sum;
	c->laying -= no_longer_laying;
	evict_refresh_limit(c);
	(void)pthread_mutex_unlock(&c->space);
	(void)pthread_mutex_unlock(&c->mounts_lock);
}

int cache_mount_room(struct cache *c, uint64_t bytes, struct error *err)
{
	int rc;

	(void)pthread_mutex_lock(&c->space);
	evict_refresh_limit(c);
	rc = evict_for(c, bytes, err);
	if (rc == 0)
		c->laying += bytes;
	evict_refresh_limit(c);
	(void)pthread_mutex_unlock(&c->space);
	return rc;
}

void cache_mount_laid(struct cache *c, uint64_t bytes)
{
	recount_mount_files(c, bytes);
}

/* Does the kernel have the mount's image open? 1 or 0; -ENOENT: there is no image; other
 * errors: it cannot be told. */
static int is_mount_image_open(struct cache *c, const char *name)
{
	AUTO_FREE char *path = NULL;
	AUTO_CLOSE int fd = -1;

	if (cache_mount_path(c, name, "erofs", &path, NULL) < 0)
		return -ENOMEM;
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return errno == EWOULDBLOCK ? 1 : -errno;
	return fs_is_in_use(fd);
}

/* ------------------------------------------------------------------- list --- */

/* Encode a mount's list: the header of an index, the blocks as its records, and as end mark
 * a drop of "block" n with the digest of all bytes before it. */
static int cache_mounts_encode(const struct cache *c,
			       const struct cache_mount *m, struct buf *ret)
{
	struct log_record end = { .kind = LOG_DROP,
				  .page = (uint32_t)m->n_blocks,
				  .usize = 1 };
	uint8_t header[LOG_HEADER_SIZE], record[LOG_RECORD_SIZE];
	int rc;

	log_encode_header(c->segment_bytes, header);
	rc = buf_append(ret, header, sizeof(header));
	for (size_t i = 0; rc == 0 && i < m->n_blocks; i++) {
		log_encode(&m->blocks[i], record);
		rc = buf_append(ret, record, sizeof(record));
	}
	if (rc == 0)
		rc = digest_of(ret->data, ret->len, &end.digest);
	log_encode(&end, record);
	return rc < 0 ? rc : buf_append(ret, record, sizeof(record));
}

static int cache_mounts_decode(const struct buf *text, struct cache_mount *m,
			       uint64_t *ret_segment_bytes)
{
	const uint8_t *p = (const uint8_t *)text->data;
	struct log_record end;
	struct digest d;
	size_t n;

	if (text->len < LOG_HEADER_SIZE + LOG_RECORD_SIZE ||
	    (text->len - LOG_HEADER_SIZE) % LOG_RECORD_SIZE ||
	    log_decode_header(p, text->len, ret_segment_bytes, NULL) < 0)
		return -EBADMSG;
	n = (text->len - LOG_HEADER_SIZE) / LOG_RECORD_SIZE - 1;
	if (!log_decode(p + text->len - LOG_RECORD_SIZE, &end) ||
	    end.kind != LOG_DROP || end.page != n ||
	    digest_of(p, text->len - LOG_RECORD_SIZE, &d) < 0 ||
	    !digest_equal(&d, &end.digest))
		return -EBADMSG;
	m->blocks = calloc(n + 1, sizeof(*m->blocks));
	if (!m->blocks)
		return -ENOMEM;
	for (m->n_blocks = 0; m->n_blocks < n; m->n_blocks++)
		if (!log_decode(p + LOG_HEADER_SIZE +
					m->n_blocks * LOG_RECORD_SIZE,
				&m->blocks[m->n_blocks]))
			return -EBADMSG;
	return 0;
}

static void unpin_first(struct cache *c, const struct cache_mount *m, size_t n)
{
	for (size_t i = 0; i < n; i++)
		cache_unpin_block(c, &m->blocks[i].digest);
}

/* Find a mount by name. With mounts_lock. */
static struct cache_mount **find_mount(struct cache *c, const char *name)
{
	struct cache_mount **at = &c->mounts;

	while (*at && strcmp((*at)->name, name) != 0)
		at = &(*at)->next;
	return at;
}

bool cache_mount_is_live(struct cache *c, const char *name)
{
	const struct cache_mount *m;
	bool is_broken;
	int rc;

	/* The image of a broken mount may have been replaced or deleted, so the kernel is
	 * not asked. */
	(void)pthread_mutex_lock(&c->mounts_lock);
	m = *find_mount(c, name);
	is_broken = m && m->is_broken;
	(void)pthread_mutex_unlock(&c->mounts_lock);
	if (is_broken)
		return true;
	rc = is_mount_image_open(c, name);
	return rc != 0 && rc != -ENOENT;
}

/* Is the block at this place damaged? With space. */
static bool block_is_damaged(struct cache *c, const struct log_record *r)
{
	struct shard *s = shard_of(c, &r->digest);
	const struct entry *e;
	bool is;
	uint32_t id;

	(void)pthread_mutex_lock(&s->lock);
	id = table_find(c, s, &r->digest);
	e = id == ENTRY_NIL ? NULL : entry_at(c, id);
	is = e && e->page == r->page && e->flags & ENTRY_DAMAGED &&
	     !is_frozen(c, e->page);
	(void)pthread_mutex_unlock(&s->lock);
	return is;
}

/* Does the mount read a damaged block? With mounts_lock. */
static bool has_damage(struct cache *c, const struct cache_mount *m)
{
	bool has = false;

	(void)pthread_mutex_lock(&c->space);
	for (size_t i = 0; i < m->n_blocks && !has; i++)
		has = block_is_damaged(c, &m->blocks[i]);
	(void)pthread_mutex_unlock(&c->space);
	return has;
}

bool cache_mount_is_damaged(struct cache *c, const char *name)
{
	const struct cache_mount *m;
	bool is;

	(void)pthread_mutex_lock(&c->mounts_lock);
	m = *find_mount(c, name);
	is = m && has_damage(c, m);
	(void)pthread_mutex_unlock(&c->mounts_lock);
	return is;
}

bool cache_mount_is_told(struct cache *c, const char *name)
{
	const struct cache_mount *m;
	bool is;

	(void)pthread_mutex_lock(&c->mounts_lock);
	m = *find_mount(c, name);
	is = m && m->is_told;
	(void)pthread_mutex_unlock(&c->mounts_lock);
	return is;
}

size_t cache_mounts_told(struct cache *c)
{
	size_t n = 0;

	(void)pthread_mutex_lock(&c->mounts_lock);
	for (const struct cache_mount *m = c->mounts; m; m = m->next)
		n += m->is_told;
	(void)pthread_mutex_unlock(&c->mounts_lock);
	return n;
}

/* Damage of the mount is reported now. The next pause is twice as long, unless the last
 * report was long ago. */
static void note_damage_reported(struct cache_mount *m, int64_t now_ns)
{
	int64_t pause_ns = TELL_AGAIN_NS;

	if (m->told_ns && now_ns - m->told_ns < 2 * TELL_MOST_NS)
		pause_ns = 2 * m->tell_pause_ns;
	m->tell_pause_ns = pause_ns < TELL_MOST_NS ? pause_ns : TELL_MOST_NS;
	m->told_ns = now_ns;
}

/* The mount has no damage now; when that lasts, new damage is reported at once. Returns when
 * to look again. */
static int64_t note_mount_whole(struct cache_mount *m, int64_t now_ns)
{
	if (!m->told_ns)
		return 0;
	if (!m->whole_ns)
		m->whole_ns = now_ns;
	if (now_ns - m->whole_ns < MENDED_NS)
		return m->whole_ns + MENDED_NS;
	m->told_ns = m->whole_ns = 0;
	return 0;
}

static void note_damaged(struct cache_mount *m, int64_t now_ns)
{
	if (m->whole_ns && now_ns - m->whole_ns >= MENDED_NS)
		m->told_ns = 0;
	m->whole_ns = 0;
	if (!m->told_ns || now_ns >= m->told_ns + m->tell_pause_ns) {
		note_damage_reported(m, now_ns);
		m->is_told = true;
	}
}

static void set_earlier_time(int64_t *next_ns, int64_t at_ns)
{
	if (at_ns && (!*next_ns || at_ns < *next_ns))
		*next_ns = at_ns;
}

/* Each mount has its own pause: a place that the disk never takes, or a mount of a removed
 * image that nobody mends, does not delay the reports of other mounts. */
bool mounts_note_damage(struct cache *c, int64_t now_ns, int64_t *ret_next_ns)
{
	bool any = false;

	*ret_next_ns = 0;
	(void)pthread_mutex_lock(&c->mounts_lock);
	for (struct cache_mount *m = c->mounts; m; m = m->next) {
		m->is_told = false;
		if (!has_damage(c, m)) {
			set_earlier_time(ret_next_ns,
					 note_mount_whole(m, now_ns));
			continue;
		}
		note_damaged(m, now_ns);
		any = any || m->is_told;
		set_earlier_time(ret_next_ns, m->told_ns + m->tell_pause_ns);
	}
	(void)pthread_mutex_unlock(&c->mounts_lock);
	return any;
}

/* ----------------------------------------------------------------- keeping --- */

/* Get the place of a block that the caller has pinned. */
static int get_block_place(struct cache *c, const struct block *b,
			   struct log_record *ret, struct error *err)
{
	struct shard *s = shard_of(c, &b->digest);
	const struct entry *e;
	uint32_t id;
	int rc = -ENOENT;

	(void)pthread_mutex_lock(&s->lock);
	id = table_find(c, s, &b->digest);
	e = id == ENTRY_NIL ? NULL : entry_at(c, id);
	if (e && e->page != PAGE_NONE && e->pins &&
	    !(e->flags & ENTRY_DAMAGED)) {
		*ret = (struct log_record){ .kind = LOG_PUT,
					    .page = e->page,
					    .usize = e->usize,
					    .digest = e->digest };
		rc = 0;
	}
	(void)pthread_mutex_unlock(&s->lock);
	return rc < 0 ? error_set(err, ENOENT, "cache: block is not held") : 0;
}

static int compare_pages(const void *a, const void *b)
{
	const struct log_record *x = a, *y = b;

	return x->page < y->page ? -1 : x->page > y->page;
}

/* Note and pin each place of the mount's blocks once. */
static int pin_mount_blocks(struct cache *c, struct cache_mount *m,
			    const struct blockmap *map, struct error *err)
{
	struct block b;
	size_t n = 0;
	int rc = 0;

	m->blocks = calloc(map->n_blocks + 1, sizeof(*m->blocks));
	if (!m->blocks)
		return error_nomem(err);
	for (size_t i = 0; rc == 0 && i < map->n_blocks; i++) {
		blockmap_block(map, i, &b);
		rc = get_block_place(c, &b, &m->blocks[i], err);
	}
	if (rc < 0)
		return rc;
	qsort(m->blocks, map->n_blocks, sizeof(*m->blocks), compare_pages);
	for (size_t i = 0; i < map->n_blocks; i++)
		if (!n || m->blocks[n - 1].page != m->blocks[i].page)
			m->blocks[n++] = m->blocks[i];
	while (rc == 0 && m->n_blocks < n) {
		rc = cache_pin_block(c, &m->blocks[m->n_blocks].digest, err);
		if (rc == 0)
			m->n_blocks++;
	}
	return rc;
}

static int write_mount_block_list(struct cache *c, const struct cache_mount *m,
				  struct error *err)
{
	AUTO_FREE char *path = NULL;
	AUTO_BUF text = BUF_INIT;
	int rc = cache_mount_path(c, m->name, "blocks", &path, err);

	if (rc < 0)
		return rc;
	if (cache_mounts_encode(c, m, &text) < 0)
		return error_nomem(err);
	return fs_replace_file(path, text.data, text.len, 0600, err);
}

static int add_mount_and_pin_blocks(struct cache *c, const char *name,
				    const struct blockmap *map,
				    struct error *err)
{
	AUTO(cache_mount) m = calloc(1, sizeof(*m));
	bool is_damaged;
	int rc = is_mount_image_open(c, name);

	if (!m || !(m->name = strdup(name)))
		return error_nomem(err);
	if (rc > 0)
		return error_set(err, EBUSY,
				 "an earlier mount of it is still in use");
	if (rc < 0)
		return error_set(err, rc == -EINVAL ? ENOTSUP : -rc,
				 "the file system cannot tell when a mount is "
				 "gone: lease: %s",
				 strerror(-rc));
	rc = pin_mount_blocks(c, m, map, err);
	if (rc == 0)
		rc = write_mount_block_list(c, m, err);
	recount_mount_files(c, 0);
	if (rc < 0) {
		unpin_first(c, m, m->n_blocks);
		return rc;
	}
	m->wanted = true;
	(void)pthread_mutex_lock(&c->mounts_lock);
	m->next = c->mounts;
	c->mounts = steal_ptr(&m);
	is_damaged = has_damage(c, c->mounts);
	(void)pthread_mutex_unlock(&c->mounts_lock);
	/* The damage may have been found before the mount was in the list, and so not
	 * reported for it. */
	(void)pthread_mutex_lock(&c->space);
	if (is_damaged)
		scrub_tell_soon(c);
	(void)pthread_mutex_unlock(&c->space);
	return 0;
}

int cache_mount_keep(struct cache *c, const char *name,
		     const struct blockmap *m, struct error *err)
{
	struct cache_mount *old;
	bool is_broken = false;

	(void)pthread_mutex_lock(&c->mounts_lock);
	old = *find_mount(c, name);
	if (old) {
		is_broken = old->is_broken;
		old->wanted |= !is_broken;
	}
	(void)pthread_mutex_unlock(&c->mounts_lock);
	if (is_broken)
		return error_set(err, EBUSY,
				 "an earlier mount of it is still in use, and "
				 "what it reads is not known");
	/* Pinned blocks never move, so a new mount of this name reads the same places as the
	 * old one. */
	return old ? 0 : add_mount_and_pin_blocks(c, name, m, err);
}

int cache_mount_adopt(struct cache *c, const char *name)
{
	struct cache_mount *m;

	(void)pthread_mutex_lock(&c->mounts_lock);
	m = *find_mount(c, name);
	if (m)
		m->wanted = true;
	(void)pthread_mutex_unlock(&c->mounts_lock);
	return m ? 0 : -ENOENT;
}

/* Release a mount's blocks; false: the kernel still has the mount. With mounts_lock. */
static bool release_mount_if_gone(struct cache *c, struct cache_mount **at)
{
	struct cache_mount *m = *at;
	int rc = is_mount_image_open(c, m->name);

	/* The kernel cannot be asked about a deleted image; but when no segment is frozen,
	 * nothing reads them, so the mount is gone. */
	if (m->is_broken && (rc == 0 || rc == -ENOENT)) {
		if (freeze_is_any(c))
			return false;
		rc = 0;
	}
	if (rc != 0)
		return false;
	*at = m->next;
	if (!m->is_broken)
		unpin_first(c, m, m->n_blocks);
	cache_mount_free(m);
	return true;
}

bool mounts_poll(struct cache *c)
{
	struct cache_mount **at = &c->mounts;
	bool any = false;

	(void)pthread_mutex_lock(&c->mounts_lock);
	while (*at) {
		if (!(*at)->wanted) {
			if (release_mount_if_gone(c, at))
				continue;
			any = true;
		}
		at = &(*at)->next;
	}
	(void)pthread_mutex_unlock(&c->mounts_lock);
	return any;
}

bool mounts_are_known(const struct cache *c)
{
	for (const struct cache_mount *m = c->mounts; m; m = m->next)
		if (m->is_broken)
			return false;
	return true;
}

bool mounts_are_any(struct cache *c)
{
	AUTO_UNLOCK held = mutex_hold(&c->mounts_lock);

	return c->mounts != NULL;
}

void mounts_count(struct cache *c, uint64_t *ret_lingering,
		  uint64_t *ret_unknown)
{
	(void)pthread_mutex_lock(&c->mounts_lock);
	for (const struct cache_mount *m = c->mounts; m; m = m->next) {
		*ret_lingering += !m->wanted;
		*ret_unknown += m->is_broken;
	}
	(void)pthread_mutex_unlock(&c->mounts_lock);
}

void cache_mount_drop(struct cache *c, const char *name)
{
	struct cache_mount **at;

	(void)pthread_mutex_lock(&c->mounts_lock);
	at = find_mount(c, name);
	if (*at) {
		(*at)->wanted = false;
		if (!release_mount_if_gone(c, at))
			watch_soon(c);
	}
	(void)pthread_mutex_unlock(&c->mounts_lock);
}

int cache_mount_forget(struct cache *c, const char *name, struct error *err)
{
	/* Delete the image last: other files without an image would look like a mount whose
	 * image was lost. */
	static const char *const suffixes[] = { "blocks", "json", "erofs" };
	int rc = 0;

	(void)pthread_mutex_lock(&c->mounts_lock);
	if (*find_mount(c, name) || is_mount_image_open(c, name) > 0)
		rc = error_set(err, EBUSY, "a mount of it is still in use");
	for (size_t i = 0; rc == 0 && i < ARRAY_SIZE(suffixes); i++) {
		AUTO_FREE char *path = NULL;

		rc = cache_mount_path(c, name, suffixes[i], &path, err);
		if (rc == 0 && unlink(path) < 0 && errno != ENOENT)
			rc = error_errno(err, errno, "remove '%s'", path);
	}
	(void)pthread_mutex_unlock(&c->mounts_lock);
	recount_mount_files(c, 0);
	return rc;
}

/* ----------------------------------------------------------------- opening --- */

/* Claim the place of a mount's block. While opening. -EBADMSG: another block has that place
 * already. */
static int claim_block(struct cache *c, const struct log_record *r)
{
	struct shard *s = shard_of(c, &r->digest);
	uint32_t number = r->page / c->segment_pages;
	uint32_t id = table_find(c, s, &r->digest);
	struct entry *e;

	if (id != ENTRY_NIL) {
		e = entry_at(c, id);
		if (e->page != r->page || e->usize != r->usize)
			return -EBADMSG;
		e->pins++;
		return 0;
	}
	if (r->kind != LOG_PUT || number >= CACHE_SEGMENTS_MAX)
		return -EBADMSG;
	if (!c->segments[number].used &&
	    space_open_segment(c, number, false, NULL) < 0)
		return -EBADMSG;
	if (!space_claim(c, r->page, pages_of(r->usize)))
		return -EBADMSG;
	id = table_take(c);
	if (id == ENTRY_NIL)
		return -ENOMEM;
	e = entry_at(c, id);
	e->digest = r->digest;
	e->page = r->page;
	e->usize = r->usize;
	e->pins = 1;
	table_insert(c, s, id);
	c->bytes += extent_bytes(r->usize);
	c->pinned_bytes += extent_bytes(r->usize);
	c->blocks++;
	return 0;
}

/* Load the list of an existing mount, as far as it is valid. */
static int load_mount_block_list(struct cache *c, struct cache_mount *m,
				 bool *segment_bytes_known)
{
	AUTO_FREE char *path = NULL;
	AUTO_BUF text = BUF_INIT;
	uint64_t segment_bytes;
	int rc = cache_mount_path(c, m->name, "blocks", &path, NULL);

	if (rc == 0)
		rc = fs_read_file(path, LIST_BYTES_MAX, &text, NULL);
	if (rc == 0)
		rc = cache_mounts_decode(&text, m, &segment_bytes);
	if (rc < 0)
		return rc;
	if (!*segment_bytes_known) {
		c->segment_bytes = segment_bytes;
		c->segment_pages = (uint32_t)(segment_bytes / CACHE_PAGE);
		*segment_bytes_known = true;
	}
	if (segment_bytes != c->segment_bytes)
		return -EBADMSG;
	for (size_t i = 0; i < m->n_blocks; i++) {
		rc = claim_block(c, &m->blocks[i]);
		if (rc < 0) {
			unpin_first(c, m, i);
			return rc;
		}
	}
	for (size_t i = 0; i < m->n_blocks; i++)
		c->segments[m->blocks[i].page / c->segment_pages].mounted =
			true;
	return 0;
}

static int load_mount_of_file(struct cache *c, const char *file,
			      bool *segment_bytes_known, struct error *err)
{
	const char *suffix = strrchr(file, '.');
	AUTO(cache_mount) m = NULL;
	int rc;

	if (!suffix || suffix == file ||
	    (strcmp(suffix, ".erofs") != 0 && strcmp(suffix, ".blocks") != 0 &&
	     strcmp(suffix, ".json") != 0))
		return 0;
	m = calloc(1, sizeof(*m));
	if (!m || !(m->name = strndup(file, (size_t)(suffix - file))))
		return error_nomem(err);
	if (*find_mount(c, m->name))
		return 0;
	/* The list exists, so its image did too, and was lost: the kernel cannot be asked
	 * about it. */
	rc = is_mount_image_open(c, m->name);
	if (rc == 0)
		return 0;
	rc = rc == -ENOENT ? rc
			   : load_mount_block_list(c, m, segment_bytes_known);
	if (rc == -ENOMEM)
		return error_nomem(err);
	m->is_broken = rc < 0;
	m->next = c->mounts;
	c->mounts = steal_ptr(&m);
	return 0;
}

int mounts_add_unknown(struct cache *c, const char *name, struct error *err)
{
	AUTO(cache_mount) m = NULL;

	if (*find_mount(c, name))
		return 0;
	m = calloc(1, sizeof(*m));
	if (!m || !(m->name = strdup(name)))
		return error_nomem(err);
	m->is_broken = true;
	m->next = c->mounts;
	c->mounts = steal_ptr(&m);
	return 0;
}

int mounts_load(struct cache *c, bool segment_bytes_known, struct error *err)
{
	int fd, rc = 0;
	struct dirent *e;
	DIR *dir;

	if (mkdirat(c->dir_fd, MOUNTS_DIR, 0700) < 0 && errno != EEXIST)
		return error_errno(err, errno, "create '%s/" MOUNTS_DIR "'",
				   c->dir);
	fd = openat(c->dir_fd, MOUNTS_DIR, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		rc = error_errno(err, errno, "list '%s/" MOUNTS_DIR "'",
				 c->dir);
		fd_close(fd);
		return rc;
	}
	while (rc == 0 && (e = readdir(dir)))
		rc = load_mount_of_file(c, e->d_name, &segment_bytes_known,
					err);
	(void)closedir(dir);
	c->laid = cache_mounts_measure(c);
	return rc;
}

void mounts_fini(struct cache *c)
{
	while (c->mounts) {
		struct cache_mount *m = c->mounts;

		c->mounts = m->next;
		cache_mount_free(m);
	}
}
