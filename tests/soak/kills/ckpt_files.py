# SPDX-License-Identifier: Apache-2.0
"""What a file of a checkpoint store may hold: one of several whole versions, and never
anything of two."""

import collections
import hashlib
import random
import threading
import time

ABSENT = None
TRACE = 14  # what was done to a file, shown with a finding


def identity(data):
    """Of the bytes of a whole file."""
    return len(data), hashlib.blake2b(data, digest_size=12).hexdigest()


def noise(seed, size):
    return random.Random(seed).randbytes(size)


class Tracked:
    """A file that one thread changes and others read. `versions` from `base` on may be
    there: one when its last change is known to have been done, more after one that was
    cut off. `soft`: the version that was closed and not synced, with the count of kills
    then; until the next kill it is the file."""

    def __init__(self, name):
        self.name = name
        self.lock = threading.Lock()
        self.versions = [ABSENT]
        self.base = 0
        self.soft = None
        self.is_cut = False  # by a kill; a mount that buffers says so until it is replaced
        # Where it got another inode, and its own another name: which, and as what version.
        self.inodes, self.moves = [], []
        self.data = b""  # of the last version that was begun
        self.trace = collections.deque(maxlen=TRACE)
        self.recent = collections.deque(maxlen=4)  # bytes, to tell what a mix is of

    def say(self, what):
        self.trace.append(f"{time.monotonic():.3f} {self.name} {what}")

    def begin(self, data):
        """Before a change: from now on readers may see it. None: it is removed."""
        with self.lock:
            self.versions.append(ABSENT if data is None else identity(data))
            self.data = data or b""
            self.recent.append(self.data)
            self.say(f"begin {self.versions[-1]}")

    def begin_move(self, to, data):
        """The file gets the name of another, as its next version."""
        to.begin(data)
        to.inodes.append(len(to.versions) - 1)
        self.begin(None)
        with self.lock:
            self.moves.append((len(self.versions) - 1, to, to.inodes[-1]))

    def done(self):
        with self.lock:
            self.base = len(self.versions) - 1
            self.soft, self.is_cut = None, False
            self.say("done")

    def done_softly(self, kills):
        with self.lock:
            self.soft, self.is_cut = (len(self.versions) - 1, kills), False
            self.say("closed")

    def may_be_lost(self, kills):
        with self.lock:
            return self.is_cut or self.soft is not None and self.soft[1] != kills

    def pin(self, value):
        """It was looked at while nobody changed it."""
        with self.lock:
            self.versions.append(value)
            self.base = len(self.versions) - 1
            self.soft, self.is_cut = None, False
            self.say(f"found {value}")

    def touch(self):
        """The same bytes are about to be stored, perhaps in another form: until that is
        done, whoever reads may have either."""
        with self.lock:
            self.versions.append(self.versions[-1])
            self.say("attributes")

    def touched(self):
        with self.lock:
            if self.base == len(self.versions) - 2:
                self.base += 1
            if self.soft:
                self.soft = self.soft[0] + 1, self.soft[1]

    def mark(self, kills):
        """Before a look: which versions it may find."""
        with self.lock:
            if self.soft and self.soft[1] == kills:
                return self.soft[0]
            return self.base

    def is_one_of(self, value, mark):
        with self.lock:
            return value in self.versions[mark:]

    def is_moved(self, value, mark):
        """Whoever opened it while it was renamed has the inode, which is written on by its
        new name."""
        with self.lock:
            moves = [(to, at) for i, to, at in self.moves if i > mark]
        return any(to.is_of_inode(value, at) for to, at in moves)

    def is_of_inode(self, value, at):
        with self.lock:
            end = min((i for i in self.inodes if i > at), default=len(self.versions))
            return value is not ABSENT and value in self.versions[at:end]

    def explain(self, data):
        """How far the bytes are those of which version."""
        with self.lock:
            for old in self.recent:
                pages = [data[i:i + 4096] == old[i:min(i + 4096, len(data))]
                         for i in range(0, len(data), 4096)]
                bad = [i for i, same in enumerate(pages) if not same]
                zeros = sum(not any(data[i * 4096:i * 4096 + 4096]) for i in bad)
                self.say(f"of {identity(old)}: {len(bad)} of {len(pages)} pages differ"
                         f" from {bad[:1]} to {bad[-1:]}, {zeros} are zeros")

    def has_had(self, value):
        with self.lock:
            return value is not ABSENT and value in self.versions

    def has_changed_since(self, mark):
        with self.lock:
            return len(self.versions) > mark + 1

    def is_there(self):
        with self.lock:
            return self.versions[-1] is not ABSENT
