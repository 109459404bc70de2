#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A cluster's metrics as node_exporter and dcgm-exporter name them, with known saves and loads.

Prints OpenMetrics (promtool tsdb create-blocks-from openmetrics), and writes what is true of
them into --truth.  Each node is scraped at times of its own; some scrapes are lost, one node
is started again, and two servers may have scraped all of it."""
import argparse
import bisect
import json
import random
import sys

WRITE = "node_mountstats_nfs_total_write_bytes"
READ = "node_mountstats_nfs_total_read_bytes"
RPC = "node_mountstats_nfs_operations"
REQUEST = 1 << 20
# The operation, and what its requests wait for a slot and then for the answer: the paper's
# table 13.
RPC_TIMES = {WRITE: ("WRITE", 1.495, 0.126), READ: ("READ", 0.032, 0.027)}


class Flow:
    """Bytes of one node by time: bursts at a constant rate, and a little all the time."""

    def __init__(self, background):
        self.background, self.starts, self.bursts, self.before = background, [], [], [0.0]

    def add(self, at, length, size):
        self.starts.append(at)
        self.bursts.append((at, length, size))
        self.before.append(self.before[-1] + size)

    def at(self, t, begin):
        k = bisect.bisect_right(self.starts, t)
        total = self.before[k - 1] if k else 0.0
        if k:
            at, length, size = self.bursts[k - 1]
            total += size * min(1.0, (t - at) / length)
        return total + self.background * (t - begin)


def make_plan(args, rng):
    """Sessions of saves: [(begin, length, kind)], and when each began and ended."""
    plan, sessions, at = [], [], args.begin + 300.0
    for interval, count in args.saves:
        begin = at
        plan.append((at, args.load, "load"))
        at += args.load + 60
        for _ in range(count):
            at += interval * (1 + 0.02 * rng.uniform(-1, 1))
            plan.append((at, args.save, "save"))
        at += interval * rng.random() + args.save
        sessions.append((int(begin), int(at)))
    return plan, sessions, at + 600


def parse(argv):
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--nodes", type=int, default=4)
    p.add_argument("--begin", type=float, required=True)
    p.add_argument("--saves", type=lambda s: tuple(float(x) for x in s.split("x")), action="append",
                   help="SECONDSxCOUNT, a session of so many saves")
    p.add_argument("--save", type=float, default=18.0, help="seconds that one takes")
    p.add_argument("--load", type=float, default=600.0)
    p.add_argument("--bytes", type=float, default=20.55e9, help="of a node's save")
    p.add_argument("--scrape", type=float, default=30.0)
    p.add_argument("--jitter", type=float, default=0.0, help="of a scrape, in seconds")
    p.add_argument("--lost", type=float, default=0.0, help="share of scrapes")
    p.add_argument("--replicas", type=int, default=1)
    p.add_argument("--rename", action="append", default=[], help="OLD=NEW of a metric's name")
    p.add_argument("--without", action="append", default=[], help="a metric that is missing")
    p.add_argument("--truth", required=True)
    args = p.parse_args(argv)
    args.saves = [(s, int(n)) for s, n in args.saves or [(1800, 20)]]
    return args


def scrapes(args, rng, end):
    t = args.begin + rng.random() * args.scrape
    while t < end:
        if rng.random() >= args.lost:
            yield round(t + args.jitter * rng.uniform(-1, 1), 3)
        t += args.scrape


def series(args, rng, plan, end):
    """Lines of each metric, by its name and kind."""
    out = {}
    names = dict(r.split("=") for r in args.rename)

    def put(name, kind, labels, v, t):
        if name not in args.without:
            shown = names.get(name, name)
            suffix = "_total" if kind == "counter" else ""
            out.setdefault((shown, kind), []).append(f"{shown}{suffix}{{{labels}}} {v:.6g} {t}\n"
                                                     if kind == "gauge" else
                                                     f"{shown}{suffix}{{{labels}}} {v:.17g} {t}\n")

    restart = args.begin + (end - args.begin) * 0.6
    for node in range(args.nodes):
        write, read = Flow(1e6), Flow(2e4)
        for at, length, kind in plan:
            (write if kind == "save" else read).add(at, length, args.bytes * (1 if kind == "save" else 8))
        for replica in range(args.replicas):
            base = f'instance="gpu{node:03d}:9100",job="node"'
            mount = base + ',export="nas:/ckpt",mountaddr="10.0.0.1",protocol="tcp"'
            extra = f',prometheus_replica="p{replica}"' if args.replicas > 1 else ""
            for t in scrapes(args, rng, end):
                since = restart if node == 1 and t >= restart else None
                for name, flow in ((WRITE, write), (READ, read)):
                    v = 5e12 + flow.at(t, args.begin) if since is None else \
                        flow.at(t, args.begin) - flow.at(since, args.begin)
                    put(name, "counter", mount + extra, v, t)
                    op, queue, response = RPC_TIMES[name]
                    labels = mount + extra + f',operation="{op}"'
                    for what, each in (("requests", 1), ("queue_time_seconds", queue),
                                       ("response_time_seconds", response)):
                        put(f"{RPC}_{what}", "counter", labels, v / REQUEST * each, t)
                loading = any(a <= t < a + length + 60 for a, length, k in plan if k == "load")
                put("DCGM_FI_DEV_GPU_UTIL", "gauge",
                    base.replace("9100", "9400") + ',gpu="0"' + extra,
                    2 if loading else 99 - rng.random(), t)
                if node == 0:
                    disk = base + ',device="nas:/ckpt",fstype="nfs4",mountpoint="/ckpt"' + extra
                    put("node_filesystem_size_bytes", "gauge", disk, 2252e12, t)
                    put("node_filesystem_avail_bytes", "gauge", disk,
                        1802e12 - args.nodes * (write.at(t, args.begin) - 1e6 * (t - args.begin)), t)
    return out


def main(argv):
    args = parse(argv)
    rng = random.Random(7)
    plan, sessions, end = make_plan(args, rng)
    with open(args.truth, "w") as f:
        json.dump({"begin": args.begin, "end": end, "save_s": args.save, "sessions": sessions, "bytes": args.bytes,
                   "saves": [p[0] for p in plan if p[2] == "save"],
                   "loads": [p[0] for p in plan if p[2] == "load"]}, f)
    for (name, kind), lines in series(args, rng, plan, end).items():
        sys.stdout.write(f"# TYPE {name} {kind}\n")
        sys.stdout.writelines(lines)
    sys.stdout.write("# EOF\n")


main(sys.argv[1:])
