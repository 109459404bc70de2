#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A criu that dumps what was run, and runs that again for a restore.

FAKE_CRIU is a folder: `dumps` and `restores` have a line for each call; what it does
wrong is said by the files `check-fails`, `dump-fails`, `dump-hangs`, `dump-waits` (a
FIFO: it tells that it is there by opening it, and goes on when it was written to),
`dump-kills`, `restore-fails`, `restore-hangs` and `restore-broken`; `version` has another
version.
"""
import os
import select
import signal
import sys

state = os.environ["FAKE_CRIU"]


def has(name):
    return os.path.exists(os.path.join(state, name))


def note(name, text):
    with open(os.path.join(state, name), "a", encoding="utf-8") as f:
        f.write(text + "\n")


def option(name):
    return sys.argv[sys.argv.index(name) + 1]


def log(text):
    with open(option("--log-file"), "w", encoding="utf-8") as f:
        f.write("(00.001000) Error (criu/util.c:1534): rlimit: Can't setup\n")
        f.write(f"(00.002000) Error (criu/files.c:99): {text}\n")
        f.write("(00.003000) Error (criu/cr.c:7): FAILED.\n")


def hang():
    while True:
        signal.pause()


def dump():
    pid = option("--tree")
    note("dumps", pid)
    if has("dump-hangs"):
        hang()
    if has("dump-waits"):
        with open(os.path.join(state, "dump-waits"), "rb") as f:
            f.read()
    if has("dump-fails"):
        log("Can't dump file 3 of that type")
        sys.exit(1)
    with open(f"/proc/{pid}/cmdline", "rb") as f:
        command = f.read().split(b"\0")[2]
    with open(os.path.join(option("--images-dir"), "core.img"), "wb") as f:
        f.write(command)
    note("external", option("--external"))
    if has("dump-kills"):
        fd = os.pidfd_open(int(pid))
        os.kill(int(pid), signal.SIGKILL)
        select.select([fd], [], [])  # whoever looks finds it dead


def restore():
    note("restores", option("--inherit-fd"))
    if has("restore-fails"):
        log("Can't fork for 2: File exists")
        sys.exit(1)
    with open(os.path.join(option("--images-dir"), "core.img"), "rb") as f:
        command = f.read()
    fd = int(option("--inherit-fd").split("]")[0].split("[")[1])
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.dup2(fd, 1)
        os.dup2(fd, 2)
        os.closerange(3, 256)
        if has("restore-hangs") or has("restore-broken"):
            hang()
        os.environ["RESTORED"] = "yes"
        os.execv("/bin/sh", ["sh", "-c", command])
    if has("restore-hangs"):
        note("half", str(pid))
        hang()
    with open(option("--pidfile"), "w", encoding="utf-8") as f:
        f.write(str(pid))


if sys.argv[1] == "--version":
    version = "1.0"
    if has("version"):
        with open(os.path.join(state, "version"), encoding="utf-8") as f:
            version = f.read().strip()
    print("Version:", version)
elif sys.argv[1] == "check":
    if has("check-fails"):
        print("(00.01) Error (criu/cr-check.c:1): Kernel lacks ptrace")
        sys.exit(1)
    print("Looks good.")
elif sys.argv[1] == "dump":
    dump()
elif sys.argv[1] == "restore":
    restore()
else:
    sys.exit(2)
