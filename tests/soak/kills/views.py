# SPDX-License-Identifier: Apache-2.0
"""Mounts of images and the readers on them.

A *mount* is what a user of the product asked for: a folder (bootseer image
mount) or a container's root (bootseer-snapshotter). A *view* is one way to read
it: the mount itself, an overlay on top, or either from a mount namespace of the
reader's own, where the mount outlives its unmounting elsewhere.
"""

import ctypes
import os
import signal
import struct
import subprocess
import time

from apart import Stuck, is_alive, libc, wait_for
from node import CallFailed

MNT_DETACH = 2
STATS = ("reads", "bytes", "mapped", "wrong", "zeros", "errors", "since_ns", "rounds")
READER_STOP_TIMEOUT = 90  # seconds


def mount(source, target, kind, options):
    flags = 0
    if options and "ro" in options.split(","):
        options = ",".join(o for o in options.split(",") if o != "ro")
        flags = 1
    args = [s.encode() if s else None for s in (source, target, kind)]
    if libc.mount(*args, flags, options.encode() if options else None) < 0:
        code = ctypes.get_errno()
        raise CallFailed(f"mount {target}: {os.strerror(code)}", code)


def umount(target, flags=0):
    if libc.umount2(target.encode(), flags) < 0:
        return ctypes.get_errno()
    return 0


def detach(target):
    """Unmount all that is at `target`, in use or not."""
    while umount(target, MNT_DETACH) == 0:
        pass


def mounts():
    """[(mount point, kind, source)] of this namespace."""
    with open("/proc/self/mountinfo") as f:
        for line in f:
            words = line.split()
            after = words.index("-")
            yield words[4], words[after + 1], words[after + 2]


def mode_of(path):
    """How the image mounted at `path` reaches the kernel: by what is there, not
    by what bootseerd says."""
    mode = None
    for point, kind, source in mounts():
        if point == path:
            mode = "complete" if kind == "erofs" and is_complete(source) else "lazy"
    return mode


def is_complete(source):
    if source.startswith("/dev/loop"):
        try:
            with open(f"/sys/block/{source[5:]}/loop/backing_file") as f:
                source = f.read().strip()
        except OSError:
            return False
    return not source.endswith("/meta.erofs")


class View:
    """A reader, and what it said."""

    count = 0

    def __init__(self, soak, what, number, path, mode, private, declared_from):
        View.count += 1
        self.name = f"{View.count}:v{number}:{what}:{mode}"
        self.number, self.mode, self.path = number, mode, path
        self.declared_from = declared_from  # failures from then on are; None: none
        self.overlay = None  # what is to be unmounted with it
        self.stats_path = f"{soak.t}/stats/{View.count}"
        argv = [soak.reader, "--truth", f"{soak.t}/truth/v{number}", "--view", path,
                "--stats", self.stats_path, "--seed", str(soak.seed * 100003 + View.count)]
        if private:
            argv += ["--private", soak.t]
        self.process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        os.set_blocking(self.process.stdout.fileno(), False)
        self.rest = b""
        wait_for("a reader", lambda: self.stats()["rounds"] > 0 or
                 self.stats()["since_ns"] or self.process.poll() is not None)

    def stats(self):
        try:
            with open(self.stats_path, "rb") as f:
                return dict(zip(STATS, struct.unpack("8Q", f.read(64))))
        except (OSError, struct.error):
            return dict.fromkeys(STATS, 0)

    def events(self):
        """[(kind, begin, end, errno, offset, path)] since the last call."""
        try:
            self.rest += os.read(self.process.stdout.fileno(), 1 << 20)
        except BlockingIOError:
            pass
        *lines, self.rest = self.rest.split(b"\n")
        for line in lines:
            kind, begin, end, code, offset, path = line.decode().split(" ", 5)
            yield kind, int(begin), int(end), int(code), int(offset), path

    def stop(self):
        """End the reader, and what was mounted for it alone."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(READER_STOP_TIMEOUT)
            except subprocess.TimeoutExpired as error:
                self.process.kill()
                raise Stuck(f"a read of {self.name}") from error
        if self.overlay:
            detach(self.overlay)
            self.overlay = None


class Mount:
    """Base of both kinds; `path` is where it is read."""

    count = 0

    def __init__(self, soak, number):
        Mount.count += 1
        self.soak, self.number, self.id = soak, number, Mount.count
        self.ref = f"{soak.node.registry}/img:v{number}"
        self.path = f"{soak.t}/mnt/{self.id}"
        self.views = []
        self.mode = None  # lazy or complete, once it is mounted
        self.is_gone = False  # unmounted, though views may still be read
        self.declared_from = None  # as of its views, and of those to come
        os.makedirs(self.path)

    def add_view(self, what):
        soak = self.soak
        path, overlay = self.path, None
        if "overlay" in what:
            top = f"{soak.t}/overlay/{View.count + 1}"
            for name in "upper", "work", "root":
                os.makedirs(f"{top}/{name}")
            path = overlay = f"{top}/root"
            mount("overlay", path, "overlay",
                  f"lowerdir={self.path},upperdir={top}/upper,workdir={top}/work")
        view = View(soak, f"{self.kind}+{what}", self.number, path, self.mode,
                    "ns" in what, self.declared_from)
        view.overlay = overlay
        self.views.append(view)
        if overlay and "ns" in what:
            # It lives on in the reader's namespace only.
            detach(overlay)
        return view

    def declare_lazy(self, since=None):
        """Failures of its lazy views, now and later, are declared."""
        if self.mode == "lazy" and self.declared_from is None:
            self.declared_from = since or time.monotonic_ns()
        for view in self.views:
            if view.mode == "lazy" and view.declared_from is None:
                view.declared_from = self.declared_from

    def force(self):
        """Unmount it in use or not; what bootseerd does not take now, because it
        is dead or because it is busy, is tried again later."""
        detach(self.path)
        self.is_gone = True
        try:
            self.release()
        except CallFailed:
            self.soak.leftovers.append(self)

    def stop_views(self):
        for view in self.views:
            view.stop()
        self.soak.collect(self.views)
        self.views = []


class FolderMount(Mount):
    kind = "folder"

    def start(self):
        good, said = self.soak.node.bootseer(
            "image", "mount", "--plain-http", self.ref, self.path)
        if not good:
            raise CallFailed(said)
        self.mode = mode_of(self.path)

    def umount(self):
        good, said = self.soak.node.bootseer("image", "umount", self.path)
        self.is_gone = good
        if not good:
            raise CallFailed(said)

    def release(self):
        good, said = self.soak.node.bootseer("image", "umount", self.path)
        if not good and "no image is mounted at" not in said:
            raise CallFailed(said)


class ContainerMount(Mount):
    kind = "container"
    key = top = None

    def start(self):
        node = self.soak.node
        chain = node.call("image.prepare", {"ref": self.ref, "plain_http": True})["chain_ids"]
        parent = ""
        for link in chain:
            key = f"extract-{self.id}-{link}"
            try:
                node.snapshots("Prepare", [
                    (1, "bootseer"), (2, key), (3, parent),
                    label("containerd.io/snapshot.ref", link),
                    label("containerd.io/snapshot/remote/stargz.reference", self.ref)])
            except CallFailed as error:
                if error.code != "ALREADY_EXISTS":
                    raise
            else:
                node.snapshots("Remove", [(1, "bootseer"), (2, key)])
                raise CallFailed("it is to be an ordinary image")
            parent = link
        self.top = parent
        self.key = f"container-{self.id}"
        reply = node.snapshots("Prepare", [(1, "bootseer"), (2, self.key), (3, parent)])
        self.mount_root(reply)

    def mount_root(self, reply):
        from protobuf import decode
        how = decode(reply[1][0])
        options = [o.decode() for o in how[4]]
        lower = next(o for o in options if o.startswith("lowerdir="))
        tree = lower.removeprefix("lowerdir=").split(":")[0]
        self.mode = mode_of(tree)
        if self.mode is None:
            raise CallFailed(f"nothing is mounted at {tree}")
        mount("overlay", self.path, "overlay", ",".join(options))

    def remove(self):
        node = self.soak.node
        for key in filter(None, (self.key, self.top)):
            try:
                node.snapshots("Remove", [(1, "bootseer"), (2, key)])
            except CallFailed as error:
                # Other containers of the image, or done by the call before.
                if error.code not in ("FAILED_PRECONDITION", "NOT_FOUND"):
                    raise
        node.snapshots("Cleanup", [(1, "bootseer")])

    def umount(self):
        code = umount(self.path)
        if code:
            raise CallFailed(os.strerror(code), code)
        self.remove()
        self.is_gone = True

    def release(self):
        self.remove()


def label(key, value):
    return (4, [(1, key), (2, value)])
