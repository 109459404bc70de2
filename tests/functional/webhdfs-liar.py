#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""webhdfs-liar.py FILE: a WebHDFS server that cannot join files, and says of each
append that it was done, which it was not.  Writes its port to FILE, and one line for
each append to FILE.appends."""

import http.server
import json
import sys
import urllib.parse

sizes = {}
done = {"boolean": True}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, what=None, **headers):
        body = json.dumps(what).encode() if what is not None else b""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def fail(self, status, exception):
        self.answer(status, {"RemoteException": {"exception": exception,
                                                 "message": exception}})

    def body(self):
        left = all_of_it = int(self.headers.get("Content-Length") or 0)
        while left:
            left -= len(self.rfile.read(min(left, 1 << 20)))
        return all_of_it

    def handle_any(self):
        at = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(at.query))
        name = at.path.removeprefix("/webhdfs/v1")
        size = self.body()
        op = query["op"]
        if op in ("CREATE", "APPEND") and "here" not in query:
            self.answer(307, Location="http://%s%s&here=1" % (self.headers["Host"],
                                                              self.path))
        elif op == "CREATE":
            sizes[name] = size
            self.answer(201)
        elif op == "APPEND":
            with open(sys.argv[1] + ".appends", "a", encoding="ascii") as f:
                f.write("%d\n" % size)
            self.answer(200)
        elif op == "GETFILESTATUS" and name in sizes:
            self.answer(200, {"FileStatus": {
                "pathSuffix": "", "type": "FILE", "length": sizes[name],
                "modificationTime": 1, "fileId": 1, "blockSize": 1 << 20}})
        elif op == "GETFILESTATUS":
            self.fail(404, "FileNotFoundException")
        elif op == "CONCAT":
            self.fail(400, "UnsupportedOperationException")
        elif op == "RENAME":
            sizes[query["destination"]] = sizes.pop(name)
            self.answer(200, done)
        else:
            self.answer(200, done)

    do_GET = do_PUT = do_POST = do_DELETE = handle_any


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(sys.argv[1], "w", encoding="ascii") as f:
    f.write(str(server.server_address[1]))
server.serve_forever()
