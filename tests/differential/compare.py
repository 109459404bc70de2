# SPDX-License-Identifier: Apache-2.0
"""Find where the trees of two implementations differ."""
import collections

# How an implementation fared is its tree, or the text of its refusal.
Difference = collections.namedtuple("Difference", "ours theirs path what mine other")
#: names of the two implementations; the path, None for a refusal; "refused", "there",
#: or an attribute; the value of the one and of the other, None where there is none

OURS = ("convert", "apply")
OTHERS = ("containerd1", "containerd2", "umoci")
PATHS = ("complete", "fuse")  # the same conversion as "convert", which is EROFS, lazy


def pairs(outcomes):
    for ours in OURS:
        for other in OTHERS:
            if other in outcomes:
                yield ours, other
    yield "convert", "apply"
    for path in PATHS:
        if path in outcomes:
            yield "convert", path


def _above_differs(path, different):
    while path:
        path = path.rpartition(b"/")[0]
        if path in different:
            return True
    return False


def _attributes(a, b):
    if a["kind"] != b["kind"]:
        yield "kind", a["kind"], b["kind"]
        return
    for what in sorted(set(a) | set(b)):
        if what == "xattrs":
            continue
        if a.get(what) != b.get(what):
            yield what, a.get(what), b.get(what)
    for key in sorted(set(a.get("xattrs", {})) | set(b.get("xattrs", {}))):
        if a["xattrs"].get(key) != b["xattrs"].get(key):
            yield b"xattr " + key, a["xattrs"].get(key), b["xattrs"].get(key)


def compare(ours, other, mine, theirs):
    if isinstance(mine, str) or isinstance(theirs, str):
        if isinstance(mine, str) != isinstance(theirs, str):
            yield Difference(ours, other, None, "refused",
                             mine if isinstance(mine, str) else None,
                             theirs if isinstance(theirs, str) else None)
        return
    different = set()
    for path in sorted(set(mine) | set(theirs)):
        if _above_differs(path, different):
            continue
        a, b = mine.get(path), theirs.get(path)
        if not a or not b:
            different.add(path)
            yield Difference(ours, other, path, "there", a and a["kind"], b and b["kind"])
            continue
        for what, x, y in _attributes(a, b):
            if what == "kind":
                different.add(path)
            yield Difference(ours, other, path, what, x, y)


def differences(outcomes):
    for ours, other in pairs(outcomes):
        yield from compare(ours, other, outcomes[ours], outcomes[other])
