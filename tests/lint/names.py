#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""names.py FILE...: struct tags and global functions that have two definitions.

One name means one thing in the whole tree, so that grep, gdb and perf say which."""
import collections
import re
import sys

STRUCT = re.compile(r'^(?:static |const |extern )*(struct|union|enum) (\w+) \{', re.M)
# A function begins in the first column, and so does the brace of its body.
FUNCTION = re.compile(r'^(?!static\b|typedef\b|struct \w+ \{|#)'
                      r'[a-z][\w \t*]*?\b(\w+)\([^;{}]*\)\n\{', re.M)


def names(path):
    with open(path, encoding='utf-8') as f:
        text = f.read()
    for kind, tag in STRUCT.findall(text):
        yield f'{kind} {tag}'
    for name in FUNCTION.findall(text):
        if name != 'main':
            yield f'{name}()'


def main():
    places = collections.defaultdict(list)
    for path in sys.argv[1:]:
        for name in names(path):
            places[name].append(path)
    for name, paths in sorted(places.items()):
        if len(paths) > 1:
            print(f'{name} is defined in {", ".join(sorted(paths))}')


main()
