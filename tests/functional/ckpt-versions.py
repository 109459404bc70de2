#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A file that is written anew in place while others of the same mount read it.
ckpt-versions.py FILE TIMES READERS: writes it TIMES times, 9 MB and 1.4 MB by turns, while
READERS processes open it and read all of it again and again.  Each version is one number,
again and again, as often as its size says.  What is of two versions, or cut, is told (of each
reader 20), and how many reads there were."""
import multiprocessing
import os
import struct
import sys

SIZES = (9_000_000, 1_400_000)


def size_of(number):
    return SIZES[number % 2]


def write(path, number):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    data = memoryview(struct.pack("<Q", number) * (size_of(number) // 8))
    for at in range(0, len(data), 128 << 10):
        assert os.write(fd, data[at:at + (128 << 10)]) == len(data[at:at + (128 << 10)])
    os.close(fd)


def read(path):
    with open(path, "rb", buffering=0) as f:
        parts = []
        while part := f.read(128 << 10):
            parts.append(part)
    return b"".join(parts)


def fault_of(data):
    """None: it is one version, all of it."""
    if len(data) < 8:
        return f"{len(data)} bytes"
    (number,) = struct.unpack_from("<Q", data)
    if data != data[:8] * (len(data) // 8):
        other = next(i for i in range(0, len(data), 8) if data[i:i + 8] != data[:8])
        return f"version {number}, and at {other} of {len(data)} {data[other:other + 8].hex()}"
    if len(data) != size_of(number):
        return f"{len(data)} bytes of version {number}, which has {size_of(number)}"
    return None


def reader(path, end, n_reads, faults):
    n_told = 0
    while not end.is_set():
        try:
            fault = fault_of(read(path))
        except OSError as e:
            fault = f"read: {e}"
        with n_reads.get_lock():
            n_reads.value += 1
        if fault and n_told < 20:
            n_told += 1
            faults.put(fault)


def main():
    path, times, readers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    end, faults = multiprocessing.Event(), multiprocessing.SimpleQueue()
    n_reads = multiprocessing.Value("L", 0)
    write(path, 0)
    all_readers = [multiprocessing.Process(target=reader, args=(path, end, n_reads, faults))
                   for _ in range(readers)]
    for p in all_readers:
        p.start()
    try:
        for number in range(1, times + 1):
            write(path, number)
    finally:
        end.set()
    for p in all_readers:
        p.join()
    n = 0
    while not faults.empty():
        n += 1
        print(faults.get())
    print(f"{n} of {n_reads.value} reads were wrong")
    sys.exit(n != 0)


main()
