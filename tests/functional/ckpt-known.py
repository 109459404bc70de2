#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the kernel knows of a mount's names and sizes is up to a second old: other nodes, or a
kill of the mount's process, make it wrong. Programs are not to be cut by it, nor stopped.

ckpt-known.py BOOTSEER STORE MOUNT RUN CASE. Most cases want a mount of which the kernel
believes what it was told (tests/fakes/believe.c): a second passes while a machine is slow."""

import errno
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time

BOOTSEER, STORE, MOUNT, RUN = sys.argv[1:5]
OBJECTS = STORE.removeprefix("file://")
PLAIN_MOST = 4 << 20  # bytes: a small file is a plain object
DEADLINE_S = 120

noise = random.Random(5).randbytes(6 << 20)
SHORT, LONG, STRIPED = noise[:1000], noise[7:3000000], noise[9:]


def at(name):
    return f"{MOUNT}/{name}"


def write(name, data, flags=os.O_CREAT | os.O_TRUNC):
    fd = os.open(at(name), os.O_WRONLY | flags, 0o644)
    try:
        while data:
            data = data[os.write(fd, data):]
    finally:
        os.close(fd)


def rest(fd):
    return b"".join(iter(lambda: os.read(fd, 1 << 20), b""))


def read(name):
    fd = os.open(at(name), os.O_RDONLY)
    try:
        return rest(fd)
    finally:
        os.close(fd)


def must_be(data, wanted, what):
    if data != wanted:
        sys.exit(f"{what}: {len(data)} bytes, not these {len(wanted)}")


def elsewhere(name, data):
    """Another node replaces it, or (None) removes it."""
    if data is None:
        os.unlink(f"{OBJECTS}/{name}")
    elif len(data) <= PLAIN_MOST:
        with open(f"{OBJECTS}/{name}.tmp", "wb") as f:
            f.write(data)
        os.rename(f.name, f"{OBJECTS}/{name}")
    else:
        with tempfile.NamedTemporaryFile() as f:
            f.write(data)
            f.flush()
            subprocess.run([BOOTSEER, "ckpt", "cp", STORE, f.name, f":{name}"],
                           check=True, stdout=subprocess.DEVNULL)


def wait_for(what, is_so):
    end = time.monotonic() + DEADLINE_S
    while not is_so():
        if time.monotonic() > end:
            sys.exit(f"no {what}")
        time.sleep(0.01)  # deadline poll


def figure(key):
    for name in os.listdir(RUN):
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(DEADLINE_S)
                s.connect(f"{RUN}/{name}/mount.sock")
                s.sendall(b"GET /status HTTP/1.1\r\nHost: m\r\nConnection: close\r\n\r\n")
                text = b"".join(iter(lambda: s.recv(65536), b""))
                return json.loads(text.partition(b"\r\n\r\n")[2])[key]
        except (OSError, ValueError):
            pass
    return None


def end_writer():
    """A close has its answer before the kernel says that it was the last."""
    wait_for("end of the writer", lambda: figure("files_written") == 0)


def know(name):
    """The kernel asks, and believes what it is told from then on: of a file that is written
    it believes nothing."""
    end_writer()
    os.stat(at(name))


def restart():
    before = figure("pid")
    os.kill(before, signal.SIGKILL)
    wait_for("successor", lambda: figure("pid") not in (None, before))


# --- cases -------------------------------------------------------------------------


def replaced_here_is_longer(name):
    write(name, SHORT)
    know(name)
    elsewhere(name, LONG)
    must_be(read(name), LONG, "a file that was replaced by a longer one")


def replaced_here_is_shorter(name):
    write(name, LONG)
    know(name)
    elsewhere(name, SHORT)
    must_be(read(name), SHORT, "a file that was replaced by a shorter one")


def replaced_is_appended_to(name):
    write(name, SHORT)
    know(name)
    elsewhere(name, LONG)
    write(name, b"more", os.O_APPEND)
    must_be(read(name), LONG + b"more", "a file that was replaced, with more")


def removed_is_made_anew(name, flags=os.O_CREAT | os.O_TRUNC):
    write(name, SHORT)
    know(name)
    elsewhere(name, None)
    write(name, LONG, flags)
    must_be(read(name), LONG, "a file that was removed and made anew")


def removed_just_written_is_made_anew(name):
    write(name, SHORT)
    end_writer()
    elsewhere(name, None)
    write(name, LONG, os.O_CREAT)
    must_be(read(name), LONG, "a file that was removed and made anew")


def removed_is_made_anew_without_truncation(name):
    removed_is_made_anew(name, os.O_CREAT)


def removed_in_a_list_is_made_anew(name):
    write(name, SHORT)
    end_writer()
    for e in os.scandir(MOUNT):
        e.stat()
    elsewhere(name, None)
    write(name, LONG)
    must_be(read(name), LONG, "a file that was removed and made anew")


def removed_is_not_there(name):
    write(name, SHORT)
    know(name)
    elsewhere(name, None)
    try:
        read(name)
    except FileNotFoundError:
        return
    sys.exit("a file that was removed is read")


def readers_keep_a_longer_one(name, before=LONG, after=SHORT):
    write(name, before)
    fd = os.open(at(name), os.O_RDONLY)
    start = os.read(fd, 500)
    elsewhere(name, after)
    # The kernel has asked what the name is now, and what the descriptor has.
    wait_for("new file", lambda: os.stat(at(name)).st_size == len(after))
    wait_for("size of the old file", lambda: os.fstat(fd).st_size == len(before))
    must_be(start + rest(fd), before, "a file that was replaced while it was read")
    must_be(read(name), after, "a file that was replaced while another was read")
    os.close(fd)


def readers_keep_a_shorter_one(name):
    readers_keep_a_longer_one(name, SHORT, LONG)


def readers_keep_a_plain_one(name):
    readers_keep_a_longer_one(name, SHORT, STRIPED)


def readers_keep_a_removed_one(name):
    write(name, LONG)
    fd = os.open(at(name), os.O_RDONLY)
    os.unlink(at(name))
    # The mount is told of a close after it: in one of these rounds it has been.
    for _ in range(50):
        again = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
        must_be(rest(again), LONG, "a file that was removed, opened by its descriptor")
        os.close(again)
    must_be(rest(fd), LONG, "a file that was removed while it was read")
    os.close(fd)


def readers_keep_what_a_list_tells_of(name):
    write(name, b"x" * 3000000)
    fd = os.open(at(name), os.O_RDONLY)
    start = os.read(fd, 500)
    elsewhere(name, SHORT)

    def is_seen():
        with os.scandir(MOUNT) as entries:
            return [e.stat().st_size for e in entries if e.name == name] == [len(SHORT)]

    wait_for("new file", is_seen)
    must_be(start + rest(fd), b"x" * 3000000, "a file that was replaced while it was read")
    os.close(fd)


def replaced_before_a_restart_is_longer(name):
    write(name, SHORT)
    know(name)
    elsewhere(name, LONG)
    restart()
    must_be(read(name), LONG, "a file that was replaced before a restart")


def cut_appender_leaves_the_file_before(name):
    """A kill cuts it off, while the kernel believes the size that it counted itself."""
    write(name, LONG)
    know(name)
    fd = os.open(at(name), os.O_WRONLY | os.O_APPEND)
    os.write(fd, SHORT)
    restart()
    try:
        os.close(fd)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
    else:
        sys.exit("what was lost was closed well")
    write(name, b"more", os.O_APPEND)
    must_be(read(name), LONG + b"more", "a file whose writer was cut off, with more")


globals()[sys.argv[5]](sys.argv[5])
