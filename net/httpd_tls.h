// SPDX-License-Identifier: Apache-2.0
/* TLS for the server, with OpenSSL. */
#ifndef BOOTSEER_NET_HTTPD_TLS_H
#define BOOTSEER_NET_HTTPD_TLS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

struct bufferevent;
struct event_base;
struct httpd_tls;

/* Certificate chain and key in PEM.  TLS 1.2 at least.  With `client_cas` (files of PEM,
 * NULL-terminated; may be NULL; borrowed until httpd_tls_free()) a client may show a
 * certificate too, which one of these CAs must have signed. */
int httpd_tls_new(const char *cert_file, const char *key_file,
		  char *const *client_cas, struct httpd_tls **ret,
		  struct error *err) MUST_CHECK;
void httpd_tls_free(struct httpd_tls *t);

/* Read the files again, for future connections; after a failure the old ones stay. */
int httpd_tls_reload(struct httpd_tls *t, struct error *err) MUST_CHECK;

/* End of the certificate's validity, in seconds since 1970. */
int64_t httpd_tls_not_after(const struct httpd_tls *t);
/* -EKEYEXPIRED: the certificate has expired, so no client will accept it. */
int httpd_tls_check_time(const struct httpd_tls *t,
			 struct error *err) MUST_CHECK;

/* Begin TLS on an accepted connection; takes `fd`. NULL: memory is short, and `fd` stays the
 * caller's. */
struct bufferevent *httpd_tls_accept(struct httpd_tls *t,
				     struct event_base *base, int fd);
/* The node named in the client's certificate by a SAN bootseer://node/NAME; "" when there is
 * no certificate, or no such name. */
void httpd_tls_peer(struct bufferevent *bev, char *ret, size_t size);
/* Was it TLS that failed, rather than the network? */
bool httpd_tls_failed(struct bufferevent *bev);
/* Send the client TLS's end of the connection, before it is freed. */
void httpd_tls_close(struct bufferevent *bev);

#endif
