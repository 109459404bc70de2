#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
Pods' logs as a kubelet and a CRI runtime make them, written while bootseer-events is
killed again and again.  Lines are those of the runtime's logger ("TIME STREAM P|F
TEXT", pieces of 16 KiB); rotation is the kubelet's: rename to 0.log.TIME, a new file,
later packed to 0.log.TIME.gz.

follow-events.py DIR SEED EVENTS KILLS PROGRAM ARGUMENT...: writes DIR/written, a line
for each event.
"""
import gzip
import os
import random
import shutil
import subprocess
import sys

PIECE = 16384


class Clock:
    """Each line has a time of its own."""

    def __init__(self):
        self.ns = 1_795_000_000_000_000_000

    def stamp(self):
        self.ns += 1_000_003
        s, ns = divmod(self.ns, 1_000_000_000)
        import time
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(s)) + ".%09dZ" % ns


class Log:
    def __init__(self, root, pod, container, clock, rng):
        self.folder = os.path.join(root, pod, container)
        os.makedirs(self.folder)
        self.clock, self.rng = clock, rng
        self.path = os.path.join(self.folder, "0.log")
        self.file = open(self.path, "ab", buffering=0)
        self.rotations = 0
        self.last = None

    def line(self, text, stream="stdout"):
        data = text.encode()
        while len(data) > PIECE:
            self.raw(stream, "P", data[:PIECE])
            data = data[PIECE:]
            if self.rng.random() < 0.5:
                self.raw("stderr" if stream == "stdout" else "stdout", "F", b"between")
        self.raw(stream, "F", data)

    def raw(self, stream, tag, data):
        line = b"%s %s %s %s\n" % (self.clock.stamp().encode(), stream.encode(),
                                   tag.encode(), data)
        # A reader may see half of a line.
        cut = self.rng.randrange(len(line))
        self.file.write(line[:cut])
        self.file.write(line[cut:])

    def rotate(self):
        """Pack the one before, rename, begin a new one."""
        if self.last:
            with open(self.last, "rb") as src, \
                    gzip.open(self.last + ".gz.tmp", "wb") as dst:
                shutil.copyfileobj(src, dst)
            os.rename(self.last + ".gz.tmp", self.last + ".gz")
            os.unlink(self.last)
        self.rotations += 1
        self.last = "%s.20261123-%06d" % (self.path, self.rotations)
        os.rename(self.path, self.last)
        old = self.file
        self.file = open(self.path, "ab", buffering=0)
        old.close()


def main():
    root, seed, events, kills = sys.argv[1], *map(int, sys.argv[2:5])
    command = sys.argv[5:]
    rng, clock = random.Random(seed), Clock()
    pods = os.path.join(root, "pods")
    logs = [Log(pods, "team-a_train-%d_uid-%d" % (i, i), "main", clock, rng)
            for i in range(4)]
    written = open(os.path.join(root, "written"), "w")
    child, kill_at = None, sorted(rng.sample(range(events), kills))
    err = open(os.path.join(root, "follower.log"), "ab")
    for n in range(events):
        if child is None:
            child = subprocess.Popen(command, stderr=err)
        log = rng.choice(logs)
        name = "s%d" % n
        text = "BOOTSEER stage=%s ev=mark job=j" % name
        shape = rng.random()
        if shape < 0.1:
            # The event lies across two pieces.
            text = "x" * (PIECE - rng.randrange(1, len(text))) + " " + text
        elif shape < 0.2:
            text = "progress 3% " + text + " done"
        log.line(text, rng.choice(["stdout", "stderr"]))
        written.write(name + "\n")
        for _ in range(rng.randrange(4)):
            log.line("noise " + "." * rng.randrange(200))
        if rng.random() < 12 / events:
            log.rotate()
        if kill_at and n == kill_at[0]:
            kill_at.pop(0)
            # Some while it reads, some while it sends, some before it does anything.
            try:
                child.wait(rng.uniform(0, 0.4))
            except subprocess.TimeoutExpired:
                pass
            child.kill()
            child.wait()
            child = None
    if child:
        child.kill()
        child.wait()
    written.close()
    sys.exit(subprocess.call(command + ["--once"], stderr=err))


if __name__ == "__main__":
    main()
