#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads TAP streams.  As a program: sums the stream on standard input, "PASSED FAILED
SKIPPED" on standard output, and says on standard error what was planned and not run."""
import dataclasses
import re
import sys

RESULT = re.compile(r"(not ok|ok)\b *(\d*) *-? *(.*)")
SKIPPED = re.compile(r" *# skip\b.*", re.IGNORECASE)
TOOK = re.compile(r" in (\d+)ms(?= *(?:#|$))")
ENDED = re.compile(r" *# timeout after \d+s$")  # by bats: the test hung
# Such a line of bats stands for a step around the tests; it is none of those planned.
AROUND = re.compile(r"(setup|teardown)_(file|suite) failed")


@dataclasses.dataclass
class Test:
    name: str
    status: str  # "passed", "failed" or "skipped"
    seconds: float | None = None
    detail: list = dataclasses.field(default_factory=list)  # lines of comment after it
    has_threads: bool = False  # a unit that began one


@dataclasses.dataclass
class Stream:
    tests: list
    lost: int  # planned tests without a result
    complaint: str = ""  # why tests are lost

    def count(self, status):
        return sum(t.status == status for t in self.tests)

    def sums(self):
        return (self.count("passed"), self.count("failed") + self.lost, self.count("skipped"))


def parse_result(match):
    name = match[3]
    took = TOOK.search(name)
    status = "failed" if match[1] == "not ok" else \
        "skipped" if SKIPPED.search(name) else "passed"
    if took:
        name = name[:took.start()] + name[took.end():]
    return Test(ENDED.sub("", SKIPPED.sub("", name)).strip(), status, took and int(took[1]) / 1000)


def parse(text):
    """What a stream says.  A planned test without a result counts as failed: a file that
    cannot be read, or whose setup_file fails, is one line of bats for all of its tests."""
    plan, tests = None, []
    for line in text.splitlines():
        if match := re.match(r"1\.\.(\d+)", line):
            plan = int(match[1])
        elif match := RESULT.match(line):
            tests.append(parse_result(match))
        elif line == "# has threads" and tests:
            tests[-1].has_threads = True
        elif line.startswith("#") and tests:
            tests[-1].detail.append(line)
    if plan is None:
        return Stream(tests, 1, "no plan")
    around = sum(bool(AROUND.match(t.name)) for t in tests)
    lost = max(0, plan - (len(tests) - around))
    return Stream(tests, lost, lost and f"{lost} of {plan} planned tests told nothing" or "")


if __name__ == "__main__":
    stream = parse(sys.stdin.read())
    if stream.complaint:
        print(stream.complaint, file=sys.stderr)
    print(*stream.sums())
