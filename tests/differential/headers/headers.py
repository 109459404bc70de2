#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tars whose headers say more than one thing, read by us and by Go: what both take must
be the same to both.  What is content to one reader is an entry to another: a layer
could hold files that only a lazy container has, and no scanner sees."""
import argparse
import os
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import tarwriter

NAMES = [b"a", b"b", b"c/d", b"e", b"a/", b"x/y/", b"bin/login"]
SIZES = [b"size", b"GNU.sparse.realsize", b"GNU.sparse.size", b"SCHILY.realsize"]
TEXTS = [b"path", b"linkpath", b"GNU.sparse.name"]
FLAGS = [b"0"] * 6 + [b"\0"] * 2 + [b"1", b"2", b"3", b"5", b"6", b"7", b"S", b"V", b"Z"]


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def may(self, share):
        return self.random.random() < share

    def near(self, size):
        """A size that is right, or wrong by what would hide or show a header."""
        return max(0, size + self.random.choice([0, 0, 0, -1, 512, -512, 1024, -size]))

    def records(self, size):
        one = self.random.choice
        for _ in range(one([1, 1, 2, 3])):
            kind = one(["size", "size", "text", "sparse", "other"])
            if kind == "size":
                yield one(SIZES), b"%d" % self.near(size)
            elif kind == "text":
                yield one(TEXTS), one(NAMES)
            elif kind == "sparse":
                yield one([(b"GNU.sparse.major", one([b"0", b"1", b"2"])),
                           (b"GNU.sparse.minor", one([b"0", b"1"])),
                           (b"GNU.sparse.map", one([b"0,512", b"0,3", b""])),
                           (b"GNU.sparse.numblocks", one([b"0", b"1"]))])
            else:
                yield one([(b"mtime", one([b"5", b"-0.5", b"", b"7.1234567891", b"1.x"])),
                           (b"hdrcharset", b"BINARY"), (b"SCHILY.filetype", b"sparse"),
                           (b"uid", one([b"", b"5", b"+5", b"-1"])),
                           (b"gid", one([b"", b"7"])),
                           (b"SCHILY.devmajor", b"8"), (b"SUN.holesdata", b" 0 512"),
                           (b"SCHILY.xattr.user.a", one([b"1", b"2"])),
                           (b"SCHILY.xattr.security.x", one([b"1", b"2"])),
                           (b"LIBARCHIVE.xattr.user.a", b"MTI"),
                           (b"GNU.sparse.offset", one([b"0", b"512"])),
                           (b"GNU.sparse.numbytes", one([b"3", b"512"]))])

    def whole(self, records):
        """A header for the whole archive, by its name or by that of a file."""
        head = bytearray(tarwriter.pax(records, b"g"))
        name = self.random.choice([b"pax_global_header", b"/tmp/GlobalHead.1", b"a",
                                   b".wh.a", b"a/pax_global_header"])
        head[:100] = name.ljust(100, b"\0")
        head[148:156] = b" " * 8
        head[148:156] = b"%06o\0 " % sum(head[:512])
        return bytes(head)

    def extended(self, size):
        one = self.random.choice
        out = b""
        for _ in range(one([0, 0, 0, 1, 1, 2])):
            if self.may(0.2):
                name = one(NAMES + [b""]) + b"\0"
                out += tarwriter.header(b"././@LongLink", one([b"L", b"K"]),
                                        magic=tarwriter.GNU, size=len(name))
                out += tarwriter.padded(name)
            else:
                records = list(self.records(size))
                out += self.whole(records) if self.may(0.15) else tarwriter.pax(records)
        return out

    def odd_field(self, head):
        """A number that is written as few write it, with a sum that is right."""
        at, width = self.random.choice([(100, 8), (108, 8), (116, 8), (136, 12), (329, 8)])
        text = self.random.choice([b"\0001750", b" 1750 ", b"1750", b"17x0", b"",
                                   b"\x80".ljust(width - 2, b"\0") + b"\x03\xe8",
                                   b"\xff" * width])
        h = bytearray(head)
        h[at:at + width] = text[:width].ljust(width, b"\0")
        h[148:156] = b" " * 8
        h[148:156] = b"%06o\0 " % sum(h)
        return bytes(h)

    def entry(self, depth=0):
        one = self.random.choice
        if depth < 2 and self.may(0.4):
            # What one reader takes for content and another one for entries.
            body = b"".join(self.entry(depth + 1) for _ in range(one([1, 2])))
        else:
            body = tarwriter.padded(b"z" * one([0, 0, 1, 3, 512, 600]))
        flag = one(FLAGS)
        size = self.near(len(body)) if self.may(0.5) else len(body)
        if flag in b"123456" and self.may(0.7):
            size, body = 0, b""
        head = tarwriter.header(
            one(NAMES + [b""]), flag, size=size, mode=0o644,
            magic=one([tarwriter.USTAR] * 4 + [tarwriter.GNU, b""]),
            prefix=one([b""] * 5 + [b"p", b"q/"]), link=one([b"", b"a", b"b"]),
            uid=one([0, 1000]), mtime=one([0, 1, 1600000000]), dev=one([(0, 0), (1, 3)]))
        if self.may(0.15):
            head = self.odd_field(head)
        return self.extended(len(body)) + head + body

    def tar(self):
        entries = self.random.choice([1, 2, 3])
        return b"".join(self.entry() for _ in range(entries)) + bytes(1024)


def read(program, files):
    out = subprocess.run([program, *files], check=True, stdout=subprocess.PIPE).stdout
    lines = dict(line.split(b" ", 1) if b" " in line else (line, b"")
                 for line in out.rstrip(b"\n").split(b"\n"))
    assert len(lines) == len(files)
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ours", required=True, help="program that lists tars as we do")
    parser.add_argument("--go", required=True, help="the same of Go's archive/tar")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tars", type=int, default=2000)
    args = parser.parse_args()
    taken, failed = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        maker = Maker(args.seed)
        files = []
        for i in range(args.tars):
            files.append(os.path.join(folder, "%d.tar" % i))
            with open(files[-1], "wb") as f:
                f.write(maker.tar())
        for at in range(0, len(files), 500):
            ours, theirs = (read(p, files[at:at + 500]) for p in (args.ours, args.go))
            for name, text in ours.items():
                if b"refused" in (text, theirs[name]):
                    continue
                taken += 1
                if text != theirs[name]:
                    failed += 1
                    print("%s\n  ours %s\n  Go   %s" % (name.decode(), text.decode(),
                                                       theirs[name].decode()))
    print("%d tars, %d taken by both, %d read differently" % (args.tars, taken, failed))
    return 1 if failed or taken < args.tars // 50 else 0


if __name__ == "__main__":
    sys.exit(main())
