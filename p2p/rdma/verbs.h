// SPDX-License-Identifier: Apache-2.0
/*
 * The RDMA verbs as a table of functions: libibverbs is loaded at run time, so the program also
 * runs without it, and tests use a mock. Each member is the libibverbs function of the same name.
 */
#ifndef BOOTSEER_P2P_RDMA_VERBS_H
#define BOOTSEER_P2P_RDMA_VERBS_H

#include <infiniband/verbs.h>

#include "common/error.h"

struct verbs_ops {
	/* Devices. */
	struct ibv_device **(*get_device_list)(int *n);
	void (*free_device_list)(struct ibv_device **list);
	const char *(*get_device_name)(struct ibv_device *device);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*close_device)(struct ibv_context *context);
	int (*query_device)(struct ibv_context *context,
			    struct ibv_device_attr *attr);
	int (*query_port)(struct ibv_context *context, uint8_t port,
			  struct ibv_port_attr *attr);
	int (*query_gid)(struct ibv_context *context, uint32_t port,
			 uint32_t index, struct ibv_gid_entry *entry,
			 uint32_t flags, size_t entry_size);
	int (*get_async_event)(struct ibv_context *context,
			       struct ibv_async_event *event);
	void (*ack_async_event)(struct ibv_async_event *event);

	/* Memory. */
	struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
	int (*dealloc_pd)(struct ibv_pd *pd);
	struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t len,
				 int access);
	int (*dereg_mr)(struct ibv_mr *mr);

	/* Completions. */
	struct ibv_comp_channel *(*create_comp_channel)(
		struct ibv_context *context);
	int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int cqe,
				    void *cq_context,
				    struct ibv_comp_channel *channel,
				    int comp_vector);
	int (*destroy_cq)(struct ibv_cq *cq);
	int (*get_cq_event)(struct ibv_comp_channel *channel,
			    struct ibv_cq **cq, void **cq_context);
	void (*ack_cq_events)(struct ibv_cq *cq, unsigned int n);
	int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
	int (*poll_cq)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
	const char *(*wc_status_str)(enum ibv_wc_status status);

	/* Queue pairs. */
	struct ibv_qp *(*create_qp)(struct ibv_pd *pd,
				    struct ibv_qp_init_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
	int (*destroy_qp)(struct ibv_qp *qp);
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr,
			 struct ibv_send_wr **bad);
};

/* The loaded library; its table is valid until verbs_free(). */
struct verbs;

/* -ENOENT: there is no libibverbs, or it lacks a function. */
int verbs_open(struct verbs **ret, struct error *err) MUST_CHECK;
void verbs_free(struct verbs *v);
DEFINE_AUTO(verbs)
const struct verbs_ops *verbs_table(const struct verbs *v);

#endif
