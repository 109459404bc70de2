# SPDX-License-Identifier: Apache-2.0
"""Runs one program to its end: its output, wall time, and the processor time of it and of
all that it waited for."""
import dataclasses
import os
import subprocess
import tempfile
import threading
import time


@dataclasses.dataclass
class Outcome:
    status: int  # as Popen.returncode
    output: str
    wall: float  # seconds
    cpu: float  # seconds, user and system
    timed_out: bool = False


def run(command, timeout, **options):
    """Run `command` for `timeout` seconds at most; output and errors come as one text."""
    with tempfile.TemporaryFile() as out:
        begun = time.monotonic()
        # The program ends with the runner, also when that is killed.
        process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command],
                                   stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=subprocess.STDOUT, start_new_session=True,
                                   **options)
        killed = threading.Event()
        timer = threading.Timer(timeout, kill_session, [process.pid, killed])
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read().decode(errors="replace")
    return Outcome(process.returncode, text, time.monotonic() - begun,
                   usage.ru_utime + usage.ru_stime, killed.is_set())


def kill_session(pid, killed):
    killed.set()
    try:
        os.killpg(pid, 9)
    except ProcessLookupError:
        pass
