// SPDX-License-Identifier: Apache-2.0
#include "snapshotter/node/control/registries.h"

#include "common/clock.h"
#include "objects/oci_hosts.h"
#include "snapshotter/node/images/outages.h"

struct registry_trouble {
	const char *state, *cure;
};

static const struct registry_trouble away = {
	"away",
	"see that it runs and can be reached; reads of containers wait for it, "
	"up to --read-timeout"
};
static const struct registry_trouble silent = {
	"silent",
	"see what that host does, and what is between; a read begins again after "
	"--stall-timeout, and a question after a minute"
};
static const struct registry_trouble login_refused = {
	"login refused",
	"see that the credential helper, or the file of --auth-file, has a login "
	"that is good now: a new one is asked for by itself, at once after "
	"systemctl reload bootseerd"
};
static const struct registry_trouble not_asked = {
	"not asked",
	"see that it can be reached from here; of a mirror the next host of its "
	"hosts.toml is asked meanwhile, of a registry without one images start the "
	"ordinary way, unless a hosts.toml names one; systemctl reload bootseerd "
	"has it asked at once"
};

static void add_trouble(json_t *list, const struct registry_trouble *t,
			const char *registry, int64_t ns,
			const struct error *why)
{
	json_t *reason = json_string(why->msg);

	/* Packing fails if the message quotes bytes that are not UTF-8; that registry is left
	 * out. */
	(void)json_array_append_new(list,
				    json_pack("{s:s, s:s, s:I, s:o, s:s}",
					      "registry", registry, "state",
					      t->state, "seconds",
					      (json_int_t)(ns / NS_PER_S),
					      "reason",
					      reason ? reason
						     : json_string(
							       "(not UTF-8)"),
					      "cure", t->cure));
}

json_t *node_registries(struct origins *origins)
{
	struct outages *o = origins_outages(origins);
	char host[OUTAGE_HOST_MAX], place[OUTAGE_PLACE_MAX],
		origin[OCI_HOST_ROOM];
	json_t *list = json_array();
	struct error why = ERROR_INIT;
	int64_t ns;

	for (size_t k = 0; list && outages_get(o, k, host, &ns, &why); k++)
		add_trouble(list, &away, host, ns, &why);
	for (size_t k = 0;
	     list && oci_hosts_get_silent(origins_hosts(origins), k,
					  clock_now_ns(), origin, &ns, &why);
	     k++)
		add_trouble(list, &silent, origin, ns, &why);
	for (size_t k = 0; list && outages_get_login(o, k, place, &ns, &why);
	     k++)
		add_trouble(list, &login_refused, place, ns, &why);
	for (size_t k = 0;
	     list && oci_hosts_get(origins_hosts(origins), k, clock_now_ns(),
				   origin, &ns, &why);
	     k++)
		add_trouble(list, &not_asked, origin, ns > 0 ? ns : 0, &why);
	return list;
}
