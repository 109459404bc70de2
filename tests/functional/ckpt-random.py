#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Random operations on a file of a checkpoint mount, with a model of it beside.

ckpt-random.py DIR SEED OPERATIONS [--plain-stale]

Every byte that comes back is compared, every
refusal must be one that docs/checkpoints.md declares, and leave the file as it was stored.  The
last operations are printed when something is wrong.  --plain-stale: the store keeps no
plain object that was replaced, even for readers."""

import errno
import mmap
import os
import random
import sys

MIB = 1 << 20
UNIT = 4 * MIB
SIZE_MOST = 40 * MIB
PLAIN_MOST = UNIT  # of what is no longer than this, the store has the plain bytes


class Fsx:
    def __init__(self, folder, seed, plain_stale):
        self.rand = random.Random(seed)
        self.path = os.path.join(folder, "file")
        self.other = os.path.join(folder, "other")
        self.plain_stale = plain_stale
        self.fd = None          # that writes
        self.data = bytearray()  # as the writer has it
        self.stored = None      # what was committed last; None: no file
        self.dirty = False
        self.held = []          # readers of versions, with what they opened
        self.log = []

    def commit(self):
        if self.dirty:
            self.stored = bytes(self.data)
            self.dirty = False

    # ---- helpers

    def note(self, *what):
        self.log.append(" ".join(str(w) for w in what))

    def noise(self, most=3 * MIB):
        kind = self.rand.random()
        n = self.rand.randint(1, 5000 if kind < 0.4 else most)
        return self.rand.randbytes(n)

    def same(self, got, want, what):
        if got == want:
            return
        at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b),
                  min(len(got), len(want)))
        raise AssertionError(f"{what}: {len(got)} bytes, {len(want)} wanted; "
                             f"they differ at {at}")

    def refused(self, fn, want):
        try:
            fn()
        except OSError as e:
            assert e.errno == want, f"{e}, not {errno.errorcode[want]}"
            return
        raise AssertionError(f"taken, not {errno.errorcode[want]}")

    # ---- operations on the writer

    def open_writer(self):
        if self.fd is not None:
            return
        flags = os.O_RDWR
        if self.stored is None:
            flags |= os.O_CREAT | self.rand.choice([0, os.O_EXCL])
        elif self.rand.random() < 0.15:
            flags |= os.O_TRUNC
        self.note("open", flags)
        self.fd = os.open(self.path, flags, 0o640)
        if self.stored is None or flags & os.O_TRUNC:
            self.data = bytearray()
            self.dirty = True

    def close(self):
        if self.fd is None:
            return
        self.note("close")
        os.close(self.fd)
        self.fd = None
        self.commit()
        self.look()

    def pwrite(self, at, data):
        self.note("write", at, len(data))
        done = 0
        while done < len(data):
            done += os.pwrite(self.fd, data[done:], at + done)
        if at > len(self.data):
            self.data.extend(bytes(at - len(self.data)))
        self.data[at:at + len(data)] = data
        self.dirty = True

    def append(self):
        if len(self.data) < SIZE_MOST:
            self.pwrite(len(self.data), self.noise())

    def rewrite(self):
        if self.data:
            near = max(0, len(self.data) - self.rand.choice([100, UNIT, 3 * UNIT]))
            at = self.rand.randint(self.rand.choice([0, near]), len(self.data))
            self.pwrite(at, self.noise())

    def leave_hole(self):
        if len(self.data) < SIZE_MOST:
            self.pwrite(len(self.data) + self.rand.randint(1, 6 * MIB),
                        self.noise(100000))

    def truncate(self):
        size = self.rand.choice([0, self.rand.randint(0, len(self.data) + MIB),
                                 max(0, len(self.data) - self.rand.randint(0, UNIT))])
        self.note("truncate", size)
        os.ftruncate(self.fd, size)
        if size == 0 or size != len(self.data):
            self.dirty = True
        self.data = self.data[:size] + bytes(max(0, size - len(self.data)))

    def read_own(self):
        at = self.rand.randint(0, len(self.data) + 10)
        n = self.rand.choice([1, 4096, 300000, 2 * MIB])
        self.note("read own", at, n)
        got = os.pread(self.fd, n, at)
        self.same(got, bytes(self.data[at:at + n]), "what the writer reads")
        assert os.fstat(self.fd).st_size == len(self.data)

    def sync(self):
        self.note("fsync")
        os.fsync(self.fd)
        self.commit()
        self.look()

    # ---- operations on names, and readers

    def look(self):
        """The file, as somebody sees it who opens it now."""
        with open(self.path, "rb") as f:
            if self.rand.random() < 0.5:
                at = self.rand.randint(0, len(self.stored))
                got = os.pread(f.fileno(), 200000, at)
                self.same(got, self.stored[at:at + 200000], "a reader")
            else:
                self.same(f.read(), self.stored, "a reader of all")

    def map(self):
        if not self.stored or self.fd is not None:
            return
        self.note("map")
        fd = os.open(self.path, os.O_RDONLY)
        with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as m:
            os.close(fd)
            for _ in range(5):
                at = self.rand.randrange(len(self.stored))
                self.same(m[at:at + 9000], self.stored[at:at + 9000], "a mapping")

    def hold(self):
        if self.stored is None:
            return
        if len(self.held) == 3:
            self.check_held()
            os.close(self.held.pop(0)[0])
        self.note("hold")
        self.held.append((os.open(self.path, os.O_RDONLY), self.stored))

    def check_held(self):
        self.note("read held")
        for i, (fd, want) in enumerate(self.held):
            at = self.rand.randint(0, len(want))
            try:
                got = os.pread(fd, 100000, at)
            except OSError as e:
                if (e.errno == errno.ESTALE and self.plain_stale
                        and len(want) <= PLAIN_MOST):
                    continue
                raise
            self.same(got, want[at:at + 100000],
                      f"reader {i} at {at} of a version that it opened")

    def rename_over(self):
        self.close()
        data = self.noise(9 * MIB)
        self.note("rename over", len(data))
        with open(self.other, "wb") as f:
            f.write(data)
        os.rename(self.other, self.path)
        assert not os.path.exists(self.other)
        self.stored = data
        self.data = bytearray(data)
        self.look()

    def rename_while_open(self):
        """The writer goes on under the new name."""
        if self.fd is None:
            return
        self.note("rename away and back")
        os.rename(self.path, self.other)
        self.commit()
        os.rename(self.other, self.path)

    def remove(self):
        self.close()
        if self.stored is not None:
            self.note("remove")
            os.unlink(self.path)
            self.stored = None
            self.data = bytearray()
            self.refused(lambda: os.stat(self.path), errno.ENOENT)

    def attributes(self):
        if self.stored is None or self.fd is not None:
            return
        ns = self.rand.randint(10**18, 2 * 10**18)
        mode = self.rand.choice([0o600, 0o640, 0o444])
        self.note("attributes")
        os.chmod(self.path, mode)
        os.utime(self.path, ns=(ns, ns))
        st = os.stat(self.path)
        assert st.st_size == len(self.stored)
        if len(self.stored) > UNIT:  # small files are plain, without attributes
            assert (st.st_mode & 0o7777, st.st_mtime_ns) == (mode, ns), st
        self.look()

    WRITER = [append] * 8 + [rewrite] * 5 + [leave_hole, truncate, truncate,
              read_own, read_own, read_own, sync, rename_while_open] + [close] * 3
    ANY = [map, hold, check_held, rename_over, remove, attributes]

    def step(self):
        if self.rand.random() < 0.25:
            self.rand.choice(self.ANY)(self)
            return
        self.open_writer()
        self.rand.choice(self.WRITER)(self)

    def run(self, operations):
        for _ in range(operations):
            self.step()
        self.close()
        self.check_held()


def main():
    folder, seed, operations = sys.argv[1], *map(int, sys.argv[2:4])
    fsx = Fsx(folder, seed, "--plain-stale" in sys.argv)
    try:
        fsx.run(operations)
    except (AssertionError, OSError) as e:
        for line in fsx.log[-25:]:
            print(line)
        sys.exit(f"seed {seed}, operation {len(fsx.log)}: {e}")


main()
