#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""group_slices.py PARTS LIKE FILE...: a thread for each of the files, which are one on several mounts,
reads its share of each of PARTS parts of it, a MiB at a time, and compares it with LIKE."""
import os
import sys
import threading

PARTS, LIKE, FILES = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
STEP = 1 << 20
wrong = []


def read_share(rank, path):
    fd, like = os.open(path, os.O_RDONLY), os.open(LIKE, os.O_RDONLY)
    part = os.fstat(like).st_size // PARTS
    for p in range(PARTS):
        at, end = (p * part + part * r // len(FILES) for r in (rank, rank + 1))
        while at < end:
            n = min(STEP, end - at)
            if os.pread(fd, n, at) != os.pread(like, n, at):
                wrong.append((path, at))
                return
            at += n


readers = [threading.Thread(target=read_share, args=x) for x in enumerate(FILES)]
for reader in readers:
    reader.start()
for reader in readers:
    reader.join()
sys.exit("other bytes: %s" % wrong if wrong else 0)
