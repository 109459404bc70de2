#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_events.py URL EVENTS [NODES STAGES]: send EVENTS stage events of generated starts to
a bootseer-registry, and print how it went as JSON.

Each start has NODES nodes (default 200) with STAGES stages each (default 25), some slow,
with the facts that make causes.  Bodies are made before the clock starts."""
import http.client
import json
import random
import sys
import threading
import time
import urllib.parse

url = urllib.parse.urlsplit(sys.argv[1])
want = int(sys.argv[2])
NODES = int(sys.argv[3]) if len(sys.argv) > 3 else 200
STAGES = int(sys.argv[4]) if len(sys.argv) > 4 else 25
THREADS = 4
TABLE = []
for i in range(256):
    c = i
    for _ in range(8):
        c = c >> 1 ^ (0x82F63B78 if c & 1 else 0)
    TABLE.append(c)


def crc32c(data):
    c = 0xFFFFFFFF
    for b in data:
        c = TABLE[(c ^ b) & 255] ^ c >> 8
    return c ^ 0xFFFFFFFF


def line(fields):
    text = "BOOTSEER " + fields
    return "%s crc=%08x\n" % (text, crc32c(text.encode()))


def body(start, node, begin, rng):
    """All events of one node of one start."""
    at, out, n = begin, [], node * 100000
    name = "job=bench-%dx%d-%d node=n%04d" % (NODES, STAGES, start, node)
    for k in range(STAGES):
        took = rng.randint(900, 1100) * 1000000
        facts = "origin_bytes=%d disk_ms=%d" % (took // 10, rng.randint(1, 9))
        if rng.random() < 0.002:
            took += 5 * 10**9
            facts = "origin_bytes=%d disk_ms=5000" % (took // 60)
        if k == 0:
            facts += " image=bench/image:%d label=team-%d gpus=8" % (start % 3, start % 2)
        out.append(line("stage=s%02d ev=begin ts=%d %s id=%d" % (k, at, name, n)))
        at += took
        out.append(line("stage=s%02d ev=end ts=%d %s %s id=%d" % (k, at, name, facts, n + 1)))
        n += 2
    out.append(line("stage=train ev=mark ts=%d %s id=%d" % (begin + 60 * 10**9, name, n)))
    return "n%04d" % node, "".join(out).encode(), len(out)


def send_all(items, sums, i):
    c = http.client.HTTPConnection(url.netloc, timeout=120)
    for node, data, _ in items:
        c.request("POST", "/v1/events", data,
                  {"Bootseer-Node": node, "Content-Type": "text/plain"})
        answer = c.getresponse()
        text = answer.read()
        if answer.status != 200:
            sys.exit("%d %s" % (answer.status, text))
        sums[i] += json.loads(text)["stored"]


now, done, spent, start = time.time_ns(), 0, 0.0, 0
while done < want:
    rng = random.Random(start)
    begin = now - 120 * 10**9 - start * 3600 * 10**9
    items = [body(start, i, begin, rng) for i in range(NODES)]
    sums = [0] * THREADS
    threads = [threading.Thread(target=send_all, args=(items[i::THREADS], sums, i))
               for i in range(THREADS)]
    t = time.monotonic()
    for th in threads:
        th.start()
    for th in threads:
        th.join()
    spent += time.monotonic() - t
    if sum(sums) != sum(n for _, _, n in items):
        sys.exit("stored %d of %d events" % (sum(sums), sum(n for _, _, n in items)))
    done += sum(sums)
    start += 1
print(json.dumps({"events": done, "starts": start, "seconds": round(spent, 3),
                  "per_second": round(done / spent)}))
