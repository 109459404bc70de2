// SPDX-License-Identifier: Apache-2.0
#include "csi/messages.h"

#include <errno.h>
#include <string.h>

#include "csi.pb-c.h"

/* Values of csi.v1.NodeServiceCapability.RPC.Type and csi.v1.VolumeUsage.Unit. */
#define CAN_GET_VOLUME_STATS 2
#define CAN_VOLUME_CONDITION 4
#define CAN_MOUNT_GROUP 6
#define UNIT_BYTES 1
#define UNIT_INODES 2

static int refuse_message(const char *what, struct error *err)
{
	return error_set(err, EINVAL, "this is no %s message", what);
}

/* ---- requests ---- */

static int take_pairs(Csi__Entry **from, size_t n, const char *what,
		      struct csi_pair **ret, size_t *ret_n, struct error *err)
{
	if (n > CSI_PAIRS_MAX)
		return error_set(err, EINVAL, "%s: %zu of them, %d at most",
				 what, n, CSI_PAIRS_MAX);
	*ret = calloc(n ? n : 1, sizeof(**ret));
	if (!*ret)
		return error_nomem(err);
	for (size_t i = 0; i < n; i++) {
		if (strlen(from[i]->value) > CSI_VALUE_MAX)
			return error_set(err, EINVAL,
					 "%s: a value is longer than %d bytes",
					 what, CSI_VALUE_MAX);
		(*ret)[i] = (struct csi_pair){ .key = from[i]->key,
					       .value = from[i]->value };
	}
	*ret_n = n;
	return 0;
}

static int take_capability(const Csi__Capability *c, struct csi_publish *p,
			   struct error *err)
{
	size_t len = 0;

	if (!c)
		return error_set(err, EINVAL, "no volume_capability is said");
	if (c->block)
		return error_set(err, EINVAL,
				 "volumeMode: Block: there are no block "
				 "volumes, leave volumeMode out");
	p->access = c->access_mode ? (enum csi_access)c->access_mode->mode
				   : CSI_ACCESS_UNKNOWN;
	if (!c->mount)
		return 0;
	p->fs_type = c->mount->fs_type;
	p->group = c->mount->volume_mount_group;
	p->mount_flags = c->mount->mount_flags;
	p->n_mount_flags = c->mount->n_mount_flags;
	for (size_t i = 0; i < p->n_mount_flags; i++)
		len += strlen(p->mount_flags[i]) + 1;
	return len > CSI_MOUNT_FLAGS_MAX
		       ? error_set(err, EINVAL,
				   "mountOptions: %zu bytes, %d at most", len,
				   CSI_MOUNT_FLAGS_MAX)
		       : 0;
}

int csi_publish_read(const uint8_t *data, size_t len, struct csi_publish *ret,
		     struct error *err)
{
	Csi__PublishRequest *m = csi__publish_request__unpack(NULL, len, data);
	int rc = 0;

	*ret = (struct csi_publish){ .message = m, .fs_type = "", .group = "" };
	if (!m)
		return refuse_message("NodePublishVolume", err);
	ret->volume_id = m->volume_id;
	ret->target_path = m->target_path;
	ret->is_read_only = m->readonly;
	if (!*m->volume_id)
		rc = error_set(err, EINVAL, "no volume_id is said");
	else if (!*m->target_path)
		rc = error_set(err, EINVAL, "no target_path is said");
	if (rc == 0)
		rc = take_capability(m->volume_capability, ret, err);
	if (rc == 0)
		rc = take_pairs(m->volume_context, m->n_volume_context,
				"volumeAttributes", &ret->attributes,
				&ret->n_attributes, err);
	if (rc == 0)
		rc = take_pairs(m->secrets, m->n_secrets,
				"the secret of nodePublishSecretRef",
				&ret->secrets, &ret->n_secrets, err);
	if (rc < 0)
		csi_publish_fini(ret);
	return rc;
}

void csi_publish_fini(struct csi_publish *p)
{
	Csi__PublishRequest *m = p->message;

	for (size_t i = 0; m && i < m->n_secrets; i++)
		explicit_bzero(m->secrets[i]->value,
			       strlen(m->secrets[i]->value));
	if (m)
		csi__publish_request__free_unpacked(m, NULL);
	free(p->attributes);
	free(p->secrets);
	*p = (struct csi_publish){ .message = NULL };
}

static int take_path(const char *id, const char *path, const char *name,
		     char **ret, struct error *err)
{
	if (!*id)
		return error_set(err, EINVAL, "no volume_id is said");
	if (!*path)
		return error_set(err, EINVAL, "no %s is said", name);
	*ret = strdup(path);
	return *ret ? 0 : error_nomem(err);
}

int csi_path_read(const uint8_t *data, size_t len, bool is_stats, char **ret,
		  struct error *err)
{
	Csi__UnpublishRequest *u;
	Csi__StatsRequest *s;
	int rc;

	if (is_stats) {
		s = csi__stats_request__unpack(NULL, len, data);
		if (!s)
			return refuse_message("NodeGetVolumeStats", err);
		rc = take_path(s->volume_id, s->volume_path, "volume_path", ret,
			       err);
		csi__stats_request__free_unpacked(s, NULL);
		return rc;
	}
	u = csi__unpublish_request__unpack(NULL, len, data);
	if (!u)
		return refuse_message("NodeUnpublishVolume", err);
	rc = take_path(u->volume_id, u->target_path, "target_path", ret, err);
	csi__unpublish_request__free_unpacked(u, NULL);
	return rc;
}

int csi_registered_read(const uint8_t *data, size_t len, bool *ret_is,
			char **ret_why, struct error *err)
{
	Csi__RegistrationStatus *m =
		csi__registration_status__unpack(NULL, len, data);

	if (!m)
		return refuse_message("NotifyRegistrationStatus", err);
	*ret_is = m->plugin_registered;
	*ret_why = strdup(m->error);
	csi__registration_status__free_unpacked(m, NULL);
	return *ret_why ? 0 : error_nomem(err);
}

/* --- replies */

static int append_message(const ProtobufCMessage *m, struct buf *ret,
			  struct error *err)
{
	if (buf_reserve(ret, protobuf_c_message_get_packed_size(m) + 1) < 0)
		return error_nomem(err);
	ret->len += protobuf_c_message_pack(m, (uint8_t *)ret->data + ret->len);
	ret->data[ret->len] = '\0';
	return 0;
}

int csi_plugin_info_write(const char *name, struct buf *ret, struct error *err)
{
	Csi__PluginInfo m;

	csi__plugin_info__init(&m);
	m.name = (char *)(uintptr_t)name;
	m.vendor_version = (char *)(uintptr_t)BOOTSEER_VERSION;
	return append_message(&m.base, ret, err);
}

int csi_node_info_write(const char *node, struct buf *ret, struct error *err)
{
	Csi__NodeInfo m;

	csi__node_info__init(&m);
	m.node_id = (char *)(uintptr_t)node;
	return append_message(&m.base, ret, err);
}

int csi_capabilities_write(struct buf *ret, struct error *err)
{
	static const int types[] = { CAN_GET_VOLUME_STATS, CAN_VOLUME_CONDITION,
				     CAN_MOUNT_GROUP };
	Csi__NodeCapabilities m;
	Csi__NodeCapability all[ARRAY_SIZE(types)];
	Csi__NodeCapability *list[ARRAY_SIZE(types)];
	Csi__Rpc rpcs[ARRAY_SIZE(types)];

	csi__node_capabilities__init(&m);
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		csi__rpc__init(&rpcs[i]);
		rpcs[i].type = types[i];
		csi__node_capability__init(&all[i]);
		all[i].rpc = &rpcs[i];
		list[i] = &all[i];
	}
	m.capabilities = list;
	m.n_capabilities = ARRAY_SIZE(types);
	return append_message(&m.base, ret, err);
}

static void fill_usage(const struct csi_usage *from, int unit, Csi__Usage *ret)
{
	csi__usage__init(ret);
	ret->available = (int64_t)from->available;
	ret->total = (int64_t)from->total;
	ret->used = (int64_t)from->used;
	ret->unit = unit;
}

int csi_stats_write(const struct csi_usage *bytes,
		    const struct csi_usage *files, const char *why,
		    struct buf *ret, struct error *err)
{
	static const char fine[] = "it is mounted, and answers";
	Csi__Stats m;
	Csi__Condition condition;
	Csi__Usage usage[2];
	Csi__Usage *list[] = { &usage[0], &usage[1] };

	csi__stats__init(&m);
	csi__condition__init(&condition);
	fill_usage(bytes, UNIT_BYTES, &usage[0]);
	fill_usage(files, UNIT_INODES, &usage[1]);
	condition.abnormal = why != NULL;
	condition.message = (char *)(uintptr_t)(why ? why : fine);
	m.volume_condition = &condition;
	m.usage = list;
	m.n_usage = ARRAY_SIZE(list);
	return append_message(&m.base, ret, err);
}

int csi_registration_write(const char *name, const char *endpoint,
			   struct buf *ret, struct error *err)
{
	Csi__RegistrationInfo m;
	/* The kubelet accepts a driver with this version as one for CSI 1.x. */
	static char version[] = "1.0.0";
	char *versions[] = { version };

	csi__registration_info__init(&m);
	m.type = (char *)(uintptr_t) "CSIPlugin";
	m.name = (char *)(uintptr_t)name;
	m.endpoint = (char *)(uintptr_t)endpoint;
	m.supported_versions = versions;
	m.n_supported_versions = 1;
	return append_message(&m.base, ret, err);
}
