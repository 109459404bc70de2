#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""forget-pages.py PATH...: have these files, and those below folders, read from the disk again.

The kernel forgets their pages and no others: tests beside read much, which drop_caches would
have them read again."""
import ctypes
import mmap
import os
import sys
import time

DEADLINE_S = 120  # a page that the kernel is just writing stays a moment
libc = ctypes.CDLL(None, use_errno=True)


def files_of(path):
    if not os.path.isdir(path):
        yield path
    for folder, _, names in os.walk(path):
        yield from (os.path.join(folder, name) for name in names)


def count_pages(fd, size):
    """Pages of the file in memory."""
    found = (ctypes.c_ubyte * (-(-size // mmap.PAGESIZE)))()
    with mmap.mmap(fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as m:
        at = ctypes.c_char.from_buffer(m)
        failed = libc.mincore(ctypes.c_void_p(ctypes.addressof(at)), ctypes.c_size_t(size), found)
        del at
    if failed:
        sys.exit(f"mincore: {os.strerror(ctypes.get_errno())}")
    return sum(page & 1 for page in found)


def write_back(fd):
    try:
        os.fdatasync(fd)
    except OSError:
        pass  # a file system that is only read has nothing to write


def forget_file(path):
    end = time.monotonic() + DEADLINE_S
    fd = os.open(path, os.O_RDONLY)
    size = os.fstat(fd).st_size
    write_back(fd)
    while size:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        left = count_pages(fd, size)
        if not left:
            break
        if time.monotonic() > end:
            sys.exit(f"{path}: {left} pages stay in memory")
        time.sleep(0.01)  # deadline poll
    os.close(fd)


for argument in sys.argv[1:]:
    for file in files_of(argument):
        if os.path.isfile(file) and not os.path.islink(file):
            forget_file(file)
