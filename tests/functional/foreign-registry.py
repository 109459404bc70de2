#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A registry of somebody who knows the names of a private image, and no byte.

    foreign-registry.py HOST:PORT REPOSITORY TAG PORT-FILE [HANG]

Serves copies of the manifests and configs of an image and of its artifact, which
hold nothing secret, under the same repository and tag; every other blob it has
not.  Logs each request on standard error.  One whose path holds HANG is never
answered.
"""
import http.server
import json
import os
import sys
import threading
import urllib.error
import urllib.request

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
texts = {}  # path -> (media type, body)
hang = sys.argv[5] if len(sys.argv) > 5 else ""


def fetch(base, path):
    request = urllib.request.Request(base + path)
    request.add_header("Accept", MANIFEST + ", " + INDEX)
    with urllib.request.urlopen(request, timeout=60) as reply:
        kind = reply.headers["Content-Type"]
        digest = reply.headers.get("Docker-Content-Digest")
        return kind, digest, reply.read()


def take_manifest(base, prefix, ref):
    kind, digest, body = fetch(base, "%s/manifests/%s" % (prefix, ref))
    for name in (ref, digest):
        texts["%s/manifests/%s" % (prefix, name)] = (kind, body)
    parsed = json.loads(body)
    if "config" in parsed:
        path = "%s/blobs/%s" % (prefix, parsed["config"]["digest"])
        texts[path] = ("application/octet-stream", fetch(base, path)[2])
    return digest, parsed


def load(host, repo, tag):
    base, prefix = "http://" + host, "/v2/" + repo
    digest, _ = take_manifest(base, prefix, tag)
    _, index = take_manifest(base, prefix, digest.replace(":", "-"))
    for one in index["manifests"]:
        take_manifest(base, prefix, one["digest"])


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = self.path.split("?")[0]
        if hang and hang in path:
            self.log_message('"GET %s" hangs', path)
            threading.Event().wait()
        kind, body = texts.get(path, ("application/json", b'{"errors":[]}'))
        if path == "/v2/":
            kind, body = "application/json", b"{}"
        self.send_response(200 if path in texts or path == "/v2/" else 404)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET


def main():
    host, repo, tag, port_file = sys.argv[1:5]
    load(host, repo, tag)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    with open(port_file + ".new", "w", encoding="ascii") as f:
        f.write(str(server.server_port))
    os.rename(port_file + ".new", port_file)
    server.serve_forever()


main()
