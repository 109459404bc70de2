#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs that change files of a mount side by side, for ckpt-saves.bats.

ckpt-changes.py save SOCKET N SIZE  one rank saves N files, f0 and so on, of so many bytes of data
ckpt-changes.py change DIR N        a process each changes each MiB of its file, the odd ones all
                                    bytes, and adds some; none closes before all have written
ckpt-changes.py leave DIR N         the same, but all say so, wait for a line, and then fail to
                                    close"""
import multiprocessing
import os
import random
import sys

import bootseer_group

MIB = 1 << 20


def save(socket, n, size):
    group = bootseer_group.Group(socket, 0, [bootseer_group.address_of(socket)], "changes")
    for i in range(int(n)):
        data = random.Random(i).randbytes(int(size))
        group.put("f%d" % i, {"t": ("U8", [int(size)], data)}, 60, 60).durable.wait(120)


def write_changes(f, i, want):
    size = len(want)
    for at in range(0, size, MIB):
        step = min(MIB, size - at)
        piece = random.Random(size + at + i).randbytes(step if i % 2 else min(step, 4000))
        os.pwrite(f, piece, at)
        want[at:at + len(piece)] = piece
    os.pwrite(f, b"log %d" % i, size)
    want += b"log %d" % i


def change(path, i, barrier, fails):
    with open(path, "rb") as f:
        want = bytearray(f.read())
    f = os.open(path, os.O_RDWR)
    write_changes(f, i, want)
    barrier.wait()
    barrier.wait()
    try:
        os.close(f)
    except OSError:
        sys.exit(0 if fails else 1)
    with open(path, "rb") as f:
        sys.exit(fails or any(f.read(MIB) != want[at:at + MIB] for at in range(0, len(want), MIB)))


def change_all(folder, n, fails=False):
    barrier = multiprocessing.Barrier(int(n) + 1)
    writers = [multiprocessing.Process(target=change,
                                       args=("%s/f%d" % (folder, i), i, barrier, fails))
               for i in range(int(n))]
    for w in writers:
        w.start()
    barrier.wait(100)
    if fails:
        print("written", flush=True)
        sys.stdin.readline()
    barrier.wait(100)
    for w in writers:
        w.join()
    sys.exit(any(w.exitcode for w in writers))


def leave(folder, n):
    change_all(folder, n, True)


{"save": save, "change": change_all, "leave": leave}[sys.argv[1]](*sys.argv[2:])
