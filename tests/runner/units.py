# SPDX-License-Identifier: Apache-2.0
"""Units and corpora of one build, side by side.  What passed is not run again in the same
build folder until something that it depends on changes."""
import hashlib
import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor

import job
import tap
from plan import introspect
from report import Suite

# Meson's limits are for a machine with nothing else to do; these end what hangs.
PATIENCE = 10


class Inputs:
    """Digest of all that decides a unit's result: its command and environment, the bytes of
    each program and file that these name, those of the programs that it starts, the shared
    libraries, and the files that units read beside (golden files of all units: few)."""

    def __init__(self, top, build):
        self.build, self.digests = build, {}
        self.targets = {t["id"]: t["filename"] for t in introspect(build, "--targets")}
        self.common = [os.path.join(top, "tests/unit")]

    def digest_file(self, path):
        path = os.path.realpath(path)
        if path not in self.digests:
            with open(path, "rb") as f:
                self.digests[path] = hashlib.file_digest(f, "sha256").hexdigest()
        return self.digests[path]

    def libraries(self, program):
        said = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
        return [w for line in said.splitlines() for w in line.split() if w.startswith("/")]

    def files_below(self, folder):
        for at, folders, names in os.walk(folder):
            folders.sort()
            yield from (os.path.join(at, n) for n in sorted(names)
                        if not n.endswith((".c", ".h", ".build")))

    def key(self, test):
        paths = [p for name in test["depends"] for p in self.targets.get(name, [])]
        for word in [*test["cmd"], *test["env"].values()]:
            path = os.path.join(self.build, word)
            if os.path.isdir(path):
                paths += self.files_below(path)
            elif os.path.exists(path):
                paths.append(path)
        for folder in self.common:
            paths += self.files_below(folder)
        for program in [p for p in paths if p.startswith(self.build) and os.access(p, os.X_OK)]:
            paths += self.libraries(program)
        sums = [(p, self.digest_file(p)) for p in paths if os.path.exists(p)]
        text = json.dumps([test["cmd"], sorted(test["env"].items()), sums])
        return hashlib.sha256(text.encode()).hexdigest()


class Results:
    """What passed in earlier runs: counts by the inputs' digest, in the build folder.
    CI has a fresh clone, and no use for what a later run would find."""

    def __init__(self, build):
        self.are_kept = os.environ.get("CI") != "true"
        self.path = os.path.join(build, "units-passed.json")
        try:
            with open(self.path) as f:
                self.known = json.load(f)
        except (OSError, ValueError):
            self.known = {}
        self.used = {}

    def save(self):
        if not self.are_kept:
            return
        with open(self.path + ".new", "w") as f:
            json.dump(self.used, f)
        os.replace(self.path + ".new", self.path)


def run_one(build, kind, test, inputs, results):
    key = inputs.key(test) if results.are_kept else None
    suite = Suite(kind, test["name"])
    if key in results.known:
        suite.cached = True
        suite.tests = [tap.Test(n, s, has_threads=h) for n, s, h in results.known[key]]
    else:
        env = {**os.environ, **test["env"]}
        done = job.run(test["cmd"], test["timeout"] * PATIENCE, cwd=build, env=env)
        suite.take(done, test["protocol"] == "tap")
    if not suite.failed():
        results.used[key] = [(t.name, t.status, t.has_threads) for t in suite.tests]
    return suite


def run(top, build, wanted, jobs):
    """Run the tests of `build` that `wanted` has, by its patterns (None: all); yields each
    suite's result."""
    kind = os.path.basename(build)
    tests = [t for t in introspect(build, "--tests") if wanted is None or t["name"] in wanted]
    for test in tests:
        for pattern in wanted[test["name"]] if wanted else []:
            test["cmd"] += ["--filter", pattern]
    inputs, results = Inputs(top, build), Results(build)
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda t: run_one(build, kind, t, inputs, results), tests)
    results.save()
