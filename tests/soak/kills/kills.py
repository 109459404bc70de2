#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Kill bootseerd, its holder and bootseer-snapshotter at random while images are
read through every kind of mount, and compare every byte: docs/testing.md, "Long
runs". Ends with 0 when no byte was wrong, none was zero, and no read failed but those that
are declared there.

Everything runs in PID and mount namespaces of its own, so that nothing is left
behind however it ends."""

import argparse
import collections
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import images
import node as nodes
from apart import START_TIMEOUT, Stuck, bind, is_alive, kill, run_inside, wait_for
from damage import Damage
from node import CallFailed, Node
from views import ContainerMount, FolderMount, detach, mode_of, mounts

N_MOUNTS = 5  # at a time
N_VIEWS = 10
FINDINGS_MAX = 10
FIRST_ROUNDS = 1000  # of a reader, before the first kill
HISTORY = 12  # actions shown with a finding
VIEWS = ("plain", "overlay", "ns", "ns-overlay")


class Soak:
    def __init__(self, args, folder):
        self.t, self.seed = folder, args.seed
        self.rng = random.Random(args.seed)
        self.reader = f"{args.build}/tests/soak/kills/kills-reader"
        self.verbose, self.skip = args.verbose, set(args.skip)
        self.told = set()  # views and kinds that a finding was printed of
        self.mounts = []
        self.leftovers = []  # mounts that bootseerd has not given up yet
        self.ids = {}  # number of an image -> its folder below ROOT/images
        self.totals = collections.Counter()
        self.counts = collections.Counter()  # of actions
        self.findings = []
        self.history = collections.deque(maxlen=HISTORY)
        for name in "mnt", "overlay", "stats", "ctd":
            os.mkdir(f"{folder}/{name}")
        self.n_images = args.images
        images.make(folder, args.images, args.seed, f"{args.build}/cli/bootseer",
                    args.break_truth)
        self.node = Node(folder, args.build, args.node_option)
        self.damage = Damage(self)

    # --- what is known of reads ------------------------------------------------

    def note(self, what, detail=""):
        self.counts[what] += 1
        line = f"{what} {detail}".strip()
        self.history.append(line)
        if self.verbose:
            print(f"{time.monotonic():.3f} {line}", flush=True)

    def note_failure(self, what, error):
        """Of a call: because of a kill (True), or for a reason of its own."""
        gone = ("connect", "Connection", "no answer", "Socket closed", "does not answer",
                "Broken pipe")
        by_kill = any(word in str(error) for word in gone)
        self.note(what + ("_by_kill" if by_kill else ""), error)
        return by_kill

    def find(self, kind, text, view=None):
        self.totals[kind] += 1
        # One view that is broken fails thousands of reads.
        if view and (view, kind) in self.told:
            return
        self.told.add((view, kind))
        self.findings.append(f"{kind}: {text}")
        print(f"FOUND {kind}: {text}\n  seed {self.seed}, after:", file=sys.stderr)
        for line in self.history:
            print(f"    {line}", file=sys.stderr)
        sys.stderr.flush()

    def views(self):
        return [v for m in self.mounts for v in m.views]

    def judge(self, view):
        """What the reader complained of since the last time."""
        for kind, begin, end, code, offset, path in view.events():
            what = (f"{view.name} {path} at {offset}, {(end - begin) / 1e9:.3f} s, "
                    f"ended at {end / 1e9:.3f}")
            if kind in ("wrong", "short"):
                self.find("wrong", what, view)
            elif kind == "zeros":
                self.find("zeros", what, view)
            elif view.declared_from and end >= view.declared_from:
                self.totals["declared"] += 1
            else:
                self.find("undeclared", f"{what}: {os.strerror(code)}", view)

    def check(self):
        for view in self.views():
            self.judge(view)
            since = view.stats()["since_ns"]
            if since and time.monotonic_ns() - since > nodes.CALL_TIMEOUT * 1e9:
                raise Stuck(f"a read of {view.name}")
            if view.process.poll() is not None:
                raise Stuck(f"reader of {view.name} ended: {view.process.returncode}")

    def collect(self, views):
        """Readers that ended: their figures are final."""
        for view in views:
            self.judge(view)
            for key, value in view.stats().items():
                if key in ("reads", "bytes", "mapped"):
                    self.totals[key] += value
            self.totals[f"views_{view.mode}"] += 1

    def rounds(self):
        return sum(v.stats()["rounds"] for v in self.views())

    def let_read(self):
        """Until the readers have done some more, or wait for bootseerd."""
        wanted = self.rounds() + self.rng.randint(5, 100) * len(self.views())
        try:
            wait_for("readers", lambda: self.rounds() >= wanted, self.rng.uniform(0.1, 2))
        except Stuck:
            pass

    def declare_lazy_of(self, folder):
        for m in self.mounts:
            if self.ids.get(m.number) == folder:
                m.declare_lazy()

    def declare_lazy(self):
        for m in self.mounts:
            m.declare_lazy()

    # --- what users do ---------------------------------------------------------

    def op_mount(self):
        if len(self.mounts) >= N_MOUNTS:
            return self.op_umount()
        kind = self.rng.choice((FolderMount, ContainerMount))
        m = kind(self, self.rng.randrange(self.n_images))
        self.note(f"mount_{m.kind}", f"v{m.number} {m.path}")
        try:
            reply = self.node.call("image.prepare", {"ref": m.ref, "plain_http": True})
            self.ids[m.number] = reply["id"].removeprefix("sha256:")
            m.start()
        except CallFailed as error:
            self.note_failure("mount_failed", error)
            m.force()
            return None
        self.note(f"mounted_{m.mode}")
        self.mounts.append(m)
        return self.add_view(m)

    def add_view(self, m):
        if len(self.views()) >= N_VIEWS or m.is_gone or mode_of(m.path) is None:
            return
        # An overlay on an overlay of a container's root is nothing of ours.
        choice = VIEWS if m.kind == "folder" else ("plain", "ns")
        view = m.add_view(self.rng.choice(choice))
        self.note("view", view.name)

    def op_view(self):
        if self.mounts:
            self.add_view(self.rng.choice(self.mounts))

    def op_umount(self):
        """In good order: nobody reads it any more."""
        if not self.mounts:
            return
        m = self.rng.choice(self.mounts)
        m.stop_views()
        self.mounts.remove(m)
        self.note("umount", f"{m.kind} v{m.number} {m.mode}")
        if m.is_gone:
            return
        try:
            m.umount()
        except CallFailed as error:
            # Readers' namespaces have a copy of each mount.
            self.note_failure("umount_failed", error)
            m.force()

    def op_umount_in_use(self):
        choice = [m for m in self.mounts if m.views and not m.is_gone]
        if not choice:
            return
        m = self.rng.choice(choice)
        self.note("umount_in_use", f"{m.kind} v{m.number} {m.mode}: " +
                  ", ".join(v.name for v in m.views))
        before = time.monotonic_ns()
        try:
            if self.rng.random() < 0.3:
                m.force()
            else:
                m.umount()
        except CallFailed as error:
            # Where bootseerd died before it answered it may have been done.
            if not self.note_failure("umount_refused", error):
                return
        # Whoever unmounts a lazy image takes the blocks from its readers.
        m.declare_lazy(before)

    def op_complete(self):
        """Have all blocks of an image here and mount it anew."""
        number = self.rng.randrange(self.n_images)
        used = [m for m in self.mounts if m.number == number]
        for m in used:
            m.stop_views()
            self.mounts.remove(m)
            m.force()
        ref = f"{self.node.registry}/img:v{number}"
        reply = self.node.call("image.prepare", {"ref": ref, "plain_http": True})
        reply = self.node.call("image.prefetch", {
            "id": reply["id"], "what": "all", "wait_ms": 20000})
        self.note("prefetch", f"v{number} {reply['phase']}")
        kind = self.rng.choice((FolderMount, ContainerMount))
        m = kind(self, number)
        self.ids[number] = self.node.call(
            "image.prepare", {"ref": ref, "plain_http": True})["id"][7:]
        try:
            m.start()
        except CallFailed:
            m.force()
            raise
        self.note(f"mounted_{m.mode}", f"{m.kind} v{number}")
        self.mounts.append(m)
        for _ in range(self.rng.randint(1, 3)):
            self.add_view(m)

    def op_gc(self):
        self.note("gc_cache")
        self.node.call("node.gc", {"cache_bytes": self.rng.randrange(64 << 20)})

    def op_gc_images(self):
        self.note("gc_images")
        self.node.call("node.gc", {"images": True})

    def op_prefetch(self):
        number = self.rng.randrange(self.n_images)
        ref = f"{self.node.registry}/img:v{number}"
        self.note("prefetch_started", f"v{number}")
        reply = self.node.call("image.prepare", {"ref": ref, "plain_http": True})
        self.node.call("image.prefetch", {"id": reply["id"], "what": "all"})

    def some_op(self):
        ops, weights = zip(
            (self.op_mount, 5), (self.op_view, 3), (self.op_umount, 1),
            (self.op_umount_in_use, 2), (self.op_complete, 3),
            (self.op_gc, 2), (self.op_gc_images, 1), (self.op_prefetch, 1))
        op = self.rng.choices(ops, weights)[0]
        if op.__name__ in self.skip:
            return
        killer = self.kill_meanwhile() if self.rng.random() < 0.2 else None
        try:
            op()
        except CallFailed as error:
            self.note_failure("call_failed", error)
        if killer:
            killer.join()

    def kill_meanwhile(self):
        """Kill bootseerd at some moment of what is done next."""
        def strike(pid):
            if pid and kill(pid):
                self.note("kill_bootseerd", "meanwhile")

        killer = threading.Timer(self.rng.uniform(0, 0.15), strike, [self.node.pid()])
        killer.start()
        return killer

    def release_leftovers(self):
        for m in list(self.leftovers):
            try:
                m.release()
            except CallFailed as error:
                self.note_failure("release_failed", error)
            else:
                self.leftovers.remove(m)

    # --- kills -----------------------------------------------------------------

    def wait_up(self):
        if self.node.holder.poll() is not None:
            self.find("undeclared", "the holder ended by itself")
            self.declare_lazy()
            self.node.start_holder()
        self.node.wait_up()

    def kill_bootseerd(self):
        pid = self.node.pid()
        if not pid or not kill(pid):
            return self.node.wait_up()
        self.note("kill_bootseerd")
        if self.rng.random() < 0.7:
            self.wait_up()
        return None

    def kill_and_damage(self):
        """The holder sleeps meanwhile, so that no successor runs yet."""
        self.node.wait_up()
        os.kill(self.node.holder.pid, signal.SIGSTOP)
        try:
            pid = self.node.pid()
            if not pid or not kill(pid):
                return
            self.note("kill_bootseerd")
            wait_for("bootseerd is gone", lambda: not is_alive(pid))
            for said in self.damage.do_some():
                self.note("damage", said)
        finally:
            os.kill(self.node.holder.pid, signal.SIGCONT)
        self.wait_up()

    def kill_holder(self):
        """Its child lives on, and serves, until it is killed, too."""
        self.node.wait_up()
        child = self.node.pid()
        kill(self.node.holder.pid)
        self.node.holder.wait()
        self.note("kill_holder")
        self.let_read()
        # Without the descriptors lazy mounts are over.
        self.declare_lazy()
        if child and kill(child):
            self.note("kill_bootseerd")
            wait_for("bootseerd is gone", lambda: not is_alive(child))
        if self.rng.random() < 0.5:
            for said in self.damage.do_some():
                self.note("damage", said)
        self.node.start_holder()
        self.wait_up()
        self.drop_dead()

    def drop_dead(self):
        """Mounts that only fail are made anew by their users."""
        for m in [m for m in self.mounts if m.mode == "lazy"]:
            if self.rng.random() < 0.8:
                m.stop_views()
                self.mounts.remove(m)
                if not m.is_gone:
                    m.force()
                self.note("dropped", f"{m.kind} v{m.number}")

    def kill_plugin(self):
        kill(self.node.plugin.pid)
        self.node.plugin.wait()
        self.note("kill_plugin")
        self.node.start_plugin()

    def reboot(self):
        """As a power cut without the loss of writes: nothing of ours is left in
        the kernel, so everything may be damaged."""
        for m in self.mounts:
            m.stop_views()
        self.node.wait_up()
        child = self.node.pid()
        for what, pid in (("kill_holder", self.node.holder.pid),
                          ("kill_bootseerd", child),
                          ("kill_plugin", self.node.plugin.pid)):
            if pid and kill(pid):
                self.note(what)
        self.node.holder.wait()
        self.node.plugin.wait()
        wait_for("bootseerd is gone", lambda: not child or not is_alive(child))
        self.unmount_all()
        for said in self.damage.do_some() + self.damage.do_some():
            self.note("damage", said)
        self.note("reboot")
        self.node.start_holder()
        self.wait_up()
        self.node.start_plugin()
        for m in self.mounts:
            if not m.is_gone:
                m.force()
        self.mounts = []

    def unmount_all(self):
        points = [p for p, _, _ in mounts() if p.startswith(self.t + "/")]
        for point in reversed(points):
            detach(point)

    def some_kill(self):
        ways, weights = zip(
            (self.kill_bootseerd, 8), (self.kill_and_damage, 6),
            (self.kill_plugin, 4), (self.kill_holder, 1.2), (self.reboot, 0.4))
        way = self.rng.choices(ways, weights)[0]
        if way.__name__ not in self.skip:
            way()

    def kills(self):
        return sum(self.counts[f"kill_{w}"] for w in ("bootseerd", "plugin", "holder"))

    # --- the whole -------------------------------------------------------------

    def run(self, n_kills, deadline):
        self.node.start_holder()
        self.node.wait_up()
        self.node.start_plugin()
        self.op_mount()
        # So that each run has compared something, on a busy machine, too.
        wait_for("the first reads", lambda: self.rounds() >= FIRST_ROUNDS, 10 * START_TIMEOUT)
        while self.kills() < n_kills and time.monotonic() < deadline:
            for _ in range(self.rng.randint(1, 4)):
                self.some_op()
            self.let_read()
            self.some_kill()
            self.release_leftovers()
            self.check()
            if len(self.findings) > FINDINGS_MAX:
                break
        self.finish()

    def finish(self):
        """What is left after all this is read once more, every byte of it."""
        self.wait_up()
        self.let_read()
        self.check()
        for m in self.mounts:
            m.stop_views()
            if not m.is_gone:
                m.force()
        self.mounts = []
        wait_for("all mounts are given up",
                 lambda: self.release_leftovers() or not self.leftovers)
        for number in range(self.n_images):
            m = FolderMount(self, number)
            try:
                m.start()
            except CallFailed as error:
                self.find("undeclared", f"at the end: {error}")
                continue
            said = subprocess.run(
                ["diff", "-rq", f"{self.t}/truth/v{number}", m.path],
                capture_output=True, text=True)
            if said.returncode:
                self.find("wrong", f"at the end: {said.stdout}{said.stderr}")
            m.umount()
        self.note("read_all", "at the end")


def result(soak, seconds):
    t = soak.totals
    return {
        "seed": soak.seed,
        "seconds": round(seconds),
        "kills": soak.kills(),
        "reads": t["reads"],
        "mapped_reads": t["mapped"],
        "bytes": t["bytes"],
        "wrong": t["wrong"],
        "zeros": t["zeros"],
        "undeclared": t["undeclared"],
        "stuck": t["stuck"],
        "declared": t["declared"],
        "views_lazy": t["views_lazy"],
        "views_complete": t["views_complete"],
        "actions": dict(sorted(soak.counts.items())),
        "findings": soak.findings,
    }


def inside(args, folder):
    """In the namespaces: PID 1, so that all ends with this process."""
    bind(folder)
    started = time.monotonic()
    soak = Soak(args, folder)
    try:
        soak.run(args.kills, started + args.seconds)
    except Stuck as error:
        soak.find("stuck", str(error))
    seen = result(soak, time.monotonic() - started)
    for name, count in seen["actions"].items():
        print(f"{name} {count}")
    bad = seen["wrong"] + seen["zeros"] + seen["undeclared"] + seen["stuck"]
    print(f"seed={args.seed} " + " ".join(
        f"{k}={seen[k]}" for k in (
            "kills", "reads", "bytes", "wrong", "zeros", "undeclared", "stuck", "declared")))
    if args.json:
        with open(args.json, "w") as out:
            json.dump(seen, out, indent=1)
    if bad:
        print(f"repeat with: --seed {args.seed} --kills {args.kills}", file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    # Not by exit(): threads of gRPC may wait for what is dead.
    os._exit(1 if bad else 0)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", default=os.environ.get("BOOTSEER_BUILD"))
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--kills", type=int, default=1000)
    p.add_argument("--images", type=int, default=8, metavar="N",
                   help="versions; from 8 on they are more than the cache may keep")
    p.add_argument("--seconds", type=int, default=1 << 30, metavar="N",
                   help="begin no round after so many seconds")
    p.add_argument("--json", help="write the figures here, too")
    p.add_argument("--keep", action="store_true", help="keep the folder, with logs")
    p.add_argument("--verbose", action="store_true", help="print each action")
    p.add_argument("--skip", action="append", default=[], metavar="NAME",
                   help="leave this op, kill or damage out, to narrow a failure down")
    p.add_argument("--break", dest="break_truth",
                   choices=("wrong", "zeros", "undeclared"),
                   help="spoil what readers compare with: such must be found then")
    p.add_argument("--node-option", action="append", default=[],
                   help="one more word for bootseerd's command line")
    p.add_argument("--inside", help=argparse.SUPPRESS)
    args = p.parse_args()
    if not args.build:
        p.error("--build or BOOTSEER_BUILD is needed")
    if args.inside:
        inside(args, args.inside)
    folder = tempfile.mkdtemp(prefix="kills.", dir="/var/tmp")
    if args.verbose:
        print(folder, flush=True)
    # An end by a signal removes the folder, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(run_inside(folder))
    finally:
        if args.keep:
            print(f"kept: {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder)


main()
