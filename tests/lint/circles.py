#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""circles.py ALLOWED FILE...: files of one folder whose functions call each other in a circle.

A file is read with those below it; in a circle each has to be read before the others.  What
the lower one needs is moved, or told to it by a pointer.  ALLOWED has the circles that are
there for a reason: a line with their files, which may become fewer, and " | " before it."""
import collections
import os
import re
import sys

TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
# A function begins in the first column, and so does the brace of its body.
FUNCTION = re.compile(r'^(?!static\b|typedef\b|struct \w+ \{|#)'
                      r'[a-z][\w \t*]*?\b(\w+)\([^;{}]*\)\n\{', re.M)
# No struct's tag, and no member of one.
NAME = re.compile(r'(?<!\bstruct )(?<!\benum )(?<!\bunion )(?<!->)(?<!\.)\b[a-z]\w*\b')


def calls(paths):
    """{file: {file of the same folder whose functions it names}}"""
    used, homes = {}, {}
    for path in paths:
        with open(path, encoding='utf-8') as f:
            text = TEXT.sub(' ', f.read())
        used[path] = set(NAME.findall(text))
        for name in FUNCTION.findall(text):
            homes[os.path.dirname(path), name] = path
    return {path: {homes[key] for key in ((os.path.dirname(path), n) for n in names)
                   if homes.get(key, path) != path} for path, names in used.items()}


def circles(arrows):
    """The sets of files that reach each other, by Tarjan, without recursion."""
    index, low, stack, found = {}, {}, [], []
    for root in sorted(arrows):
        work = [(root, None)] if root not in index else []
        while work:
            at, rest = work.pop()
            if rest is None:
                index[at] = low[at] = len(index)
                stack.append(at)
                rest = iter(sorted(arrows[at]))
            for to in rest:
                if to not in index:
                    work += [(at, rest), (to, None)]
                    break
                if to in stack:
                    low[at] = min(low[at], index[to])
            else:
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[at])
                if low[at] == index[at]:
                    one = set(stack[stack.index(at):])
                    del stack[stack.index(at):]
                    if len(one) > 1:
                        found.append(one)
    return found


def main():
    allowed = []
    with open(sys.argv[1], encoding='utf-8') as f:
        for line in f:
            if line.strip() and not line.startswith('#'):
                allowed.append(set(line.split(' | ')[0].split()))
    arrows = calls(sys.argv[2:])
    left = collections.deque(allowed)
    for one in sorted(circles(arrows), key=min):
        if any(one <= a for a in allowed):
            left = [a for a in left if not one <= a]
            continue
        print('a circle: ' + ' '.join(sorted(one)))
        for a in sorted(one):
            for b in sorted(arrows[a] & one):
                print(f'    {a} -> {b}')
    for a in left:
        if a & set(sys.argv[2:]):
            print('no circle any more, so its line goes: ' + ' '.join(sorted(a)))


main()
