# SPDX-License-Identifier: Apache-2.0
"""The list of tests that are known to have failed once and passed twice: tests/flaky.txt.

An entry is a line "FILE.bats: NAME OF THE TEST", followed by indented lines, of which the
first begins with the date (YYYY-MM-DD), then suspicion and what was tried."""
import re

MOST = 5  # entries of the list
MOST_IN_RUN = 3  # flaky tests of one run


def read_list(path):
    """The entries' names, and what is wrong with the list."""
    names, faults, explained = [], [], True
    try:
        with open(path) as f:
            lines = f.read().splitlines()
    except FileNotFoundError:
        return [], []
    for n, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        if line[0].isspace():
            if not explained and not re.match(r"\s+\d{4}-\d\d-\d\d\s+\S", line):
                faults.append(f"{path}:{n}: {names[-1]}: no date and suspicion")
            explained = True
            continue
        if not explained:
            faults.append(f"{path}:{n - 1}: {names[-1]}: no date and suspicion")
        names.append(line.strip())
        explained = False
    if not explained:
        faults.append(f"{path}: {names[-1]}: no date and suspicion")
    if len(names) > MOST:
        faults.append(f"{path}: {len(names)} entries, {MOST} at most: mend tests first")
    return names, faults


def judge(names, flaky):
    """Why these flaky tests of a run fail it: lines, none if they do not."""
    known = [name for name, _ in flaky if name in names]
    faults = [f"{name} is in the list of flaky tests already: mend it" for name in known]
    if len(flaky) > MOST_IN_RUN:
        faults.append(f"{len(flaky)} flaky tests, {MOST_IN_RUN} at most")
    return faults
