# SPDX-License-Identifier: Apache-2.0
"""Functional tests: files of bats, several at once, each in namespaces of its own.

A file's processes and mounts end with its PID and mount namespace, and the network
namespaces that it names with the tmpfs below /run/netns: what a killed test leaves is gone
before the next run of the file.  Mounts are shared within the file, as systemd has them:
where they are private, a namespace made beside (runc, ip netns exec) keeps a copy of every
mount, and with it files and loop devices, after it was unmounted."""
import dataclasses
import os
import re
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed

import job
from report import Suite, sums

# No test is about how long something takes; one that hangs is ended, after a wait of it had
# the five minutes to say what it waits for (tests/wait.bash).
TEST_TIMEOUT = 360
FILE_TIMEOUT = 1800
ENTER = ("mount --make-rshared / && mkdir -p /run/netns && mount -t tmpfs tmpfs /run/netns "
         '&& exec "$@"')
# Begun first, in this order, so that none of them is alone at the end; others by their tests.
LONG = ("ckpt-mount", "bench", "starts", "store-hdfs", "ckpt-programs", "doctor", "ckpt-steps",
        "containerd-node", "containerd", "p2p_metadata", "node-bytes", "csi", "ckpt-group",
        "p2p", "store-s3", "registry", "sign", "node-faults", "ckpt", "trust", "env-peers",
        "datapath", "node-slow", "stages", "env-shared", "cri-images", "preheat", "env-system")
AGAIN = 2  # runs that a test has to pass after it failed


@dataclasses.dataclass
class Settings:
    build: str  # the release build
    setup_suite: str  # its file


def find_files(top):
    return [p for folder in ("functional", "containerd")
            for p in (top / "tests" / folder).glob("*.bats")]


def test_names(path):
    """The sentences of a file's tests, as bats prints them."""
    with open(path) as f:
        found = re.findall(r"""^@test +(["'])(.*)\1 +\{""", f.read(), re.MULTILINE)
    return [re.sub(r'\\(["$`\\])', r"\1", name) for _, name in found]


def run_file(settings, path, only=None):
    """Run the tests of a file, or the one named `only`."""
    folder = tempfile.mkdtemp(prefix="t.", dir="/tmp")  # short, for sockets lie below it
    os.chmod(folder, 0o1777)  # as /tmp: tests have several users
    command = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork",
               "--kill-child", "--mount-proc", "sh", "-c", ENTER, "sh",
               "bats", "--tap", "--timing", "--setup-suite-file", settings.setup_suite]
    if only is not None:
        command += ["-f", f"^{re.escape(only)}$"]
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("BATS_")}
    env = {**inherited, "TMPDIR": folder, "BOOTSEER_BUILD": settings.build,
           "BATS_TEST_TIMEOUT": str(TEST_TIMEOUT)}
    suite = Suite("functional", os.path.basename(path), str(path))
    try:
        suite.take(job.run([*command, path], FILE_TIMEOUT, env=env), True)
    finally:
        subprocess.run(["rm", "-rf", "--one-file-system", folder], check=False)
    return suite


def rank(path):
    name = os.path.basename(path).removesuffix(".bats")
    return LONG.index(name) if name in LONG else len(LONG), -len(test_names(path))


def run_all(settings, paths, jobs):
    """Run files, the long ones first; yields the suites as they end."""
    paths = sorted(paths, key=rank)
    with ThreadPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(run_file, settings, p) for p in paths]):
            yield done.result()


def run_again(settings, suite):
    """Run each failed test of a file again, alone, AGAIN times.  A test that passes each
    time counts as passed; returns the names of those, each with its first failure's output."""
    found = []
    names = test_names(suite.path)
    if any(t.name not in names for t in suite.tests if t.status == "failed"):
        return run_file_again(settings, suite)
    for test in [t for t in suite.tests if t.status == "failed"]:
        runs = [run_file(settings, suite.path, test.name) for _ in range(AGAIN)]
        if all(sums([r]) == [1, 0, 0] for r in runs):
            test.status = "passed"
            found.append((f"{suite.name}: {test.name}", test.detail))
    return found


def run_file_again(settings, suite):
    """The same for a file that failed around its tests, or died: all of it is run again."""
    detail = [line for t in suite.tests if t.status == "failed" for line in (t.name, *t.detail)]
    runs = [run_file(settings, suite.path) for _ in range(AGAIN)]
    if any(r.failed() for r in runs):
        return []
    suite.tests = runs[0].tests
    return [(f"{suite.name}: the file as a whole", detail)]
