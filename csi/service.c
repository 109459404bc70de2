// SPDX-License-Identifier: Apache-2.0
#include "csi/service.h"

#include <errno.h>
#include <string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/text.h"
#include "net/pool.h"

/* Threads for calls: a node starts many pods at once, and each may wait for a store. */
#define THREADS 128
#define QUEUE_MAX 1024
#define SWEEP_NS (600 * NS_PER_S)

struct csi_service {
	struct csi_service_config cfg;
	struct pool *pool;
	size_t n_busy;
	void (*idle)(void *arg);
	void *idle_arg;
	struct work sweep;
	struct loop_timer sweep_timer;
};

struct csi_call {
	struct work work;
	struct csi_service *service;
	struct grpc_call *call;
	const char *name;
	int (*run)(struct csi_call *c);
	const uint8_t *data; /* the request's message */
	size_t len;
	int64_t deadline_ns; /* 0: none */
	struct buf reply;
	struct error err;
	int rc;
};

/* --- methods, on a pool thread */

static int run_plugin_info(struct csi_call *c)
{
	return csi_plugin_info_write(CSI_DRIVER, &c->reply, &c->err);
}

/* Answer with an empty message, which means: no controller service, and ready. */
static int run_nothing(struct csi_call *c)
{
	(void)c;
	return 0;
}

static int run_node_info(struct csi_call *c)
{
	return csi_node_info_write(c->service->cfg.node_name, &c->reply,
				   &c->err);
}

static int run_capabilities(struct csi_call *c)
{
	return csi_capabilities_write(&c->reply, &c->err);
}

static int run_publish(struct csi_call *c)
{
	struct csi_publish p;
	int rc = csi_publish_read(c->data, c->len, &p, &c->err);

	if (rc < 0)
		return rc;
	rc = volumes_publish(c->service->cfg.volumes, &p, &c->err);
	csi_publish_fini(&p);
	return rc;
}

static int run_unpublish(struct csi_call *c)
{
	AUTO_FREE char *path = NULL;
	int rc = csi_path_read(c->data, c->len, false, &path, &c->err);

	return rc < 0 ? rc
		      : volumes_unpublish(c->service->cfg.volumes, path,
					  &c->err);
}

static int run_stats(struct csi_call *c)
{
	AUTO_FREE char *path = NULL;
	struct volume_stats s;
	int rc = csi_path_read(c->data, c->len, true, &path, &c->err);

	if (rc == 0)
		rc = volumes_stats(c->service->cfg.volumes, path, &s, &c->err);
	return rc < 0 ? rc
		      : csi_stats_write(&s.bytes, &s.files,
					s.is_abnormal ? s.why.msg : NULL,
					&c->reply, &c->err);
}

static int run_registration(struct csi_call *c)
{
	return csi_registration_write(CSI_DRIVER, c->service->cfg.endpoint,
				      &c->reply, &c->err);
}

static int run_registered(struct csi_call *c)
{
	AUTO_FREE char *why = NULL;
	bool is;
	int rc = csi_registered_read(c->data, c->len, &is, &why, &c->err);

	if (rc < 0)
		return rc;
	text_make_printable(why);
	if (is)
		log_info("csi", "the kubelet has the plugin");
	else
		log_error("csi",
			  "the kubelet refuses the plugin: "
			  "reason=\"%s\"",
			  why);
	return 0;
}

/* --- calls, on the loop thread */

static void leave_service(struct csi_service *s)
{
	void (*idle)(void *) = s->idle;

	if (--s->n_busy == 0 && idle) {
		s->idle = NULL;
		idle(s->idle_arg);
	}
}

static void on_call(struct work *w)
{
	struct csi_call *c = container_of(w, struct csi_call, work);

	c->data = grpc_call_request(c->call, &c->len);
	/* Do not run a call after its deadline: the kubelet may have asked for the opposite
	 * meanwhile. */
	if (c->deadline_ns && clock_now_ns() >= c->deadline_ns)
		c->rc = error_set(&c->err, ETIMEDOUT,
				  "it waited for a thread until the kubelet "
				  "waited no more");
	else
		c->rc = c->run(c);
}

static void finish_call(struct csi_call *c)
{
	struct csi_service *s = c->service;

	if (c->rc == 0 &&
	    grpc_call_send(c->call, c->reply.len ? c->reply.data : "",
			   c->reply.len) < 0)
		c->rc = error_nomem(&c->err);
	if (c->rc < 0)
		log_warning("csi", "%s failed: %s", c->name, c->err.msg);
	grpc_call_finish(c->call,
			 c->rc < 0 ? grpc_status_of_errno(-c->rc)
				   : GRPC_STATUS_OK,
			 c->rc < 0 ? c->err.msg : NULL);
	buf_fini(&c->reply);
	free(c);
	leave_service(s);
}

static void on_call_done(struct work *w)
{
	finish_call(container_of(w, struct csi_call, work));
}

static void start_call(struct grpc_call *call, struct csi_service *s,
		       const char *name, int (*run)(struct csi_call *))
{
	struct csi_call *c = calloc(1, sizeof(*c));
	int rc;

	if (!c) {
		grpc_call_finish(call, GRPC_STATUS_RESOURCE_EXHAUSTED,
				 "out of memory");
		return;
	}
	c->service = s;
	c->call = call;
	c->name = name;
	c->run = run;
	c->deadline_ns = grpc_call_deadline(call);
	c->work.run = on_call;
	c->work.done = on_call_done;
	s->n_busy++;
	rc = s->pool ? pool_submit(s->pool, &c->work) : -ECANCELED;
	if (rc < 0) {
		c->rc = error_set(&c->err, -rc, "too many calls are waiting");
		finish_call(c);
	}
}

#define CALL(method, name) \
	static void start_##method(struct grpc_call *call, void *arg) \
	{ \
		start_call(call, arg, name, run_##method); \
	}

CALL(plugin_info, "GetPluginInfo")
CALL(nothing, "Probe")
CALL(node_info, "NodeGetInfo")
CALL(capabilities, "NodeGetCapabilities")
CALL(publish, "NodePublishVolume")
CALL(unpublish, "NodeUnpublishVolume")
CALL(stats, "NodeGetVolumeStats")
CALL(registration, "GetInfo")
CALL(registered, "NotifyRegistrationStatus")

const struct grpc_method *csi_service_methods(void)
{
	static const struct grpc_method methods[] = {
		{ "/csi.v1.Identity/GetPluginInfo", start_plugin_info },
		{ "/csi.v1.Identity/GetPluginCapabilities", start_nothing },
		{ "/csi.v1.Identity/Probe", start_nothing },
		{ "/csi.v1.Node/NodeGetInfo", start_node_info },
		{ "/csi.v1.Node/NodeGetCapabilities", start_capabilities },
		{ "/csi.v1.Node/NodePublishVolume", start_publish },
		{ "/csi.v1.Node/NodeUnpublishVolume", start_unpublish },
		{ "/csi.v1.Node/NodeGetVolumeStats", start_stats },
		{ "/pluginregistration.Registration/GetInfo",
		  start_registration },
		{ "/pluginregistration.Registration/NotifyRegistrationStatus",
		  start_registered },
		{ NULL, NULL },
	};

	return methods;
}

/* --- removing abandoned volumes */

static void on_sweep(struct work *w)
{
	volumes_sweep(container_of(w, struct csi_service, sweep)->cfg.volumes);
}

static void on_swept(struct work *w)
{
	struct csi_service *s = container_of(w, struct csi_service, sweep);

	if (s->pool &&
	    loop_timer_start(s->cfg.loop, &s->sweep_timer, SWEEP_NS, NULL) < 0)
		log_warning("csi", "what pods left is not looked for any more");
	leave_service(s);
}

static void on_sweep_time(struct loop_timer *t)
{
	struct csi_service *s =
		container_of(t, struct csi_service, sweep_timer);

	s->n_busy++;
	if (pool_submit(s->pool, &s->sweep) < 0)
		on_swept(&s->sweep);
}

/* ---- the service ---- */

int csi_service_new(const struct csi_service_config *cfg,
		    struct csi_service **ret, struct error *err)
{
	struct csi_service *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return error_nomem(err);
	s->cfg = *cfg;
	s->sweep.run = on_sweep;
	s->sweep.done = on_swept;
	s->sweep_timer.fn = on_sweep_time;
	rc = pool_new(cfg->loop, THREADS, QUEUE_MAX, &s->pool, err);
	if (rc < 0) {
		free(s);
		return rc;
	}
	on_sweep_time(&s->sweep_timer);
	*ret = s;
	return 0;
}

void csi_service_stop(struct csi_service *s)
{
	if (!s)
		return;
	loop_timer_stop(&s->sweep_timer);
	pool_free(steal_ptr(&s->pool));
}

void csi_service_free(struct csi_service *s)
{
	free(s);
}

void csi_service_when_idle(struct csi_service *s, void (*fn)(void *arg),
			   void *arg)
{
	if (s->n_busy == 0) {
		fn(arg);
		return;
	}
	s->idle = fn;
	s->idle_arg = arg;
}
