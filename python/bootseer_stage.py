# SPDX-License-Identifier: Apache-2.0
"""Stage events of a job's start, for BootSeer: lines in the log of the program.

    from bootseer_stage import stage, mark

    with stage("model.load"):
        model = load()
    mark("train")  # training begins, which ends the start

The lines are those of docs/formats/stage-events.md.  There is nothing to install
besides this file, and nothing here raises: a start must not fail because it is
measured.  Job, attempt, node and rank come from $BOOTSEER_JOB, $BOOTSEER_ATTEMPT
(or $SLURM_RESTART_COUNT, or $TORCHELASTIC_RESTART_COUNT), $BOOTSEER_NODE (or the host's
name), $BOOTSEER_RANK or $RANK.
"""
import os
import re
import socket
import sys
import time

__all__ = ["stage", "begin", "end", "mark"]

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}\Z")
_JOB = re.compile(r"[A-Za-z0-9._:/@+-]{1,128}\Z")
_NODE = re.compile(r"[A-Za-z0-9._-]{1,255}\Z")
_COUNT = re.compile(r"[0-9]{1,9}\Z")


def _crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def _boot():
    try:
        with open("/proc/sys/kernel/random/boot_id") as f:
            return "%x" % int(f.read().strip().replace("-", "")[:16], 16)
    except (OSError, ValueError):
        return ""


def _first(pattern, *values):
    for value in values:
        if value and pattern.match(value):
            return value
    return ""


def _line(name, ev, status):
    env = os.environ.get
    fields = [
        ("stage", name),
        ("ev", ev),
        ("ts", str(time.time_ns())),
        ("mono", str(time.monotonic_ns())),
        ("boot", _boot()),
        ("job", _first(_JOB, env("BOOTSEER_JOB"))),
        ("attempt", _first(_COUNT, env("BOOTSEER_ATTEMPT"), env("SLURM_RESTART_COUNT"),
                           env("TORCHELASTIC_RESTART_COUNT"))),
        ("node", _first(_NODE, env("BOOTSEER_NODE"), socket.gethostname())),
        ("rank", _first(_COUNT, env("BOOTSEER_RANK"), env("RANK"))),
        ("status", "" if status is None else str(status)),
        ("id", str(int.from_bytes(os.urandom(8), "big") >> 1)),
    ]
    text = "BOOTSEER" + "".join(" %s=%s" % f for f in fields if f[1])
    return "%s crc=%08x\n" % (text, _crc32c(text.encode()))


def _say(name, ev, status=None):
    try:
        if not _NAME.match(name):
            raise ValueError("no name of a stage: %r" % (name,))
        # One write, so that lines of other processes do not come in between.
        sys.stdout.write(_line(name, ev, status))
        sys.stdout.flush()
    except Exception as e:  # noqa: the caller's start is worth more
        try:
            sys.stderr.write("bootseer_stage: %s\n" % (e,))
        except Exception:
            pass


def begin(name):
    """The stage begins."""
    _say(name, "begin")


def end(name, status=None):
    """The stage ends; status is the exit status of what it ran."""
    _say(name, "end", status)


def mark(name):
    """Something happens now; mark("train") says that training begins."""
    _say(name, "mark")


class stage:
    """with stage("model.load"): ... -- or @stage("model.load") before a function."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        begin(self.name)
        return self

    def __exit__(self, kind, value, trace):
        end(self.name, 0 if kind is None else 1)
        return False

    def __call__(self, function):
        def run(*args, **kwargs):
            with stage(self.name):
                return function(*args, **kwargs)

        run.__name__ = getattr(function, "__name__", "run")
        run.__doc__ = function.__doc__
        return run
