// SPDX-License-Identifier: Apache-2.0
/* The texts of the page, which the build embeds (registry/page/). */
#ifndef BOOTSEER_REGISTRY_PAGE_H
#define BOOTSEER_REGISTRY_PAGE_H

extern const char page_index_html[], page_app_js[], page_chart_js[],
	page_draw_js[], page_views_js[], page_operations_js[], page_style_css[];

#endif
