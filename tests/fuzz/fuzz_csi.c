// SPDX-License-Identifier: Apache-2.0
/*
 * What pods and operators say: the first byte says whether it is a NodePublishVolume message,
 * which is judged by a policy, a rule of a policy, another message, or a token.
 */
#include <stdint.h>
#include <string.h>

#include "csi/login.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct volume_policy *make_policy(void)
{
	static char image[] = "namespace=* kind=image image=h/team";
	static char env[] = "namespace=a kind=env store=s3://b/env";
	static char ckpt[] =
		"namespace=a kind=ckpt store=s3://b/team?endpoint=h "
		"access=write memory=1G uid=1-9";
	char *rules[] = { image, env, ckpt, NULL };
	struct volume_policy *p = NULL;

	if (volume_policy_new(rules, &p, NULL) < 0)
		abort();
	return p;
}

/* A grant begins with what the rule has, and has no way up. */
static void check_grant(const struct volume_request *r,
			const struct volume_grant *g)
{
	if (r->kind == VOLUME_KIND_IMAGE
		    ? strncmp(r->image, "h/team", 6) != 0 ||
			      strstr(r->image, "/..")
		    : strncmp(g->store, "s3://b/", 7) != 0 ||
			      strstr(g->store, "/..") || strchr(g->store, '%'))
		abort();
	if (r->kind == VOLUME_KIND_CKPT && g->memory > g->total)
		abort();
}

static void publish(const uint8_t *data, size_t size)
{
	struct volume_grant g = { .store = NULL };
	struct volume_request r;
	struct csi_publish p;
	struct volume_policy *policy;

	if (csi_publish_read(data, size, &p, NULL) < 0)
		return;
	policy = make_policy();
	if (volume_request_read(&p, &r, NULL) == 0 &&
	    volume_policy_decide(policy, &r, &g, NULL) == 0)
		check_grant(&r, &g);
	volume_grant_fini(&g);
	volume_policy_free(policy);
	csi_publish_fini(&p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct volume_request r = { .namespace = "a", .pod_uid = "u" };
	char *text, *rules[2] = { NULL, NULL };
	struct volume_policy *p = NULL;
	bool is;

	if (size < 1)
		return 0;
	text = strndup((const char *)data + 1, size - 1);
	rules[0] = text;
	switch (*data % 4) {
	case 0:
		publish(data + 1, size - 1);
		break;
	case 1:
		if (text && volume_policy_new(rules, &p, NULL) == 0)
			volume_policy_free(p);
		break;
	case 2:
		if (text && login_check_token(text, "sts", &r, NULL) == 0)
			is = true;
		break;
	default:
		free(text);
		text = NULL;
		if (csi_path_read(data + 1, size - 1, true, &text, NULL) == 0 ||
		    csi_path_read(data + 1, size - 1, false, &text, NULL) == 0)
			break;
		if (csi_registered_read(data + 1, size - 1, &is, &text, NULL) <
		    0)
			text = NULL;
		break;
	}
	free(text);
	return 0;
}
