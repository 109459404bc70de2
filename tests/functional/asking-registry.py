#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A registry that lets everybody pull, and before each answer asks something itself.

    asking-registry.py PORT-FILE URL-FILE

What it asks is the URL in URL-FILE; unless that is answered, so is nobody.
"""
import http.server
import os
import sys
import urllib.request


class Handler(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self):
        with open(sys.argv[2]) as f, urllib.request.urlopen(
                f.read(), timeout=120):
            self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(sys.argv[1] + ".new", "w") as f:
    f.write(str(server.server_address[1]))
os.rename(sys.argv[1] + ".new", sys.argv[1])
server.serve_forever()
