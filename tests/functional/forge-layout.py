#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What whoever may push can do to the artifact of an image.

forge-layout.py image DIR CASE [KEPT]
                                     the image of 'make-image.py DIR good', but for
                                     one thing; 'image list' names the cases; KEPT is a
                                     folder for the layers below, which they share
forge-layout.py graft LAYOUT TO FROM
                                     give the image with the tag TO the artifact of
                                     the image FROM, as if it were its own
forge-layout.py drop LAYOUT          remove from the index what stdin names by digest
forge-layout.py poison LAYOUT TAG MAP SEED
                                     give the image TAG an artifact more, whose block
                                     map has every digest of MAP, a block map that is
                                     not compressed, for bytes that are noise
forge-layout.py packs LAYOUT TAG     the block map of its artifact names packs that the
                                     artifact has not
forge-layout.py pad LAYOUT TAG N     give the image TAG, in place of its artifact, one
                                     whose block map has N blocks of 4 MiB more, of
                                     which its files know nothing
forge-layout.py tails LAYOUT TAG     write behind the ends of its large files, as far
                                     as their last pages go
"""
import hashlib
import importlib.util
import json
import os
import shutil
import struct
import subprocess
import sys
import tarfile

spec = importlib.util.spec_from_file_location(
    "make_image", os.path.join(os.path.dirname(__file__), "make-image.py"))
make = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make)

ARTIFACT = "application/vnd.bootseer.image.v1"


def changed(*args, **kw):
    return lambda t: t.add(*args, **kw)


# What a layer on top does; each changes one thing.
CASES = {
    "content": changed("etc/page", data=make.noise(4096, 99)),
    "inline-content": changed("etc/one", data=b"2"),
    "large-content": changed("links/cross", data=make.noise(200000, 98)),
    "size": changed("etc/one", data=b"11"),
    "mode": changed("etc/one", data=b"1", mode=0o4755),
    "owner": changed("etc/one", data=b"1", uid=1000),
    "mtime": changed("etc/one", data=b"1", mtime=1500000001),
    "mtime-ns": changed("etc/ns", data=b"ns", mtime=make.NS + 1e-6),
    "xattr": changed("etc/one", data=b"1", xattrs={"user.plain": "1"}),
    "capability": changed("usr/bin/ping", data=make.noise(9000, 3), mode=0o755),
    "target": changed("lib", tarfile.SYMTYPE, link="usr/bin"),
    "device": changed("dev/null", tarfile.CHRTYPE, mode=0o666, dev=(1, 5)),
    "kind": changed("etc/empty", tarfile.FIFOTYPE, mode=0),
    "link-broken": changed("links/b", data=make.noise(70000, 4), mode=0o640,
                           uid=3, mtime=1500000007),
    "added": changed("usr/bin/evil", data=b"#!/bin/sh\n", mode=0o4755),
    "removed": changed("etc/.wh.one"),
    "folder-mode": lambda t: t.dir("usr/bin", 0o777),
    "huge": changed("huge", data=b"x" * (64 << 20)),
    "many": lambda t: [t.add("usr/lib/evil%02d" % i) for i in range(30)],
}


def image(path, case, kept=None):
    """As make-image.py's 'good', with a layer more."""
    if case == "whiteouts-ignored" or not kept:
        layout = below(path, case)
    else:
        if not os.path.exists(kept):
            below(kept, case)
        shutil.copytree(kept, path)
        layout = make.Layout(path)
        with open(path + "/below") as f:
            layout.layers, layout.diff_ids = json.load(f)
    if case in CASES:
        t = make.Tar()
        CASES[case](t)
        layout.layer(t.bytes())
    layout.finish()


def below(path, case):
    layout = make.Layout(path)
    layout.layer(make.base_layer(1))
    if case != "whiteouts-ignored":
        layout.layer(make.upper_layer(), kind="zstd")
    layout.layer(make.sparse_layer("1", "--format=gnu"), kind="")
    layout.layer(make.sparse_layer("2", "--format=posix"))
    with open(path + "/below", "w") as f:
        json.dump((layout.layers, layout.diff_ids), f)
    return layout


class Store:
    def __init__(self, path):
        self.path = path
        with open(path + "/index.json") as f:
            self.index = json.load(f)

    def read(self, digest):
        with open(self.path + "/blobs/sha256/" + digest.split(":")[1],
                  "rb") as f:
            return json.load(f)

    def write(self, value):
        return self.write_bytes(json.dumps(value).encode())

    def write_bytes(self, data):
        hexa = hashlib.sha256(data).hexdigest()
        with open(self.path + "/blobs/sha256/" + hexa, "wb") as f:
            f.write(data)
        return {"digest": "sha256:" + hexa, "size": len(data)}

    def add_artifact(self, manifest):
        new = dict(self.write(manifest), mediaType=manifest["mediaType"],
                   artifactType=ARTIFACT)
        self.index["manifests"].append(new)
        with open(self.path + "/index.json", "w") as f:
            json.dump(self.index, f)
        return new["digest"]

    def tagged(self, tag):
        for d in self.index["manifests"]:
            if (d.get("annotations") or {}).get(
                    "org.opencontainers.image.ref.name") == tag:
                return d
        sys.exit("no image '%s'" % tag)

    def artifact_of(self, image):
        for d in self.index["manifests"]:
            m = self.read(d["digest"])
            if (m.get("artifactType") == ARTIFACT and
                    m["subject"]["digest"] == image["digest"]):
                return d, m
        sys.exit("it has no artifact")


def graft(path, to, source):
    store = Store(path)
    target, other = store.tagged(to), store.tagged(source)
    old, m = store.artifact_of(target)
    chain_ids = store.read(m["config"]["digest"])["chainIds"]
    subject = m["subject"]
    _, m = store.artifact_of(other)
    config = store.read(m["config"]["digest"])
    config["chainIds"], config["image"] = chain_ids, target["digest"]
    m["config"].update(store.write(config))
    m["subject"] = subject
    m["annotations"] = {"dev.bootseer.replaces": old["digest"]}
    print(store.add_artifact(m))


def drop(path):
    store = Store(path)
    gone = sys.stdin.read().split()
    store.index["manifests"] = [d for d in store.index["manifests"]
                                if d["digest"] not in gone]
    with open(path + "/index.json", "w") as f:
        json.dump(store.index, f)


def poisoned_map(path, seed):
    """docs/formats/blockmap.md: all blocks lie raw at the start of one pack."""
    with open(path, "rb") as f:
        old = f.read()
    n_blocks, = struct.unpack_from("<Q", old, 16)
    header = bytearray(old[:64])
    struct.pack_into("<I", header, 12, 1)
    blocks = bytearray(old[64:64 + 64 * n_blocks])
    sizes = [struct.unpack_from("<I", blocks, at + 48)[0]
             for at in range(0, len(blocks), 64)]
    for at, size in zip(range(0, len(blocks), 64), sizes):
        struct.pack_into("<QIIIB", blocks, at + 40, 0, size, size, 0, 0)
    pack = make.noise(max(sizes), seed)
    tail = hashlib.sha256(pack).digest() + struct.pack("<Q", len(pack))
    return bytes(header + blocks + tail), pack


def poison(path, tag, victim, seed):
    store = Store(path)
    _, m = store.artifact_of(store.tagged(tag))
    config = store.read(m["config"]["digest"])
    raw, pack = poisoned_map(victim, int(seed))
    config["blockmap"] = {"digest": "sha256:" + hashlib.sha256(raw).hexdigest(),
                          "size": len(raw)}
    config["deviceSize"], = struct.unpack_from("<Q", raw, 24)
    m["config"].update(store.write(config))
    m["layers"] = m["layers"][:2] + [
        {"mediaType": "application/vnd.bootseer.pack.v1"}]
    for layer, blob in zip(m["layers"][1:], (
            subprocess.run(["zstd", "-qc"], input=raw, stdout=subprocess.PIPE,
                           check=True).stdout, pack)):
        layer.pop("annotations", None)
        layer.update(store.write_bytes(blob))
    print(store.add_artifact(m))


def compressed(data, *options):
    return subprocess.run(["zstd", "-qc", *options], input=data,
                          stdout=subprocess.PIPE, check=True).stdout


def stored(store, digest):
    with open(f"{store.path}/blobs/sha256/{digest[7:]}", "rb") as f:
        return f.read()


class Opened:
    """An artifact of one pack, to be stored again with another map."""

    def __init__(self, path, tag):
        self.store = Store(path)
        self.old, self.m = self.store.artifact_of(self.store.tagged(tag))
        self.config = self.store.read(self.m["config"]["digest"])
        self.pack = stored(self.store, self.m["layers"][2]["digest"])
        raw = subprocess.run(
            ["zstd", "-qdc"], stdout=subprocess.PIPE, check=True,
            input=stored(self.store, self.m["layers"][1]["digest"])).stdout
        self.n_blocks, self.device = struct.unpack_from("<QQ", raw, 16)
        self.head = bytearray(raw[:64])
        self.blocks = raw[64:64 + 64 * self.n_blocks]

    def save(self, more_packs=0):
        struct.pack_into("<I", self.head, 12, 1 + more_packs)
        struct.pack_into("<QQ", self.head, 16, len(self.blocks) // 64,
                         self.device)
        raw = bytes(self.head) + self.blocks
        for digest in [hashlib.sha256(self.pack).digest()] + [
                hashlib.sha256(b"%d" % i).digest() for i in range(more_packs)]:
            raw += digest + struct.pack("<Q", len(self.pack))
        self.config["blockmap"] = {
            "digest": "sha256:" + hashlib.sha256(raw).hexdigest(),
            "size": len(raw)}
        self.config["deviceSize"] = self.device
        self.m["config"].update(self.store.write(self.config))
        for layer, data in zip(self.m["layers"][1:],
                               (compressed(raw), self.pack)):
            layer.pop("annotations", None)
            layer.update(self.store.write_bytes(data))
        self.store.index["manifests"].remove(self.old)
        print(self.store.add_artifact(self.m))


def pad(path, tag, n):
    a = Opened(path, tag)
    plain = bytes(4 << 20)
    block = compressed(plain, "--no-check", "--stream-size=%d" % len(plain))
    for i in range(n):
        a.blocks += hashlib.sha256(plain).digest() + struct.pack(
            "<QQIIIB3x", a.device, len(a.pack), len(plain), len(block), 0, 1)
        a.device += len(plain)
    a.pack += block
    a.save()


def tails(path, tag):
    a = Opened(path, tag)
    blocks = bytearray(a.blocks)
    for at in range(0, len(blocks), 64):
        poff, usize, csize, pack, codec = struct.unpack_from(
            "<QIIIB", blocks, at + 40)
        plain = a.pack[poff:poff + csize]
        if codec:
            plain = subprocess.run(["zstd", "-qdc"], input=plain, check=True,
                                   stdout=subprocess.PIPE).stdout
        assert len(plain) == usize
        if usize % 4096 == 0:
            continue
        plain += b"A" * (4096 - usize % 4096)
        blocks[at:at + 32] = hashlib.sha256(plain).digest()
        struct.pack_into("<QIIIB", blocks, at + 40, len(a.pack), len(plain),
                         len(plain), pack, 0)
        a.pack += plain
    a.blocks = bytes(blocks)
    a.save()


def packs(path, tag):
    Opened(path, tag).save(more_packs=100)


def main(args):
    if args[:1] == ["image"] and args[1:] == ["list"]:
        print("\n".join([*CASES, "whiteouts-ignored"]))
    elif args[:1] == ["image"] and len(args) in (3, 4):
        image(*args[1:])
    elif args[:1] == ["graft"] and len(args) == 4:
        graft(*args[1:])
    elif args[:1] == ["drop"] and len(args) == 2:
        drop(args[1])
    elif args[:1] == ["poison"] and len(args) == 5:
        poison(*args[1:])
    elif args[:1] == ["tails"] and len(args) == 3:
        tails(*args[1:])
    elif args[:1] == ["packs"] and len(args) == 3:
        packs(*args[1:])
    elif args[:1] == ["pad"] and len(args) == 4:
        pad(args[1], args[2], int(args[3]))
    else:
        sys.exit(__doc__)


main(sys.argv[1:])
