# SPDX-License-Identifier: Apache-2.0
"""What applies layers: each gives the tree of a stack, or says why not."""
import ctypes
import json
import os
import shutil
import socket
import subprocess
import time

import tree

MNT_DETACH = 2
libc = ctypes.CDLL(None, use_errno=True)


class Refused(Exception):
    """This stack is not taken; the text says why."""


class Broken(Exception):
    """The test cannot go on."""


def umount(path):
    if libc.umount2(os.fsencode(path), MNT_DETACH) != 0:
        raise Broken("umount %s: %s" % (path, os.strerror(ctypes.get_errno())))


def umount_below(folder):
    """What a daemon has left for its successor."""
    with open("/proc/self/mountinfo") as f:
        paths = [line.split()[4] for line in f]
    for path in reversed(paths):
        if path.startswith(folder + "/"):
            umount(path)


def read_overlay(folders, empty, mnt):
    """The tree of overlayfs on `folders`, bottom first, as containers see it."""
    lower = ":".join(list(reversed(folders)) + [empty])
    if libc.mount(b"overlay", os.fsencode(mnt), b"overlay", 1,
                  os.fsencode("index=off,lowerdir=" + lower)) != 0:
        raise Broken("overlay of %s: %s" % (lower, os.strerror(ctypes.get_errno())))
    try:
        return tree.read(mnt)
    finally:
        umount(mnt)


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    return folder


class Place:
    """Folders of one worker. `layout` is what its registry serves."""

    def __init__(self, folder):
        self.folder = folder
        self.layout = folder + "/layout"
        self.mnt, self.empty = folder + "/mnt", folder + "/empty"
        for name in self.layout, self.mnt, self.empty:
            os.makedirs(name)

    def blob(self, digest):
        return self.layout + "/blobs/sha256/" + digest.split(":")[1]


class Containerd:
    def __init__(self, place, name, program):
        self.place, self.name = place, name
        self.folder = place.folder + "/" + name
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def tree(self, tag, layers):
        fresh(self.folder)
        line = json.dumps({"dir": self.folder, "layers": [
            {**d, "path": self.place.blob(d["digest"])} for d in layers]})
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or '{"error": "test: died"}')
        if "error" in answer:
            if answer["error"].startswith("test: "):
                raise Broken(answer["error"])
            raise Refused(answer["error"])
        return read_overlay(["%s/%d/fs" % (self.folder, i) for i in range(len(layers))],
                            self.place.empty, self.place.mnt)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


CRASHES_MAX = 3


class Umoci:
    """In a folder of its own: umoci 0.4.7 takes `.wh...` for an order to remove the
    folder above."""

    name = "umoci"

    def __init__(self, place):
        self.place, self.folder = place, place.folder + "/umoci"
        self.root = self.folder + "/rootfs"

    def tree(self, tag, _layers):
        for _ in range(CRASHES_MAX):
            fresh(self.folder)
            p = subprocess.run(["umoci", "raw", "unpack", "--image",
                                self.place.layout + ":" + tag + "-umoci", self.root],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            # Seen once in 30,000 stacks: two of its goroutines in one hash.
            if b"panic: d.nx != 0" not in p.stdout:
                break
        if p.returncode != 0:
            raise Refused(p.stdout.decode("utf-8", "replace").strip())
        if not os.path.isdir(self.root):
            raise Refused("it removed the folder")
        return tree.read(self.root)

    def close(self):
        pass


class Node:
    """bootseerd with one data path."""

    def __init__(self, place, build, port, name, *options):
        self.root = "%s/%s" % (place.folder, name)
        self.log_name = self.root + "/log"
        os.makedirs(self.root)
        self.socket = self.root + "/run/bootseerd.sock"
        host = "127.0.0.1:" + port
        with open(self.log_name, "w") as log:
            self.process = subprocess.Popen(
                [build + "/snapshotter/node/bootseerd", "--root", self.root + "/root",
                 "--run", self.root + "/run", "--record", "off", *options,
                 "--plain-http", host, "--trust", host + "=registry", "--cache-quota",
                 "2G", "--cache-min-free", "1"], stderr=log)
        deadline = time.monotonic() + 60
        while b"info main: ready" not in self.log():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Broken("bootseerd: " + self.log().decode("utf-8", "replace"))
            time.sleep(0.01)  # deadline poll

    def log(self):
        with open(self.log_name, "rb") as f:
            return f.read()

    def call(self, method, **params):
        try:
            return self.ask(method, params)
        except (OSError, ValueError) as e:
            raise Broken("bootseerd: %s: %s: %s" % (
                method, e, self.log()[-2000:].decode("utf-8", "replace"))) from e

    def ask(self, method, params):
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(120)
            s.connect(self.socket)
            body = json.dumps(params).encode()
            s.sendall(f"POST /v1/{method} HTTP/1.1\r\nHost: bootseer\r\nConnection: close\r\n"
                      f"Content-Length: {len(body)}\r\n\r\n".encode() + body)
            with s.makefile("rb") as f:
                answer = json.loads(f.read().partition(b"\r\n\r\n")[2])
        if "error" in answer:
            raise Refused(answer["error"]["message"])
        return answer["result"]

    def close(self):
        self.process.terminate()
        self.process.wait()


class Registry:
    def __init__(self, place, build):
        ports = place.folder + "/ports"
        self.process = subprocess.Popen([build + "/tests/fakes/fake-registry", "--dir",
                                         place.layout, "--port-file", ports, "--log",
                                         "/dev/null"])
        deadline = time.monotonic() + 60
        while not (os.path.exists(ports) and os.path.getsize(ports)):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Broken("the registry does not start")
            time.sleep(0.01)  # deadline poll
        with open(ports) as f:
            self.port = f.read().split()[0]

    def close(self):
        self.process.terminate()
        self.process.wait()


class Apply:
    """bootseerd's layer.apply, below overlayfs."""

    name = "apply"

    def __init__(self, place, node, port):
        self.place, self.node, self.port = place, node, port
        self.folder = place.folder + "/apply"

    def tree(self, tag, layers):
        fresh(self.folder)
        folders = []
        for i in range(len(layers)):
            folders.append("%s/%d" % (self.folder, i))
            os.mkdir(folders[-1], 0o755)
            self.node.call("layer.apply", ref="127.0.0.1:%s/img:%s" % (self.port, tag),
                           layer=i, dir=folders[-1], lower=folders[-2::-1])
        return read_overlay(folders, self.place.empty, self.place.mnt)

    def close(self):
        pass


def convert(build, place, tag, form):
    ref = "oci:%s:%s" % (place.layout, tag)
    p = subprocess.run([build + "/cli/bootseer", "image", "convert", "-j1", "--form",
                        form, ref, ref],
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if p.returncode != 0:
        text = p.stdout.decode("utf-8", "replace").strip()
        if p.returncode < 0 or "Sanitizer" in text:
            raise Broken("convert: %d %s" % (p.returncode, text))
        raise Refused(text)


class Mounted:
    """The converted stack, through a data path; `complete` says which of the two
    mounts of it."""

    def __init__(self, place, node, port, name, complete):
        self.place, self.node, self.port = place, node, port
        self.name, self.complete = name, complete

    def tree(self, tag, _layers):
        call = self.node.call
        image = call("image.prepare", ref="127.0.0.1:%s/img:%s" % (self.port, tag))["id"]
        want = "lazy"
        if self.complete:
            done = call("image.prefetch", id=image, what="all", wait_ms=60000)
            if done["phase"] != "done":
                raise Broken("prefetch: %s" % done)
            if done["all_bytes"]:  # without blocks there is nothing to be whole
                want = "complete"
        m = call("image.mount", id=image, user="test")
        try:
            if m["mode"] != want:
                raise Broken("%s: mounted %s, not %s" % (self.name, m["mode"], want))
            return tree.read(m["path"])
        finally:
            call("image.umount", id=image, user="test")

    def close(self):
        pass
