# SPDX-License-Identifier: Apache-2.0
"""Namespaces in which a soak runs, so that nothing is left behind however it ends; and
processes in them."""

import ctypes
import os
import signal
import subprocess
import sys
import time

MS_BIND = 4096
PR_SET_PDEATHSIG = 1
START_TIMEOUT = 60

libc = ctypes.CDLL(None, use_errno=True)


class Stuck(Exception):
    """Something that should have happened did not happen in time."""


def wait_for(what, test, timeout=START_TIMEOUT):
    end = time.monotonic() + timeout
    while not test():
        if time.monotonic() > end:
            raise Stuck(what)
        time.sleep(0.01)  # a deadline poll


def is_alive(pid):
    """A killed process holds its locks until the last of its threads has ended,
    and the first may be a zombie before that."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            over = f.read().rpartition(")")[2].split()[0] in "ZX"
        return not over or len(os.listdir(f"/proc/{pid}/task")) > 1
    except OSError:
        return False


def child_of(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return next((int(p) for p in f.read().split() if is_alive(int(p))), None)
    except OSError:
        return None


def kill(pid):
    """SIGKILL; True when there was something to kill."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def bind(folder):
    """Have mounts below the folder be the namespace's own."""
    libc.mount(folder.encode(), folder.encode(), None, MS_BIND, None)


def run_inside(folder, *more):
    """This program again, with --inside FOLDER, in its namespaces and those that `more` options of
    unshare name; however this ends, all of them end first. Its exit code."""
    unshare = subprocess.Popen([
        "unshare", "--mount", "--propagation", "slave", "--pid", "--fork",
        "--kill-child", "--mount-proc", *more, sys.executable, *sys.argv,
        "--inside", folder],
        preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
    try:
        return unshare.wait()
    finally:
        if unshare.poll() is None:
            # The kernel ends all of a PID namespace before its first process.
            wait_for("a namespace", lambda: child_of(unshare.pid) or
                     unshare.poll() is not None)
            first = child_of(unshare.pid)
            if first:
                kill(first)
            unshare.wait()
