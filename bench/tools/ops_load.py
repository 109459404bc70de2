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
           "end": BEGIN + DAYS * 86400}, sys.stdout)
