// SPDX-License-Identifier: Apache-2.0
#include "ckpt-fuse/mount/mount.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "ckpt-fuse/mount/later.h"
#include "ckpt-fuse/mount/ops.h"
#include "ckpt-fuse/mount/writers.h"
#include "common/bytes.h"
#include "common/clock.h"
#include "common/log.h"
#include "objects/store_patience.h"

#define SENDERS 16u
#define READERS 32u
#define PATIENCE_NS (120 * NS_PER_S)
#define LIFE_LEN 16
/* How long a name in `coming` is kept: a writer that has not opened the file by then does not
 * come. */
#define COMING_NS (10 * NS_PER_S)
/* How long a name in `absent` is kept: a create may be delayed by the rename of a folder, and the
 * answer is too old then. */
#define ABSENT_NS NS_PER_S

static const struct fuse_lowlevel_ops mount_ops = {
	.lookup = ops_lookup,
	.forget = ops_forget,
	.forget_multi = ops_forget_multi,
	.getattr = ops_getattr,
	.setattr = ops_setattr,
	.statfs = ops_statfs,
	.open = ops_open,
	.create = ops_create,
	.read = ops_read,
	.write = ops_write,
	.fallocate = ops_fallocate,
	.flush = ops_flush,
	.fsync = ops_fsync,
	.release = ops_release,
	.opendir = ops_opendir,
	.readdir = ops_readdir,
	.releasedir = ops_releasedir,
	.fsyncdir = ops_fsyncdir,
	.mkdir = ops_mkdir,
	.rmdir = ops_rmdir,
	.unlink = ops_unlink,
	.rename = ops_rename,
	.link = ops_link,
	.symlink = ops_symlink,
	.mknod = ops_mknod,
	.getxattr = ops_getxattr,
	.setxattr = ops_setxattr,
	.listxattr = ops_listxattr,
	.removexattr = ops_removexattr,
};

static void mount_init(struct fuse_conn_info *conn)
{
	const unsigned int wanted =
		FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_PARALLEL_DIROPS |
		FUSE_CAP_ASYNC_READ | FUSE_CAP_AUTO_INVAL_DATA;

	conn->want |= conn->capable & wanted;
	/* No write-back cache: the mount must see each write before the file is closed. */
	conn->want &= ~(unsigned int)FUSE_CAP_WRITEBACK_CACHE;
	conn->max_write = SESSION_DATA_MAX;
	conn->max_readahead = SESSION_DATA_MAX;
}

const struct session_handler ckpt_mount_handler = {
	.ops = &mount_ops,
	.init = mount_init,
	.request_max = SESSION_REQUEST_DATA,
};

/* --------------------------------------------------------------------- the mount --- */

/* Extract the folder from "file:///folder?options" or "file:/folder". */
static char *local_folder(const char *url)
{
	static const char scheme[] = "file:/";
	const char *path = url + strlen(scheme) - 1;

	if (strncmp(url, scheme, strlen(scheme)) != 0)
		return NULL;
	return strndup(path, strcspn(path, "?"));
}

/* Probe how the store can be written to; a read-only mount does not need to know. */
static int probe_store_writes(struct object_store *s, struct error *err)
{
	int rc = object_store_probe(s, err);

	if (rc != -EACCES && rc != -EPERM && rc != -EROFS)
		return rc;
	log_warning("ckpt", "read only reason=\"%s\"", err ? err->msg : "");
	return 0;
}

static int make_process_id(char ret[LIFE_LEN + 1], struct error *err)
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return error_errno(err, errno, "random bytes");
	(void)snprintf(ret, LIFE_LEN + 1, "%016" PRIx64, random);
	return 0;
}

/* Take over from the previous process. First wait until its requests to the store are finished or
 * invalid: a late put of a file that is removed now would bring it back. */
static int fence_earlier_process(struct object_store *s, int life_fd,
				 const char *life, struct error *err)
{
	char before[LIFE_LEN + 1] = "";
	ssize_t n = life_fd < 0 ? 0 : pread(life_fd, before, LIFE_LEN, 0);
	int rc = n > 0 ? object_store_fence(s, before, err) : 0;

	if (rc < 0 || life_fd < 0)
		return rc;
	n = pwrite(life_fd, life, LIFE_LEN, 0);
	return n == LIFE_LEN ? 0
			     : error_set(err, EIO,
					 "the life of this process "
					 "was not written down");
}

/* Report a silent store also to the process that waits for the mount. */
static void mount_store_is_silent(void *arg, const char *line)
{
	struct ckpt_mount *m = arg;

	log_warning("ckpt", "the store is silent reason=\"%s\"", line);
	if (!atomic_load(&m->is_ready))
		(void)!dprintf(STDOUT_FILENO, "%s\n", line);
}

static int open_store(struct ckpt_mount *m, const char *url, int life_fd,
		      struct error *err)
{
	struct object_store_config o = OBJECT_STORE_CONFIG_INIT;
	char life[LIFE_LEN + 1];
	int rc = make_process_id(life, err);

	if (rc < 0)
		return rc;
	/* Half of the memory is for bytes that the store holds until they are written. */
	o.memory = m->cfg->memory / 2;
	o.ca_file = m->cfg->ca_file;
	o.life = life;
	object_store_set_timeout(&o, m->cfg->store_timeout);
	rc = object_store_open(url, &o, &m->store, err);
	if (rc == 0)
		rc = object_store_watch(m->store, mount_store_is_silent, m,
					err);
	if (rc == 0 && !m->cfg->read_only)
		rc = probe_store_writes(m->store, err);
	/* Without the right to write, the previous process had no requests that change the
	 * store. */
	if (rc == 0 && object_store_caps(m->store).is_probed)
		rc = fence_earlier_process(m->store, life_fd, life, err);
	return rc;
}

static void set_memory_bounds(struct ckpt_mount *m)
{
	uint64_t part = object_store_caps(m->store).part_size;
	uint64_t mine = m->cfg->memory / 2;
	/* A put holds two parts in memory; an eighth is for manifests and small files. */
	uint64_t slots = (mine - mine / 8) / (2 * (part ? part : MIB));

	budget_init(&m->budget, mine, mine / 2);
	m->writings = (struct writings){
		.store = m->store,
		.budget = &m->budget,
		.pool = m->senders,
		.compares = ckpt_store_compares(m->store) ||
			    strcmp(m->cfg->compare, "always") == 0,
		.tail_most = m->cfg->tail,
		.patience_ns = PATIENCE_NS,
		.columns = (uint32_t)m->cfg->columns,
		.readings = &m->readings,
	};
	/* A third of the slots is for files of one column. */
	budget_init(&m->writings.slots, slots ? slots : 1, slots - slots / 3);
	TAILQ_INIT(&m->writings.list);
	(void)pthread_mutex_init(&m->writings.lock, NULL);
	m->readings = (struct readings){
		.budget = &m->budget,
		.pool = m->readers,
		.readahead_most = m->cfg->readahead,
		.group = m->group,
		.cache = m->cache,
		.tables_own = m->cfg->memory / 128,
	};
	readings_init(&m->readings);
}

static void log_lost_file(void *arg, struct ckpt_node *n)
{
	AUTO_BUF path = BUF_INIT;

	(void)arg;
	if (n->lost_rc && nodes_path_locked(n, &path) == 0)
		log_error("ckpt", "lost path=\"%s\" reason=\"%s\"", path.data,
			  node_loss_why(n));
}

int ckpt_tell_lost(int journal_fd, unsigned int *ret_n, struct error *err)
{
	struct nodes t;
	int rc = nodes_init(&t, journal_fd, err);

	if (rc == 0)
		nodes_each(&t, NULL, log_lost_file, NULL);
	*ret_n = atomic_load(&t.n_lost);
	nodes_fini(&t);
	return rc;
}

/* Bounds of the parallel reads from the store; more do not help. */
#define GROUP_FETCHES_MIN 8u
#define GROUP_FETCHES_MAX 16u

static int open_group(struct ckpt_mount *m, struct error *err)
{
	const unsigned int parallel = object_store_caps(m->store).parallel;
	const struct group_config cfg = {
		.key_file = m->cfg->group_key,
		.places = m->cfg->group,
		.members = (unsigned int)m->cfg->group_nodes,
		.memory = m->cfg->group_memory,
		.wait_ns = m->cfg->group_wait,
		.dscp = (unsigned int)m->cfg->group_dscp,
		.rate = m->cfg->group_rate,
		.fetches = parallel < GROUP_FETCHES_MIN   ? GROUP_FETCHES_MIN
			   : parallel > GROUP_FETCHES_MAX ? GROUP_FETCHES_MAX
							  : parallel,
	};

	if (!cfg.places && !cfg.key_file)
		return 0;
	if (!cfg.places || !cfg.key_file)
		return error_set(err, EINVAL,
				 "--group and --group-key belong together");
	return group_new(&cfg, &m->group, err);
}

/* Open the disk cache. The mount works without it, so a failure is only logged. */
static int open_cache(struct ckpt_mount *m, const char *url, struct error *err)
{
	const char *dir = m->cfg->cache;
	struct error why = ERROR_INIT;

	if (dir && dir[0] != '/')
		return error_set(err, EINVAL, "--cache '%s': not from / on",
				 dir);
	if (dir &&
	    disk_cache_open(dir, m->cfg->cache_size, url, &m->cache, &why) < 0)
		log_warning("ckpt", "no cache reason=\"%s\"", why.msg);
	return 0;
}

static int open_blocks(struct ckpt_mount *m, struct error *err)
{
	const struct blocks_config cfg = {
		.group = m->group,
		.store = m->store,
		.memory = m->cfg->group_blocks,
		.stored = m->cfg->group_blocks_store,
		.wait_ns = m->cfg->group_wait,
		.read_only = m->cfg->read_only,
	};

	return cfg.memory ? blocks_new(&cfg, &m->blocks, err) : 0;
}

int ckpt_mount_begin_saves(struct ckpt_mount *m, const char *path,
			   struct error *err)
{
	struct saves_config cfg = {
		.group = m->group,
		.store = m->store,
		.socket = m->cfg->group_socket,
		.mount = path,
		.plain_owner = (uid_t)m->cfg->uid,
		.memory = m->cfg->group_staging,
		.wait_ns = m->cfg->group_wait,
		.read_only = m->cfg->read_only,
		.has_mount = !m->cfg->ranks_only,
		.is_full = m->cfg->group_full,
	};
	struct stat st;
	int rc;

	if (!cfg.socket && m->cfg->group_blocks)
		return error_set(err, EINVAL,
				 "--group-blocks needs --group-socket");
	if (!cfg.socket)
		return 0;
	if (!m->group)
		return error_set(
			err, EINVAL,
			"--group-socket needs --group and --group-key");
	if (cfg.socket[0] != '/')
		return error_set(err, EINVAL,
				 "--group-socket '%s': not from / on",
				 cfg.socket);
	if (stat(m->cfg->group_key, &st) < 0)
		return error_errno(err, errno, "the group's key '%s'",
				   m->cfg->group_key);
	/* If root started this process, ranks must run as the owner of the key file. */
	cfg.owner = geteuid() ? geteuid() : st.st_uid;
	rc = open_blocks(m, err);
	cfg.blocks = m->blocks;
	return rc < 0 ? rc : saves_new(&cfg, &m->group_saves, err);
}

int ckpt_mount_open(const struct ckpt_mount_config *cfg, const char *url,
		    const struct ckpt_kept *kept, struct ckpt_mount **ret,
		    struct error *err)
{
	struct ckpt_mount *m = calloc(1, sizeof(*m));
	struct timespec now;
	int rc;

	if (!m)
		return error_nomem(err);
	(void)clock_gettime(CLOCK_REALTIME, &now);
	m->started_ns = (int64_t)now.tv_sec * NS_PER_S;
	m->cfg = cfg;
	m->local = local_folder(url);
	rc = open_store(m, url, kept->life_fd, err);
	if (rc == 0)
		rc = open_group(m, err);
	if (rc == 0)
		rc = open_cache(m, url, err);
	if (rc == 0)
		rc = pool_new(NULL, SENDERS, 0, &m->senders, err);
	if (rc == 0)
		rc = pool_new(NULL, READERS, 0, &m->readers, err);
	if (rc < 0) {
		ckpt_mount_free(m);
		return rc;
	}
	set_memory_bounds(m);
	ckpt_phase_init(&m->saves);
	ckpt_phase_init(&m->loads);
	recent_names_init(&m->coming, COMING_NS);
	recent_names_init(&m->absent, ABSENT_NS);
	rc = listed_new(&m->listed, err);
	m->writings.listed = m->listed;
	folder_lister_init(&m->lister, m->store, m->listed);
	if (rc == 0)
		rc = handles_init(&m->handles, err);
	if (rc == 0)
		rc = nodes_init(&m->nodes, kept->journal_fd, err);
	if (rc == 0)
		nodes_each(&m->nodes, NULL, log_lost_file, NULL);
	if (rc == 0 && strcmp(cfg->close, "buffered") == 0)
		rc = later_new(writers_end, &m->later, err);
	if (rc < 0)
		ckpt_mount_free(m);
	else
		*ret = m;
	return rc;
}

void ckpt_mount_free(struct ckpt_mount *m)
{
	if (!m)
		return;
	saves_free(m->group_saves);
	blocks_free(m->blocks);
	later_free(m->later);
	handles_fini(&m->handles);
	nodes_fini(&m->nodes);
	pool_free(m->senders);
	pool_free(m->readers);
	group_free(m->group);
	disk_cache_free(m->cache);
	readings_fini(&m->readings);
	recent_names_fini(&m->coming);
	recent_names_fini(&m->absent);
	ckpt_phase_fini(&m->loads);
	ckpt_phase_fini(&m->saves);
	folder_lister_fini(&m->lister);
	listed_free(m->listed);
	(void)pthread_mutex_destroy(&m->writings.lock);
	budget_fini(&m->writings.slots);
	budget_fini(&m->budget);
	object_store_free(m->store);
	free((void *)(uintptr_t)m->local);
	free(m);
}

unsigned int ckpt_mount_settle(struct ckpt_mount *m)
{
	const unsigned int n_lost = saves_end(m->group_saves);

	(void)nodes_wait_commits(&m->nodes, NULL, true);
	return n_lost + atomic_load(&m->nodes.n_lost);
}
