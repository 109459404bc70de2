#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""forge-artifact.py OCI META MAP KIND: the artifact of OCI, an OCI layout, becomes a
hostile one: its metadata image META (or block map MAP), both unpacked, is changed as
KIND says, and every digest is made right again."""
import hashlib
import json
import struct
import sys

oci, meta_path, map_path, kind = sys.argv[1:]
SB = 1024


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def put(data):
    with open(f"{oci}/blobs/sha256/{digest(data)[7:]}", "wb") as f:
        f.write(data)
    return {"digest": digest(data), "size": len(data)}


def frame(data):
    """A zstd frame of stored blocks."""
    out = struct.pack("<IBI", 0xFD2FB528, 0xA0, len(data))
    step = 128 << 10
    for at in range(0, len(data), step):
        part = data[at:at + step]
        last = at + step >= len(data)
        out += struct.pack("<I", len(part) << 3 | last)[:3] + part
    return out


def bomb(size):
    """One that repeats a byte, of a small window and unknown size."""
    out = struct.pack("<IBB", 0xFD2FB528, 0, 0x38)
    step = 128 << 10
    for at in range(0, size, step):
        n = min(step, size - at)
        out += struct.pack("<I", n << 3 | 2 | (at + n == size))[:3] + b"\0"
    return out


class Image:
    def __init__(self, data):
        self.b = bytearray(data)
        self.root = self.get("<H", SB + 14)

    def get(self, form, at):
        return struct.unpack_from(form, self.b, at)[0]

    def put(self, form, at, value):
        struct.pack_into(form, self.b, at, value)

    def entries(self, nid):
        """Of a small folder: name -> (where its entry is, where its name is)."""
        at = nid * 32
        size = self.get("<Q", at + 8)
        icount = self.get("<H", at + 2)
        block = at + 64 + (12 + 4 * (icount - 1) if icount else 0)
        n = self.get("<H", block + 8) // 12
        found = {}
        for k in range(n):
            name = block + self.get("<H", block + 12 * k + 8)
            end = block + (self.get("<H", block + 12 * k + 20) if k + 1 < n else size)
            found[bytes(self.b[name:end]).rstrip(b"\0").decode()] = (block + 12 * k, name)
        return found

    def seal(self):
        self.put("<I", SB + 4, 0)
        crc = 0xFFFFFFFF
        for byte in self.b[SB:4096]:
            crc ^= byte
            for _ in range(8):
                crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
        self.put("<I", SB + 4, crc)
        return bytes(self.b)


index = json.load(open(f"{oci}/index.json"))
entry = next(m for m in index["manifests"] if "artifactType" in m)
manifest = json.load(open(f"{oci}/blobs/sha256/{entry['digest'][7:]}"))
config = json.load(open(f"{oci}/blobs/sha256/{manifest['config']['digest'][7:]}"))
image = Image(open(meta_path, "rb").read())
blocks = bytearray(open(map_path, "rb").read())
root = image.entries(image.root)
meta_blob = None


def inode(name):
    return image.get("<Q", root[name][0]) * 32


if kind == "cycle":
    image.put("<Q", root["zz"][0], image.root)
elif kind == "two-parents":
    image.put("<Q", root["zz"][0], image.get("<Q", root["many"][0]))
elif kind == "name":
    image.b[root["big"][1] + 1] = ord("/")
elif kind == "type":
    image.b[root["big"][0] + 10] = 2
elif kind == "links":
    image.put("<I", inode("big") + 44, 7)
elif kind == "size":
    image.put("<Q", inode("big") + 8, 1 << 50)
elif kind == "device":
    image.put("<I", SB + 128 + 64, 1)
elif kind == "feature":
    image.put("<I", SB + 8, 7)
elif kind == "hidden":
    image.put("<H", 512 + 4, 0o104755)
elif kind == "inodes":
    config["inodes"] += 1
elif kind == "map":
    blocks[len(blocks) // 2:len(blocks) // 2 + 64] = b"\xff" * 64
elif kind in ("place", "span", "checksum"):
    # Of an index: where the last bytes lie, where its second span begins, what
    # its first unpacks to.
    n_packs, = struct.unpack_from("<I", blocks, 12)
    n_blocks, = struct.unpack_from("<Q", blocks, 16)
    spans = 64 + 64 * n_blocks + 40 * n_packs
    at = {"place": len(blocks) - 24 + 8, "span": spans + 40 + 8,
          "checksum": spans + 36}[kind]
    value, = struct.unpack_from("<I", blocks, at)
    struct.pack_into("<I", blocks, at, max(value - 512, 0) if kind == "place" else value ^ 1)
elif kind == "bomb":
    meta_blob = bomb(1 << 30)
elif kind == "window":
    meta_blob = struct.pack("<IBB", 0xFD2FB528, 0, 0xA8) + b"\x01\0\0"
else:
    sys.exit(f"no kind {kind}")

raw = image.seal()
config["metadata"] = {"digest": digest(raw), "size": len(raw)}
config["blockmap"] = {"digest": digest(bytes(blocks)), "size": len(blocks)}
for layer, blob in zip(manifest["layers"], (meta_blob or frame(raw), frame(bytes(blocks)))):
    layer.update(put(blob))
    layer.pop("annotations", None)
manifest["config"].update(put(json.dumps(config).encode()))
entry.update(put(json.dumps(manifest).encode()))
json.dump(index, open(f"{oci}/index.json", "w"))

# As a node keeps them.
for name, data in (
    ("artifact.json", json.dumps(manifest).encode()),
    ("config.json", json.dumps(config).encode()),
    ("meta.erofs", raw),
    ("blockmap", bytes(blocks)),
):
    with open(f"{oci}/forged-{name}", "wb") as f:
        f.write(data)
print(entry["digest"][7:])
