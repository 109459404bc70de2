#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every test of the project, or the functional tests of the files that are named.

Called by ./dev test, which has built $BOOTSEER_BUILDS/release and has lint's lines in
lint.tap there.  The sanitized builds are made and the units run beside the functional
tests, which wait much.  The last line is the sum; the status says whether all passed."""
import argparse
import os
import subprocess
import sys
import threading
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import flaky as flaky_list
import functional
import job
import plan
import report
import tap
import units

TOP = Path(__file__).resolve().parents[2]
UNITS_AT_ONCE = os.cpu_count() + 1
FILES_AT_ONCE = 2 * os.cpu_count() + 1  # they wait much
BUILD_TIMEOUT = 3600  # seconds
output_lock = threading.Lock()


def say(*lines):
    with output_lock:
        print(*lines, sep="\n", flush=True)


def say_suite(suite):
    sums = "{} passed, {} failed, {} skipped".format(*report.sums([suite]))
    took = "cached" if suite.cached else f"{suite.wall:.1f} s, {suite.cpu:.1f} s of processor"
    say(f"== {suite.kind} {suite.name}: {sums} ({took})")
    if suite.failed() or suite.kind in ("functional", "lint"):
        say(suite.output)


def read_lint(builds):
    suite = report.Suite("lint", "lint", output=(builds / "lint.tap").read_text())
    stream = tap.parse(suite.output)
    suite.tests = stream.tests
    suite.add_lost(stream)
    yield suite


def build_sanitized(builds, name):
    """Make a build; a suite of one test, which says whether that worked."""
    env = {**os.environ, "BOOTSEER_BUILDS": str(builds)}
    done = job.run([TOP / "dev", "build", name], BUILD_TIMEOUT, cwd=TOP, env=env)
    suite = report.Suite("build", name)
    suite.take(done, False)
    return suite


def run_units(builds):
    """Yield the suites of units and corpora of three builds, as they end."""
    for name in "release", "asan", "tsan":
        if name != "release":
            built = build_sanitized(builds, name)
            yield built
            if built.failed():
                continue
        build, suites = str(builds / name), []
        for suite in units.run(str(TOP), build, plan.wanted(build, name), UNITS_AT_ONCE):
            suites.append(suite)
            yield suite
        if name == "asan":
            plan.write_threads(build, suites)


def collect(suites, found):
    """Add the suites of a lane; a fault of the runner itself is a failed test."""
    try:
        for suite in found:
            suites.append(suite)
            say_suite(suite)
    except Exception:
        suites.append(report.Suite("runner", found.__name__))
        suites[-1].add_failure("it died", traceback.format_exc())


def run_lanes(suites, lanes):
    """Run the lanes side by side; each is a generator of suites."""
    threads = [threading.Thread(target=collect, args=(suites, lane)) for lane in lanes]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def run_failed_again(settings, suites):
    """Run what failed of the functional tests again, each alone; the flaky tests."""
    found = []
    for suite in [s for s in suites if s.kind == "functional" and s.failed()]:
        say(f"== again, alone: what failed in {suite.name}")
        found += functional.run_again(settings, suite)
    return found


def judge_flaky(path, found):
    """A suite with a failed test for each reason why flaky tests fail the run."""
    names, faults = flaky_list.read_list(path)
    suite = report.Suite("runner", "flaky tests")
    for fault in faults + flaky_list.judge(names, found):
        suite.tests.append(tap.Test(fault, "failed"))
    return suite


def existing_file(path):
    """A test file that was named, before anything is run."""
    if not Path(path).is_file():
        raise argparse.ArgumentTypeError(f"{path}: there is no such file")
    return path


def parse_arguments():
    p = argparse.ArgumentParser(prog="./dev test", description=__doc__.split("\n")[0])
    p.add_argument("-q", action="store_true", dest="quick", help="no functional tests")
    p.add_argument("--json", metavar="FILE", help="write what each suite and test cost")
    p.add_argument("--flaky", metavar="FILE", default=TOP / "tests/flaky.txt",
                   help="the list of flaky tests (tests/flaky.txt)")
    p.add_argument("files", nargs="*", metavar="FILE.bats", type=existing_file,
                   help="functional tests alone")
    return p.parse_args()


def main():
    args = parse_arguments()
    builds = Path(os.environ["BOOTSEER_BUILDS"])
    settings = functional.Settings(str(builds / "release"),
                                   TOP / "tests/functional/setup_suite.bash")
    suites, flaky, lanes = [], [], []
    if not args.files:
        collect(suites, read_lint(builds))
        lanes.append(run_units(builds))
    if not args.quick:
        lanes.append(functional.run_all(settings, args.files or functional.find_files(TOP),
                                        FILES_AT_ONCE))
    run_lanes(suites, lanes)
    if os.environ.get("CI") == "true":
        flaky = run_failed_again(settings, suites)
    suites.append(judge_flaky(args.flaky, flaky))
    if args.json:
        report.write_json(args.json, suites, flaky)
    report.print_dearest(suites)
    report.print_failures(suites)
    report.print_flaky(flaky)
    report.print_sum(suites)
    passed, failed, _ = report.sums(suites)
    sys.exit(not (passed and not failed))


main()
