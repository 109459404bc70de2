#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does tests/lint/locks.md have each lock, condition and thread of the product, and no
others?  threads.py DOCUMENT SOURCE...: one line for each that is missing on either
side, for a lock of the order that does not exist, and for an order with a circle.

In the sources: each pthread_mutex_t, pthread_rwlock_t, pthread_cond_t and their like
is STRUCT.MEMBER (or FUNCTION.VARIABLE, or VARIABLE), each thread_start() the
function that it runs, as FUNCTION(), and each file that calls pool_new() has that.
pthread_create() is called by common/thread.c alone.
In the document: the rows of tables whose first two columns are `where` and `name`,
an empty `where` being the one above; the order is the table of `held` and `taken`.

A table of `part` and `owner` says which file of a folder reads and writes a member of a
shared struct: another that says ->PART. is told of, as is a part without a row."""
import os
import re
import sys

KINDS = (r"(?:pthread_(?:mutex|rwlock|cond|spinlock|barrier)_t|mtx_t|cnd_t|sem_t)")
DECLARED = re.compile(r"\b" + KINDS + r"\s+(\w[^;()]*);")


def plain(text):
    """The text without comments and strings; its length may change."""
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', " ", text, flags=re.S)


def owner_of(head):
    """Whose `{` this is: of a struct, a function, or NULL when it has no name."""
    named = re.search(r"\bstruct\s+(\w+)\s*(?:\w+\s*)?$", head)
    if named:
        return named.group(1)
    called = re.search(r"\b(\w+)\s*\([^{}]*\)\s*\w*\s*$", head, flags=re.S)
    return called.group(1) if called else None


def locks_of(text):
    """Names of what the file declares, by the outermost owner that has a name."""
    owners, start = [], 0
    for m in re.finditer(r"[{};]", text):
        piece, start = text[start:m.end()], m.end()
        declared = DECLARED.search(piece) if m.group() == ";" else None
        if declared:
            owner = next((o for o in owners if o), None)
            for variable in declared.group(1).split(","):
                name = re.match(r"\w+", variable.strip())
                if name:
                    yield owner + "." + name.group() if owner else name.group()
        if m.group() == "{":
            owners.append(owner_of(piece[:-1]))
        elif m.group() == "}" and owners:
            owners.pop()


def of_sources(paths):
    found = set()
    for path in paths:
        with open(path, encoding="utf-8") as f:
            text = plain(f.read())
        found.update((path, name) for name in locks_of(text))
        for body in re.findall(r"\bthread_start\s*\(\s*&[^,]+,\s*(\w+)", text):
            found.add((path, body + "()"))
        if path != "common/thread.c" and re.search(r"\bpthread_create\b", text):
            found.add((path, "pthread_create()"))
        if re.search(r"\bpool_new(?:_lazy)?\s*\(\s*(?!struct\b|size_t\b)", text):
            found.add((path, "pool_new()"))
    return found


def tables_of(path):
    """Each table of the document: its rows as lists of cells, the first the header."""
    table = []
    with open(path, encoding="utf-8") as f:
        for line in list(f) + [""]:
            if line.startswith("|"):
                cells = [c.strip() for c in line.strip().strip("|").split("|")]
                if not all(re.fullmatch(r":?-+:?", c) for c in cells):
                    table.append(cells)
            elif table:
                yield table
                table = []


def names(cell):
    return re.findall(r"`([^`]+)`", cell)


def of_document(path):
    found, order = [], []
    for head, *rows in tables_of(path):
        if head[:2] == ["where", "name"]:
            where = ""
            for row in rows:
                where = (names(row[0]) or [where])[0]
                found += [(where, name) for name in names(row[1])]
        elif head[:2] == ["held", "taken"]:
            for row in rows:
                order += [(a, b) for a in names(row[0]) for b in names(row[1])]
    return found, order


def parts_of(document):
    """{folder: {part: file that owns it}} of the tables of parts."""
    owners = {}
    for head, *rows in tables_of(document):
        if head[:2] == ["part", "owner"]:
            for row in rows:
                owner = names(row[1])[0]
                folder = owners.setdefault(os.path.dirname(owner), {})
                folder.update((part, owner) for part in names(row[0]))
    return owners


def strangers(document, paths):
    """Who reaches for a part that another file owns, and parts that nobody does."""
    owners = parts_of(document)
    for path in paths:
        parts = owners.get(os.path.dirname(path), {})
        if not parts:
            continue
        with open(path, encoding="utf-8") as f:
            text = plain(f.read())
        for used in sorted(set(re.findall(r"->(%s)\." % "|".join(parts), text))):
            if parts[used] != path:
                yield "%s reaches for `%s` of %s" % (path, used, parts[used])
        for tag, part in re.findall(r"^\tstruct (\w+) (\w+);", text, flags=re.M):
            if tag == "image_" + part and part not in parts:
                yield "%s has no `%s` of %s" % (document, part, path)


def circle_in(order):
    """The locks of one circle, or None."""
    after, done = {}, set()
    for held, taken in order:
        after.setdefault(held, []).append(taken)

    def walk(lock, way):
        if lock in way:
            return way[way.index(lock):] + [lock]
        if lock in done:
            return None
        for following in after.get(lock, []):
            circle = walk(following, way + [lock])
            if circle:
                return circle
        done.add(lock)
        return None

    return next((c for c in (walk(lock, []) for lock in list(after)) if c), None)


def check(document, paths):
    code = of_sources(paths)
    told, order = of_document(document)
    for path, name in sorted(code - set(told)):
        yield "%s has no `%s` of %s" % (document, name, path)
    for path, name in sorted(set(told) - code):
        yield "%s has `%s`, which %s has not" % (document, name, path or "no file")
    for one in sorted({t for t in told if told.count(t) > 1}):
        yield "%s has `%s` of %s twice" % (document, one[1], one[0])
    locks = {name for _, name in code}
    for name in sorted({name for pair in order for name in pair} - locks):
        yield "%s: the order names `%s`, which is no lock" % (document, name)
    circle = circle_in(order)
    if circle:
        yield "%s: the order has a circle: %s" % (document, " > ".join(circle))
    yield from strangers(document, paths)


wrong = list(check(sys.argv[1], sys.argv[2:]))
print("\n".join(wrong), end="\n" if wrong else "")
sys.exit(bool(wrong))
