# SPDX-License-Identifier: Apache-2.0
"""A stack of layers as data, and its form in files.

A stack is a dict {"layers": [layer, ...]}, a layer {"compress": NAME, "end": N,
"entries": [entry, ...]}, an entry a dict of what its tar header says: "name", "kind",
and what differs from DEFAULTS. Names, link targets and xattrs are bytes; in a file they
are JSON strings in which a byte that is no UTF-8 is a lone surrogate, as Python has it.
"""
import json

DEFAULTS = {
    "mode": 0o644,
    "uid": 0,
    "gid": 0,
    "mtime": "1500000000",
    "format": "pax",
    "link": b"",
    "dev": [0, 0],
    "data": [0, 0],  # bytes, seed
    "holes": [],  # [offset, bytes] of the data of a sparse file
    "xattrs": {},
}
KINDS = ("file", "dir", "symlink", "hard", "char", "block", "fifo", "global")


def text(data):
    return data.decode("utf-8", "surrogateescape")


def raw(string):
    return string.encode("utf-8", "surrogateescape")


def entry(name, kind="file", **more):
    made = {**DEFAULTS, "name": name, "kind": kind, **more}
    if kind == "dir" and "mode" not in more:
        made["mode"] = 0o755
    return made


def _pack_entry(e):
    out = {"name": text(e["name"]), "kind": e["kind"]}
    for key, default in DEFAULTS.items():
        if e[key] == default:
            continue
        if key == "link":
            out[key] = text(e[key])
        elif key == "xattrs":
            out[key] = {text(k): text(v) for k, v in e[key].items()}
        elif key == "mode":
            out[key] = oct(e[key])
        else:
            out[key] = e[key]
    return out


def _unpack_entry(e):
    more = dict(e)
    if "link" in more:
        more["link"] = raw(more["link"])
    if "xattrs" in more:
        more["xattrs"] = {raw(k): raw(v) for k, v in more["xattrs"].items()}
    if "mode" in more:
        more["mode"] = int(more["mode"], 8)
    made = {**DEFAULTS, **more}
    made["name"] = raw(e["name"])
    return made


def to_json(stack):
    """An entry a line, so that a stack can be read and edited."""
    layers = []
    for layer in stack["layers"]:
        lines = ",\n    ".join(json.dumps(_pack_entry(e)) for e in layer["entries"])
        layers.append('  {"compress": "%s", "end": %d, "entries": [\n    %s]}' %
                      (layer["compress"], layer["end"], lines))
    return '{"layers": [\n%s]}\n' % ",\n".join(layers)


def from_json(string):
    stack = json.loads(string)
    return {"layers": [{"compress": layer.get("compress", "gzip"),
                        "end": layer.get("end", 2),
                        "entries": [_unpack_entry(e) for e in layer["entries"]]}
                       for layer in stack["layers"]]}
