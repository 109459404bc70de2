#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks that save together, for ckpt-saves.bats: each a thread, two of each node.

save-ranks.py put PATH SOCKET...   rank R has the socket R / 2; prints "buffered", when all are,
                                   then "durable", or "failed REASON" for each that is not, and
                                   "lost REASON" for each that was buffered before; $ABSENT does
                                   not come; $TIMEOUT is that of put()
                                   $STEP: each rank's own bytes are those of this step
save-ranks.py twice PATH SOCKET... the same path two times, without a wait between
save-ranks.py leave PATH SOCKET... the last rank leaves the first of two saves out; prints
                                   "left REASON" for each rank of the first, then as put does
save-ranks.py differ PATH SOCKET...
                                   each node's ranks name another path
save-ranks.py jobs PATH SOCKET...  two jobs, of which each node has another one's ranks first
save-ranks.py check FILE N         is it what N ranks have saved?
save-ranks.py raw SOCKET           what the socket says to memory that may change, and to bytes
                                   that no tensor has
save-ranks.py lie KEY-FILE ADDRESS SOCKET WHAT...
                                   the first rank saves by the socket; the other node is a member
                                   at ADDRESS that tells what is not so, or keeps silent"""
import asyncio
import http.server
import base64
import hashlib
import hmac
import json
import os
import random
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading

import bootseer_group

WORLD, MINE = 9_000_001, 3_000_000
STEP = int(os.environ.get("STEP", "0"))


def tensors(rank):
    world = random.Random(7).randbytes(WORLD)
    return {"world": ("U8", [WORLD], world), "tied": ("U8", [WORLD], world),
            "mine": ("F32", [MINE // 4], random.Random(rank + 10_000 * STEP).randbytes(MINE)),
            "zeros": ("BF16", [2, 3_000_000], bytes(12_000_000)),
            "step": ("I64", [], struct.pack("<q", 5)), "none": ("F32", [0, 3], b"")}


def groups(sockets):
    members = [bootseer_group.address_of(sockets[r // 2]) for r in range(2 * len(sockets))]
    return [bootseer_group.Group(sockets[r // 2], r, members, os.environ["JOB"])
            for r in range(len(members))]


def reason(future):
    try:
        future.wait(120)
    except bootseer_group.SaveError as why:
        return str(why)
    return None


def put(path, *sockets):
    absent = int(os.environ.get("ABSENT", "-1"))
    timeout = float(os.environ.get("TIMEOUT", "60"))
    saves = [g.put(path, tensors(g.rank), timeout, 60) for g in groups(sockets)
             if g.rank != absent]
    early = [reason(s.buffered) for s in saves]
    if not any(early):
        print("buffered", flush=True)
    late = [reason(s.durable) for s in saves]
    for before, why in zip(early, late):
        if why:
            print("failed" if before else "lost", why, flush=True)
    if not any(late):
        print("durable", saves[0].durable.wait()["stored"], flush=True)


async def be_impatient(future):
    try:
        await asyncio.wait_for(future, 0.001)
    except (asyncio.TimeoutError, bootseer_group.SaveError):
        pass


def twice(path, *sockets):
    all_ranks = groups(sockets)
    saves = [g.put(path, tensors(g.rank), 60, 60) for _ in "12" for g in all_ranks]
    asyncio.run(be_impatient(saves[-1].durable))
    tell(saves)


def tell(saves):
    for save in saves:
        print(reason(save.durable) or "durable", flush=True)


def leave(path, *sockets):
    all_ranks = groups(sockets)
    all_ranks[-1]._n = 1
    saves = [all_ranks[-1].put(path, tensors(all_ranks[-1].rank), 60, 60)]
    left = [g.put("left", tensors(g.rank), 60, 60) for g in all_ranks[:-1]]
    saves += [g.put(path, tensors(g.rank), 60, 60) for g in all_ranks[:-1]]
    for save in left:
        print("left", reason(save.durable), flush=True)
    tell(saves)


def differ(path, *sockets):
    tell([g.put(path + sockets[g.rank // 2][-1], tensors(g.rank), 60, 60)
          for g in groups(sockets)])


def jobs(path, *sockets):
    one = groups(sockets)
    os.environ["JOB"] += " too"
    two = groups(sockets)
    half = len(one) // 2
    early = one[:half] + two[half:]
    saves = [g.put(path + str(int(g in two)), tensors(g.rank), 60, 60) for g in early]
    print("early", flush=True)
    sys.stdin.readline()
    saves += [g.put(path + str(int(g in two)), tensors(g.rank), 60, 60)
              for g in one + two if g not in early]
    tell(saves)


def check(path, n):
    with open(path, "rb") as f:
        data = f.read()
    length, = struct.unpack("<Q", data[:8])
    head = json.loads(data[8:8 + length])
    names = head.pop("__metadata__")
    at = 0
    for name in sorted(head, key=lambda k: head[k]["data_offsets"]):
        assert head[name]["data_offsets"][0] == at, name
        at = head[name]["data_offsets"][1]
    assert at == len(data) - 8 - length
    for rank in range(int(n)):
        for name, (dtype, shape, want) in tensors(rank).items():
            key = name if name in head else names.get(name, "%s@rank%d" % (name, rank))
            entry = head[key]
            begin, end = (8 + length + o for o in entry["data_offsets"])
            assert (entry["dtype"], entry["shape"]) == (dtype, shape), name
            assert data[begin:end] == want, (rank, name)


def raw(address):
    hello = bootseer_group.address_of(address)
    request = {"op": "put", "job": "0" * 32, "number": 1, "path": "raw", "rank": 0, "members": [hello],
               "nodes": [0], "stage_ms": 5000, "store_ms": 5000,
               "tensors": [["a", "U8", [64], 0, 64]]}
    fd = os.memfd_create("raw", os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, 64)

    def says(fd=fd, **other):
        with bootseer_group._call(address, {**request, **other}, fd) as sock:
            print(sock.makefile().readline().strip(), flush=True)

    says()
    with tempfile.TemporaryFile() as file:
        file.truncate(64)
        says(fd=file.fileno())
    bootseer_group.fcntl.fcntl(fd, 1033, 15)
    says(tensors=[["a", "U8", [65], 0, 65]])
    says(tensors=[["a", "U8", [1 << 40, 1 << 40], 0, 64]])
    says(tensors=[["a", "U8", [64], 1, 64]])
    says(path="../raw")
    says(members=["127.0.0.1:1"])


def member_files(folder, key_file, host):
    """The certificates that whoever has the key can make."""
    with open(key_file, "rb") as f:
        secret = hashlib.sha256(f.read().strip()).digest()
    seed = hmac.digest(secret, b"bootseer group authority", "sha256")
    der = bytes.fromhex("302e020100300506032b657004220420") + seed
    with open(folder + "/ca.key", "w") as f:
        f.write("-----BEGIN PRIVATE KEY-----\n%s\n-----END PRIVATE KEY-----\n"
                % base64.b64encode(der).decode())
    with open(folder + "/ext", "w") as f:
        f.write("subjectAltName=URI:bootseer://node/liar,IP:%s\n" % host)

    def openssl(*args):
        subprocess.run(["openssl", *args], cwd=folder, check=True, capture_output=True)

    openssl("req", "-x509", "-key", "ca.key", "-subj", "/CN=bootseer group", "-out", "ca",
            "-days", "9")
    openssl("genpkey", "-algorithm", "ed25519", "-out", "key")
    openssl("req", "-new", "-key", "key", "-subj", "/CN=liar", "-out", "csr")
    openssl("x509", "-req", "-in", "csr", "-CA", "ca", "-CAkey", "ca.key", "-CAcreateserial",
            "-out", "cert", "-extfile", "ext", "-days", "9")


def table_of(rank, length):
    """A table with tensor "a" of so many bytes, with the digest of 64 of x."""
    return (struct.pack("<IIHBB", 1, rank, 1, 2, 1) + b"aU8" + struct.pack("<Q", length) +
            hashlib.sha256(b"x" * 64).digest())


class Liar(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    what = ""

    def log_message(self, *args):
        pass

    def do_GET(self):
        data = b"x" * 64
        tables = {"length": table_of(1, 1 << 41), "rank": table_of(0, 64),
                  "durable": table_of(0, 64), "bundle": table_of(0, 64),
                  "cut": table_of(1, 64)[:9]}
        asked = self.path.partition("?")[0]
        table = tables.get(self.what, table_of(1, 64))
        body = b""
        if asked.endswith("/table"):
            if self.what == "silence":
                threading.Event().wait(60)
            body = table
        elif "/chunks/" in asked:
            body = b"y" * 64 if self.what == "bytes" else data
        elif self.command == "GET" and "/part/" in asked:
            body = b"BSEERCKP" + bytes(88)
        elif "/table/" in asked:
            told = self.rfile.read(int(self.headers["Content-Length"]))
            file = {"known": True, "striped": "", "plain": "", "generation": 0, "bytes": 0,
                    "owner": -1, "behind": False}
            tables = [] if self.what == "bundle" else [table, told]
            body = b"".join(struct.pack("<I", len(t)) + t for t in tables) + json.dumps(file).encode()
        elif self.command == "POST":
            self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET


def lie(key_file, host, address, *lies):
    with tempfile.TemporaryDirectory() as folder:
        member_files(folder, key_file, host)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder + "/cert", folder + "/key")
        server = http.server.ThreadingHTTPServer((host, 0), Liar)
        server.daemon_threads = True
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        honest, liar = bootseer_group.address_of(address), "%s:%d" % (host, server.server_port)
        for what in lies:
            Liar.what = what
            # The first node is who sends the tables, and says that the file is in the store.
            rank = int(what in ("durable", "bundle"))
            members = [liar, honest] if rank else [honest, liar]
            save = bootseer_group.Group(address, rank, members, "lie " + what).put(
                "lie-" + what, {"b": ("U8", [64], bytes(range(64)))}, 30, 30)
            print(what, reason(save.durable), flush=True)


{"put": put, "twice": twice, "leave": leave, "differ": differ, "jobs": jobs, "check": check,
 "raw": raw, "lie": lie}[sys.argv[1]](*sys.argv[2:])
