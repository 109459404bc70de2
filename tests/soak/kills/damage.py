# SPDX-License-Identifier: Apache-2.0
"""Damage to what bootseerd keeps on disk, done while it does not run.

Not damaged is what the kernel itself reads below a mount that lives: segments
below complete mounts, and the metadata of a mounted image.
"""

import fcntl
import glob
import os

# Of ROOT/images/ID: what bootseerd knows of an image.
STATE = ("state.json", "artifact.json", "config.json", "image.json",
         "starts.json", "hot.json", "blockmap")


def is_in_use(path):
    """Has the kernel, or a process, the file open?"""
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


def flip(rng, f, size):
    for _ in range(rng.randint(1, 24)):
        at = rng.randrange(size)
        f.seek(at)
        old = f.read(1)[0]
        f.seek(at)
        f.write(bytes([old ^ 1 << rng.randrange(8)]))


def zero(rng, f, size):
    at = rng.randrange(size)
    f.seek(at)
    f.write(bytes(min(size - at, rng.choice((16, 512, 4096, 65536)))))


def garbage(rng, f, size):
    f.seek(rng.randrange(size))
    f.write(rng.randbytes(min(size, rng.choice((48, 4096)))))


def cut(rng, f, size):
    f.truncate(rng.randrange(size))


def hurt(rng, path, ways=(flip, zero, garbage, cut, None)):
    """Damage the file at random -> what was done."""
    way = rng.choice(ways)
    size = os.path.getsize(path)
    if way is None:
        os.unlink(path)
        return "removed"
    if size == 0:
        return "empty"
    with open(path, "r+b") as f:
        way(rng, f, size)
    return way.__name__


def hurt_segment(rng, path):
    """Much of it: only what the file has, since it is sparse."""
    done = 0
    with open(path, "r+b") as f:
        size, at = os.path.getsize(path), 0
        while at < size:
            try:
                at = os.lseek(f.fileno(), at, os.SEEK_DATA)
                end = os.lseek(f.fileno(), at, os.SEEK_HOLE)
            except OSError:
                break
            while at < end:
                if rng.random() < 0.2:
                    way = rng.choice((b"\0", b"x"))
                    f.seek(at)
                    f.write(way * min(rng.choice((1, 512, 4096)), end - at))
                    done += 1
                at += 256 << 10
        if rng.random() < 0.1:
            f.truncate(rng.randrange(size + 1))
            done += 1
    return done


class Damage:
    def __init__(self, soak):
        self.soak, self.rng = soak, soak.rng
        self.root = soak.node.root

    def index(self):
        path = f"{self.root}/cache/index"
        if not os.path.exists(path):
            return None
        return f"index {hurt(self.rng, path)}"

    def state(self):
        files = [p for name in STATE
                 for p in glob.glob(f"{self.root}/images/*/{name}")]
        files += glob.glob(f"{self.root}/images/next-index")
        if not files:
            return None
        path = self.rng.choice(sorted(files))
        said = f"{'/'.join(path.split('/')[-2:])} {hurt(self.rng, path)}"
        # bootseerd cannot serve lazily what it knows nothing of any more.
        self.soak.declare_lazy_of(path.split("/")[-2])
        return said

    def mount_lists(self):
        """What a complete mount reads: below living mounts, too."""
        files = [p for end in ("blocks", "json")
                 for p in glob.glob(f"{self.root}/cache/mounts/*.{end}")]
        return self.hurt_one(files)

    def metadata(self):
        files = (glob.glob(f"{self.root}/images/*/meta.erofs") +
                 glob.glob(f"{self.root}/cache/mounts/*.erofs"))
        return self.hurt_one([p for p in files if not is_in_use(p)])

    def hurt_one(self, files):
        if not files:
            return None
        path = self.rng.choice(sorted(files))
        return f"{'/'.join(path.split('/')[-2:])} {hurt(self.rng, path)}"

    def segments(self):
        paths = sorted(glob.glob(f"{self.root}/cache/segment-*"))
        if not paths or any(is_in_use(p) for p in paths):
            return None
        return f"segment, {hurt_segment(self.rng, self.rng.choice(paths))} places"

    def do_some(self):
        """One to three kinds of damage -> a list of what was done."""
        ways = (self.index, self.state, self.state, self.mount_lists,
                self.metadata, self.segments)
        chosen = self.rng.choices(ways, k=self.rng.randint(1, 3))
        said = [way() for way in chosen if way.__name__ not in self.soak.skip]
        return [s for s in said if s]
