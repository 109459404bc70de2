# SPDX-License-Identifier: Apache-2.0
"""What a run says at its end: the dearest suites, failures, flaky tests, and the sum."""
import dataclasses
import json

import tap

DEAREST = 20
SHORT = 3  # lines of a failure that the short list has


@dataclasses.dataclass
class Suite:
    """A unit's program, a corpus, a file of functional tests, or lint."""
    kind: str  # "lint", "build", "release", "asan", "tsan", "functional" or "runner"
    name: str
    path: str = ""  # of a file of functional tests
    tests: list = dataclasses.field(default_factory=list)
    wall: float = 0.0
    cpu: float = 0.0
    cached: bool = False
    output: str = ""

    def take(self, done, is_tap):
        """Count what a program said, or its status where it says no TAP."""
        self.wall, self.cpu, self.output = done.wall, done.cpu, done.output
        if not is_tap:
            self.tests = [tap.Test(self.name, "passed")] if done.status == 0 else []
        else:
            stream = tap.parse(done.output)
            self.tests = stream.tests
            self.add_lost(stream)
        if done.timed_out:
            self.add_failure("ended, for it took too long", done.output)
        elif done.status != 0 and not self.failed():
            self.add_failure(f"status {done.status}", done.output)

    def add_lost(self, stream):
        for n in range(stream.lost):
            self.tests.append(tap.Test(f"{stream.complaint} ({n + 1})", "failed"))

    def add_failure(self, name, output):
        lines = [f"# {line}" for line in output.splitlines()[-40:]]
        self.tests.append(tap.Test(name, "failed", detail=lines))

    def count(self, status):
        return sum(t.status == status for t in self.tests)

    def failed(self):
        return self.count("failed")


def failures(suites):
    for s in suites:
        for t in s.tests:
            if t.status == "failed":
                yield f"{s.kind}: {s.name}: {t.name}", t.detail


def print_failures(suites):
    found = list(failures(suites))
    if not found:
        return
    print("== failed")
    for name, detail in found:
        print(name, *(f"  {line}" for line in detail), sep="\n")
    print("== failed, in short")
    for name, detail in found:
        print(name, *(f"  {line}"[:200] for line in detail[:SHORT]), sep="\n")


def print_dearest(suites):
    for what, key in ("wall", lambda s: s.wall), ("processor", lambda s: s.cpu):
        print(f"== dearest by {what} time: wall, processor (s)")
        for s in sorted(suites, key=key, reverse=True)[:DEAREST]:
            print(f"{s.wall:8.1f} {s.cpu:8.1f}  {s.kind} {s.name}")


def print_flaky(flaky):
    for name, detail in flaky:
        print(f"flaky: {name}", *(f"  {line}" for line in detail), sep="\n")


def write_json(path, suites, flaky):
    rows = [{"kind": s.kind, "name": s.name, "wall_s": round(s.wall, 3),
             "cpu_s": round(s.cpu, 3), "cached": s.cached,
             "tests": [{"name": t.name, "status": t.status, "wall_s": t.seconds}
                       for t in s.tests]} for s in suites]
    with open(path, "w") as f:
        json.dump({"suites": rows, "flaky": [name for name, _ in flaky]}, f, indent=1)


def sums(suites):
    return [sum(s.count(status) for s in suites) for status in ("passed", "failed", "skipped")]


def print_sum(suites):
    cached = sum(len(s.tests) for s in suites if s.cached)
    print(f"cached: {cached} results of units whose inputs have not changed since they passed")
    print("{} passed, {} failed, {} skipped".format(*sums(suites)))
