#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rates of bootseer.KVCache for bench/kv, which puts the sockets' mounts up: kv_rates.py WHAT N
MIB SOCKET...; prints what was measured, and GB/s.  $RUN has the mounts' folders."""
import glob
import os
import socket
import sys
import threading
import time

import bootseer_kv

THREADS = 4


def figures():
    """Of all mounts together."""
    sums = {}
    for path in glob.glob(os.environ["RUN"] + "/*/mount.sock"):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(path)
            s.sendall(b"GET /metrics HTTP/1.1\r\nHost: m\r\nConnection: close\r\n\r\n")
            for line in s.makefile():
                if line.startswith("bootseer_ckpt_group_blocks_"):
                    name, value = line.split()
                    name = name[len("bootseer_ckpt_group_blocks_"):]
                    sums[name] = sums.get(name, 0) + float(value)
    return sums


def settle():
    zeros = 0
    while zeros < 2:
        zeros = 0 if figures()["pending"] else zeros + 1
        time.sleep(0.05)


def say(what, size, seconds):
    print("%s %.3f GB/s" % (what, size / seconds / 1e9))


def get_all(kv, keys, size):
    # Memory that was touched before, as an engine's is.
    rooms = [bytearray(size) for _ in range(THREADS)]
    free = list(rooms)

    def get(key):
        room = free.pop()
        assert kv.get(key, into=room) == size
        free.append(room)

    begin = time.monotonic()
    list(kv._pool.map(get, keys))
    return time.monotonic() - begin


def main():
    what, n, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]) << 20
    caches = [bootseer_kv.KVCache("bench", a, THREADS) for a in sys.argv[4:]]
    keys = ["block %d" % i for i in range(n)]
    kv, total = caches[0], n * size
    if what == "put":
        blocks = [bytes([i % 251 + 1]) * size for i in range(n)]
        begin = time.monotonic()
        assert all(kv.put_many(keys, blocks))
        say("put:_to_this_node's_memory", total, time.monotonic() - begin)
        settle()
        say("put:_to_the_owner_and_the_store", total, time.monotonic() - begin)
    elif what == "memory":
        get_all(kv, keys, size)
        say("get_from_this_node's_memory", total, get_all(kv, keys, size))
    elif what == "member":
        before = figures()["received_bytes_total"]
        mixed = get_all(kv, keys, size)
        received = figures()["received_bytes_total"] - before
        memory = get_all(kv, keys, size) / total
        if received:
            say("get_from_another_node", received, mixed - (total - received) * memory)
    elif what == "store":
        say("get_from_the_store", total, get_all(kv, keys, size))
    else:
        begin = time.monotonic()
        threads = [threading.Thread(target=get_all, args=(c, keys, size)) for c in caches]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        say("get_from_the_store,_two_nodes_at_once", 2 * total, time.monotonic() - begin)
        print("copies_from_the_store,_two_nodes_at_once %.3f copies" %
              (figures()["fetched_bytes_total"] / total))


main()
