// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <string.h>

#include "common/bytes.h"
#include "p2p/rdma/rdma_wire.h"

/* Each body begins with version u8, a small number u8, 0 u16, epoch u32. */
#define HEAD 8u
#define END_SIZE (HEAD + 32u)   /* plus the device's name */
#define GRANT_SIZE (HEAD + 32u) /* plus `about` */

static uint8_t is_small(const struct rdma_msg *m)
{
	switch (m->type) {
	case RDMA_OFFER:
	case RDMA_ACCEPT:
		return (uint8_t)m->end.fabric;
	case RDMA_DONE:
		return (uint8_t)m->done.status;
	case RDMA_CLOSE:
		return (uint8_t)m->close.why;
	default:
		return 0;
	}
}

static size_t put_end(uint8_t *p, const struct rdma_end *e)
{
	size_t n = strnlen(e->device, RDMA_DEVICE_MAX);

	memcpy(p, e->gid, sizeof(e->gid));
	put_le32(p + 16, e->qpn);
	put_le32(p + 20, e->psn);
	put_le16(p + 24, e->lid);
	p[26] = e->mtu;
	p[27] = e->rd_atomic;
	put_le32(p + 28, (uint32_t)n);
	memcpy(p + 32, e->device, n);
	return END_SIZE + n;
}

static size_t put_grant(uint8_t *p, const struct rdma_grant *g)
{
	put_le32(p, g->id);
	put_le32(p + 4, g->len);
	put_le64(p + 8, g->addr);
	put_le32(p + 16, g->rkey);
	put_le32(p + 20, g->lease_ms);
	put_le64(p + 24, g->stamp);
	memcpy(p + 32, g->about, g->n_about);
	return GRANT_SIZE + g->n_about;
}

size_t rdma_wire_put(uint8_t out[RDMA_BODY_MAX], const struct rdma_msg *m)
{
	memset(out, 0, RDMA_BODY_MAX);
	out[0] = RDMA_WIRE_VERSION;
	out[1] = is_small(m);
	put_le32(out + 4, m->epoch);
	switch (m->type) {
	case RDMA_OFFER:
	case RDMA_ACCEPT:
		return put_end(out + HEAD, &m->end);
	case RDMA_GRANT:
		return put_grant(out + HEAD, &m->grant);
	case RDMA_DONE:
		put_le32(out + HEAD, m->done.id);
		return HEAD + 4;
	case RDMA_CLOSE:
		put_le32(out + HEAD, m->close.retry_ms);
		return HEAD + 4;
	case RDMA_READY:
		break;
	}
	return HEAD;
}

static int get_end(const uint8_t *b, size_t len, struct rdma_end *ret,
		   struct error *err)
{
	const uint8_t *p = b + HEAD;
	size_t n;

	if (len < END_SIZE)
		return error_set(err, EINVAL, "short");
	memcpy(ret->gid, p, sizeof(ret->gid));
	ret->qpn = get_le32(p + 16);
	ret->psn = get_le32(p + 20);
	ret->lid = get_le16(p + 24);
	ret->mtu = p[26];
	ret->rd_atomic = p[27];
	n = get_le32(p + 28);
	if (n > RDMA_DEVICE_MAX || len != END_SIZE + n)
		return error_set(err, EINVAL, "bad length");
	for (size_t i = 0; i < n; i++) {
		if (p[32 + i] < 0x21 || p[32 + i] > 0x7e)
			return error_set(err, EINVAL, "bad name of a device");
	}
	memcpy(ret->device, p + 32, n);
	ret->device[n] = 0;
	if (b[1] != RDMA_INFINIBAND && b[1] != RDMA_ROCE2)
		return error_set(err, EINVAL, "no fabric %u", b[1]);
	ret->fabric = (enum rdma_fabric)b[1];
	if (ret->qpn >> 24 || ret->psn >> 24 || ret->mtu < IBV_MTU_256 ||
	    ret->mtu > IBV_MTU_4096 || ret->rd_atomic == 0)
		return error_set(err, EINVAL, "out of range");
	return 0;
}

static int get_grant(const uint8_t *b, size_t len, struct rdma_grant *ret,
		     struct error *err)
{
	const uint8_t *p = b + HEAD;

	if (len < GRANT_SIZE || len > GRANT_SIZE + RDMA_ABOUT_MAX || b[1] != 0)
		return error_set(err, EINVAL, "bad length");
	ret->id = get_le32(p);
	ret->len = get_le32(p + 4);
	ret->addr = get_le64(p + 8);
	ret->rkey = get_le32(p + 16);
	ret->lease_ms = get_le32(p + 20);
	ret->stamp = get_le64(p + 24);
	ret->n_about = (uint8_t)(len - GRANT_SIZE);
	memcpy(ret->about, p + 32, ret->n_about);
	if (ret->len == 0 || ret->addr > UINT64_MAX - ret->len - 16)
		return error_set(err, EINVAL, "out of range");
	return 0;
}

static int get_small(const uint8_t *b, size_t len, struct rdma_msg *ret,
		     struct error *err)
{
	if (len != HEAD + (ret->type == RDMA_READY ? 0 : 4))
		return error_set(err, EINVAL, "bad length");
	switch (ret->type) {
	case RDMA_DONE:
		if (b[1] > RDMA_DONE_STALE)
			return error_set(err, EINVAL, "no status %u", b[1]);
		ret->done.status = (enum rdma_done)b[1];
		ret->done.id = get_le32(b + HEAD);
		return 0;
	case RDMA_CLOSE:
		if (b[1] > RDMA_CLOSE_UNFIT)
			return error_set(err, EINVAL, "no reason %u", b[1]);
		ret->close.why = (enum rdma_close)b[1];
		ret->close.retry_ms = get_le32(b + HEAD);
		return 0;
	default:
		return b[1] ? error_set(err, EINVAL, "not 0") : 0;
	}
}

int rdma_wire_get(unsigned int type, const void *body, size_t len,
		  struct rdma_msg *ret, struct error *err)
{
	const uint8_t *b = body;
	int rc;

	memset(ret, 0, sizeof(*ret));
	if (type < RDMA_OFFER || type > RDMA_CLOSE)
		return error_set(err, EINVAL, "no RDMA message %u", type);
	ret->type = (enum rdma_type)type;
	if (len < HEAD || len > RDMA_BODY_MAX)
		return error_set(err, EINVAL, "RDMA message of %zu bytes", len);
	ret->epoch = get_le32(b + 4);
	if (b[0] != RDMA_WIRE_VERSION)
		return error_set(err, EPROTONOSUPPORT,
				 "RDMA message of version %u", b[0]);
	if (b[2] || b[3])
		return error_set(err, EINVAL, "RDMA message: not 0");
	if (type == RDMA_OFFER || type == RDMA_ACCEPT)
		rc = get_end(b, len, &ret->end, err);
	else if (type == RDMA_GRANT)
		rc = get_grant(b, len, &ret->grant, err);
	else
		rc = get_small(b, len, ret, err);
	return rc < 0 ? error_wrap(err, rc, "RDMA message %u", type) : 0;
}
