#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the metrics of a cluster whose saves are known into a Prometheus, by its remote write:
ops_load.py URL NODES DAYS BEGIN.  Prints what is true of them as JSON."""
import json
import struct
import sys
import urllib.request

import numpy as np

STEP, HOUR = 30, 3600
URL, NODES, DAYS, BEGIN = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
FAILURES = max(2, DAYS * 10 // 55)
SAVE_S, LOAD_S, NODE_BYTES = 18.0, 1980.0, 20.55e9
rng = np.random.default_rng(2025)
SAMPLE = np.dtype([("tag", "u1"), ("size", "u1"), ("vtag", "u1"), ("v", "<f8"), ("ttag", "u1"),
                   ("t", "u1", 6)])


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def field(number, body):
    return varint(number << 3 | 2) + varint(len(body)) + body


def samples(times, values):
    """Sample messages: a double, and milliseconds, which are six bytes long until 2109."""
    out = np.zeros(len(times), SAMPLE)
    out["tag"], out["size"], out["vtag"], out["ttag"] = 0x12, 16, 0x09, 0x10
    out["v"] = values
    ms = np.round(times * 1000).astype(np.uint64)
    for i in range(6):
        part = (ms >> np.uint64(7 * i)) & np.uint64(127)
        out["t"][:, i] = part | np.uint64(128 if i < 5 else 0)
    return out.tobytes()


def labels(**kv):
    return b"".join(field(1, field(1, k.encode()) + field(2, v.encode()))
                    for k, v in sorted(kv.items()))


def snappy(data):
    """A snappy block of literals: nothing is compressed."""
    out = bytearray(varint(len(data)))
    for i in range(0, len(data), 1 << 16):
        part = data[i:i + (1 << 16)]
        out += b"\xf4" + struct.pack("<H", len(part) - 1) + part
    return bytes(out)


def make_plan():
    """The paper's intervals: 90 % of the time one each 133.5 minutes, then 199, then 81.5."""
    saves, loads, at, end = [], [BEGIN + 300.0], BEGIN + 300.0 + LOAD_S, BEGIN + DAYS * 86400 - HOUR
    while at < end:
        part = (at - BEGIN) / (DAYS * 86400)
        interval, sd = (8010, 324) if part < 0.88 else (11940, 200) if part < 0.97 else (4890, 100)
        at += interval + sd * rng.standard_normal()
        if at >= end:
            break
        saves.append(at)
        if len(saves) % 22 == 0:
            loads.append(at + SAVE_S + rng.random() * interval)
            at = loads[-1] + LOAD_S
    return saves, loads


def curve(starts, length, size):
    """Points of a counter that grows by `size` in each burst."""
    x, y = [0.0], [0.0]
    for k, s in enumerate(starts):
        x += [s, s + length]
        y += [k * size, (k + 1) * size]
    return np.array(x), np.array(y)


saves, loads = make_plan()
write, read = curve(saves, SAVE_S, NODE_BYTES), curve(loads, LOAD_S, 150e9 * LOAD_S / 60)
gpu = np.array([p for s in loads for p in (s, s + LOAD_S + 60)])
phase = rng.random(NODES) * STEP
# Failures, ten as in the paper's table 9: node, time, XID, and what moves how long before; and
# nodes that are slow for a while.
failures = [(int(rng.integers(NODES)), BEGIN + (k + 0.6 + 0.3 * rng.random()) * DAYS / (FAILURES + 0.5) * 86400,
             (79, 145, 94)[k % 3], ("intr", "running", "temp", None, None)[k % 5],
             600 + 6000 * rng.random()) for k in range(FAILURES)]
slow = [(3 % NODES, BEGIN + 0.2 * DAYS * 86400, BEGIN + 0.6 * DAYS * 86400, 0.15),
        (41 % NODES, BEGIN + 0.5 * DAYS * 86400, BEGIN + DAYS * 86400, 0.3)]
level = rng.standard_normal((4, NODES))
walk = np.zeros((4, NODES))


def wander(k, n, count):
    """Noise that remembers a quarter of an hour, and leaps at times."""
    out, x = np.empty(count), walk[k, n]
    noise = rng.standard_normal(count)
    for i in range(count):
        x = 0.97 * x + 0.243 * noise[i]
        out[i] = x
    walk[k, n] = x
    return level[k, n] + out + 8 * rng.random(count) * (rng.random(count) < 1e-4)


def moved(n, t, what):
    """Deviations by which a metric of a node is off: before its failure, and after any."""
    out = np.zeros(len(t))
    for node, at, _, metric, lead in failures:
        if node == n:
            out += 25.0 * ((t >= at - lead) & (t < at)) * (metric == what)
            out += 40.0 * ((t >= at) & (t < at + 900)) * (what != "temp")
    return out


total = np.zeros(NODES)
for hour in range(DAYS * 24):
    body = []
    for n in range(NODES):
        t = np.round(BEGIN + hour * HOUR + phase[n] + np.arange(0, HOUR, STEP), 3)
        name, mount = f"gpu{n:03d}", dict(export="nas:/ckpt", mountaddr="10.0.0.1", protocol="tcp")
        rows = [("node_mountstats_nfs_total_write_bytes_total", 9100, mount,
                 np.interp(t, *write) + 5e6 * (t - BEGIN)),
                ("node_mountstats_nfs_total_read_bytes_total", 9100, mount,
                 np.interp(t, *read) + 2e4 * (t - BEGIN)),
                ("DCGM_FI_DEV_GPU_UTIL", 9400, {"gpu": "0"},
                 np.where(np.searchsorted(gpu, t) % 2, 2.0, 99.0))]
        xid = np.zeros(len(t))
        for node, at, code, _, _ in failures:
            if node == n:
                xid = np.where((t >= at) & (t < at + 3600), code, xid)
        clock = np.full(len(t), 1830.0) + 2 * wander(0, n, len(t))
        for node, a, b, share in slow:
            if node == n:
                clock = np.where((t >= a) & (t < b), clock * (1 - share), clock)
        intr = STEP * (3e5 - 6e3 * moved(n, t, "intr") + 6e3 * wander(1, n, len(t)))
        rows += [("DCGM_FI_DEV_XID_ERRORS", 9400, {"gpu": "0"}, xid),
                 ("DCGM_FI_DEV_SM_CLOCK", 9400, {"gpu": "0"}, clock),
                 ("DCGM_FI_DEV_GPU_TEMP", 9400, {"gpu": "0"},
                  62 + 1.5 * moved(n, t, "temp") + 1.5 * wander(2, n, len(t))),
                 ("node_procs_running", 9100, {}, 100 - 2 * moved(n, t, "running") +
                  2 * wander(3, n, len(t))),
                 ("node_intr_total", 9100, {}, total[n] + np.cumsum(intr))]
        total[n] += intr.sum()
        if n == 0:
            disk = dict(device="nas:/ckpt", fstype="nfs4", mountpoint="/ckpt")
            used = 450e12 + NODES * np.interp(t, *write)
            rows += [("node_filesystem_size_bytes", 9100, disk, np.full(len(t), 2252e12)),
                     ("node_filesystem_avail_bytes", 9100, disk, 2252e12 - used)]
        for metric, port, more, v in rows:
            body.append(field(1, labels(__name__=metric, instance=f"{name}:{port}", job="node", **more)
                              + samples(t, v)))
    urllib.request.urlopen(urllib.request.Request(
        URL + "/api/v1/write", snappy(b"".join(body)), method="POST",
        headers={"Content-Encoding": "snappy", "Content-Type": "application/x-protobuf",
                 "X-Prometheus-Remote-Write-Version": "0.1.0"})).read()
json.dump({"saves": len(saves), "loads": len(loads), "save_s": SAVE_S,
           "failures": [{"node": f"gpu{n:03d}", "at_s": at, "lead_s": lead if what else None}
                        for n, at, _, what, lead in failures],
           "slow": sorted(f"gpu{n:03d}" for n, _, _, _ in slow),
           "end": BEGIN + DAYS * 86400}, sys.stdout)
