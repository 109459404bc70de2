# SPDX-License-Identifier: Apache-2.0
"""report_starts.py URL IMAGE NODES JOB: what NODES nodes say of a start of an image, with 32
peers each, by four connections; prints how fast the service took it, as JSON."""
import http.client
import json
import random
import sys
import threading
import time
import urllib.parse

PEERS, FILES, THREADS = 32, 20, 4
host = urllib.parse.urlsplit(sys.argv[1]).netloc
image, nodes, job = sys.argv[2], int(sys.argv[3]), sys.argv[4]


def report(rng):
    peers = [["n%04d" % n, rng.randrange(1, 10**8)]
             for n in rng.sample(range(nodes), min(PEERS, nodes))]
    files = [{"path": "/usr/lib/python3/dist-packages/a/lib%d.so" % rng.randrange(100),
              "bytes": rng.randrange(1, 10**7)} for _ in range(FILES)]
    return json.dumps({
        "name": "h/app:1", "job": job, "attempt": 0, "peers": peers,
        "peer_bytes": sum(p[1] for p in peers), "origin_bytes": rng.randrange(10**8),
        "start": {"trace": "own", "end": "ready", "ready_ms": rng.randrange(10**5),
                  "hot": {"used_bytes": 10**9, "unused_bytes": 10**8},
                  "fetched": {"demand": 10**7, "hot": 10**9}, "missed_files": files}})


def send(first):
    connection = http.client.HTTPConnection(host)
    for n in range(first, nodes, THREADS):
        connection.request(
            "POST", f"/v1/images/{image}?workload=w&repo=h/app", bodies[n],
            {"Bootseer-Node": "n%04d" % n})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status != 200:
            sys.exit(f"report_starts.py: {answer.status} {text}")


bodies = [report(random.Random(n)) for n in range(nodes)]
begun = time.monotonic()
threads = [threading.Thread(target=send, args=(k,)) for k in range(THREADS)]
for t in threads:
    t.start()
for t in threads:
    t.join()
took = time.monotonic() - begun
print(json.dumps({"reports": nodes, "seconds": took, "per_second": nodes / took}))
