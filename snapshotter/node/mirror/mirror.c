// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/mirror/mirror.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/fs.h"
#include "common/log.h"
#include "objects/oci_hosts.h"
#include "snapshotter/node/mirror/mirror_priv.h"

#define CONNECTIONS_MAX 256u
#define OPENING_THREADS 4u
#define IDLE_NS (120 * NS_PER_S)
#define REQUEST_NS (30 * NS_PER_S)
#define TIDY_NS (10 * NS_PER_S)

static void on_tidy(struct loop_timer *t)
{
	struct mirror *m = container_of(t, struct mirror, tidy);

	mirror_tidy(m);
	(void)!loop_timer_start(m->loop, t, TIDY_NS, NULL);
}

static void on_stop(struct loop_call *c)
{
	struct mirror *m = container_of(c, struct mirror, stop_call);

	loop_timer_stop(&m->tidy);
	mirror_give_up(m);
	httpd_abort(m->http);
	loop_stop(m->loop);
}

static void *mirror_main(void *arg)
{
	struct mirror *m = arg;
	struct error err = ERROR_INIT;

	if (loop_run(m->loop, &err) < 0)
		log_error("mirror",
			  "no layers are served any more reason=\"%s\"",
			  err.msg);
	return NULL;
}

/* Make the mirror's folder in ROOT; layer files of an earlier bootseerd are nameless, so
 * nothing is left to remove. */
static int make_names(struct mirror *m, struct error *err)
{
	m->dir = fs_join(m->of.cfg->root, "mirror");
	if (m->dir) {
		m->cert_file = fs_join(m->dir, "node.pem");
		m->key_file = fs_join(m->dir, "node.key");
	}
	if (!m->dir || !m->cert_file || !m->key_file)
		return error_nomem(err);
	m->client_cas[0] = m->cert_file;
	return fs_mkdir(m->dir, 0700, err);
}

/* Write hosts.toml: an operator's link to it in containerd's config_path makes containerd use
 * the mirror. */
static int write_hosts(const struct mirror *m, struct error *err)
{
	AUTO_FREE char *path = fs_join(m->dir, "hosts.toml");
	const char *listen = m->of.cfg->mirror;
	AUTO_BUF text = BUF_INIT;

	if (!path ||
	    buf_printf(&text,
		       "# bootseerd's mirror: layers of ordinary images.\n"
		       "[host.\"https://%.*s:%u\"]\n"
		       "  capabilities = [\"pull\"]\n"
		       "  ca = \"%s\"\n"
		       "  client = [[\"%s\", \"%s\"]]\n"
		       "  [host.\"https://%.*s:%u\".header]\n"
		       "    " OCI_MIRROR_OWN " = \"1\"\n",
		       (int)(strrchr(listen, ':') - listen), listen,
		       httpd_port(m->http), m->cert_file, m->cert_file,
		       m->key_file, (int)(strrchr(listen, ':') - listen),
		       listen, httpd_port(m->http)) < 0)
		return error_nomem(err);
	return fs_replace_file(path, text.data, text.len, 0444, err);
}

static int start_http(struct mirror *m, struct error *err)
{
	const struct httpd_config cfg = {
		.loop = m->loop,
		.name = "mirror",
		.option = "--mirror",
		.listen = m->of.cfg->mirror,
		.tls = m->tls,
		.connections_max = CONNECTIONS_MAX,
		.idle_ns = IDLE_NS,
		.request_ns = REQUEST_NS,
		.handler = &mirror_handler,
		.arg = m,
	};

	return httpd_new(&cfg, &m->http, err);
}

static int start_mirror(struct mirror *m, struct error *err)
{
	int rc = make_names(m, err);

	if (rc == 0)
		rc = mirror_cert_make(m->cert_file, m->key_file,
				      m->of.cfg->mirror, err);
	if (rc == 0)
		rc = httpd_tls_new(m->cert_file, m->key_file, m->client_cas,
				   &m->tls, err);
	if (rc == 0)
		rc = loop_new(&m->loop, err);
	if (rc == 0)
		rc = pool_new(m->loop, OPENING_THREADS, 0, &m->opening, err);
	if (rc == 0)
		rc = pool_new(m->loop, MIRROR_FETCHES, 0, &m->fetching, err);
	if (rc == 0)
		rc = start_http(m, err);
	if (rc == 0)
		rc = write_hosts(m, err);
	m->tidy.fn = on_tidy;
	if (rc == 0)
		rc = loop_timer_start(m->loop, &m->tidy, TIDY_NS, err);
	return rc < 0 ? rc : thread_start(&m->thread, mirror_main, m, err);
}

int mirror_open(const struct mirror_of *of, struct mirror **ret,
		struct error *err)
{
	struct mirror *m;
	int rc;

	*ret = NULL;
	if (!of->cfg->mirror)
		return 0;
	m = calloc(1, sizeof(*m));
	if (!m)
		return error_nomem(err);
	m->of = *of;
	m->stop_call.fn = on_stop;
	TAILQ_INIT(&m->images);
	TAILQ_INIT(&m->parked);
	(void)pthread_mutex_init(&m->liars.lock, NULL);
	rc = start_mirror(m, err);
	if (rc < 0) {
		mirror_close(m);
		return error_wrap(err, rc, "mirror");
	}
	log_info("mirror", "listening port=%u certificate=\"%s\"",
		 httpd_port(m->http), m->cert_file);
	*ret = m;
	return 0;
}

void mirror_close(struct mirror *m)
{
	if (!m)
		return;
	if (m->thread.is_started) {
		loop_post(m->loop, &m->stop_call);
		thread_join(&m->thread);
	} else if (m->loop) {
		loop_timer_stop(&m->tidy);
		if (m->http)
			httpd_abort(m->http);
	}
	pool_free(m->opening);
	pool_free(m->fetching);
	/* Finished jobs of the pools may still be posted to the loop, so free the loop after
	 * the pools. */
	if (m->loop)
		loop_free(m->loop);
	httpd_free(m->http);
	httpd_tls_free(m->tls);
	mirror_images_free(m);
	(void)pthread_mutex_destroy(&m->liars.lock);
	free(m->dir);
	free(m->cert_file);
	free(m->key_file);
	free(m);
}

/* Check that only root can read the key: any process with it can read all layers of the mirror. */
static int check_key(const struct mirror *m, struct error *err)
{
	struct stat st;

	if (stat(m->key_file, &st) < 0)
		return error_set(err, errno, "'%s': %s", m->key_file,
				 strerror(errno));
	if (st.st_uid == geteuid() && !(st.st_mode & 077))
		return 0;
	return error_set(err, EPERM, "'%s' is user %u's, mode %04o",
			 m->key_file, st.st_uid, st.st_mode & 07777);
}

void mirror_check(const struct mirror *m, json_t *list)
{
	struct error err = ERROR_INIT;
	bool is_private;

	if (!m)
		return;
	doctor_add(list, "mirror", m->thread.is_started, DOCTOR_ADVICE,
		   "systemctl restart bootseerd",
		   "answers containerd at port %u", httpd_port(m->http));
	is_private = check_key(m, &err) == 0;
	doctor_add(list, "mirror's key", is_private, DOCTOR_ADVICE,
		   "systemctl restart bootseerd, which makes another", "%s%s",
		   is_private ? m->key_file : err.msg,
		   is_private ? " is read by root alone" : "");
}

void mirror_get_stats(const struct mirror *m, struct mirror_stats *ret)
{
	const struct mirror_counts *c;

	*ret = (struct mirror_stats){ .layers = 0 };
	if (!m)
		return;
	c = &m->counts;
	ret->layers = atomic_load(&c->layers);
	ret->layers_bytes = atomic_load(&c->layers_bytes);
	ret->served_total = atomic_load(&c->served);
	ret->passed_total = atomic_load(&c->passed);
	ret->failed_total = atomic_load(&c->failed);
	ret->wrong_total = atomic_load(&c->wrong);
	ret->served_bytes_total = atomic_load(&c->served_bytes);
	ret->registry_bytes_total = atomic_load(&c->registry_bytes);
	ret->peers_bytes_total = atomic_load(&c->peers_bytes);
}
