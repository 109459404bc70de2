#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Metrics of 12 nodes over two days, in which it is known what moved before which failure.

ops-peers.py BEGIN TRUTH: prints OpenMetrics (promtool tsdb create-blocks-from openmetrics), and
writes what is true of them into TRUTH.  gpu003 is slow for a day, gpu011 has no work, and gpu006
leaves its peers in the last half hour of the two days, for longer than these."""
import json
import random
import sys

BEGIN, NODES, SCRAPE, END = int(sys.argv[1]), 12, 120, 2 * 86400 + 1800
LEAVES = (6, 2 * 86400 - 1800)
rng = random.Random(41)
# Failures: node, when, XID, what moves before it, and for how long.
FAILURES = [(5, 50000, 79, "node_procs_running", 2400), (8, 90000, 94, None, 0),
            (2, 140000, 145, "node_intr", 1200)]
SLOW = (3, 60000, 150000)
out = {}


def put(name, kind, labels, v, t):
    suffix = "_total" if kind == "counter" else ""
    out.setdefault((name, kind), []).append(f"{name}{suffix}{{{labels}}} {v:.10g} {t}\n")


for node in range(NODES):
    intr, xid, host = 0.0, 0, f'instance="gpu{node:03d}:9100"'
    gpu = f'instance="gpu{node:03d}:9400",gpu="0"'
    for t in range(node * 7, END, SCRAPE):
        moved = {what for n, at, _, what, lead in FAILURES if n == node and at - lead <= t < at + 60}
        failed = any(n == node and at <= t < at + 1800 for n, at, _, _, _ in FAILURES)
        xid = next((x for n, at, x, _, _ in FAILURES if n == node and at <= t < at + SCRAPE), xid)
        if node == LEAVES[0] and t >= LEAVES[1]:
            moved.add("node_procs_running")
        works = node != 11
        running = (64 if works else 1) + rng.gauss(0, 1.5) - 50 * ("node_procs_running" in moved or failed)
        intr += SCRAPE * ((3e5 if works else 9e3) * (1 + rng.gauss(0, 0.02)) -
                          2e5 * ("node_intr" in moved or failed))
        clock = (1830 if works else 345) + rng.gauss(0, 5)
        if node == SLOW[0] and SLOW[1] <= t < SLOW[2]:
            clock *= 0.8
        put("node_procs_running", "gauge", host, running, BEGIN + t)
        put("node_intr", "counter", host, intr, BEGIN + t)
        put("DCGM_FI_DEV_SM_CLOCK", "gauge", gpu, clock, BEGIN + t)
        put("DCGM_FI_DEV_GPU_UTIL", "gauge", gpu, 98 if works else 0, BEGIN + t)
        put("DCGM_FI_DEV_XID_ERRORS", "gauge", gpu, xid, BEGIN + t)
for (name, kind), lines in out.items():
    sys.stdout.write(f"# TYPE {name} {kind}\n")
    sys.stdout.writelines(lines)
sys.stdout.write("# EOF\n")
with open(sys.argv[2], "w") as f:
    json.dump({"failures": [{"node": f"gpu{n:03d}", "at": BEGIN + at, "xid": x, "metric": what, "lead": lead}
                            for n, at, x, what, lead in FAILURES]}, f)
