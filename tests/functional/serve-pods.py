#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""serve-pods.py FILE PORT-FILE TOKEN: FILE to whoever shows the token, as a kubelet does; its
port is written into PORT-FILE."""
import http.server
import os
import sys

path, port_file, token = sys.argv[1:]


class Pods(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        known = self.headers.get("Authorization") == "Bearer " + token
        with open(path, "rb") as f:
            body = f.read() if known else b"Unauthorized"
        self.send_response(200 if known else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Pods)
with open(port_file + ".new", "w") as f:
    f.write(str(server.server_address[1]))
os.rename(port_file + ".new", port_file)
server.serve_forever()
