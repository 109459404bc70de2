# SPDX-License-Identifier: Apache-2.0
"""What a stack does to which path, as the image-spec has it: the facts by which rules
know a difference. Not a model of attributes: those are compared, not foretold."""
import collections

WHITEOUT = b".wh."
OPAQUE = b".wh..wh..opq"
LINKS_MAX = 40

Touch = collections.namedtuple("Touch", "layer index entry path what")
#: what: "made", "again" (a folder that was there), "over" (something else was there),
#: "root", "whiteout", "opaque", "note", "lost" (its path leads nowhere)


class Node:
    def __init__(self, kind, layer, entry=None):
        self.kind, self.layer, self.entry = kind, layer, entry
        self.children = {}


class History:
    def __init__(self, stack, follows=False):
        """`follows`: as umoci, which follows symlinks of layers below."""
        self.stack, self.follows = stack, follows
        self.root = Node("dir", -1)
        self.touches = []
        self.moved = collections.defaultdict(set)  # folder -> layers changing its names
        self.listed = collections.defaultdict(set)  # folder -> layers with an entry of it
        self.through = []  # (symlink of a layer below, folder it would lead to, layer)
        self.over = []  # paths of what else a folder of a layer above took the place of
        self.implied = collections.defaultdict(set)  # folder -> layers that imply it
        for n, layer in enumerate(stack["layers"]):
            for i, e in enumerate(layer["entries"]):
                if e["kind"] != "global":
                    self._apply(n, i, e)

    # --- paths -------------------------------------------------------------------

    @staticmethod
    def clean(name):
        """(parts, does it climb out of the root)"""
        parts, climbs = [], False
        for part in name.split(b"/"):
            if part in (b"", b"."):
                continue
            if part == b"..":
                climbs = climbs or not parts
                parts = parts[:-1]
            else:
                parts.append(part)
        return parts, climbs and not name.startswith(b"/")

    def resolve(self, parts, n=None):
        """The folder at `parts`, symlinks followed: (its path, node), made when a layer
        is given; None when something else is in the way."""
        below = []
        would = self._walk(parts, None, None)
        found = self._walk(parts, n, below)
        if found and n is not None:
            names = found[0].split(b"/") if found[0] else []
            for i in range(1, len(names) + 1):
                self.implied[b"/".join(names[:i])].add(n)
        self.through += [(link, would[0] if would else link, n) for link in below]
        return found

    def _walk(self, parts, n, below):
        todo, path, links = list(parts), [], 0
        while todo:
            part = todo.pop(0)
            if part in (b"", b"."):
                continue
            if part == b"..":
                path = path[:-1]
                continue
            node = self.at(path)
            child = node.children.get(part)
            if n is not None and child and child.kind != "dir" and \
                    child.layer < n and not self.follows:
                # A layer's path leads only through symlinks of its own.
                (below if child.kind == "symlink" else self.over).append(
                    b"/".join(path + [part]))
                child = None
            if child is None:
                if below is None:  # where it would be made
                    return b"/".join(path + [part] + todo), None
                if n is None:
                    return None
                child = node.children[part] = Node("dir", n)
                self.moved[b"/".join(path)].add(n)
            if child.kind == "symlink":
                links += 1
                if links > LINKS_MAX:
                    return None
                target = child.entry["link"]
                path = [] if target.startswith(b"/") else path
                todo = target.split(b"/") + todo
            elif child.kind != "dir":
                return None
            else:
                path.append(part)
        return b"/".join(path), self.at(path)

    def at(self, path):
        node = self.root
        for part in path:
            node = node.children[part]
        return node

    def find(self, path):
        """The node at a path without symlinks, or None."""
        node = self.root
        for part in path.split(b"/") if path else []:
            node = node.children.get(part)
            if node is None:
                return None
        return node

    # --- entries -----------------------------------------------------------------

    def _note(self, n, i, e, path, what):
        self.touches.append(Touch(n, i, e, path, what))

    def _apply(self, n, i, e):
        parts, climbs = self.clean(e["name"])
        if not parts:
            self._note(n, i, e, b"", "root")
            self.listed[b""].add(n)
            return
        found = self.resolve(parts[:-1], n)
        if found is None or climbs:
            self._note(n, i, e, b"/".join(parts), "lost")
            if found is None:
                return
        folder, node = found
        base = parts[-1]
        path = folder + b"/" + base if folder else base
        self.moved[folder].add(n)
        if base == OPAQUE:
            self._note(n, i, e, folder, "opaque")
            self._hide(node, n)
        elif base.startswith(WHITEOUT):
            hidden = base[len(WHITEOUT):]
            there = node.children.get(hidden)
            self._note(n, i, e, (folder + b"/" if folder else b"") + hidden, "whiteout")
            if there and there.layer < n and not self._has_of(there, n):
                del node.children[hidden]
            elif there:
                self._hide(there, n)
        else:
            self._make(n, i, e, path, node, base)

    def _make(self, n, i, e, path, node, base):
        there = node.children.get(base)
        if there and there.kind == "dir" and e["kind"] != "dir":
            for gone in [p for p in self.listed if (p + b"/").startswith(path + b"/")]:
                self.listed[gone].discard(n)
        if e["kind"] == "dir":
            self.listed[path].add(n)
        if there and there.kind == "dir" and e["kind"] == "dir":
            self._note(n, i, e, path, "again")
            there.entry, there.layer = e, n
            return
        self._note(n, i, e, path, "over" if there else "made")
        kind = e["kind"]
        if kind == "hard":
            parts, _ = self.clean(e["link"])
            found = self.resolve(parts[:-1])
            target = found and parts and found[1].children.get(parts[-1])
            if target:
                made = Node(target.kind, n, target.entry)
                made.of = target
                node.children[base] = made
                return
        node.children[base] = Node(kind, n, e)

    def _has_of(self, node, n):
        return node.layer == n or any(self._has_of(c, n) for c in node.children.values())

    def _hide(self, node, n):
        for name, child in list(node.children.items()):
            if not self._has_of(child, n):
                del node.children[name]
            else:
                self._hide(child, n)

    # --- facts -------------------------------------------------------------------

    def entries(self, path):
        return [t for t in self.touches if t.path == path]

    def is_time_free(self, folder):
        """Nothing says what the folder's time is: a layer changed names in it, or only
        implied it, without an entry of it in that layer or above."""
        changed = self.moved[folder] | self.implied[folder]
        return bool(changed) and max(changed) > max(self.listed[folder], default=-1)
