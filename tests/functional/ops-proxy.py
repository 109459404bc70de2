#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A server before a Prometheus (ops-proxy.py URL PORTFILE LOG [SAMPLES]) that is busy at
times, lets no question for names of metrics through, and refuses ranges of many points, as one
does that may not load so many samples; with SAMPLES one that is not busy, and refuses all raw
ones, too."""
import http.server
import os
import sys
import urllib.error
import urllib.parse
import urllib.request

TO, PORTFILE, LOG = sys.argv[1:4]
REFUSES_SAMPLES = len(sys.argv) > 4
POINTS = 500
seen = 0


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body, headers=()):
        self.send_response(status)
        for k, v in headers:
            self.send_header(k, v)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        global seen
        seen += 1
        q = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        points = 1
        if "step" in q:
            points = (float(q["end"][0]) - float(q["start"][0])) / float(q["step"][0])
        with open(LOG, "a") as log:
            log.write(f"{points:.0f}\n")
        if seen % 5 == 2 and not REFUSES_SAMPLES:
            return self.answer(503, b'{"status":"error","error":"busy"}', [("Retry-After", "0")])
        if "/label/" in self.path:
            return self.answer(404, b"")
        if points > POINTS or REFUSES_SAMPLES and "step" not in q:
            return self.answer(422, b'{"status":"error","error":"too many samples"}')
        try:
            with urllib.request.urlopen(TO + self.path) as r:
                return self.answer(r.status, r.read())
        except urllib.error.HTTPError as e:
            return self.answer(e.code, e.read())

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(PORTFILE + ".tmp", "w") as f:
    f.write(str(server.server_address[1]))
os.rename(PORTFILE + ".tmp", PORTFILE)
server.serve_forever()
