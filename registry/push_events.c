// SPDX-License-Identifier: Apache-2.0
/* Parses push notifications. Their formats are in docs/registries.md, "Convert on push". */
#include "registry/push_events.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "common/bounded_json.h"
#include "common/cleanup.h"
#include "common/digest.h"
#include "common/json.h"
#include "common/registry_host.h"

#define REPOSITORY_MAX 255
#define TAG_MAX 128
#define VALUES_MAX (1u << 14) /* JSON values in a body; an event has about 30 */

/* ---------------------------------------------------------------------- events --- */

struct push_parse {
	int (*each)(void *arg, const struct push_event *e);
	void *arg;
	struct push_events *sums;
};

/* Is it a repository name by the distribution specification? Other texts could lead to another path
 * of the registry, or to another host. */
static bool is_repository(const char *s)
{
	size_t n = strlen(s);

	if (n < 1 || n > REPOSITORY_MAX ||
	    s[strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789._/-")])
		return false;
	for (const char *p = s; p; p = strchr(p, '/')) {
		p += p != s;
		if (!isalnum((unsigned char)*p))
			return false;
	}
	return true;
}

static bool begins_with(const char *s, const char *with)
{
	return strncmp(s, with, strlen(with)) == 0;
}

/* Is it a tag that users push images with? Not so the tags of referrer lists (sha256-HEX), of
 * cosign (sha256-HEX.sig), and our own: otherwise each conversion would cause another one. */
static bool is_tag(const char *s)
{
	size_t n = strlen(s);

	for (const char *p = s; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("._-", *p))
			return false;
	return n >= 1 && n <= TAG_MAX && !begins_with(s, "sha256-") &&
	       !begins_with(s, "bootseer-");
}

static int pass_push_event(struct push_parse *p, const struct push_event *e)
{
	struct digest d;

	if (!is_repository(e->repository) || !is_tag(e->tag) ||
	    digest_parse(e->digest, &d, NULL) < 0) {
		p->sums->n_others++;
		return 0;
	}
	if (p->sums->n_pushes == PUSH_EVENTS_MAX) {
		p->sums->n_dropped++;
		return 0;
	}
	p->sums->n_pushes++;
	return p->each(p->arg, e);
}

/* Is it the media type of a manifest, not of a layer? */
static bool is_manifest_type(const char *type)
{
	return begins_with(type,
			   "application/vnd.docker.distribution.manifest.") ||
	       begins_with(type, "application/vnd.oci.image.manifest.") ||
	       begins_with(type, "application/vnd.oci.image.index.");
}

/* Parse {"events": [{"action": "push", "target": {"mediaType", "repository", "digest", "tag"}}]}.
 * The event's host is ignored, because the client that pushed chose it. */
static int parse_distribution_pushes(struct push_parse *p, const json_t *events)
{
	const json_t *one;
	size_t k;
	int rc = 0;

	json_array_foreach(events, k, one)
	{
		const json_t *target = json_object_get(one, "target");
		const struct push_event e = {
			.repository = json_text_of(target, "repository"),
			.digest = json_text_of(target, "digest"),
			.tag = json_text_of(target, "tag"),
		};

		if (rc < 0)
			break;
		if (strcmp(json_text_of(one, "action"), "push") != 0 ||
		    !is_manifest_type(json_text_of(target, "mediaType")))
			p->sums->n_others++;
		else
			rc = pass_push_event(p, &e);
	}
	return rc;
}

/* Parse Harbor's {"type": "PUSH_ARTIFACT", "event_data": DATA}, or as CloudEvents {"type":
 * "harbor.artifact.pushed", "data": DATA}; DATA is {"repository": {"repo_full_name"}, "resources":
 * [{"digest", "tag"}]}. For a push without a tag, Harbor puts the digest into "tag". */
static int parse_harbor_pushes(struct push_parse *p, const json_t *data)
{
	const json_t *repo = json_object_get(data, "repository"), *one;
	size_t k;
	int rc = 0;

	json_array_foreach(json_object_get(data, "resources"), k, one)
	{
		const struct push_event e = {
			.repository = json_text_of(repo, "repo_full_name"),
			.digest = json_text_of(one, "digest"),
			.tag = json_text_of(one, "tag"),
		};

		if (rc == 0)
			rc = pass_push_event(p, &e);
	}
	return rc;
}

int push_events_parse(const void *body, size_t len,
		      int (*each)(void *arg, const struct push_event *e),
		      void *arg, struct push_events *ret, struct error *err)
{
	struct push_parse p = { .each = each, .arg = arg, .sums = ret };
	AUTO_JSON *o = NULL;
	const json_t *events;
	const char *type;
	int rc = bounded_json_load_large(body, len, VALUES_MAX,
					 "the notification", &o, err);

	*ret = (struct push_events){ .n_pushes = 0 };
	if (rc < 0)
		return rc;
	events = json_object_get(o, "events");
	type = json_text_of(o, "type");
	if (json_is_array(events))
		return parse_distribution_pushes(&p, events);
	if (strcmp(type, "PUSH_ARTIFACT") == 0)
		return parse_harbor_pushes(&p,
					   json_object_get(o, "event_data"));
	if (strcmp(type, "harbor.artifact.pushed") == 0)
		return parse_harbor_pushes(&p, json_object_get(o, "data"));
	/* Harbor sends other events, and its test event, to the same address. */
	if (*type) {
		ret->n_others++;
		return 0;
	}
	return error_set(err, EINVAL,
			 "it is no notification of distribution ('events') or "
			 "Harbor ('type')");
}

/* ----------------------------------------------------------------------- rules --- */

/* Parse a rule "PREFIX=FORM". The name of a repository never contains '='. */
static const char *form_of_rule(const char *rule, size_t *ret_prefix)
{
	static const char *const forms[] = { "index", "referrer", "off" };
	const char *equals = strrchr(rule, '=');

	if (!equals || equals == rule)
		return NULL;
	*ret_prefix = (size_t)(equals - rule);
	for (size_t i = 0; i < ARRAY_SIZE(forms); i++)
		if (strcmp(equals + 1, forms[i]) == 0)
			return forms[i];
	return NULL;
}

int convert_rules_check(char *const *rules, struct error *err)
{
	size_t n = 0;

	for (; rules && *rules; rules++) {
		if (!form_of_rule(*rules, &n))
			return error_set(err, EINVAL,
					 "--convert '%s': wanted is "
					 "HOST[/PATH]=index, =referrer or =off",
					 *rules);
		if (n >= PUSH_REPO_MAX ||
		    strspn(*rules, "abcdefghijklmnopqrstuvwxyz0123456789._/:["
				   "]-") != n ||
		    **rules == '/' || (*rules)[n - 1] == '/' ||
		    strstr(*rules, "//"))
			return error_set(
				err, EINVAL,
				"--convert '%s': name the registry as images "
				"do, without http://, * and a last '/'",
				*rules);
	}
	return 0;
}

const char *convert_rules_find(char *const *rules, const char *repo)
{
	const char *found = NULL;
	size_t longest = 0, n = 0;

	for (; rules && *rules; rules++) {
		const char *form = form_of_rule(*rules, &n);

		if (form && n > longest &&
		    registry_host_is_below(repo, *rules, n)) {
			found = form;
			longest = n;
		}
	}
	return found && strcmp(found, "off") != 0 ? found : NULL;
}

bool convert_rules_have_host(char *const *rules, const char *host)
{
	size_t n = strlen(host);

	for (; rules && *rules; rules++)
		if (strcspn(*rules, "/=") == n && strncmp(*rules, host, n) == 0)
			return true;
	return false;
}
