// SPDX-License-Identifier: Apache-2.0
/* libibverbs through dlopen(). */
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>

#include "p2p/rdma/verbs.h"

#define LIBRARY "libibverbs.so.1"

struct verbs {
	void *library;
	struct verbs_ops ops;
};

/* Functions that the header defines inline, over a table of the device. */

static int query_port(struct ibv_context *context, uint8_t port,
		      struct ibv_port_attr *attr)
{
	struct verbs_context *v = verbs_get_ctx_op(context, query_port);

	return v ? v->query_port(context, port, attr, sizeof(*attr)) : ENOSYS;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	return ibv_req_notify_cq(cq, solicited_only);
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	return ibv_poll_cq(cq, n, wc);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	return ibv_post_send(qp, wr, bad);
}

static const struct verbs_ops inlines = {
	.query_port = query_port,
	.req_notify_cq = req_notify_cq,
	.poll_cq = poll_cq,
	.post_send = post_send,
};

#define SYMBOL(member, name) \
	{ \
		offsetof(struct verbs_ops, member), name \
	}

static const struct {
	size_t offset;
	const char *name;
} symbols[] = {
	SYMBOL(get_device_list, "ibv_get_device_list"),
	SYMBOL(free_device_list, "ibv_free_device_list"),
	SYMBOL(get_device_name, "ibv_get_device_name"),
	SYMBOL(open_device, "ibv_open_device"),
	SYMBOL(close_device, "ibv_close_device"),
	SYMBOL(query_device, "ibv_query_device"),
	SYMBOL(query_gid, "_ibv_query_gid_ex"),
	SYMBOL(get_async_event, "ibv_get_async_event"),
	SYMBOL(ack_async_event, "ibv_ack_async_event"),
	SYMBOL(alloc_pd, "ibv_alloc_pd"),
	SYMBOL(dealloc_pd, "ibv_dealloc_pd"),
	SYMBOL(reg_mr, "ibv_reg_mr"),
	SYMBOL(dereg_mr, "ibv_dereg_mr"),
	SYMBOL(create_comp_channel, "ibv_create_comp_channel"),
	SYMBOL(destroy_comp_channel, "ibv_destroy_comp_channel"),
	SYMBOL(create_cq, "ibv_create_cq"),
	SYMBOL(destroy_cq, "ibv_destroy_cq"),
	SYMBOL(get_cq_event, "ibv_get_cq_event"),
	SYMBOL(ack_cq_events, "ibv_ack_cq_events"),
	SYMBOL(wc_status_str, "ibv_wc_status_str"),
	SYMBOL(create_qp, "ibv_create_qp"),
	SYMBOL(modify_qp, "ibv_modify_qp"),
	SYMBOL(destroy_qp, "ibv_destroy_qp"),
};

int verbs_open(struct verbs **ret, struct error *err)
{
	AUTO(verbs) v = calloc(1, sizeof(*v));

	if (!v)
		return error_nomem(err);
	v->ops = inlines;
	v->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!v->library)
		return error_set(err, ENOENT, "%s", dlerror());
	for (size_t i = 0; i < ARRAY_SIZE(symbols); i++) {
		void *f = dlsym(v->library, symbols[i].name);

		if (!f)
			return error_set(err, ENOENT, LIBRARY " has no %s",
					 symbols[i].name);
		memcpy((char *)&v->ops + symbols[i].offset, &f, sizeof(f));
	}
	*ret = steal_ptr(&v);
	return 0;
}

void verbs_free(struct verbs *v)
{
	if (!v)
		return;
	if (v->library)
		dlclose(v->library);
	free(v);
}

const struct verbs_ops *verbs_table(const struct verbs *v)
{
	return &v->ops;
}
