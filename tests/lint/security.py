#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Does every promise of SECURITY.md have a test?  security.py [DOCUMENT [TESTS]]: one
line for each promise without tests in tests/lint/promises.txt, for each key there that
is no promise, and for each test that is named and not there."""
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


def named_tests(path):
    """{key: [(file, test)]} of the file of tests."""
    named, key = {}, None
    with open(path, encoding="utf-8") as f:
        for line in f:
            if line.startswith("#") or not line.strip():
                continue
            if not line[0].isspace():
                key = line.strip()
                named[key] = []
            else:
                named[key].append(tuple(line.strip().split(": ", 1)))
    return named


def check(document, tests, known):
    with open(document, encoding="utf-8") as f:
        text = f.read().partition("\n## What is promised\n")[2]
    keys = re.findall(r"^\| `([\w-]+)` \| ", text.partition("\n## ")[0], flags=re.M)
    named = named_tests(tests)
    if not keys:
        yield "%s has no promises" % document
    for key in keys:
        if not named.get(key):
            yield "%s: promise '%s' has no test in %s" % (document, key, tests)
    for key, found in named.items():
        if key not in keys:
            yield "%s: '%s' is no promise of %s" % (tests, key, document)
        for test in found:
            if len(test) != 2 or test[1] not in known.get(test[0], ()):
                yield "%s: %s: no test '%s'" % (tests, key, ": ".join(test))


wrong = list(check((sys.argv[1:2] or ["SECURITY.md"])[0],
                   (sys.argv[2:3] or ["tests/lint/promises.txt"])[0], tests_by_file()))
print("\n".join(wrong), end="\n" if wrong else "")
sys.exit(bool(wrong))
