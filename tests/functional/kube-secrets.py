#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An API server of Kubernetes with pods and secrets (kube-secrets.py STATE PORTFILE).

Tests PUT and DELETE /test/PATH; who else asks has the token "a-token" and, as a role gives it, may
do what the file STATE/rights has as lines VERB PATH: list and watch of pods, get of secrets.  A number
that is PUT to /test/fault is the status of all other answers; an object there has the status of each
path, 0 for no answer at all.  A list that is PUT has objects for PATH/NAME.  STATE/log has a line VERB
PATH STATUS for each request, STATE/pages a line PATH NUMBER for each answer with pods."""
import http.server
import json
import os
import sys
import threading
import urllib.parse

STATE, PORTFILE = sys.argv[1:3]
objects = {}
changed = threading.Condition()
version = 0
fault = None


class Handler(http.server.BaseHTTPRequestHandler):
    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def allow(self, verb, path):
        ok = self.headers.get("Authorization") == "Bearer a-token"
        with open(f"{STATE}/rights") as f:
            rights = set(f.read().split("\n"))
        status = fault.get(path) if isinstance(fault, dict) else fault
        if status == 0:
            threading.Event().wait()
        status = status or (401 if not ok else 200 if f"{verb} {path}" in rights else 403)
        if status == 200 and verb == "get" and path not in objects:
            status = 404
        with changed, open(f"{STATE}/log", "a") as log:
            log.write(f"{verb} {path} {status}\n")
        if status != 200:
            self.answer(status, {"kind": "Status", "code": status, "message": f"fault {status}"})
        return status == 200

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(url.query)
        if not url.path.endswith("/pods"):
            if self.allow("get", url.path):
                self.answer(200, objects[url.path])
            return
        if not self.allow("watch" if "watch" in query else "list", url.path):
            return
        wanted = query["fieldSelector"][0].split(",")
        if "watch" in query:
            self.watch(url.path, wanted, int(query["timeoutSeconds"][0]))
            return
        with changed:
            pods = self.pods(url.path, wanted)
        begin = int(query.get("continue", ["0"])[0])
        end = begin + int(query.get("limit", [len(pods) + 1])[0])
        with open(f"{STATE}/pages", "a") as f:
            f.write(f"{url.path} {len(pods[begin:end])}\n")
        self.answer(200, {"kind": "PodList", "items": pods[begin:end],
                          "metadata": {"continue": str(end) if end < len(pods) else ""}})

    def pods(self, of, wanted):
        return [o for path, o in sorted(objects.items())
                if path.startswith(of + "/") and all(self.is_wanted(o, w) for w in wanted)]

    @staticmethod
    def is_wanted(pod, selector):
        if selector.startswith("status.phase!="):
            return pod["status"].get("phase") != selector.removeprefix("status.phase!=")
        return pod["spec"]["nodeName"] == selector.removeprefix("spec.nodeName=")

    def watch(self, of, wanted, seconds):
        self.send_response(200)
        self.end_headers()
        seen = {}
        while True:
            with changed:
                now = {p["metadata"]["name"]: p for p in self.pods(of, wanted)}
                events = [("MODIFIED" if name in seen else "ADDED", p) for name, p in now.items()
                          if seen.get(name) != p]
                at = version
            seen = now
            for kind, pod in events:
                self.wfile.write(json.dumps({"type": kind, "object": pod}).encode() + b"\n")
            with changed:
                if not changed.wait_for(lambda: version != at, seconds):
                    return

    def do_PUT(self):
        global version, fault
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with changed:
            version += 1
            if self.path == "/test/fault":
                fault = body or None
            elif isinstance(body, list):
                at = self.path.removeprefix("/test")
                objects.update({f"{at}/{o['metadata']['name']}": o for o in body})
            else:
                objects[self.path.removeprefix("/test")] = body
            changed.notify_all()
        self.answer(200, {})

    def do_DELETE(self):
        global version
        with changed:
            version += 1
            del objects[self.path.removeprefix("/test")]
            changed.notify_all()
        self.answer(200, {})

    def log_message(self, *args):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True


server = Server(("127.0.0.1", 0), Handler)
with open(PORTFILE + ".new", "w") as f:
    f.write(str(server.server_address[1]))
os.rename(PORTFILE + ".new", PORTFILE)
server.serve_forever()
