#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An API server of Kubernetes with nodes, pods, leases, events and jobs (kube-api.py STATE PORTFILE).

STATE is a folder: objects.json has what is there, by path, after each change; log a line for each
request; and faults, where there is one, lines METHOD STATUS: such requests are answered so, one a
line, before others are served.  A status of 409 changes the object first, as somebody else does, and
one of 410 gives it the record of another recovery."""
import http.server
import json
import os
import sys
import urllib.parse

STATE, PORTFILE = sys.argv[1:3]
with open(f"{STATE}/objects.json") as f:
    objects = json.load(f)
version = 100
KINDS = {"/api/v1/nodes": "NodeList", "/api/v1/pods": "PodList", "/api/v1/events": "EventList"}


def save():
    with open(f"{STATE}/objects.new", "w") as f:
        json.dump(objects, f)
    os.rename(f"{STATE}/objects.new", f"{STATE}/objects.json")


def merge(old, new):
    """RFC 7396."""
    if not isinstance(new, dict):
        return new
    out = dict(old) if isinstance(old, dict) else {}
    for key, value in new.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merge(out.get(key), value)
    return out


def touch(obj):
    global version
    version += 1
    obj.setdefault("metadata", {})["resourceVersion"] = str(version)
    return obj


def take_fault(method):
    try:
        with open(f"{STATE}/faults") as f:
            lines = f.read().split("\n")
    except FileNotFoundError:
        return None
    for i, line in enumerate(lines):
        if line.startswith(method + " "):
            del lines[i]
            with open(f"{STATE}/faults", "w") as f:
                f.write("\n".join(lines))
            return int(line.split()[1])
    return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        if status == 429:
            self.send_header("Retry-After", "0")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def refuse(self, status):
        self.answer(status, {"kind": "Status", "code": status, "message": f"fault {status}\x1b[2J"})

    def serve(self):
        url = urllib.parse.urlsplit(self.path)
        query = urllib.parse.parse_qs(url.query)
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"null")
        with open(f"{STATE}/log", "a") as log:
            log.write(f"{self.command} {self.path} {json.dumps(body)}\n")
        if self.headers.get("Authorization") != "Bearer a-token":
            return self.refuse(401)
        fault, old = take_fault(self.command), objects.get(url.path)
        if fault in (409, 410):
            touch(old)
            if fault == 410:
                old["metadata"]["annotations"]["bootseer.io/recover"] = '{"did": "cordon", "by": "another"}'
        elif fault:
            return self.refuse(fault)
        if url.path.endswith("/selfsubjectreviews"):
            return self.answer(201, {"status": {"userInfo": {"username": "ops@example"}}})
        if self.command == "GET" and url.path in KINDS:
            return self.list_objects(url.path, int(query["limit"][0]), int(query.get("continue", ["0"])[0]))
        if self.command == "GET":
            return self.answer(200, old) if old else self.refuse(404)
        if self.command == "POST":
            path = f"{url.path}/{body['metadata']['name']}"
            if path in objects:
                return self.refuse(409)
            objects[path] = touch(body)
            save()
            return self.answer(201, body)
        return self.change(url.path, old, body, "dryRun" in query)

    def list_objects(self, of, limit, first):
        found = [o for path, o in sorted(objects.items()) if path.startswith(of + "/")]
        limit = min(limit, 2)
        more = {"continue": str(first + limit)} if first + limit < len(found) else {}
        self.answer(200, {"kind": KINDS[of], "metadata": more, "items": [
            {k: v for k, v in o.items() if k != "kind"} for o in found[first:first + limit]]})

    def change(self, path, old, body, is_dry):
        if not old:
            return self.refuse(404)
        wanted = body.get("metadata", {}).get("resourceVersion")
        if wanted and wanted != old["metadata"]["resourceVersion"]:
            return self.refuse(409)
        new = touch(merge(old, body) if self.command == "PATCH" else body)
        if not is_dry:
            objects[path] = new
            save()
        return self.answer(200, new)

    do_GET = do_POST = do_PUT = do_PATCH = serve

    def log_message(self, *args):
        pass


server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
with open(PORTFILE + ".tmp", "w") as f:
    f.write(str(server.server_address[1]))
os.rename(PORTFILE + ".tmp", PORTFILE)
server.serve_forever()
