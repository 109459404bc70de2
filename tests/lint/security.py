#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does every promise of SECURITY.md have a test?  security.py [FILE]: one line for
each row without one, and for each test that is named and not there."""
import re
import subprocess
import sys


def tests_by_file():
    listed = subprocess.run(["git", "ls-files", "tests"], check=True,
                            capture_output=True, text=True).stdout.split()
    found = {}
    for path in listed:
        if "/lint/samples/" in path or not path.endswith((".bats", ".c")):
            continue
        with open(path, encoding="utf-8") as f:
            text = f.read()
        pattern = (r'^@test "([^"]+)"' if path.endswith(".bats")
                   else r"^(?:Test\(\w+,\s*|RULE\()(\w+)")
        names = re.findall(pattern, text, flags=re.M)
        found.setdefault(path.rsplit("/", 1)[1], set()).update(names)
    return found


def check(path, known):
    with open(path, encoding="utf-8") as f:
        rows = [line.strip().strip("|").split(" | ") for line in f
                if line.startswith("| ")]
    rows = [[cell.strip() for cell in row] for row in rows]
    rows = [row for row in rows if row[0] != "promise"]
    if not rows:
        yield "%s has no table" % path
    for row in rows:
        where = None
        if len(row) != 3 or not all(row):
            yield "no promise, attacker and test: %s" % " | ".join(row)
            continue
        for part in row[2].split("; "):
            named = re.match(r"([\w-]+\.(?:bats|c)): (.*)", part)
            if named:
                where, part = named.groups()
            if part not in known.get(where, ()):
                yield "%s: no test '%s' in %s" % (row[0], part, where)


wrong = list(check(sys.argv[1] if len(sys.argv) > 1 else "SECURITY.md",
                   tests_by_file()))
print("\n".join(wrong), end="\n" if wrong else "")
sys.exit(bool(wrong))
