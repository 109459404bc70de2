# SPDX-License-Identifier: Apache-2.0
"""Random stacks. Each has a mood: which of the strange things may happen in it and how
often, so that most stacks are taken by every implementation and none hides others."""
import random
import struct

import tarwriter
from stacks import entry

LETTERS = [b"a", b"b", b"c", b"d", b"e"]
ODD_NAMES = [
    b"new\nline", b"caf\xc3\xa9", b"cafe\xcc\x81", b"\xff\xfe", b"sp ace", b"\\x41",
    b"tab\t", b"*?[", b"-rf", b"~", b"#", b"=", b"a:b", b"a,b", b"...", b"..a", b".wh", b"wh.a",
    b"a.wh.b", b"\xe2\x80\xae", b"\xc0\xaf", b"\x01", b"\x7f", b"A", b"%41",
]
LONG_NAMES = [b"n" * 99, b"n" * 100, b"n" * 101, b"n" * 155, b"n" * 255, b"\xc3\xa9" * 127]
ODD_WHITEOUTS = [b".wh..wh.plnk", b".wh..wh.aufs", b".wh..wh.orph", b".wh..wh..opq.x",
                 b".wh..wh.a", b".wh..wh", b".wh...", b".wh.", b".wh.."]
DRESSES = ["./%s", "/%s", "%s//", "./%s/", ".//%s", "a/../%s", "%s/.", "../%s", "x/../../%s"]
CAPABILITY = struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)
XATTRS = [(b"user.one", b"1"), (b"user.two", b"two"), (b"user.bytes", b"\x00\xff=\n"),
          (b"user.empty", b""), (b"security.capability", CAPABILITY),
          (b"security.note", b"n"), (b"trusted.note", b"t")]
ODD_XATTRS = [(b"trusted.overlay.opaque", b"y"), (b"trusted.overlay.redirect", b"/x"),
              (b"user.overlay.opaque", b"y"), (b"system.none", b"x"), (b"none", b"x"),
              (b"trusted.overlay.overlay.opaque", b"y"),
              (b"system.posix_acl_access", struct.pack(
                  "<IHHIHHIHHIHHIHHI", 2, 1, 6, 0xffffffff, 2, 4, 5, 4, 4, 0xffffffff,
                  16, 4, 0xffffffff, 32, 4, 0xffffffff))]
SIZES = [0, 1, 100, 511, 512, 513, 4095, 4096, 4097, 9000]
TIMES = ["0", "1", "1500000000", "1600000001", "1234567890"]
FRACTIONS = ["1500000000.5", "1500000000.123456789", "1.000000001", "0.999999999"]
ODD_TIMES = ["-1", "-0.5", "-1.5", "-1500000000.25", "-0.000000001", "8589934592",
             "4294967296.5", "2147483648", "15032385535", "1500000000.1234567891"]

# A mood: chance that a stack has the thing at all, and then its chance in an entry.
MOODS = {
    "whiteout": (0.7, 0.15), "opaque": (0.5, 0.1), "hard": (0.5, 0.12),
    "hard_lower": (0.12, 0.3), "symlink_walk": (0.4, 0.3), "again": (0.4, 0.15),
    "replace": (0.5, 0.2), "odd_name": (0.25, 0.15), "long_name": (0.15, 0.1),
    "odd_whiteout": (0.08, 0.1), "dress": (0.15, 0.15), "xattr": (0.4, 0.3),
    "odd_xattr": (0.08, 0.15), "fraction": (0.3, 0.3), "odd_time": (0.15, 0.2),
    "ids": (0.5, 0.3), "special_bits": (0.4, 0.2), "device": (0.25, 0.15),
    "fifo": (0.25, 0.1), "sparse": (0.15, 0.2), "big": (0.1, 0.1), "implied": (0.5, 0.3),
    "root": (0.3, 0.1), "wild": (0.1, 0.15), "global": (0.05, 0.1), "self_white": (0.15, 0.1),
    "hard_attrs": (0.15, 0.3),
}


class Model:
    """Roughly what a stack has made so far, so that most entries make sense."""

    def __init__(self):
        self.kinds = {b"": "dir"}
        self.links = {}
        self.here = set()  # made by the layer

    def remove(self, path, keep=()):
        for p in [p for p in self.kinds if p == path or p.startswith(path + b"/")]:
            if p not in keep:
                self.kinds.pop(p)
                self.here.discard(p)

    def resolve(self, path):
        """Where an entry of that name comes to lie; None: nowhere, or through a file."""
        todo, at, steps = path.split(b"/"), [], 0
        while len(todo) > 1:
            part, steps = todo.pop(0), steps + 1
            if part == b"..":
                at = at[:-1]
                continue
            here = b"/".join(at + [part])
            kind = self.kinds.get(here, "dir")
            if part in (b"", b"."):
                pass
            elif kind == "symlink" and steps < 30:
                target = self.links[here]
                at = [] if target.startswith(b"/") else at
                todo = target.split(b"/") + todo
            elif kind == "dir":
                at.append(part)
            else:
                return None
        return b"/".join(at + todo)

    def add(self, path, kind, link=None):
        path = self.resolve(path)
        if kind == "symlink":
            self.links[path] = link
        if path is None or path.endswith(b"/") or path == b"":
            return
        if not (kind == "dir" and self.kinds.get(path) == "dir"):
            self.remove(path)
        at = -1
        while (at := path.find(b"/", at + 1)) > 0:
            self.kinds.setdefault(path[:at], "dir")
            self.here.add(path[:at])
        self.kinds[path] = kind
        self.here.add(path)

    def folders(self):
        return [p for p, k in self.kinds.items() if k == "dir"]


class Generator:
    def __init__(self, seed):
        self.rng = random.Random("stack %d" % seed)
        r = self.rng
        self.mood = {name: share if r.random() < chance else 0
                     for name, (chance, share) in MOODS.items()}
        self.names = r.sample(LETTERS, r.randint(2, 4))
        self.depth = r.randint(1, 4)
        self.dialects = r.choice([["pax"], ["pax"], ["gnu"], ["ustar"], ["v7"],
                                  ["pax", "gnu", "ustar", "v7"]])
        if "v7" in self.dialects:
            self.mood["sparse"] = 0  # libarchive then takes v7's folders for files
        self.model = Model()

    def is_(self, name):
        return self.rng.random() < self.mood[name]

    def base(self):
        if self.is_("odd_name"):
            return self.rng.choice(ODD_NAMES)
        if self.is_("long_name"):
            return self.rng.choice(LONG_NAMES)
        return self.rng.choice(self.names)

    def path(self):
        """Of a new entry: below a folder there is, a symlink, or implied ones."""
        r, m = self.rng, self.model
        if self.is_("wild"):
            return b"/".join(self.base() for _ in range(r.randint(1, 4)))
        links = [p for p, k in m.kinds.items() if k == "symlink" and m.links.get(p)]
        if links and self.is_("symlink_walk"):
            return r.choice(links) + b"/" + self.base()
        folder = r.choice([f for f in m.folders() if f.count(b"/") < self.depth])
        path = folder + b"/" + self.base() if folder else self.base()
        if self.is_("implied"):
            path += b"/" + self.base()
        return path

    def free_path(self):
        """As path(), but seldom where something of another kind is."""
        for _ in range(8):
            p = self.path()
            where = self.model.resolve(p)
            if where is None and not self.is_("wild"):
                continue
            if where not in self.model.kinds or self.is_("replace"):
                break
        return p

    def common(self):
        r, e = self.rng, {}
        e["mtime"] = r.choice(TIMES)
        if self.is_("fraction"):
            e["mtime"] = r.choice(FRACTIONS)
        if self.is_("odd_time"):
            e["mtime"] = r.choice(ODD_TIMES)
        if self.is_("ids"):
            e["uid"] = r.choice([0, 1, 1000, 65534, 2097152, 3000000000])
            e["gid"] = r.choice([0, 5, 1000, 2147483648])
        if self.is_("special_bits"):
            e["mode"] = r.choice([0o4755, 0o2755, 0o1777, 0o6711, 0, 0o7777, 0o400, 0o666])
        if self.is_("xattr"):
            e["xattrs"] = dict(r.sample(XATTRS, r.randint(1, 3)))
        if self.is_("odd_xattr"):
            e["xattrs"] = dict([r.choice(ODD_XATTRS)])
            if b"system.posix_acl_access" in e["xattrs"]:
                e["mode"] = 0o644  # what that ACL says
        return e

    def make_file(self, e):
        r = self.rng
        size = r.choice(SIZES)
        if self.is_("big"):
            size = r.choice([70000, 300000])
        e["data"] = [size, r.randint(0, 9)]
        if self.is_("sparse"):
            size = r.choice([30000, 100000, 1 << 20])
            e["data"] = [size, r.randint(0, 9)]
            e["holes"] = []
            at = r.choice([0, 4096, 512])
            for _ in range(r.randint(1, 3)):
                n = r.choice([4096, 8192, 512, 10000])
                if at + n <= size:
                    e["holes"].append([at, n])
                at += n + r.choice([512, 4096, 7000])
            if r.random() < 0.2:
                e["holes"] = [[0, size]]

    def target_of(self, path):
        r = self.rng
        other = r.choice(list(self.model.kinds)) or b"."
        form = r.randint(0, 5)
        if form == 0:
            return b"/" + other
        if form == 1:
            return b"nowhere"
        if form == 2:
            return b"../" * (path.count(b"/") + r.randint(0, 2)) + other
        if form == 3:
            return r.choice([b".", b"..", b"/", b"../..", b"./a", b"x" * 101, path])
        return b"../" * path.count(b"/") + other

    def make_hard(self, e, path):
        r, m = self.rng, self.model
        files = [p for p, k in m.kinds.items() if k not in ("dir",) and p != path and
                 (p in m.here or self.is_("hard_lower"))]
        if not files:
            return False
        target = r.choice(files)
        e["link"] = (b"/" if r.random() < 0.1 else b"") + target
        if not self.is_("hard_attrs"):
            made = self.made.get(target)
            if made:
                for key in ("mode", "uid", "gid", "mtime", "xattrs"):
                    e[key] = made[key]
        return True

    def node(self):
        r = self.rng
        kind = "file" if r.random() < 0.6 else r.choice(["dir", "dir", "dir", "symlink"])
        for name in "hard", "device", "fifo":
            if self.is_(name):
                kind = r.choice(["char", "block"]) if name == "device" else name
        path, e = self.free_path(), self.common()
        again = sorted(self.model.here - {b""})
        if again and self.is_("again"):
            path = r.choice(again)
            kind = r.choice([kind, {"dir": "dir"}.get(self.model.kinds.get(path), "file")])
        if kind == "dir" and self.is_("root"):
            path = b""
        if kind == "hard" and not self.make_hard(e, path):
            kind = "file"
        if kind == "file":
            self.make_file(e)
        elif kind == "symlink":
            e["link"] = self.target_of(path)
        elif kind in ("char", "block"):
            e["dev"] = r.choice([[1, 3], [8, 0], [4000, 700000], [0, 0], [0, 1]])
        made = entry(path, kind, **e)
        if path:
            self.made[path] = made
            self.model.add(path, kind, e.get("link"))
        else:
            made["name"] = r.choice([b"./", b".", b"/"])
        return made

    def whiteout(self, opaque):
        r, m = self.rng, self.model
        if opaque:
            folder = r.choice(m.folders())
            m.remove(folder, {folder} | m.here)
            return entry((folder + b"/" if folder else b"") + b".wh..wh..opq",
                         **self.common())
        there = [p for p in m.kinds if p and (p not in m.here or self.is_("self_white"))]
        path = r.choice(there) if there and r.random() < 0.9 else self.free_path()
        folder, _, name = path.rpartition(b"/")
        if self.is_("odd_whiteout"):
            name = r.choice(ODD_WHITEOUTS)
        else:
            m.remove(path, m.here)
            name = b".wh." + name
        return entry((folder + b"/" if folder else b"") + name, **self.common())

    def one(self):
        if self.is_("global"):
            return entry(b"pax_global_header", "global")
        if self.is_("opaque"):
            return self.whiteout(True)
        if self.is_("whiteout"):
            return self.whiteout(False)
        return self.node()

    def finish(self, e):
        r = self.rng
        if e["kind"] != "global" and self.is_("dress") and e["name"].strip(b"./"):
            form = r.choice(DRESSES[:7] if r.random() < 0.9 else DRESSES).encode()
            e["name"] = form.replace(b"%s", e["name"])
        elif e["kind"] == "dir" and r.random() < 0.5 and not e["name"].endswith(b"/"):
            e["name"] += b"/"
        if e["holes"] and r.random() < 0.8:  # containerd does not know GNU's own form
            e["format"] = "pax"
            return e
        e["format"] = next((d for d in (r.choice(self.dialects), "gnu", "pax")
                            if tarwriter.fits(e, d)), "pax")
        if e["holes"] and e["format"] == "gnu" and len(e["holes"]) > 3:
            e["holes"] = e["holes"][:3]
        return e

    def layer(self, n):
        r = self.rng
        self.model.here, self.made = set(), {}
        entries = [self.one() for _ in range(n)]
        if r.random() < 0.1:
            r.shuffle(entries)
        return {"compress": r.choice(["gzip", "gzip", "none", "zstd", "gzip-members",
                                      "gzip-fields" if r.random() < 0.3 else "gzip"]),
                "end": r.choice([2, 2, 2, 18, 1, 0]),
                "entries": [self.finish(e) for e in entries]}

    def stack(self):
        r = self.rng
        n = r.choice([1, 2, 2, 3, 3, 4])
        return {"layers": [self.layer(r.randint(1, r.choice([4, 8, 14])))
                           for _ in range(n)]}


def generate(seed):
    return Generator(seed).stack()
