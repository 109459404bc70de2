#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which units and corpora run in which build, and what ninja has to make for them.

Under ASan: all.  By gcc: the folders of GCC.  Under TSan: the tests that began a thread under
ASan (THREADS, which the runner writes); all where ASan has not run.
plan.py BUILD [KIND]: the targets, one a line, for ninja in that folder, which meson has set up;
KIND is release, asan or tsan where the folder has another name."""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

# Codecs and what depends on the compiler or processor (intrinsics, overflow builtins);
# gcc's product runs in every functional test beside.
GCC = ("blockstore", "common", "net", "recorder")
THREADS = "unit-threads.json"


def introspect(build, what):
    return json.loads(subprocess.check_output(["meson", "introspect", what, build]))


def program_of(test):
    """The path of a unit's or corpus' program below its build folder, or an absolute one."""
    for word in test["cmd"]:
        if os.path.basename(word).startswith(("test_", "replay_")):
            return word
    sys.exit(f"plan: what does the test {test['name']} run?  {test['cmd']}")


def is_by_gcc(test):
    return program_of(test).startswith(tuple(f"tests/unit/{folder}/" for folder in GCC))


def wanted(build, kind):
    """Tests by name, each with the patterns of the runner's --filter; None: all, whole."""
    if kind == "release":
        return {t["name"]: [] for t in introspect(build, "--tests") if is_by_gcc(t)}
    if kind == "tsan":
        try:
            with open(os.path.join(os.path.dirname(build), "asan", THREADS)) as f:
                return json.load(f)
        except FileNotFoundError:
            pass
    return None


def starts_threads(test):
    """Whether it starts a program that is none of the fakes: threads may begin there."""
    return any("/fakes/" not in p for p in test["env"].values()) or \
        sum("@@fake-" not in d for d in test["depends"]) > 1


def write_threads(build, suites):
    """Note which tests of the ASan build began a thread, for TSan."""
    whole = {t["name"] for t in introspect(build, "--tests")
             if t["protocol"] == "tap" and starts_threads(t)}
    found = {}
    for s in suites:
        names = [t.name.replace("::", "/") for t in s.tests if t.has_threads]
        if s.name in whole:
            found[s.name] = []
        elif names:
            found[s.name] = names if len(names) < len(s.tests) else []
    with open(os.path.join(build, THREADS), "w") as f:
        json.dump(found, f, indent=1)


def used_programs():
    """Programs of units that functional tests run, on real servers."""
    for path in (Path(__file__).parents[1] / "functional").glob("*.bats"):
        yield from re.findall(r"tests/unit/[\w-]+/(test_\w+)", path.read_text())


def targets(build, kind):
    chosen = wanted(build, kind)
    tests = introspect(build, "--tests")
    files = {t["id"]: [os.path.relpath(name, build) for name in t["filename"]]
             for t in introspect(build, "--targets")
             if t["build_by_default"] and t["type"] != "static library"}
    if kind == "release":
        used = set(used_programs())
        programs = {d: d.split("@@")[1].split("@")[0] for t in tests
                    if t["name"] not in chosen for d in t["depends"]}
        ids = set(files) - {d for d, name in programs.items() if name not in used
                            and name.startswith(("test_", "replay_"))}
    else:
        ids = {d for t in tests if chosen is None or t["name"] in chosen for d in t["depends"]}
    return sorted(name for i in ids for name in files[i])


if __name__ == "__main__":
    folder = os.path.abspath(sys.argv[1])
    print("\n".join(targets(folder, (sys.argv[2:] or [os.path.basename(folder)])[0])))
