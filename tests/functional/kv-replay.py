#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs of nodes with blocks in common, for ckpt-blocks.bats.  $RUN has the mounts' folders.

kv-replay.py replay SOCKET...   a trace as of agents that share system prompts, in turns; prints
                                what was asked for and found, and what could have been
kv-replay.py put N SOCKET       puts blocks 0 to N-1
kv-replay.py get N SOCKET...    every socket's two programs read them at the same time; prints how
                                many were there, nowhere, and others than they should be
kv-replay.py refuse SOCKET      what the socket says to memory that may change, and what is no block
kv-replay.py lmcache SOCKET     by LMCache's interface"""
import asyncio
import enum
import glob
import hashlib
import os
import random
import socket
import struct
import sys
import threading
import types

import bootseer_kv

SIZE = 65536


def content(key):
    return random.Random(key).randbytes(SIZE)


def pending():
    n = 0
    for path in glob.glob(os.environ["RUN"] + "/*/mount.sock"):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(path)
            s.sendall(b"GET /metrics HTTP/1.1\r\nHost: m\r\nConnection: close\r\n\r\n")
            for line in s.makefile():
                if line.startswith("bootseer_ckpt_group_blocks_pending "):
                    n += int(line.split()[1])
    return n


def settle():
    """Until all that was put is with its owner, and in the store: what leaves one node while another
    is looked at is seen at the second look."""
    zeros = 0
    while zeros < 2:
        zeros = 0 if pending() else zeros + 1


def side_by_side(calls):
    failed = []

    def run(call):
        try:
            call()
        except BaseException as why:
            failed.append(why)

    threads = [threading.Thread(target=run, args=(c,)) for c in calls]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failed:
        raise failed[0]


class Node:
    def __init__(self, address):
        self.kv = bootseer_kv.KVCache("model", address)
        self.asked = self.hits = self.wrong = 0
        self.lock = threading.Lock()

    def request(self, keys):
        """As an engine does: the prefix that is there is read, the rest is computed, and put."""
        n = 0
        for key in keys:
            block = self.kv.get(key)
            with self.lock:
                self.asked += 1
                if block is None:
                    break
                n += 1
                self.hits += 1
                self.wrong += block != content(key)
        assert all(self.kv.put_many(keys[n:], [content(k) for k in keys[n:]]))


def trace(rng):
    """Batches of requests of one moment: half of a batch are tasks of one category, with its system
    prompt of 8 blocks and one of their own, the rest are turns of conversations, each two blocks
    longer than the one before and after a long while."""
    talks = {t: 2 for t in range(12)}
    for batch in range(16):
        category = rng.randrange(3)
        prompt = ["system %d %d" % (category, i) for i in range(8)]
        requests = [prompt + ["task %d %d" % (batch, i)] for i in range(4)]
        for t in rng.sample(sorted(talks), 4):
            talks[t] += 2
            requests.append(["talk %d %d" % (t, i) for i in range(talks[t])])
        yield requests


def replay(addresses):
    nodes = [Node(a) for a in addresses]
    rng = random.Random(20)
    there, ideal = set(), 0
    for requests in trace(rng):
        side_by_side([lambda r=r: rng.choice(nodes).request(r) for r in requests])
        for r in requests:
            ideal += sum(1 for key in r if key in there)
        there.update(key for r in requests for key in r)
        settle()
    print("asked=%d hits=%d before=%d blocks=%d wrong=%d" % (
        sum(n.asked for n in nodes), sum(n.hits for n in nodes), ideal, len(there),
        sum(n.wrong for n in nodes)))


def get(n, addresses):
    said = {"right": 0, "none": 0, "wrong": 0}
    lock = threading.Lock()
    begin = threading.Barrier(2 * len(addresses))

    def program(address, seed):
        kv = bootseer_kv.KVCache("model", address)
        order = list(range(n))
        random.Random(seed).shuffle(order)
        begin.wait(60)
        for i in order:
            room = bytearray(SIZE)
            got = kv.get("block %d" % i, into=room)
            word = "none" if got is None else "right" if room == content("block %d" % i) else "wrong"
            with lock:
                said[word] += 1
        kv.close()

    side_by_side([lambda a=a, s=s: program(a, s) for s in range(2) for a in addresses])
    print(" ".join("%s=%d" % item for item in said.items()))


def refuse(address):
    kv = bootseer_kv.KVCache("model", address)
    for size in (SIZE, 0):
        fd = os.memfd_create("open", os.MFD_ALLOW_SEALING)
        os.ftruncate(fd, size)
        print(os.strerror(-kv._ask(2, "open %d" % size, fd)[0]))
    with open("/proc/self/exe", "rb") as f:
        print(os.strerror(-kv._ask(2, "file", f.fileno())[0]))
    print(kv.get("open %d" % SIZE))
    # A block is memory that nobody can change.
    kv.put("block", content("block"))
    _, fd = kv._ask(1, "block")
    try:
        os.pwrite(fd, b"x", 0)
    except OSError as why:
        print(why.strerror)
    try:
        bootseer_kv.KVCache("m" * 300, address)
    except OSError as why:
        print(why)


class Chunk:
    """LMCache's MemoryObj, of what the connector uses of it."""

    def __init__(self, shape, dtype, fmt, data=None):
        self.shape, self.dtype, self.fmt = shape, dtype, fmt
        self.byte_array = bytearray(data or 2 * shape[0] * shape[1])

    def get_shape(self):
        return self.shape

    def get_dtype(self):
        return self.dtype

    def get_memory_format(self):
        return self.fmt


def fake_lmcache():
    """The modules that the connector imports, with the classes that LMCache documents."""
    class Torch(types.ModuleType):
        class float16:
            def __str__(self):
                return "torch.float16"
        float16, Size = float16(), tuple

    class MemoryFormat(enum.Enum):
        KV_2LTD = 1

    class ConnectorAdapter:
        def __init__(self, schema):
            self.schema = schema

    class RemoteConnector:
        def __init__(self, config, metadata):
            self.config, self.metadata = config, metadata

    names = ["lmcache", "lmcache.v1", "lmcache.v1.memory_management",
             "lmcache.v1.storage_backend", "lmcache.v1.storage_backend.connector",
             "lmcache.v1.storage_backend.connector.base_connector"]
    for name in names:
        sys.modules[name] = types.ModuleType(name)
    sys.modules["torch"] = Torch("torch")
    sys.modules[names[2]].MemoryFormat = MemoryFormat
    sys.modules[names[4]].ConnectorAdapter = ConnectorAdapter
    sys.modules[names[5]].RemoteConnector = RemoteConnector
    return MemoryFormat


def lmcache(address):
    fmt = fake_lmcache().KV_2LTD
    import bootseer_lmcache
    import torch

    key = types.SimpleNamespace(to_string=lambda: "vllm@model@2@0@%s" % hashlib.md5(b"").hexdigest())
    other = types.SimpleNamespace(to_string=lambda: "vllm@model@2@1@")
    adapter = bootseer_lmcache.BootseerConnectorAdapter()
    assert adapter.can_parse("plugin://bootseer.a") and not adapter.can_parse("plugin://fs")
    connector = adapter.create_connector(types.SimpleNamespace(
        plugin_name="bootseer.a", metadata=None,
        config=types.SimpleNamespace(
            extra_config={"remote_storage_plugin.bootseer.a.group_socket": address}),
        local_cpu_backend=types.SimpleNamespace(allocate=Chunk)))
    chunk = Chunk((2, 40), torch.float16, fmt, random.Random(1).randbytes(160))

    async def use():
        before = await connector.exists(key)
        await connector.put(key, chunk)
        got, none = await connector.batched_get([key, other])
        print(before, connector.exists_sync(key), none, got.byte_array == chunk.byte_array,
              got.shape, str(got.dtype), got.fmt.name)
        await connector.close()

    asyncio.run(use())


def main():
    what, args = sys.argv[1], sys.argv[2:]
    if what == "replay":
        replay(args)
    elif what == "put":
        kv = bootseer_kv.KVCache("model", args[1])
        assert all(kv.put_many(["block %d" % i for i in range(int(args[0]))],
                               [content("block %d" % i) for i in range(int(args[0]))]))
        settle()
    elif what == "get":
        get(int(args[0]), args[1:])
    elif what == "refuse":
        refuse(args[0])
    else:
        lmcache(args[0])


main()
