# SPDX-License-Identifier: Apache-2.0
"""Write tar layers byte by byte: every dialect that a layer may be in, and headers that
no ordinary tar writes."""
import gzip
import random
import subprocess
import zlib

BLOCK = 512
TYPES = {"file": b"0", "hard": b"1", "symlink": b"2", "char": b"3", "block": b"4",
         "dir": b"5", "fifo": b"6", "global": b"g"}
USTAR = b"ustar\x0000"
GNU = b"ustar  \x00"


def padded(data):
    return data + bytes(-len(data) % BLOCK)


def content(size, seed):
    """The bytes of a file: noise, or with an odd seed text that compresses."""
    if seed % 2:
        line = b"line %d of the text\n" % seed
        return (line * (size // len(line) + 1))[:size]
    return random.Random(seed).randbytes(size)


def number(value, width, base256):
    """A header's number: octal, or GNU's base 256 where octal cannot say it."""
    if 0 <= value < 8 ** (width - 1):
        return b"%0*o\x00" % (width - 1, value)
    if not base256:
        raise ValueError("%d does not fit" % value)
    return (value & ((1 << (8 * width)) - 1)).to_bytes(width, "big") if value < 0 else \
        (value | 1 << (8 * width - 1)).to_bytes(width, "big")


def header(name, type_, *, magic=USTAR, mode=0, uid=0, gid=0, size=0, mtime=0, link=b"",
           dev=(0, 0), prefix=b"", base256=False, tail=b""):
    h = bytearray(BLOCK)

    def put(at, data, width):
        h[at:at + width] = data[:width].ljust(width, b"\0")

    put(0, name, 100)
    put(100, number(mode, 8, base256), 8)
    put(108, number(uid, 8, base256), 8)
    put(116, number(gid, 8, base256), 8)
    put(124, number(size, 12, base256), 12)
    put(136, number(mtime, 12, base256), 12)
    put(148, b" " * 8, 8)
    put(156, type_, 1)
    put(157, link, 100)
    if magic:
        put(257, magic, 8)
        put(329, number(dev[0], 8, base256), 8)
        put(337, number(dev[1], 8, base256), 8)
        put(345, prefix, 155)
    h[345:345 + len(tail)] = tail if tail else h[345:345]
    put(148, b"%06o\0 " % sum(h), 8)
    return bytes(h)


def pax(records, type_=b"x"):
    body = b""
    for key, value in records:
        rest = b" " + key + b"=" + value + b"\n"
        n = len(rest) + 1
        while len(str(n)) + len(rest) != n:
            n = len(str(n)) + len(rest)
        body += str(n).encode() + rest
    name = b"pax_global_header" if type_ == b"g" else b"pax"
    return header(name, type_, mode=0o644, size=len(body)) + padded(body)


def split_ustar(name):
    """(prefix, name) of a path, or None when ustar cannot hold it."""
    if len(name) <= 100:
        return b"", name
    for at in range(min(155, len(name) - 2), 0, -1):
        if name[at:at + 1] == b"/" and len(name) - at - 1 <= 100:
            return name[:at], name[at + 1:]
    return None


def seconds(mtime):
    """Whole seconds of a decimal, rounded down as headers have to."""
    whole, _, part = mtime.partition(".")
    n = int(whole or "0")
    return n - 1 if mtime.startswith("-") and part.strip("0") else n


def fits(e, dialect):
    """Can the dialect say what the entry is?"""
    low = seconds(e["mtime"])
    if dialect == "pax":
        return True
    if e["xattrs"] or "." in e["mtime"] or e["kind"] == "global":
        return False
    if dialect == "gnu":
        return True
    if e["holes"] or len(e["link"]) > 100 or low < 0 or low >= 8 ** 11:
        return False
    if max(e["uid"], e["gid"], *e["dev"]) >= 8 ** 7:
        return False
    if dialect == "v7":
        return len(e["name"]) < 100 and e["kind"] in ("file", "dir", "symlink", "hard")
    return split_ustar(e["name"]) is not None


def _sparse(e, records):
    """The map of a sparse file: (extra header fields, bytes that are stored)."""
    size, seed = e["data"]
    whole = content(size, seed)
    parts, at = [], 0
    for off, length in sorted(e["holes"]):
        if off > at:
            parts.append((at, off - at))
        at = off + length
    if at < size:
        parts.append((at, size - at))
    stored = b"".join(whole[o:o + n] for o, n in parts)
    if e["format"] == "gnu":
        old = parts[:4]
        tail = bytearray(167)
        for i, (o, n) in enumerate(old):
            tail[41 + 24 * i:53 + 24 * i] = number(o, 12, True)
            tail[53 + 24 * i:65 + 24 * i] = number(n, 12, True)
        tail[138:150] = number(size, 12, True)
        return bytes(tail), stored if len(parts) <= 4 else None
    table = b"%d\n" % len(parts) + b"".join(b"%d\n%d\n" % p for p in parts)
    version = seed % 3
    records.append((b"GNU.sparse.major", b"1" if version == 0 else b"0"))
    records.append((b"GNU.sparse.minor", b"%d" % (0, 1, 0)[version]))
    if version == 0:
        records += [(b"GNU.sparse.name", e["name"]),
                    (b"GNU.sparse.realsize", b"%d" % size)]
        return b"", padded(table) + stored
    records += [(b"GNU.sparse.size", b"%d" % size),
                (b"GNU.sparse.numblocks", b"%d" % len(parts))]
    if version == 1:
        records.append((b"GNU.sparse.map",
                        b",".join(b"%d,%d" % p for p in parts)))
    else:
        for o, n in parts:
            records += [(b"GNU.sparse.offset", b"%d" % o),
                        (b"GNU.sparse.numbytes", b"%d" % n)]
    return b"", stored


def file_bytes(e):
    """What a reader of the file sees."""
    data = bytearray(content(*e["data"]))
    for off, length in e["holes"]:
        data[off:off + length] = bytes(len(data[off:off + length]))
    return bytes(data)


def _long(name, type_):
    body = name + b"\0"
    return (header(b"././@LongLink", type_, magic=GNU, size=len(body)) + padded(body))


def encode_entry(e):
    kind, dialect = e["kind"], e["format"]
    if kind == "global":
        return pax([(b"comment", e["name"])], b"g")
    name, link, records, before, tail = e["name"], e["link"], [], b"", b""
    data = content(*e["data"]) if kind == "file" else b""
    type_, low = TYPES[kind], seconds(e["mtime"])
    fields = {"mode": e["mode"], "uid": e["uid"], "gid": e["gid"], "dev": e["dev"]}
    if e["holes"] and kind == "file":
        tail, data = _sparse(e, records)
        if tail:
            type_ = b"S"
    if dialect == "v7":
        type_ = b"\0" if kind in ("file", "dir") else type_
        if kind == "dir" and not name.endswith(b"/"):
            name += b"/"
        return header(name, type_, magic=None, size=len(data), mtime=low, link=link,
                      **fields) + padded(data)
    if dialect == "gnu":
        if len(link) > 100:
            before += _long(link, b"K")
        if len(name) > 100:
            before += _long(name, b"L")
        return before + header(name, type_, magic=GNU, size=len(data), mtime=low,
                               link=link, base256=True, tail=tail, **fields) + padded(data)
    prefix, short = split_ustar(name) or (b"", name[:100])
    if dialect == "pax":
        if not split_ustar(name) or any(c > 127 for c in name):
            records.append((b"path", name))
        if len(link) > 100 or any(c > 127 for c in link):
            records.append((b"linkpath", link))
        if "." in e["mtime"] or low < 0 or low >= 8 ** 11:
            records.append((b"mtime", e["mtime"].encode()))
            low = max(0, min(low, 8 ** 11 - 1))
        for key in ("uid", "gid"):
            if fields[key] >= 8 ** 7:
                records.append((key.encode(), b"%d" % fields[key]))
                fields[key] = 0
        records += [(b"SCHILY.xattr." + k, v) for k, v in e["xattrs"].items()]
    if records:
        before = pax(records)
    return before + header(short, type_, prefix=prefix, size=len(data), mtime=low,
                           link=link, base256=dialect == "pax", **fields) + padded(data)


def encode_layer(layer):
    out = b"".join(encode_entry(e) for e in layer["entries"])
    return out + bytes(BLOCK * layer["end"])


def compress(data, how):
    """(bytes, suffix of the media type)"""
    if how == "none":
        return data, ""
    if how == "zstd":
        return subprocess.run(["zstd", "-qc1"], input=data, check=True,
                              stdout=subprocess.PIPE).stdout, "+zstd"
    if how == "gzip-members":
        third = len(data) // 3 + 1
        return b"".join(gzip.compress(data[i:i + third], 1, mtime=0)
                        for i in range(0, len(data), third)), "+gzip"
    if how == "gzip-fields":  # FEXTRA, FNAME, FCOMMENT, FHCRC
        h = b"\x1f\x8b\x08\x1e" + bytes(5) + b"\x03" + b"\x04\x00abcd" + b"n\0" + b"c\0"
        h += (zlib.crc32(h) & 0xffff).to_bytes(2, "little")
        z = zlib.compressobj(1, zlib.DEFLATED, -15)
        return (h + z.compress(data) + z.flush() +
                zlib.crc32(data).to_bytes(4, "little") +
                (len(data) & 0xffffffff).to_bytes(4, "little")), "+gzip"
    return gzip.compress(data, 1, mtime=0), "+gzip"
