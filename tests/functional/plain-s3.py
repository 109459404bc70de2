#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A bucket "bkt" in memory that takes any key, as S3 does and servers on file systems do not.

plain-s3.py PORT-FILE: listens at a free port of 127.0.0.1 and writes it there.  Requests need
no signature; of a key with "hangs" in it the first range alone comes.  Puts in parts, conditions and checksums are not known."""
import hashlib
import http.server
import os
import sys
import threading
from email.utils import formatdate
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

KEYS = {}  # key: (bytes, time)
LOCK = threading.Lock()
WHEN = "2026-01-02T03:04:05.000Z"


def text(key):
    """As S3 writes it in XML: characters that XML cannot have are references all the same."""
    return "".join(f"&#x{ord(c):x};" if ord(c) < 32 else escape(c) for c in key)


def listing(query):
    prefix, by = (query.get(k, [""])[0] for k in ("prefix", "delimiter"))
    out, folders = [], set()
    for key in sorted(k for k in KEYS if k.startswith(prefix)):
        rest = key[len(prefix):]
        if by and by in rest:
            folders.add(prefix + rest.split(by)[0] + by)
            continue
        data = KEYS[key]
        out.append(f"<Contents><Key>{text(key)}</Key><LastModified>{WHEN}</LastModified>"
                   f"<ETag>&quot;{hashlib.md5(data).hexdigest()}&quot;</ETag>"
                   f"<Size>{len(data)}</Size></Contents>")
    out += [f"<CommonPrefixes><Prefix>{text(f)}</Prefix></CommonPrefixes>"
            for f in sorted(folders)]
    return ("<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>false</IsTruncated>"
            + "".join(out) + "</ListBucketResult>").encode()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def key(self):
        path = unquote(urlsplit(self.path).path)
        return path[len("/bkt/"):] if path.startswith("/bkt/") else ""

    def do_GET(self):
        key = self.key()
        if not key:
            self.answer(200, listing(parse_qs(urlsplit(self.path).query)))
            return
        data = KEYS.get(key)
        if data is None:
            self.answer(404)
            return
        headers = {"ETag": f'"{hashlib.md5(data).hexdigest()}"',
                   "Last_Modified": formatdate(1767323045, usegmt=True)}
        span = self.headers.get("Range")
        if span and data:
            first, last = span.split("=")[1].split("-")
            if "hangs" in key and int(first):
                threading.Event().wait()
            end = min(int(last) + 1 if last else len(data), len(data))
            headers["Content_Range"] = f"bytes {first}-{end - 1}/{len(data)}"
            self.answer(206, data[int(first):end], **headers)
        else:
            self.answer(200, data, **headers)

    do_HEAD = do_GET

    def do_PUT(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        source = self.headers.get("x-amz-copy-source")
        with LOCK:
            if source:
                body = KEYS[unquote(source).split("/", 2)[2]]
            KEYS[self.key()] = body
        tag = hashlib.md5(body).hexdigest()
        reply = f"<CopyObjectResult><ETag>&quot;{tag}&quot;</ETag></CopyObjectResult>"
        self.answer(200, reply.encode() if source else b"", ETag=f'"{tag}"')

    def do_DELETE(self):
        with LOCK:
            KEYS.pop(self.key(), None)
        self.answer(204)

    def log_message(self, *args):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
with open(sys.argv[1] + ".new", "w", encoding="ascii") as f:
    f.write(str(server.server_address[1]))
os.rename(sys.argv[1] + ".new", sys.argv[1])
server.serve_forever()
