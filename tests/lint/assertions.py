#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Assertions of shell tests that cannot fail.

A test of bats fails when a command fails: `set -e`.  Bash does not look at every
command, though.  What it passes over, and a test therefore must not use as an
assertion:

  - `! command`, and all of `a && b` but the last command, unless their status is
    that of the function they end;
  - what stands in a condition (if, while, until, before && and ||, after !), in
    `run`, in wait_for, in $(...), in <(...) and in teardown(), with everything
    that is called from there: only the last command's status counts;
  - the first commands of a pipe, the substitution of `local x=$(...)`, all but the
    last process that one `wait` waits for;
  - the substitution in `wait_for test "$(...)"`, which is made once;
  - `assertion || true`, and `run command` whose result nobody looks at.

Prints a line for each; the files are the arguments.  tests/lint/samples has one
example each that is found and of what is not.
"""
import os
import re
import sys

import shell_parse as sh

# Commands that are there for their status alone.
STATUS_ONLY = {'[', 'test', 'cmp', 'mountpoint'}
# These also print, so they are assertions as commands of their own only.
STATUS_TOO = {'grep', 'diff'}
CONTROL = {'continue', 'break', 'return', 'exit', 'skip'}
# They call what they are given, and look at its last status only.
CALLERS = {'run': 0, 'wait_for': 0, 'wait_until': 1} # words before it
DECLARE = {'local', 'declare', 'export', 'readonly', 'typeset'}
NOT_LIVE = {'teardown', 'teardown_file', 'teardown_suite'}


def words_of(c):
    """Without the assignments before a command."""
    w = list(c.words)
    while w and re.match(r'[A-Za-z_]\w*(\[[^]]*\])?\+?=', w[0].text):
        w.pop(0)
    return [x.text for x in w]


def call_of(c):
    """The function or program that a simple command runs at last, and by whom."""
    w, by = words_of(c), None
    while w and w[0] in CALLERS:
        by = w.pop(0)
        while w and (w[0].startswith('-') or w[0] == '!'):
            w.pop(0)
        w = w[CALLERS[by]:]
    return (w[0] if w else None), by


class Functions:
    """What is known of functions, by name."""

    def __init__(self):
        self.body = {}

    def add(self, script):
        for node in functions_in(script):
            if not node.test:
                self.body[node.name] = node.body

    def ends_in_assertion(self, name, seen=()):
        """Is its result that of an assertion?"""
        if name not in self.body or name in seen:
            return False
        last = last_command(self.body[name])
        return last is not None and \
            self.is_assertion(last, False, (*seen, name))

    def has_inner(self, name, seen=()):
        """Has it assertions that are not its result?"""
        if name not in self.body or name in seen:
            return False
        return self.inner(as_script(self.body[name]), (*seen, name))

    def inner(self, script, seen, tail=True):
        for n, (item, _) in enumerate(script.items):
            last = tail and n + 1 == len(script.items)
            if item.ops or item.parts[0].negated:
                continue # looked at by what follows, or a fault by itself
            c = item.parts[0].commands[-1]
            if isinstance(c, sh.Compound) and c.kind != 'test':
                loop = c.kind in ('while', 'for')
                if any(self.inner(b, seen, last and not loop)
                       for b in c.bodies):
                    return True
            elif not last and self.is_assertion(c, False, seen):
                return True
            elif isinstance(c, sh.Simple) and \
                    self.has_inner(call_of(c)[0], seen):
                return True
        return False

    def is_assertion(self, c, strict, seen=()):
        """`strict`: not what may be there for what it prints."""
        if isinstance(c, sh.Compound):
            return c.kind == 'test' and \
                not re.search(r'\+\+|--|[-+*/%|&^]=|[^=!<>]=[^=]', c.text)
        if not isinstance(c, sh.Simple):
            return False
        w = words_of(c)
        if not w:
            return False
        flags = ''.join(x[1:] for x in w[1:] if re.match(r'-[A-Za-z]+$', x))
        if w[0] in STATUS_ONLY or w[:2] == ['kill', '-0'] or \
                (w[0] == 'jq' and 'e' in flags):
            return True
        if w[0] == 'run':
            return any(re.match(r'(-\d+|!)$', x) for x in w[1:4])
        if w[0] in STATUS_TOO:
            return not strict or 'q' in flags
        return self.ends_in_assertion(w[0], seen) or \
            (not strict and self.has_inner(w[0], seen))


def as_script(body):
    if isinstance(body, sh.Compound) and body.kind in ('brace', 'subshell'):
        return body.bodies[0]
    return sh.Script(body.line, items=[(sh.AndOr(body.line, ops=[], parts=[
        sh.Pipeline(body.line, negated=False, commands=[body])]), '')])


def last_command(body):
    script = as_script(body)
    if not script.items:
        return None
    return script.items[-1][0].parts[-1].commands[-1]


def scripts_in(c):
    """The scripts right inside a command."""
    if isinstance(c, sh.Simple):
        return [s for w in c.words for s in w.inner] + c.more
    if isinstance(c, sh.Compound):
        return c.conditions + c.bodies + c.more
    return [as_script(c.body)]


def functions_in(script):
    for item, _ in script.items:
        for p in item.parts:
            for c in p.commands:
                if isinstance(c, sh.Function):
                    yield c
                for s in scripts_in(c):
                    yield from functions_in(s)


class Checker:
    """One file; `live`: a command that fails here ends the test; `tail`: its status
    becomes that of something that is looked at."""

    def __init__(self, path, text, functions):
        self.path, self.functions = path, functions
        self.lines = text.splitlines()
        self.faults = set()

    def fault(self, line, what):
        self.faults.add((line, what))

    def script(self, s, tail, live, test=False):
        for n, (item, separator) in enumerate(s.items):
            last = tail and n + 1 == len(s.items) and separator != '&'
            self.and_or(item, last, live or separator == '&', test)

    def and_or(self, a, tail, live, test):
        last = a.parts[-1]
        for p in a.parts[:-1]:
            self.pipeline(p, True, False)
        if last.negated:
            if not tail:
                self.fault(last.line, "'!' is not looked at by set -e: use "
                           'run -1 or run !')
            self.pipeline(last, True, False)
            return
        if a.ops and a.ops[-1] == '&&' and not tail:
            self.conjunction(a, test)
        if a.ops and a.ops[-1] == '||':
            self.forgiven(a)
        self.pipeline(last, tail, live)

    def conjunction(self, a, test):
        c = a.parts[-1].commands[-1]
        name = call_of(c)[0] if isinstance(c, sh.Simple) else None
        if name in CONTROL:
            return
        if test or self.functions.is_assertion(c, False):
            self.fault(a.line, "what is before '&&' is not looked at by set -e: "
                       'a command each')

    def forgiven(self, a):
        c = a.parts[-1].commands[-1]
        if isinstance(c, sh.Simple) and words_of(c) in ([':'], ['true']) and \
                any(self.functions.is_assertion(p.commands[-1], True)
                    for p in a.parts[:-1]):
            self.fault(a.line, 'an assertion that may fail')

    def pipeline(self, p, tail, live):
        for c in p.commands[:-1]:
            if self.functions.is_assertion(c, True):
                self.fault(c.line, 'the status of what is before a pipe is lost')
            self.command(c, True, live)
        self.command(p.commands[-1], tail, live)

    def command(self, c, tail, live):
        if isinstance(c, sh.Function):
            if c.test:
                self.unused_runs(c)
            self.script(as_script(c.body), True, c.name not in NOT_LIVE, c.test)
            return
        if not live and not tail and self.functions.is_assertion(c, False):
            self.fault(c.line, 'set -e is off here: nobody looks at this status')
        if isinstance(c, sh.Simple):
            self.simple(c, live)
            return
        for s in c.conditions + c.more:
            self.script(s, True, False)
        loop = c.kind in ('while', 'for')
        for s in c.bodies:
            self.script(s, (tail and not loop) or c.kind == 'subshell', live)

    def simple(self, c, live):
        w = words_of(c)
        name, by = call_of(c)
        if (by or not live) and self.functions.has_inner(name):
            self.fault(c.line, f"set -e is off in '{name}' here: only its last "
                       'command can fail')
        if w and w[0] in ('wait_for', 'wait_until') and \
                any(x.text.startswith(('"$(', '$(')) for x in c.words):
            self.fault(c.line, 'what is waited for is evaluated once')
        if w and w[0] in DECLARE and any(
                x.inner and re.match(r'\w+\+?=', x.text)
                and not re.match(r'\w+\+?=\(?["\']?<', x.text)
                for x in c.words):
            self.fault(c.line, f"'{w[0]}' hides the status of a substitution")
        if w and w[0] == 'wait' and (len(w) > 2 or '[@]' in ' '.join(w[1:])):
            self.fault(c.line, 'wait tells of the last process only: wait_all')
        for s in [s for x in c.words for s in x.inner] + c.more:
            self.script(s, True, False)

    def unused_runs(self, test):
        """A plain run, after which nobody asks how it went."""
        runs = sorted(self.runs(as_script(test.body)))
        end = self.lines.index('}', test.line) + 1 \
            if '}' in self.lines[test.line:] else len(self.lines)
        for n, (line, checked) in enumerate(runs):
            until = runs[n + 1][0] - 1 if n + 1 < len(runs) else end
            rest = '\n'.join(self.lines[line:until])
            called = '\n'.join(self.lines_of(name) for name in
                               self.functions.body
                               if re.search(rf'\b{re.escape(name)}\b', rest))
            if not checked and not re.search(
                    r'\$\{?#?(status|output|lines|stderr)\b', rest + called):
                self.fault(line, 'nobody looks at how this run went')

    def lines_of(self, name):
        """A function's text, when it is of this file."""
        text = '\n'.join(self.lines)
        m = re.search(rf'^{re.escape(name)}\(\)(.*?\n\}}|.*$)', text,
                      re.MULTILINE | re.DOTALL)
        return m.group(0) if m else ''

    def runs(self, script):
        for item, _ in script.items:
            for p in item.parts:
                for c in p.commands:
                    if isinstance(c, sh.Simple) and words_of(c)[:1] == ['run']:
                        yield c.line, self.functions.is_assertion(c, True)
                    for s in scripts_in(c):
                        yield from self.runs(s)


def sourced(path, text):
    """Files that a file loads, by the names that are written there."""
    here = os.path.dirname(path)
    for name in re.findall(r'^\s*(?:load|\.|source) "?(\S+?\.bash)"?\s*$', text,
                           re.MULTILINE):
        name = re.sub(r'^(\$\w+|\$\{\w+\}|\$\(dirname "[^"]*"\))/', '', name)
        name = name.replace('$(dirname "${BASH_SOURCE[0]}")/', '')
        yield os.path.normpath(os.path.join(here, name))


def read(path, functions, seen):
    """The text and tree of a file; functions of what it loads come first."""
    seen.add(path)
    with open(path, encoding='utf-8') as f:
        text = f.read()
    for other in sourced(path, text):
        if other not in seen and os.path.exists(other):
            read(other, functions, seen)
    tree = sh.parse(text)
    functions.add(tree)
    return text, tree


def main(paths):
    for path in paths:
        functions = Functions()
        try:
            text, tree = read(path, functions, set())
        except (sh.Fault, OSError, IndexError) as e:
            print(f'{path}: not understood: {e}')
            continue
        checker = Checker(path, text, functions)
        checker.script(tree, False, True)
        for line, what in sorted(checker.faults):
            print(f'{path}:{line}: {what}')


if __name__ == '__main__':
    main(sys.argv[1:])
