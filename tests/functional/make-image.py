#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write OCI layouts for the tests of conversion.

make-image.py DIR good [VERSION [gzip]]
                                   an image with everything a rootfs can hold;
                                   its layers gzip, zstd and plain, or all gzip
make-image.py DIR index            small images of two platforms
make-image.py DIR times SECONDS    a small image whose files have that time
make-image.py DIR nested DEPTH     that index, in DEPTH more of them
make-image.py DIR none             an image without layers
make-image.py DIR contested        what unpackers make different trees of
make-image.py DIR tars FILE...     one whose layers are these
make-image.py DIR stored TAR KIND=FILE...
                                   one whose layers are FILEs, TAR as gzip or zstd
make-image.py DIR bad CASE         one with a fault; 'bad list' names the cases
"""
import gzip
import hashlib
import io
import json
import os
import random
import struct
import subprocess
import sys
import tarfile
import tempfile

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, "amd64")
NS = 1600000000.123456789


class Tar:
    def __init__(self, fmt=tarfile.PAX_FORMAT):
        self.out = io.BytesIO()
        self.tar = tarfile.open(fileobj=self.out, mode="w", format=fmt,
                                errors="surrogateescape")

    def add(self, name, kind=tarfile.REGTYPE, data=b"", mode=0o644, uid=0,
            gid=0, link="", xattrs=None, mtime=None, dev=None, size=None):
        t = tarfile.TarInfo(name)
        t.type, t.mode, t.uid, t.gid, t.linkname = kind, mode, uid, gid, link
        t.size = len(data) if size is None else size
        t.mtime = 1500000000 + len(name) if mtime is None else mtime
        if dev:
            t.devmajor, t.devminor = dev
        for k, v in (xattrs or {}).items():
            t.pax_headers["SCHILY.xattr." + k] = v
        self.tar.addfile(t, io.BytesIO(data))
        return self

    def dir(self, name, mode=0o755, **kw):
        return self.add(name, tarfile.DIRTYPE, mode=mode, **kw)

    def bytes(self):
        self.tar.close()
        return self.out.getvalue()


def text(data):
    return data.decode("utf-8", "surrogateescape")


def noise(n, seed):
    return random.Random(seed).randbytes(n)


CAP = struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)


def base_layer(version):
    t = Tar()
    t.dir("./", 0o755, mtime=1400000000)
    for d in ("etc", "usr", "usr/bin", "usr/lib", "dev", "opaque",
              "opaque/sub", "gone", "kinds", "names", "links"):
        t.dir(d)
    t.dir("tmp", 0o1777)
    t.dir("sgid", 0o2755, uid=7, gid=8)
    t.add("lib", tarfile.SYMTYPE, link="usr/lib")
    t.add("absolute", tarfile.SYMTYPE, link="/usr/lib")
    t.add("dangling", tarfile.SYMTYPE, link="no/such/thing")
    t.add("long-link", tarfile.SYMTYPE, link="x" * 3000)
    t.add("etc/empty", mode=0)
    t.add("etc/one", data=b"1")
    t.add("etc/inline", data=b"i" * 500)
    t.add("etc/page", data=noise(4096, 1))
    t.add("etc/page1", data=noise(4097, 2))
    t.add("usr/bin/setuid", data=b"#!", mode=0o4755, uid=0, gid=50)
    t.add("usr/bin/ping", data=noise(9000, 3), mode=0o755,
          xattrs={"security.capability": text(CAP)})
    t.add("etc/xattrs", data=b"x", xattrs={
        "user.plain": "value", "user.empty": "",
        "user.bytes": text(b"\x01\xff\xfe=\n"), "trusted.it": "t"})
    t.dir("etc/xdir", xattrs={"user.dir": "d", "trusted.overlay.opaque": "y",
                              "trusted.overlay.redirect": "/etc"})
    t.add("etc/big-ids", uid=3000000000, gid=2147483648, data=b"ids")
    t.add("etc/ns", mtime=NS, data=b"ns")
    t.add("etc/old", mtime=-1.5, data=b"before 1970")
    t.add("etc/half", mtime=-0.5, data=b"just before 1970")
    t.add("etc/future", mtime=2 ** 33 + 0.5, data=b"after 2038")
    t.add("dev/null", tarfile.CHRTYPE, mode=0o666, dev=(1, 3))
    t.add("dev/sda", tarfile.BLKTYPE, mode=0o660, dev=(8, 0))
    t.add("dev/large", tarfile.CHRTYPE, mode=0o600, dev=(4000, 700000))
    t.add("dev/fifo", tarfile.FIFOTYPE, mode=0o622)
    t.add("links/a", data=noise(70000, 4), mode=0o640, uid=3)
    # The headers of hard links say what the file is, as writers have them:
    # other unpackers than containerd do not look at them.
    t.add("links/b", tarfile.LNKTYPE, link="links/a", mode=0o640, uid=3,
          mtime=1500000007)
    t.add("usr/links-c", tarfile.LNKTYPE, link="/links/b", mode=0o640, uid=3,
          mtime=1500000007)
    t.add("links/sym", tarfile.SYMTYPE, link="a")
    t.add("links/sym2", tarfile.LNKTYPE, link="links/sym", mtime=1500000009)
    t.add("links/cross", data=noise(200000, 5))
    for name in (b"\xff\xfe", b"new\nline", b"e\xcc\x81", b"\xc3\xa9",
                 b"sp ace", b"\\x41", b"n" * 255, b"tab\t", b"*?[",
                 "日本語".encode()):
        t.add("names/" + text(name), data=name)
    t.add("opaque/below", data=b"below")
    t.add("opaque/sub/below", data=b"below")
    t.add("gone/x", data=noise(5000, 6))
    t.add("gone/y", data=b"y")
    t.add("kinds/file-to-dir", data=b"f")
    t.dir("kinds/dir-to-file")
    t.add("kinds/dir-to-file/in", data=b"f")
    t.dir("kinds/dir-to-link")
    t.add("twice", data=b"first", mode=0o600)
    t.add("twice", data=b"second one", mode=0o644)
    # Large: text that compresses, noise that does not, zeros; it grows at
    # its start from version to version.
    t.add("usr/lib/large", data=noise(8192 * version, 60 + version) +
          noise(6_000_000, 7) + b"line\n" * 400_000 + bytes(3_000_000))
    for i in range(300):
        t.add("usr/lib/small%03d" % i, data=noise(i * 37, i + (
            version * 1000 if i == 150 else 0)))
    t.add("usr/lib/version", data=b"v%d" % version)
    return t.bytes()


def upper_layer():
    t = Tar()
    t.dir("opaque", mtime=1510000000)
    t.add("opaque/.wh..wh..opq")
    t.add("opaque/new", data=b"new")
    t.dir("opaque/sub", mtime=1510000001)
    t.add("opaque/sub/new", data=b"new")
    t.dir("gone", mtime=1510000002)
    t.add("gone/.wh.x")
    t.add(".wh.dangling")
    t.add("gone/.wh.never-was")
    t.dir("kinds", mtime=1510000003)
    t.dir("kinds/file-to-dir")
    t.add("kinds/file-to-dir/in", data=b"now a folder")
    t.add("kinds/dir-to-file", data=b"now a file")
    t.add("kinds/dir-to-link", tarfile.SYMTYPE, link="file-to-dir")
    t.dir("links", mtime=1510000004)
    t.add("links/over", tarfile.LNKTYPE, link="links/cross",
          mtime=1500000011)
    t.dir("usr", mtime=1510000005)
    t.dir("usr/lib", mtime=1510000006)
    # The parent is a symlink of the same layer: below one of another layer,
    # umoci does not do what containerd does.
    t.add("absolute", tarfile.SYMTYPE, link="/usr/lib")
    t.add("absolute/through", data=b"through a link")
    t.dir("etc", 0o711, uid=1, gid=2, mtime=1510000007)
    t.add("etc/xattrs", data=b"again, without")
    return t.bytes()


def sparse_layer(name, *dialect):
    """GNU tar's sparse files."""
    with tempfile.TemporaryDirectory() as d:
        os.mkdir(d + "/sparse")
        for kind, parts in (("holes", [(0, 5000), (1 << 20, 70000),
                                       (5_000_000, 9)]),
                            ("tail", [(4096, 100)]), ("all", []),
                            ("small", [(8192, 4)])):
            with open("%s/sparse/%s-%s" % (d, kind, name), "wb") as f:
                for off, n in parts:
                    f.seek(off)
                    f.write(noise(n, off))
                f.truncate(30000 if kind == "small" else 9_999_999)
        return subprocess.run(
            ["tar", "--sparse", *dialect, "--owner=0", "--group=0",
             "--numeric-owner", "--mtime=@1520000000", "-C", d, "-cf", "-",
             "sparse"], stdout=subprocess.PIPE, check=True).stdout


class Layout:
    def __init__(self, path):
        self.path = path
        os.makedirs(path + "/blobs/sha256", exist_ok=True)
        with open(path + "/oci-layout", "w") as f:
            f.write('{"imageLayoutVersion":"1.0.0"}')
        self.layers, self.diff_ids = [], []

    def blob(self, data):
        hexa = hashlib.sha256(data).hexdigest()
        with open(self.path + "/blobs/sha256/" + hexa, "wb") as f:
            f.write(data)
        return "sha256:" + hexa

    def layer(self, plain, stored=None, kind="gzip", **lies):
        if stored is None:
            stored = {
                "gzip": lambda: gzip.compress(plain, 6, mtime=0),
                "zstd": lambda: subprocess.run(
                    ["zstd", "-qc"], input=plain, check=True,
                    stdout=subprocess.PIPE).stdout,
                "": lambda: plain,
            }[kind]()
        d = {"mediaType": "application/vnd.oci.image.layer.v1.tar" +
             ("+" + kind if kind else ""),
             "digest": self.blob(stored), "size": len(stored)}
        d.update({k: v for k, v in lies.items() if k != "diff_id"})
        self.layers.append(d)
        self.diff_ids.append(lies.get("diff_id") or "sha256:" +
                             hashlib.sha256(plain).hexdigest())
        return self

    def manifest(self, arch=ARCH):
        """Write config and manifest of the layers so far; its descriptor."""
        config = json.dumps({
            "architecture": arch, "os": "linux",
            "config": {"Cmd": ["/bin/true"]},
            "rootfs": {"type": "layers", "diff_ids": self.diff_ids},
            "history": [{"created_by": "test"} for _ in self.layers],
        }).encode()
        manifest = json.dumps({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {"mediaType": "application/vnd.oci.image.config.v1+json",
                       "digest": self.blob(config), "size": len(config)},
            "layers": self.layers}).encode()
        self.layers, self.diff_ids = [], []
        return {"mediaType": "application/vnd.oci.image.manifest.v1+json",
                "digest": self.blob(manifest), "size": len(manifest)}

    def finish(self, descriptor=None):
        d = descriptor or self.manifest()
        d["annotations"] = {"org.opencontainers.image.ref.name": "latest"}
        with open(self.path + "/index.json", "w") as f:
            json.dump({"schemaVersion": 2, "manifests": [d]}, f)


def contested(layout):
    """docs/formats/layers.md: a folder C0, C1, ... a case, in two layers."""
    low, up, note = Tar(), Tar(), {"user.below": "b"}
    low.dir("./", 0o711, uid=7, xattrs=note)
    for i in range(12):
        low.dir("C%d" % i, 0o750, uid=i, gid=9, xattrs=note)
        low.dir("C%d/low" % i, 0o2700, uid=3, xattrs=note)
        low.add("C%d/low/old" % i, data=b"old")
        low.add("C%d/X" % i, data=b"below")
    up.add("C0/X", data=b"X").add("C0/.wh.X")
    up.add("C1/.wh.X").add("C1/X", data=b"X")
    up.dir("C2/low").add("C2/low/new").add("C2/.wh.low")
    up.add("C3/.wh.low").dir("C3/low").add("C3/low/new")
    up.add("C4/.wh.low").add("C4/low/deep/new")
    up.add("C5/low/new").add("C5/.wh.low")
    up.add("C6/low/new").add("C6/made/new").add("C6/.wh..wh..opq")
    up.add("C7/.wh..wh..opq").add("C7/low/new").add("C7/made/new")
    up.add("C8/low/new").add("C8/made/new")
    up.add("C9/low/new").dir("C9/low", xattrs={"user.own": "o"})
    up.add("C10/f", data=b"f" * 5000, mode=0o4755, uid=5,
           xattrs={"security.capability": text(CAP), "user.f": "f"})
    up.add("C10/ping", tarfile.LNKTYPE, link="C10/f", mode=0o6711, uid=6,
           xattrs={"security.capability": text(CAP)}, mtime=-0.5)
    up.add("C10/s", tarfile.SYMTYPE, link="f", uid=8, mtime=-1.5)
    acl = struct.pack("<I", 2) + b"".join(
        struct.pack("<HHI", *e) for e in (
            (1, 7, 0xffffffff), (2, 7, 12), (4, 5, 0xffffffff),
            (16, 7, 0xffffffff), (32, 5, 0xffffffff)))
    up.dir("C11", xattrs={"system.posix_acl_default": text(acl),
                          "trusted.overlay.opaque": "y",
                          "trusted.other": "t"})
    up.add("C11/f").dir("C11/d").add("C11/implied/f")
    layout.layer(low.bytes()).layer(up.bytes(), kind="zstd")


def index(path, depth=0):
    layout, manifests = Layout(path), []
    for arch in ("amd64", "arm64"):
        d = layout.layer(one("f-" + arch)).manifest(arch)
        d["platform"] = {"os": "linux", "architecture": arch}
        manifests.append(d)
    for _ in range(depth + 1):
        data = json.dumps({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": manifests}).encode()
        manifests = [{"mediaType": "application/vnd.oci.image.index.v1+json",
                      "digest": layout.blob(data), "size": len(data)}]
    layout.finish(manifests[0])


def one(*names, **kw):
    t = Tar()
    for name in names:
        t.add(name, data=b"x", **kw)
    return t.bytes()


def bad_cases():
    good = one("a", "b")
    zipped = gzip.compress(good, mtime=0)
    garbage = noise(2048, 9)
    cut = Tar().add("f", data=noise(100_000, 1)).bytes()[:50_000]
    return {
        "climbs": lambda l: l.layer(one("../../etc/passwd")),
        "hard-link-out": lambda l: l.layer(Tar().add(
            "x", tarfile.LNKTYPE, link="../../../etc/shadow").bytes()),
        "hard-link-to-nothing": lambda l: l.layer(Tar().add(
            "x", tarfile.LNKTYPE, link="nothing").bytes()),
        "parent-is-file": lambda l: l.layer(one("a", "a/b")),
        "link-circle": lambda l: l.layer(
            Tar().add("a", tarfile.SYMTYPE, link="b")
            .add("b", tarfile.SYMTYPE, link="a").add("a/x").bytes()),
        "name-256": lambda l: l.layer(one("n" * 256)),
        "bad-whiteout": lambda l: l.layer(one(".wh...")),
        "truncated-gzip": lambda l: l.layer(good, zipped[:-20]),
        "truncated-tar": lambda l: l.layer(cut),
        "not-a-tar": lambda l: l.layer(garbage),
        "garbage-behind-gzip": lambda l: l.layer(good, zipped + garbage),
        "garbage-behind-tar": lambda l: l.layer(good + garbage),
        "gzip-crc": lambda l: l.layer(good, zipped[:-8] + b"\0" * 4 +
                                      zipped[-4:]),
        "size-lie": lambda l: l.layer(good, size=len(zipped) + 1),
        "digest-lie": lambda l: (l.layer(good), corrupt(l)),
        "diff-id-lie": lambda l: l.layer(good, diff_id="sha256:" + "0" * 64),
        "unknown-type": lambda l: l.layer(
            good, mediaType="application/vnd.example.layer"),
        "huge-file": lambda l: l.layer(
            sparse_bomb()),
        "sparse-map": lambda l: l.layer(sparse_map()),
        "device-out-of-range": lambda l: l.layer(Tar(tarfile.GNU_FORMAT).add(
            "d", tarfile.CHRTYPE, dev=(70000, 1)).bytes()),
        "diff-id-count": lambda l: (l.layer(good), l.diff_ids.append(
            "sha256:" + "1" * 64)),
    }


def sparse_bomb():
    """A PAX sparse file of 8 EiB in a few bytes."""
    t = Tar()
    i = tarfile.TarInfo("bomb")
    i.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0",
                     "GNU.sparse.name": "bomb",
                     "GNU.sparse.realsize": str(2 ** 62)}
    data = b"0\n".ljust(512, b"\0")
    i.size = len(data)
    t.tar.addfile(i, io.BytesIO(data))
    return t.bytes()


def sparse_map():
    """A file of which the map, not the content, is long."""
    t = Tar()
    i = tarfile.TarInfo("map")
    i.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0",
                     "GNU.sparse.name": "map", "GNU.sparse.realsize": "1"}
    n = 4_000_000
    data = b"%d\n" % n + b"0\n0\n" * n
    data += bytes(-len(data) % 512)
    i.size = len(data)
    t.tar.addfile(i, io.BytesIO(data))
    return t.bytes()


def corrupt(layout):
    path = (layout.path + "/blobs/sha256/" +
            layout.layers[0]["digest"].split(":")[1])
    with open(path, "r+b") as f:
        f.seek(30)
        b = f.read(1)
        f.seek(30)
        f.write(bytes([b[0] ^ 1]))


def main():
    if sys.argv[2] == "good":
        version = int(sys.argv[3]) if len(sys.argv) > 3 else 1
        layout = Layout(sys.argv[1])
        layout.layer(base_layer(version))
        same = sys.argv[4] if len(sys.argv) > 4 else None
        layout.layer(upper_layer(), kind=same or "zstd")
        # umoci does not know GNU's oldest dialect.
        layout.layer(sparse_layer("1", "--format=posix",
                                  "--sparse-version=0.1") if same else
                     sparse_layer("1", "--format=gnu"), kind=same or "")
        layout.layer(sparse_layer("2", "--format=posix"))
        layout.finish()
    elif sys.argv[2] == "times":
        layout = Layout(sys.argv[1])
        layout.layer(one("f", "g", mtime=int(sys.argv[3])))
        layout.finish()
    elif sys.argv[2] == "nested":
        index(sys.argv[1], int(sys.argv[3]))
    elif sys.argv[2] == "none":
        Layout(sys.argv[1]).finish()
    elif sys.argv[2] == "contested":
        layout = Layout(sys.argv[1])
        contested(layout)
        layout.finish()
    elif sys.argv[2] == "tars":
        layout = Layout(sys.argv[1])
        for name in sys.argv[3:]:
            with open(name, "rb") as f:
                layout.layer(f.read())
        layout.finish()
    elif sys.argv[2] == "stored":
        layout = Layout(sys.argv[1])
        with open(sys.argv[3], "rb") as f:
            plain = f.read()
        for word in sys.argv[4:]:
            kind, name = word.split("=", 1)
            with open(name, "rb") as f:
                layout.layer(plain, f.read(), kind)
        layout.finish()
    elif sys.argv[2] == "index":
        index(sys.argv[1])
    elif sys.argv[3] == "list":
        print("\n".join(bad_cases()))
    else:
        layout = Layout(sys.argv[1])
        bad_cases()[sys.argv[3]](layout)
        layout.finish()


if __name__ == "__main__":
    main()
