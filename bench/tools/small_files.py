#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""small_files.py write|list|stat|open|read DIR N: N files of 4 KiB in ten folders of
DIR.  Prints the seconds that it took; what is read is compared."""
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

FOLDERS = 10
DATA = bytes(range(256)) * 16


def write(path):
    with open(path, "wb") as f:
        f.write(DATA)


def look(path):
    assert os.stat(path).st_size == len(DATA), path


def touch(path):
    os.close(os.open(path, os.O_RDONLY))


def read(path):
    with open(path, "rb") as f:
        assert f.read() == DATA, path


def main():
    what, top, n = sys.argv[1], sys.argv[2], int(sys.argv[3])
    paths = [f"{top}/d{i % FOLDERS}/f{i}" for i in range(n)]
    if what == "write":
        for i in range(FOLDERS):
            os.makedirs(f"{top}/d{i}")
    start = time.monotonic()
    if what == "write":
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(write, paths))
    elif what == "list":
        assert sum(len(names) for _, _, names in os.walk(top)) == n
    else:
        for path in paths:
            {"stat": look, "open": touch, "read": read}[what](path)
    print(f"{time.monotonic() - start:.6f}")


main()
