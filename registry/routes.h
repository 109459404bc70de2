// SPDX-License-Identifier: Apache-2.0
/* The routes of the service (routes.c), and the functions that handle them. */
#ifndef BOOTSEER_REGISTRY_ROUTES_H
#define BOOTSEER_REGISTRY_ROUTES_H

#include "registry/route.h"

extern const struct route routes[];
extern const size_t n_routes;

/* Handlers, by subject. */
int traces_get(struct call *c, struct error *err);
int traces_post(struct call *c, struct error *err);
int traces_delete(struct call *c, struct error *err);
int traces_list_repo(struct call *c, struct error *err);
int image_figures_post(struct call *c, struct error *err);
int image_figures_list(struct call *c, struct error *err);
int image_figures_get(struct call *c, struct error *err);
int peers_list(struct call *c, struct error *err);
int peers_of_start(struct call *c, struct error *err);
int swarms_post(struct call *c, struct error *err);
int swarms_list(struct call *c, struct error *err);
int swarms_get(struct call *c, struct error *err);
int capabilities_post(struct call *c, struct error *err);
int capabilities_revoke(struct call *c, struct error *err);
int capabilities_restore(struct call *c, struct error *err);
int capabilities_keys(struct call *c, struct error *err);
int preheats_post(struct call *c, struct error *err);
int preheats_list(struct call *c, struct error *err);
int preheats_report(struct call *c, struct error *err);
int preheats_get(struct call *c, struct error *err);
int stages_post(struct call *c, struct error *err);
int starts_list(struct call *c, struct error *err);
int starts_get(struct call *c, struct error *err);
int starts_bars(struct call *c, struct error *err);
int starts_export(struct call *c, struct error *err);
int starts_compare(struct call *c, struct error *err);
int checkpoints_list(struct call *c, struct error *err);
int checkpoints_get(struct call *c, struct error *err);
int scales_get(struct call *c, struct error *err);
int trends_get(struct call *c, struct error *err);
int nodes_list(struct call *c, struct error *err);
int operations_get(struct call *c, struct error *err);
int nodes_get(struct call *c, struct error *err);
int doctor_put(struct call *c, struct error *err);
int doctor_list(struct call *c, struct error *err);
int page_index(struct call *c, struct error *err);
int page_script(struct call *c, struct error *err);
int page_views(struct call *c, struct error *err);
int page_operations(struct call *c, struct error *err);
int page_chart(struct call *c, struct error *err);
int page_draw(struct call *c, struct error *err);
int page_style(struct call *c, struct error *err);
int environments_list(struct call *c, struct error *err);
int environments_get(struct call *c, struct error *err);
int environments_publish(struct call *c, struct error *err);
int environments_note(struct call *c, struct error *err);
int environments_remove(struct call *c, struct error *err);
int environments_pin(struct call *c, struct error *err);
int environments_unpin(struct call *c, struct error *err);
int environments_take(struct call *c, struct error *err);
int environments_renew(struct call *c, struct error *err);
int environments_drop(struct call *c, struct error *err);
int image_indexes_claim(struct call *c, struct error *err);
int image_indexes_put_part(struct call *c, struct error *err);
int image_indexes_publish(struct call *c, struct error *err);
int image_indexes_list(struct call *c, struct error *err);
int image_indexes_get_part(struct call *c, struct error *err);
int image_indexes_withdraw(struct call *c, struct error *err);
int image_indexes_forget(struct call *c, struct error *err);
int notifications_post(struct call *c, struct error *err);
int conversions_take(struct call *c, struct error *err);
int conversions_say(struct call *c, struct error *err);
int conversions_list(struct call *c, struct error *err);
int trust_revoke(struct call *c, struct error *err);
int trust_restore(struct call *c, struct error *err);
int trust_revoked(struct call *c, struct error *err);
int system_health(struct call *c, struct error *err);
int system_ready(struct call *c, struct error *err);
int system_openapi(struct call *c, struct error *err);
int system_metrics(struct call *c, struct error *err);

#endif
