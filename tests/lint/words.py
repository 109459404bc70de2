#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""words.py LIMITS FILE...: riddles among comments, and static functions of one word.

A comment that opens with Of, What, Who, One or It has no subject that its reader could
know, and `run` says less than `queue_run` in a backtrace (docs/style.md).  LIMITS has how
many of both each folder may have, which were there before the rule: never more."""
import collections
import re
import sys

RIDDLE = re.compile(r'/\*+[ \n*]+(?:Of|What|Who|Whoever|Whose|One|It)\b[^\n]*')
ONE_WORD = re.compile(r'^static\b[^;{}()=#]*?\b([a-z][a-z0-9]*)\([^;{}]*?\)\n\{', re.M)
# The field's own words, and callbacks that a table names.
GOOD = {'main', 'usage', 'compare', 'start', 'stop'}


def faults(text):
    for kind, found in (('riddles', RIDDLE.finditer(text)), ('words', ONE_WORD.finditer(text))):
        for m in found:
            name = m.group(1) if kind == 'words' else m.group(0)
            if name not in GOOD:
                yield kind, text.count('\n', 0, m.start()) + 1, ' '.join(name.split())


def main():
    places = collections.defaultdict(list)
    for path in sys.argv[2:]:
        with open(path, encoding='utf-8') as f:
            for kind, line, what in faults(f.read()):
                places[path.split('/')[0], kind].append(f'{path}:{line}: {what}')
    allowed = {}
    with open(sys.argv[1], encoding='utf-8') as f:
        for line in f:
            if line.strip() and not line.startswith('#'):
                folder, riddles, words = line.split()
                allowed[folder, 'riddles'], allowed[folder, 'words'] = int(riddles), int(words)
    for key, found in sorted(places.items()):
        if len(found) > allowed.get(key, 0):
            what = ('comments that open with Of, What, Who, One or It' if key[1] == 'riddles'
                    else 'static functions of one word')
            print(f'{key[0]} has {len(found)} {what}, {allowed.get(key, 0)} at most: name the '
                  f'subject, or the object, in what is new; all of them: tests/lint/words.py '
                  f'/dev/null $(git ls-files "{key[0]}/*.[ch]")')
            if not allowed:
                print('\n'.join(found))


main()
