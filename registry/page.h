// SPDX-License-Identifier: Apache-2.0
/* The files of the web page (registry/page/), which the build embeds. */
#ifndef BOOTSEER_REGISTRY_PAGE_H
#define BOOTSEER_REGISTRY_PAGE_H

extern const char page_index_html[], page_app_js[], page_chart_js[],
	page_draw_js[], page_views_js[], page_operations_js[], page_style_css[];

#endif
