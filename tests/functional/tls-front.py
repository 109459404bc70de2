#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A registry by TLS, before one without: tls-front.py SERVER PORT-FILE CERT KEY CLIENT-CA
passes GET and HEAD on to SERVER (host:port). It takes who shows a certificate that CLIENT-CA
signed and says "X-Key: open"; others are refused."""
import http.client
import os
import ssl
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

server_at, port_file, cert, key, client_ca = sys.argv[1:]


class Front(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        if self.headers.get("X-Key") != "open":
            self.send_response(403)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        conn = http.client.HTTPConnection(server_at, timeout=60)
        conn.request(self.command, self.path, headers={
            k: v for k, v in self.headers.items() if k in ("Accept", "Range")})
        r = conn.getresponse()
        body = r.read()
        self.send_response(r.status)
        for k, v in r.getheaders():
            if k.lower() not in ("connection", "content-length", "date"):
                self.send_header(k, v)
        self.send_header("Content-Length", r.getheader("Content-Length", "0"))
        self.end_headers()
        self.wfile.write(body)
        conn.close()

    do_HEAD = do_GET


class Server(ThreadingHTTPServer):
    def handle_error(self, *args):
        pass  # who does not trust it, or is not trusted, hangs up


server = Server(("127.0.0.1", 0), Front)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(cert, key)
context.load_verify_locations(client_ca)
context.verify_mode = ssl.CERT_REQUIRED
server.socket = context.wrap_socket(server.socket, server_side=True,
                                    do_handshake_on_connect=False)
with open(port_file + ".new", "w") as f:
    f.write(str(server.server_address[1]))
os.rename(port_file + ".new", port_file)
server.serve_forever()
