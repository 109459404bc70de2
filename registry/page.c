// SPDX-License-Identifier: Apache-2.0
/* The web page that shows starts. It holds no data, so anybody may load it: its script reads /v1
 * with the token that the user enters. */
#include "registry/page.h"

#include "registry/call.h"
#include "registry/routes.h"

/* Content policy: load only from this service, no inline scripts, no frames, no forms to
 * elsewhere. */
static const char policy[] =
	"default-src 'none'; script-src 'self'; style-src 'self'; "
	"connect-src 'self'; img-src data:; base-uri 'none'; "
	"form-action 'none'; frame-ancestors 'none'";

static int send_page(struct call *c, const char *type, const char *text,
		     struct error *err)
{
	int rc = call_header(c, "Content-Security-Policy", policy);

	if (rc == 0)
		rc = call_header(c, "X-Content-Type-Options", "nosniff");
	if (rc == 0)
		rc = call_header(c, "Referrer-Policy", "no-referrer");
	if (rc == 0)
		rc = call_header(c, "Cache-Control", "no-cache");
	if (rc == 0)
		rc = buf_puts(&c->reply.body, text);
	c->reply.type = type;
	return rc < 0 ? error_nomem(err) : call_send_if_new(c, err);
}

int page_index(struct call *c, struct error *err)
{
	return send_page(c, "text/html; charset=utf-8", page_index_html, err);
}

int page_script(struct call *c, struct error *err)
{
	return send_page(c, "text/javascript; charset=utf-8", page_app_js, err);
}

int page_chart(struct call *c, struct error *err)
{
	return send_page(c, "text/javascript; charset=utf-8", page_chart_js,
			 err);
}

int page_draw(struct call *c, struct error *err)
{
	return send_page(c, "text/javascript; charset=utf-8", page_draw_js,
			 err);
}

int page_views(struct call *c, struct error *err)
{
	return send_page(c, "text/javascript; charset=utf-8", page_views_js,
			 err);
}

int page_operations(struct call *c, struct error *err)
{
	return send_page(c, "text/javascript; charset=utf-8",
			 page_operations_js, err);
}

int page_style(struct call *c, struct error *err)
{
	return send_page(c, "text/css; charset=utf-8", page_style_css, err);
}
