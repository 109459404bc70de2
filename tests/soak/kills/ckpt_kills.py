#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Kill a mount of checkpoints, its holder, programs that write to it, copies and gc at
random, while files are saved, replaced, renamed over, grown, removed and read: each is
the version before or the one after, and never a mix. docs/testing.md, "Long runs". Ends with 0 when that was so, `ckpt verify` found nothing, and after `ckpt
gc` the store has what its files need and nothing else.

Everything but the store's server runs in PID and mount namespaces of its own, so that
nothing is left behind however it ends."""

import argparse
import collections
import errno
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from apart import Stuck, bind, is_alive, kill, libc, run_inside, wait_for
from ckpt_files import ABSENT, Tracked, identity, noise
from ckpt_store import Folder, WebHdfs, find_leaks, is_fixed

MIB = 1 << 20
MNT_DETACH = 2
KILLS_A_MOUNT = 20  # of one holder, which waits the longer the more it had
FINDINGS_MAX = 10
HISTORY = 16
CALL_TIMEOUT = 120
FILES_EACH = 3
GC_AGE = 60  # seconds; no write takes that long
SIZES = ((0, 0), (1, 5000), (5000, MIB), (MIB, 4 * MIB), (4 * MIB, 13 * MIB))
# What a restart may give to whoever writes at that moment.
CUT_OFF = {errno.EIO, errno.ENOTCONN, errno.ESTALE, errno.ECONNABORTED, errno.ENODEV}


class Worker(threading.Thread):
    """Does one thing after the other until it is told to stop."""

    def __init__(self, soak, name, seed):
        super().__init__(name=name, daemon=True)
        self.soak, self.rng = soak, random.Random(seed)
        self.files, self.temporary = [], None  # that it writes

    def own(self):
        return [*self.files, *([self.temporary] if self.temporary else ())]

    def run(self):
        try:
            while self.soak.may_go_on():
                self.step()
                self.soak.steps += 1
        except Exception as error:  # of this program
            self.soak.find("broken", f"{self.name}: {error!r}")


class Writer(Worker):
    """Has files of its own, which no other changes."""

    def __init__(self, soak, name, seed):
        super().__init__(soak, name, seed)
        self.files = [Tracked(f"{name}/f{i}") for i in range(FILES_EACH)]
        self.temporary = Tracked(f"{name}/tmp")
        soak.files += self.own()

    def content(self):
        low, high = self.rng.choice(SIZES)
        return noise(self.rng.random(), self.rng.randint(low, high))

    def write(self, f, flags, data, sync):
        fd = os.open(self.soak.at(f), flags | os.O_WRONLY | os.O_CLOEXEC, 0o644)
        try:
            view, step = memoryview(data), self.rng.randint(4096, MIB)
            while view:
                view = view[os.write(fd, view[:step]):]
            if sync:
                os.fsync(fd)
        finally:
            # A kill from now on may take what is only staged.
            self.kills_at_close = self.soak.mount_kills
            # Its result is the commit's.
            os.close(fd)

    def settled(self, f, sync):
        if sync or not self.soak.is_buffered:
            f.done()
        else:
            f.done_softly(self.kills_at_close)

    def save(self, f):
        data, sync = self.content(), self.rng.random() < 0.3
        f.begin(data)
        self.write(f, os.O_CREAT | os.O_TRUNC, data, sync)
        self.settled(f, sync)

    def append(self, f):
        if not f.is_there() or len(f.data) > 20 * MIB:
            return self.save(f)
        # The new one goes on from it.
        if not self.is_known(f):
            return None
        more, sync = self.content() or b"x", self.rng.random() < 0.3
        f.begin(f.data + more)
        self.write(f, os.O_APPEND, more, sync)
        return self.settled(f, sync)

    def replace(self, f):
        """As trainers do it."""
        data, sync, t = self.content(), self.rng.random() < 0.5, self.temporary
        t.begin(data)
        self.write(t, os.O_CREAT | os.O_TRUNC, data, sync)
        self.settled(t, sync)
        t.begin_move(f, data)
        os.rename(self.soak.at(t), self.soak.at(f))
        t.done()
        f.done()

    def is_known(self, f):
        """Which version is there; when it is not known, nothing is done but a look."""
        if len(f.versions) - 1 == f.base:
            return True
        self.look_again(f)
        return False

    def remove(self, f):
        if f.is_there() and self.is_known(f):
            f.begin(None)
            os.unlink(self.soak.at(f))
            f.done()

    def attributes(self, f):
        if f.is_there() and self.is_known(f):
            f.touch()
            if self.rng.random() < 0.5:
                os.chmod(self.soak.at(f), self.rng.choice((0o600, 0o640, 0o644)))
            else:
                os.setxattr(self.soak.at(f), "user.step", b"%d" % self.soak.steps)
            f.touched()

    def copy(self, f):
        """A program that may be killed while it writes."""
        data = self.content()
        with open(f"{self.soak.t}/{self.name}.src", "wb") as out:
            out.write(data)
        f.begin(data)
        self.kills_at_close = self.soak.mount_kills
        if self.soak.run_or_kill(self.rng, "writer", ["cp", out.name, self.soak.at(f)]):
            self.settled(f, False)
        else:
            # Cut off: whether it is there decides what can be done to it next.
            f.is_cut = self.soak.is_buffered
            self.look_again(f)

    def step(self):
        ops = ((self.save, 4), (self.append, 3), (self.replace, 4), (self.remove, 1),
               (self.attributes, 1), (self.copy, 2))
        op = self.rng.choices(*zip(*ops))[0]
        f = self.rng.choice(self.files)
        before, lost = self.soak.mount_kills, f.may_be_lost(self.soak.mount_kills)
        started = time.monotonic()
        try:
            op(f)
            self.soak.note_op(op.__name__)
        except OSError as error:
            is_killed = self.soak.mount_kills != before or self.soak.is_dead
            code = errno.errorcode.get(error.errno, error.errno)
            lost = (lost or self.temporary.may_be_lost(self.soak.mount_kills)) and \
                error.errno == errno.EIO
            if lost or is_killed and error.errno in CUT_OFF:
                self.soak.note_op(f"{op.__name__} {'lost' if lost else code}")
            else:
                self.soak.find("undeclared", f"{op.__name__} {f.name}: {error}", f)
            f.say(f"{op.__name__} {code}")
            # What was closed may be lost, and then the mount says so until it is replaced.
            f.is_cut = self.temporary.is_cut = self.soak.is_buffered
            self.look_again(self.temporary)
            self.look_again(f)
        self.soak.slowest = max(self.soak.slowest, time.monotonic() - started)

    def look_again(self, f):
        """After a change that was cut off, and while nobody changes it."""
        value, data = self.soak.look(f, is_own=True)
        if value is not ABSENT or data is not None:
            f.pin(value)
            f.data = data


class Reader(Worker):
    """Opens files of others, and may have them open over kills."""

    def step(self):
        self.soak.look(self.rng.choice(self.soak.files), pause=self.rng.random() < 0.4)


class Copier(Worker):
    """`bootseer ckpt cp` into the store and out of it, beside the mount."""

    def __init__(self, soak, name, seed):
        super().__init__(soak, name, seed)
        self.files = [Tracked(f"{name}/f{i}") for i in range(FILES_EACH)]

    def step(self):
        f = self.rng.choice(self.files)
        data = noise(self.rng.random(), self.rng.randint(*self.rng.choice(SIZES)))
        with open(f"{self.soak.t}/{self.name}.src", "wb") as out:
            out.write(data)
        f.begin(data)
        columns = f"--columns={self.rng.randint(1, 5)}"
        if self.soak.run_or_kill(self.rng, "copy", self.soak.ckpt(
                "cp", columns, self.soak.store, out.name, f":{f.name}")):
            f.done()
        self.soak.look_by_copy(f)


class Collector(Worker):
    def step(self):
        self.soak.run_or_kill(self.rng, "gc", self.soak.ckpt(
            "gc", f"--older={GC_AGE}s", self.soak.store))
        time.sleep(self.rng.random())


class CkptSoak:
    def __init__(self, args, folder):
        self.t, self.args, self.store = folder, args, args.store
        self.rng = random.Random(args.seed)
        self.raw = Folder(args.raw, args.uploads) if args.raw else WebHdfs(args.store)
        self.m, self.run = f"{folder}/mnt", f"{folder}/run"
        os.mkdir(self.m)
        self.lock = threading.Lock()
        self.files = []
        self.ops, self.kills = collections.Counter(), collections.Counter()
        self.findings, self.history = [], collections.deque(maxlen=HISTORY)
        self.mount_kills = 0  # of the process that serves the mount
        self.reads = self.bytes = self.steps = self.mounts = 0
        self.slowest = 0.0
        self.is_buffered = self.is_dead = self.is_over = False
        self.killed = None
        self.gate = threading.Condition()
        self.n_waiting, self.is_gate_shut = 0, False

    # --- what is known -----------------------------------------------------------

    def note(self, text):
        self.history.append(f"{time.monotonic():.3f} {text}")
        if self.args.verbose:
            print(self.history[-1], flush=True)

    def note_op(self, what):
        with self.lock:
            self.ops[what] += 1

    def note_kill(self, what):
        with self.lock:
            self.kills[what] += 1
        self.note(f"kill_{what}")

    def find(self, kind, text, *files):
        with self.lock:
            self.findings.append(f"{kind}: {text}")
            print(f"FOUND {kind}: {text}\n  seed {self.args.seed}, at "
                  f"{time.monotonic():.3f}, after:", file=sys.stderr)
            for line in sorted([*self.history, *(line for f in files for line in f.trace)]):
                print(f"    {line}", file=sys.stderr)
            sys.stderr.flush()

    def at(self, f):
        return f"{self.m}/{f.name}"

    def ckpt(self, command, *words):
        return [f"{self.args.build}/cli/bootseer", "ckpt", command, *words]

    # --- looking at files ----------------------------------------------------------

    def read(self, fd, pause):
        try:
            parts = [os.read(fd, MIB)]
            if pause:
                self.wait_for_kill()
            while parts[-1]:
                parts.append(os.read(fd, MIB))
        finally:
            os.close(fd)
        return b"".join(parts)

    def wait_for_kill(self):
        before, end = self.mount_kills, time.monotonic() + 2
        while self.mount_kills == before and time.monotonic() < end and not self.is_over:
            time.sleep(0.02)  # deadline poll

    def look(self, f, pause=False, is_own=False):
        """Its value and its bytes; without them when it could not be read."""
        kills = self.mount_kills
        mark, lost = f.mark(kills), f.may_be_lost(kills)
        # A new one is read on this node by way of its writer, also before its commit.
        begun = [f.data]
        try:
            fd = os.open(self.at(f), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            fd = -1
        except OSError as error:
            fd = error
        begun.append(f.data)
        try:
            if isinstance(fd, OSError):
                raise fd
            data = self.read(fd, pause) if fd >= 0 else b""
            value = identity(data) if fd >= 0 else ABSENT
        except OSError as error:
            lost = lost or f.is_one_of(ABSENT, mark) and self.mount_kills != kills
            lost = lost or f.may_be_lost(self.mount_kills)
            is_replaced = error.errno == errno.ESTALE and f.has_changed_since(mark)
            if not (is_replaced or error.errno == errno.EIO and lost or
                    self.is_dead or self.dead_since(kills)):
                self.find("undeclared", f"read {f.name}: {error}", f)
            self.note_op(f"read {errno.errorcode.get(error.errno)}")
            return ABSENT, None
        with self.lock:
            self.reads += 1
            self.bytes += len(data)
        # A kill meanwhile may have taken what was only closed.
        if self.mount_kills != kills:
            mark = min(mark, f.mark(self.mount_kills))
        is_new = f.is_one_of(ABSENT, mark) and value is not ABSENT and \
            any(b.startswith(data) for b in begun)
        if is_new or f.is_one_of(value, mark):
            return value, data
        if f.is_moved(value, mark):
            self.note_op("read moved")
        else:
            f.explain(data)
            had = [g for g in self.files if g.has_had(value)]
            self.find("mix", f"{f.name} is {value}, which {[g.name for g in had]} had, "
                      f"and may be {f.versions[mark:]}{' (its writer)' if is_own else ''}",
                      f, *(g for g in had if g is not f))
        return value, data

    def dead_since(self, kills):
        return self.last_death >= kills and self.last_death > 0

    last_death = 0

    def look_by_copy(self, f):
        """The same, out of the store without the mount."""
        out = f"{self.t}/out.{threading.get_ident()}"
        said = subprocess.run(self.ckpt("cp", self.store, f":{f.name}", out),
                              capture_output=True, text=True, timeout=CALL_TIMEOUT)
        if said.returncode == 0:
            with open(out, "rb") as f_out:
                data = f_out.read()
            os.unlink(out)
            value = identity(data)
        elif "there is no" in said.stderr:
            value, data = ABSENT, b""
        else:
            self.find("undeclared", f"copy of {f.name}: {said.stderr}")
            return None
        if not f.is_one_of(value, f.base):
            self.find("mix", f"{f.name} in the store is {value}, and may be "
                      f"{f.versions[f.base:]}", f)
        f.pin(value)
        f.data = data
        return value

    def run_or_kill(self, rng, what, argv):
        """True: it ended well. Otherwise it was killed, or cut off by a kill."""
        before = self.mount_kills
        p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             stderr=subprocess.PIPE, text=True)
        if rng.random() < 0.5:
            try:
                p.wait(rng.uniform(0, 0.5))
            except subprocess.TimeoutExpired:
                p.kill()
                self.note_kill(what)
        try:
            said = p.communicate(timeout=CALL_TIMEOUT)[1]
        except subprocess.TimeoutExpired as error:
            raise Stuck(" ".join(argv)) from error
        if p.returncode == 0 or p.returncode == -signal.SIGKILL:
            return p.returncode == 0
        if what != "writer" or self.mount_kills == before and not self.is_dead:
            self.find("undeclared", f"{' '.join(argv)}: {said}")
        return False

    # --- the mount -----------------------------------------------------------------

    def status(self):
        for name in os.listdir(self.run) if os.path.isdir(self.run) else ():
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(10)
                try:
                    s.connect(f"{self.run}/{name}/mount.sock")
                    s.sendall(b"GET /status HTTP/1.1\r\nHost: m\r\n"
                              b"Connection: close\r\n\r\n")
                    text = b"".join(iter(lambda: s.recv(65536), b""))
                    return json.loads(text.partition(b"\r\n\r\n")[2])
                except (OSError, ValueError):
                    pass
        return None

    def pid(self):
        said = self.status()
        return said["pid"] if said and is_alive(said["pid"]) else None

    def mount(self):
        # Files of some MiB have columns, too.
        options = (f"--columns={self.rng.randint(2, 8)}",) + self.rng.choice(
            ((), ("--close=buffered",), ("--close=buffered",), ("--compare=always",),
             ("--memory=64M",)))
        self.is_buffered = "--close=buffered" in options
        self.note(f"mount {' '.join(options)}")
        said = subprocess.run(
            self.ckpt("mount", f"--run={self.run}", *options, self.store, self.m),
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            timeout=CALL_TIMEOUT)
        if said.returncode:
            raise Stuck(f"mount: {said.stderr}")
        self.mounts += 1

    def umount(self):
        # What is lost is told twice: the first time it stays mounted, then its log is left.
        for _ in range(2):
            said = subprocess.run(self.ckpt("umount", f"--run={self.run}", self.m),
                                  capture_output=True, text=True, timeout=CALL_TIMEOUT)
            if said.returncode == 0 or "are not in the store" not in said.stderr:
                break
        if "it is unmounted: " in said.stderr:
            shutil.rmtree(self.run)
        elif said.returncode:
            self.find("undeclared", f"umount: {said.stderr}")
            libc.umount2(self.m.encode(), MNT_DETACH)
        wait_for("the mount's processes end", lambda: not self.processes())

    def processes(self):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/comm") as f:
                    if f.read().startswith("bootseer-ckpt") and is_alive(int(pid)):
                        found.append(int(pid))
            except OSError:
                pass
        return found

    def kill_mount(self):
        pid = self.pid()
        if not pid:
            return
        # Before it: what fails from now on may be because of it.
        self.mount_kills += 1
        self.killed = pid
        if kill(pid):
            self.note_kill("mount")
        # After it, too: what was closed between the two may be lost.
        self.mount_kills += 1
        if self.rng.random() < 0.8:
            wait_for("a successor", lambda: self.pid() not in (None, pid))

    def kill_holder(self):
        """And the process below it: the mount is dead, and is made anew."""
        self.is_dead = True
        self.mount_kills += 1
        self.last_death = self.mount_kills
        # The holder may start one more meanwhile.
        wait_for("it is gone", lambda: not [kill(p) for p in self.processes()])
        self.note_kill("holder")
        # What was closed while they were being killed may be lost.
        self.mount_kills += 1
        self.last_death = self.mount_kills
        with self.gate:
            self.is_gate_shut = True
        wait_for("all have seen it", lambda: self.n_waiting == len(self.workers),
                 CALL_TIMEOUT)
        libc.umount2(self.m.encode(), MNT_DETACH)
        self.mount()
        self.is_dead = False
        with self.gate:
            self.is_gate_shut = False
            self.gate.notify_all()

    def may_go_on(self):
        with self.gate:
            self.n_waiting += 1
            self.gate.wait_for(lambda: not self.is_gate_shut)
            self.n_waiting -= 1
        return not self.is_over and len(self.findings) <= FINDINGS_MAX

    # --- the whole -----------------------------------------------------------------

    def n_kills(self):
        return sum(self.kills.values())

    def make_folders(self, names):
        for name in names:
            os.makedirs(f"{self.m}/{name}", exist_ok=True)

    def start_workers(self):
        rng = self.rng
        self.files = []
        kinds = [Writer] * 3 + [Reader] * 2 + [Copier] + [Collector] * (not self.args.no_gc)
        self.workers = [kind(self, f"{kind.__name__.lower()}{i}", rng.random())
                        for i, kind in enumerate(kinds)]
        self.make_folders([w.name for w in self.workers if isinstance(w, Writer)])
        for w in self.workers:
            w.start()

    def load(self, until):
        self.is_over = False
        self.start_workers()
        wanted = self.steps + 10
        wait_for("the first steps", lambda: self.steps >= wanted, CALL_TIMEOUT)
        while self.n_kills() < until and len(self.findings) <= FINDINGS_MAX:
            time.sleep(self.rng.uniform(0.02, 0.8))  # the moment is random
            if self.rng.random() < 0.04:
                self.kill_holder()
            else:
                self.kill_mount()
        self.is_over = True
        for w in self.workers:
            w.join(CALL_TIMEOUT)
            if w.is_alive():
                raise Stuck(f"{w.name} does not end")

    def judge(self):
        """Nobody changes anything: each file is one of its versions, by the mount and in
        the store, and what is left in the store belongs to one."""
        # Not the one that was killed last, which may answer once more.
        wait_for("the mount", lambda: self.pid() not in (None, self.killed))
        for w in self.workers:
            for f in w.own() if not isinstance(w, Copier) else ():
                self.look(f)
        self.umount()
        for w in self.workers:
            for f in w.own():
                self.look_by_copy(f)
        self.must("verify", self.store)
        self.must("gc", "--older=0s", self.store)
        left = self.must("gc", "--older=0s", "--dry-run", self.store)
        if not left.startswith("0 objects"):
            self.find("leak", left)
        for leak in find_leaks(self.raw):
            self.find("leak", leak)
        uploads = self.raw.count_uploads()
        if uploads:
            self.find("leak", f"{uploads} uploads that nobody has ended")
        if os.path.exists(self.run) and os.listdir(self.run):
            self.find("leak", f"{self.run}: {list(os.walk(self.run))}")
        with open("/proc/self/mountinfo") as f:
            if f" {self.m} " in f.read():
                self.find("leak", "it is mounted still")
        for w in self.workers:
            if any(f.is_there() for f in w.own()):
                self.must("rm", "-r", self.store, w.name)

    def must(self, command, *words):
        said = subprocess.run(self.ckpt(command, *words), capture_output=True, text=True,
                              timeout=10 * CALL_TIMEOUT)
        if said.returncode:
            self.find("undeclared", f"{command}: {said.stdout}{said.stderr}")
        return said.stdout.strip()

    def go(self):
        while self.n_kills() < self.args.kills and not self.findings:
            self.mount()
            self.load(min(self.args.kills, self.n_kills() + KILLS_A_MOUNT))
            self.judge()
        self.must("gc", "--older=0s", self.store)
        for name in self.raw.names():
            if not is_fixed(name):
                self.find("leak", f"after all: {name}")


def inside(args, folder):
    bind(folder)
    started = time.monotonic()
    soak = CkptSoak(args, folder)
    try:
        soak.go()
    except (Stuck, subprocess.TimeoutExpired) as error:
        soak.find("stuck", str(error))
    seen = {
        "seed": args.seed, "seconds": round(time.monotonic() - started),
        "kills": soak.n_kills(), "killed": dict(soak.kills), "mounts": soak.mounts,
        "reads": soak.reads, "bytes": soak.bytes, "slowest_s": round(soak.slowest, 1),
        "operations": dict(sorted(soak.ops.items())), "findings": soak.findings,
    }
    print(json.dumps(seen))
    if args.json:
        with open(args.json, "w") as out:
            json.dump(seen, out, indent=1)
    if soak.findings:
        print(f"repeat with: --seed {args.seed} --kills {args.kills}", file=sys.stderr)
        for path, _, names in os.walk(soak.run):
            for name in set(names) & {"log"}:
                with open(f"{path}/{name}") as log:
                    print("".join(log.readlines()[-30:]), file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1 if soak.findings else 0)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default=os.environ.get("BOOTSEER_BUILD"))
    p.add_argument("--store", help="URL of an empty folder of a store; default: a directory")
    p.add_argument("--raw", metavar="DIR", help="where the server keeps that folder")
    p.add_argument("--uploads", metavar="DIR", help="where it keeps uploads in parts")
    p.add_argument("--no-gc", action="store_true", help="none beside writers")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--kills", type=int, default=1000)
    p.add_argument("--json", help="write the figures here, too")
    p.add_argument("--keep", action="store_true", help="keep the folder")
    p.add_argument("--verbose", action="store_true", help="print each kill")
    p.add_argument("--inside", help=argparse.SUPPRESS)
    args = p.parse_args()
    if not args.build:
        p.error("--build or BOOTSEER_BUILD is needed")
    args.build = os.path.abspath(args.build)
    os.environ["PATH"] = f"{args.build}/ckpt-fuse/mount:{os.environ['PATH']}"
    if args.inside:
        if not args.store:
            args.raw = f"{args.inside}/store"
            args.store = f"file://{args.raw}"
            os.mkdir(args.raw)
        inside(args, args.inside)
    folder = tempfile.mkdtemp(prefix="ckpt-kills.", dir="/var/tmp")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(run_inside(folder))
    finally:
        if args.keep:
            print(f"kept: {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder)


main()
