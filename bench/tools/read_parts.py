#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""read_parts.py read|mmap PROCESSES FILE: each process reads its part of the file."""
import mmap
import os
import sys

MIB = 1 << 20


def read_part(fd, at, end):
    while at < end:
        at += len(os.pread(fd, min(MIB, end - at), at))


def touch_part(fd, at, end):
    pages = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
    for page in range(at, end, mmap.PAGESIZE):
        pages[page]


def main():
    how, n, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    size = os.stat(path).st_size
    children = []
    for i in range(n):
        children.append(os.fork())
        if not children[-1]:
            part = read_part if how == "read" else touch_part
            part(os.open(path, os.O_RDONLY), size * i // n, size * (i + 1) // n)
            os._exit(0)
    if any([os.waitpid(child, 0)[1] for child in children]):
        sys.exit("a process failed")


main()
