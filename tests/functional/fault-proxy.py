#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An HTTP proxy before a store's server, which does damage when it is told to.
fault-proxy.py SERVER PORT-FILE: passes requests on to SERVER (host:port), redirects of
name nodes come back to it; its port is written into the file.

POST /fault with lines KEY=VALUE adds a fault; POST /clear forgets all; GET /log has a
line for each request: METHOD PATH STATUS FAULT.

  match=REGEX     of "METHOD PATH?QUERY"
  times=N         so often (1); skip=N: not the first N of those that match
  kind=status     answers with code=, body= and after= (Retry-After)
  kind=cut        passes at= bytes of the answer's body on, then hangs up
  kind=cut-sent   passes at= bytes of the request's body on, then hangs up on both
  kind=lost       the server does it, and its answer is not passed on
  kind=wrong-sent flips a bit of the request's body at byte at=
  kind=wrong-got  flips a bit of the answer's body at byte at=
  kind=drip       passes at= bytes of the answer on in each tenth of a second
  kind=hold       passes at= bytes of the answer on, and no more until it is given up
  kind=wait       the server does it, and its answer is passed on after a POST /go
  kind=late       the server gets it after a POST /go, whoever gave it up meanwhile
  kind=refuse     hangs up at once"""
import http.client
import re
import socketserver
import sys
import threading
from http.server import BaseHTTPRequestHandler

faults, log, lock, go = [], [], threading.Lock(), threading.Event()
pace = threading.Event()  # never set
HOP = {"connection", "keep-alive", "transfer-encoding", "expect"}


class Gone(Exception):
    """The connection is given up."""


def choose(line):
    with lock:
        for f in faults:
            if not re.search(f["match"], line):
                continue
            if f["skip"] > 0:
                f["skip"] -= 1
            elif f["times"] > 0:
                f["times"] -= 1
                return f
    return None


class Proxy(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_at = ""

    def log_message(self, *args):
        pass

    def note(self, status, fault):
        with lock:
            log.append(f"{self.command} {self.path} {status} "
                       f"{fault['kind'] if fault else '-'}")

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def say(self, status, data, headers=()):
        self.send_response_only(status)
        for key, value in headers:
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def control(self):
        text = self.body().decode()
        with lock:
            if self.path == "/fault":
                f = dict(line.split("=", 1) for line in text.splitlines() if line)
                for key, value in (("times", 1), ("skip", 0), ("at", 0), ("code", 503)):
                    f[key] = int(f.get(key, value))
                faults.append(f)
                if f["kind"] in ("wait", "late"):
                    go.clear()
            elif self.path == "/go":
                go.set()
            elif self.path == "/clear":
                faults.clear()
                log.clear()
        self.say(200, "".join(line + "\n" for line in log).encode())

    def ask(self, sent, fault):
        to, path = self.server_at, self.path
        if path.startswith("/@"):
            to, path = path[2:].split("/", 1)
            path = "/" + path
        data = bytearray(sent)
        if fault and fault["kind"] == "wrong-sent" and data:
            data[fault["at"] % len(data)] ^= 1
        c = http.client.HTTPConnection(to, timeout=120)
        c.putrequest(self.command, path, skip_host=True, skip_accept_encoding=True)
        for key, value in self.headers.items():
            if key.lower() not in HOP and key.lower() != "content-length":
                c.putheader(key, value)
        if data or self.command in ("PUT", "POST"):
            c.putheader("Content-Length", str(len(data)))
        c.endheaders()
        if fault and fault["kind"] == "cut-sent":
            c.send(bytes(data[:fault["at"]]))
            c.close()
            raise Gone
        if data:
            c.send(bytes(data))
        return c.getresponse()

    def answer(self, r, fault):
        data = r.read() if self.command != "HEAD" else b""
        if fault and fault["kind"] == "wait":
            go.wait(120)
        if fault and fault["kind"] == "hold" and not fault["at"]:
            self.connection.settimeout(120)
            self.connection.recv(1)
        if fault and (fault["kind"] == "lost" or fault["kind"] == "hold" and not fault["at"]):
            raise Gone
        if fault and fault["kind"] == "wrong-got" and data:
            data = bytearray(data)
            data[fault["at"] % len(data)] ^= 1
        self.send_response_only(r.status)
        for key, value in r.getheaders():
            if key.lower() in HOP or (key.lower() == "content-length" and
                                      self.command != "HEAD"):
                continue
            if key.lower() == "location" and "://" in value:
                value = re.sub(r"://([^/]*)", f"://{self.headers['Host']}/@\\1", value)
            self.send_header(key, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if fault and fault["kind"] in ("cut", "hold"):
            self.wfile.write(data[:fault["at"]])
            self.wfile.flush()
            if fault["kind"] == "hold":
                self.connection.settimeout(120)
                self.connection.recv(1)
            raise Gone
        step = fault["at"] if fault and fault["kind"] == "drip" else len(data) or 1
        for at in range(0, len(data), step):
            if at:
                pace.wait(0.1)
            self.wfile.write(data[at:at + step])

    def serve(self):
        if self.path in ("/fault", "/go", "/clear", "/log"):
            self.control()
            return
        fault = choose(f"{self.command} {self.path}")
        try:
            if fault and fault["kind"] == "refuse":
                raise Gone
            sent = self.body()
            if fault and fault["kind"] == "status":
                headers = [("Retry-After", fault["after"])] if "after" in fault else []
                self.note(fault["code"], fault)
                self.say(fault["code"], fault.get("body", "").encode(), headers)
                return
            if fault and fault["kind"] == "late":
                self.note("late", fault)
                go.wait(120)
            r = self.ask(sent, fault)
            self.note(r.status, fault)
            self.answer(r, fault)
        except (Gone, OSError, http.client.HTTPException):
            self.note("gone", fault)
            self.close_connection = True

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = serve


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128


Proxy.server_at = sys.argv[1]
with Server(("127.0.0.1", 0), Proxy) as server:
    with open(sys.argv[2], "w", encoding="ascii") as f:
        f.write(f"{server.server_address[1]}\n")
    server.serve_forever()
