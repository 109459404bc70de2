#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nodes that set up one environment while things go wrong.

env-drill.py BOOTSEER FOLDER STORE SERVER [--registry PROGRAM] [--bootseerd PROGRAM]
             [--nodes N] [--runs N] [--first N] [--seed N] [--at-once N]

Each run begins with no snapshot: N `bootseer env run` at once, each in a mount namespace
of its own, in which FOLDER/lane*/site is the node's folder.  At random moments the node
whose command runs is killed, and started again; so is one of the others; the store is cut
off for a while; and where PROGRAM, bootseer-registry, keeps the index, which it does in half
of the runs, that is killed and started again, as is a bootseerd in the half that has the
snapshot mounted: each of these, some or none.  Every node has to end with status 0 and the
tree that the command alone makes, by path, attribute and byte, in bounded time, and every
snapshot that is left has to be whole.  A moment is a time after the command began, or a
number of requests that change something.  SERVER is the host:port of the S3 server, which
nodes reach through a proxy here; STORE is the URL with @PROXY@ in its place.  Runs are at
work --at-once, each in a process of its own, and all in one store.
"""
import argparse
import collections
import importlib.util
import json
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BOUND_S = 180
# One bootseerd has the mounts of several nodes, as of several pods.
NODES_A_BOOTSEERD = 8
REQUESTS_MAX = 14  # that change something, of a capture and its lease
LARGE_SHARE = 0.2

COMMAND = """
set -e
cd "$SITE"
echo $PPID >>"$RAN"
mkdir -p pkg/sub deep/a/b old
cp "$FROM"/f* pkg/sub/
cp "$FROM"/g* pkg/
sleep 0.2 # for random moments of the drill to be within the command
ln -f pkg/g1 deep/a/link
ln -sf ../nowhere pkg/symlink
truncate -s 5M pkg/sparse
chmod 0711 pkg/sub
chmod 4755 pkg/g2
setfattr -n user.origin -v drill pkg/g3
rm -f old/gone
find . -not -name '.bootseer*' -exec touch -h -d '2020-01-01 00:00:00.123456789' {} +
"""


def load_list_tree():
    spec = importlib.util.spec_from_file_location(
        "list_tree", os.path.join(HERE, "list-tree.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Proxy:
    """TCP to the server; cut: nothing comes through, and what was open is closed.

    Counts the requests that change something."""

    def __init__(self, server=None):
        self.is_cut = False
        self.n_changes, self.counted = 0, threading.Condition()
        if server:
            self.lead_to(server)
        self.open, self.lock = set(), threading.Lock()
        self.sock = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.at = "127.0.0.1:%d" % self.sock.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def lead_to(self, server):
        host, port = server.rsplit(":", 1)
        self.server = host, int(port)

    def accept(self):
        while True:
            client, _ = self.sock.accept()
            if self.is_cut:
                client.close()
                continue
            try:
                server = socket.create_connection(self.server)
            except OSError:
                client.close()
                continue
            with self.lock:
                self.open |= {client, server}
            for a, b in ((client, server), (server, client)):
                threading.Thread(target=self.carry, args=(a, b),
                                 daemon=True).start()

    def carry(self, a, b):
        try:
            while data := a.recv(65536):
                if data.startswith((b"PUT ", b"POST ", b"DELETE ")):
                    with self.counted:
                        self.n_changes += 1
                        self.counted.notify_all()
                b.sendall(data)
        except OSError:
            pass
        for s in (a, b):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        with self.lock:
            self.open -= {a, b}
        a.close()

    def wait_for_changes(self, n, timeout):
        """Until there were so many."""
        with self.counted:
            self.counted.wait_for(lambda: self.n_changes >= n, timeout)

    def cut(self, is_cut):
        self.is_cut = is_cut
        if is_cut:
            with self.lock:
                for s in self.open:
                    try:
                        s.shutdown(socket.SHUT_RDWR)
                    except OSError:
                        pass


class Daemon:
    """A program that is killed and started again, and says when it is ready."""

    def __init__(self, words, log, ready):
        self.words, self.log, self.ready = words, log, ready
        self.start()

    def start(self):
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(self.words, stdout=log, stderr=log,
                                            stdin=subprocess.DEVNULL)
        until = time.monotonic() + BOUND_S
        while True:
            with open(self.log) as f:
                found = re.search(self.ready, f.read(), re.M)
            if found:
                return found
            if time.monotonic() > until or self.process.poll() is not None:
                self.end()
                raise SystemExit("it does not start: see " + self.log)
            time.sleep(0.05)  # deadline poll

    def end(self, sig=signal.SIGKILL):
        self.process.send_signal(sig)
        self.process.wait()


class Service(Daemon):
    """A bootseer-registry, at the same address again."""

    def __init__(self, program, folder):
        self.proxy = Proxy()
        super().__init__(
            [program, "--listen", "127.0.0.1:0", "--insecure-no-auth",
             "--db", "sqlite:" + os.path.join(folder, "registry.db")],
            os.path.join(folder, "registry.log"), r"ready port=(\d+)")

    def start(self):
        self.proxy.lead_to("127.0.0.1:" + super().start()[1])


class Bootseerd(Daemon):
    """With the holder that starts it again when it was killed."""

    def __init__(self, program, folder, store):
        os.makedirs(folder)
        self.socket = os.path.join(folder, "run", "bootseerd.sock")
        super().__init__(
            [program, "--hold", "--root", os.path.join(folder, "root"),
             "--run", os.path.join(folder, "run"), "--cache-quota", "1G",
             "--env-write-max", "64M",
             "--stall-timeout", "3s",
             "--env-store", store],
            os.path.join(folder, "log"), r"^info main: ready")

    def kill_child(self):
        pid = self.process.pid
        with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
            for child in f.read().split():
                try:
                    os.kill(int(child), signal.SIGKILL)
                except ProcessLookupError:
                    pass

    def wait_until_up(self, bootseer):
        until = time.monotonic() + BOUND_S
        while subprocess.run([bootseer, "node", "status", "--socket", self.socket],
                             capture_output=True).returncode:
            if time.monotonic() > until:
                raise SystemExit("bootseerd is not up again: see " + self.log)
            time.sleep(0.1)  # deadline poll


def is_running_in(pid, namespace):
    try:
        return os.readlink("/proc/%s/ns/mnt" % pid) == namespace
    except OSError:  # it has ended
        return False


class Node:
    """A mount namespace, in which `site` is the node's folder."""

    def __init__(self, folder, site, name, mounter):
        self.name, self.site, self.mounter = name, site, mounter
        self.folder = os.path.join(folder, "node" + name)
        self.log = self.folder + ".log"
        os.makedirs(self.folder)
        # It ends when this process does.
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "slave", "sh", "-c",
             'mount --bind "$0" "$1" && echo && exec cat >/dev/null',
             self.folder, site], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if not self.holder.stdout.readline():
            raise SystemExit("a namespace cannot be made")
        self.proc = "/proc/%d" % self.holder.pid

    def inside(self, words):
        return ["nsenter", "--mount=%s/ns/mnt" % self.proc, "--"] + words

    def is_mounted(self):
        with open(self.proc + "/mountinfo") as f:
            return any(line.split()[4] == self.site and
                       " - overlay bootseer-env:" in line for line in f)

    def prepare(self, bootseer):
        """What is there before the command."""
        while self.is_mounted():
            p = subprocess.run(self.inside([bootseer, "env", "umount", "--socket",
                                            self.mounter.socket, self.site]),
                               capture_output=True, text=True)
            if p.returncode:
                raise SystemExit("%s stays mounted: %s" % (self.folder, p.stderr))
        for entry in os.scandir(self.folder):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)
        old = os.path.join(self.folder, "old")
        os.mkdir(old)
        paths = [os.path.join(old, name) for name in ("gone", "kept")]
        for path in paths:
            with open(path, "w") as f:
                f.write(os.path.basename(path))
        for path in paths + [old, self.folder]:
            os.utime(path, (1514764800, 1514764800))
        open(self.log, "w").close()

    def start(self, words, env):
        with open(self.log, "a") as log:
            return subprocess.Popen(self.inside(words), env=env, stdout=log,
                                    stderr=log, stdin=subprocess.DEVNULL)

    def kill_all(self):
        """As a pod is killed: with what its command has begun, which else goes on writing."""
        here = os.readlink(self.proc + "/ns/mnt")
        until = time.monotonic() + BOUND_S
        while time.monotonic() < until:
            found = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and
                     int(pid) != self.holder.pid and is_running_in(pid, here)]
            if not found:
                return
            for pid in found:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.01)  # deadline poll
        raise SystemExit("processes of a killed pod do not end")

    def tree(self):
        return list(list_tree.lines(self.proc + "/root" + self.site))

    def said(self):
        with open(self.log) as f:
            return f.read()

    def end(self):
        self.holder.kill()
        self.holder.wait()


class Lane:
    """Runs one after the other, with nodes, service and proxy of their own."""

    def __init__(self, args, number):
        self.args = args
        self.folder = os.path.join(args.folder, "lane%d" % number)
        self.site = os.path.join(self.folder, "site")
        self.source = os.path.join(self.folder, "from")
        self.ran = os.path.join(self.folder, "ran")
        self.script = os.path.join(self.folder, "setup.sh")
        self.nodes, self.mounters, self.service = [], [], None
        os.makedirs(self.site)
        with open(self.script, "w") as f:
            f.write(COMMAND)

    def begin(self):
        """Nodes, and another for what the command makes by itself."""
        args = self.args
        self.proxy = Proxy(args.server)
        self.store = args.store.replace("@PROXY@", self.proxy.at)
        if args.registry:
            self.service = Service(args.registry, self.folder)
        for n in range(args.nodes if args.bootseerd else 0):
            if n % NODES_A_BOOTSEERD == 0:
                self.mounters.append(Bootseerd(
                    args.bootseerd, os.path.join(self.folder, "d%d" % n),
                    self.store))
        for n in range(args.nodes + 1):
            mounter = (self.mounters[n // NODES_A_BOOTSEERD]
                       if self.mounters and n < args.nodes else None)
            self.nodes.append(Node(self.folder, self.site, str(n), mounter))
        self.alone = self.nodes.pop()

    def end(self):
        for n in self.nodes + [self.alone]:
            n.end()
        for m in self.mounters:
            m.end(signal.SIGTERM)
        if self.service:
            self.service.end()

    def make_source(self, rng, is_large):
        """What the command copies: some of it is of each run, some of this one."""
        shutil.rmtree(self.source, ignore_errors=True)
        os.mkdir(self.source)
        for i in range(1, 401 if is_large else 17):
            with open("%s/f%d" % (self.source, i), "w") as f:
                f.write("file %d\n" % i)
        for i in range(1, 17):
            content = random.Random(i) if i % 4 else rng
            size = i * (30000 if is_large else 3000)
            with open("%s/g%d" % (self.source, i), "wb") as f:
                f.write(content.randbytes(size))

    def env(self):
        return dict(os.environ, SITE=self.site, RAN=self.ran, FROM=self.source)

    def start(self, node):
        words = [self.args.bootseer, "env", "run", "--store", self.store,
                 "--store-timeout", "3s", "--lease", "2s", "--wait", "60s",
                 "--key", "RUN=" + self.run_key, "--target", self.site]
        if self.is_served:
            words += ["--service", "http://" + self.service.proxy.at]
        words += (["--socket", node.mounter.socket] if self.is_mounted
                  else ["--unpack"])
        return node.start(words + ["--", "sh", self.script], self.env())

    def reference(self):
        """What the command alone makes."""
        self.alone.prepare(self.args.bootseer)
        if self.alone.start(["sh", self.script], self.env()).wait() != 0:
            raise SystemExit("the command fails: " + self.alone.said())
        os.unlink(self.ran)
        return self.alone.tree()

    def capturer(self):
        """The process whose command began last, if there is one."""
        try:
            with open(self.ran) as f:
                return int(f.read().split()[-1])
        except (OSError, IndexError, ValueError):
            return None

    def wait_for_moment(self, rng):
        """From when the command runs: however busy the machine is, it is the command or
        its capture that is hit, and not the start."""
        until = time.monotonic() + BOUND_S / 3
        while not self.capturer() and time.monotonic() < until:
            time.sleep(0.02)  # deadline poll
        if rng.random() < 0.5:
            time.sleep(rng.random() ** 2 * 3)
            return
        # Of the last ones there are none when nothing else goes wrong.
        self.proxy.wait_for_changes(self.proxy.n_changes +
                                    rng.randrange(REQUESTS_MAX), 3)

    def kill_node(self, n):
        self.procs[n].send_signal(signal.SIGKILL)
        self.procs[n].wait()
        self.nodes[n].kill_all()
        self.procs[n] = self.start(self.nodes[n])

    def hurt(self, rng, kind):
        """Kill and cut at moments that the seed says; returns what was done."""
        done = []
        self.wait_for_moment(rng)
        if "cut" in kind:
            self.proxy.cut(True)
            done.append("cut")
        if "service" in kind:
            self.service.end()
            done.append("service")
        pid = self.capturer()
        alive = [n for n, p in enumerate(self.procs) if p.poll() is None]
        for n in alive:
            if "kill" in kind and self.procs[n].pid == pid:
                self.kill_node(n)
                done.append("killed")
        others = [n for n in alive if self.procs[n].pid != pid]
        if "other" in kind and others:
            self.kill_node(rng.choice(others))
            done.append("killed another")
        if "bootseerd" in kind:
            rng.choice(self.mounters).kill_child()
            done.append("bootseerd")
        if "service" in kind:
            time.sleep(rng.random() * 3)
            self.service.start()
        if "cut" in kind:
            time.sleep(rng.random() * 5)
            self.proxy.cut(False)
        return done

    def choose_kind(self, rng):
        kinds = [("kill",), ("cut",), ("kill", "cut"), ("kill",), (),
                 ("other",), ("kill", "other")]
        self.is_served = bool(self.service) and rng.random() < 0.5
        self.is_mounted = bool(self.mounters) and rng.random() < 0.5
        if self.is_served:
            kinds += [("service",), ("kill", "service"), ("cut", "service"),
                      ("kill", "cut", "service")]
        if self.is_mounted:
            kinds += [("bootseerd",), ("kill", "bootseerd"),
                      ("cut", "bootseerd"), ("other", "bootseerd")]
        return rng.choice(kinds)

    def wait_for_nodes(self, begun):
        for n, p in enumerate(self.procs):
            left = max(0, begun + BOUND_S - time.monotonic())
            try:
                status = p.wait(timeout=left)
            except subprocess.TimeoutExpired:
                raise SystemExit("node %d is not done in %d s: %s" % (
                    n, BOUND_S, self.nodes[n].said()[-500:]))
            if status != 0:
                raise SystemExit("node %d ended with %d: %s" % (
                    n, status, self.nodes[n].said()[-500:]))

    def compare(self, wanted):
        for n in self.nodes:
            tree = n.tree()
            if tree != wanted:
                raise SystemExit("%s has another tree: %s: %s" % (
                    n.folder, sorted(set(tree) ^ set(wanted))[:6],
                    n.said()[-500:]))

    def run(self, number):
        rng = random.Random(self.args.seed * 100003 + number)
        kind = self.choose_kind(rng)
        is_large = rng.random() < LARGE_SHARE
        self.run_key = "%d-%d" % (self.args.seed, number)
        self.make_source(rng, is_large)
        wanted = self.reference()
        for m in self.mounters:
            m.wait_until_up(self.args.bootseer)
        for n in self.nodes:
            n.prepare(self.args.bootseer)
        begun = time.monotonic()
        self.procs = [self.start(n) for n in self.nodes]
        try:
            done = self.hurt(rng, kind)
            self.wait_for_nodes(begun)
            took = time.monotonic() - begun
            self.compare(wanted)
        finally:
            self.proxy.cut(False)
            for p in self.procs:
                if p.poll() is None:
                    p.kill()
                    p.wait()
        ends = collections.Counter(
            (re.findall("bootseer env run: (mounted|restored|captured) ",
                        n.said()) or ["run"])[-1] for n in self.nodes)
        with open(self.ran) as f:
            n_ran = len(f.read().split())
        return {"number": number, "done": done, "took": took, "ran": n_ran,
                "ends": ends, "large": is_large, "served": self.is_served,
                "mounts": self.is_mounted}

    def runs(self, first, step):
        results = os.path.join(self.folder, "results")
        for number in range(first, self.args.first + self.args.runs, step):
            try:
                r = self.run(number)
            except SystemExit as e:
                if isinstance(e.code, int):
                    raise  # another lane failed
                raise SystemExit("run %d: %s" % (number, e))
            with open(results, "a") as f:
                f.write(json.dumps(r) + "\n")
            print("run %d%s%s%s: %s: %.1f s, the command ran %d times; %s" % (
                number, ", large" if r["large"] else "",
                ", with the service" if r["served"] else "",
                ", mounts" if r["mounts"] else "",
                ", ".join(r["done"]) or "nothing", r["took"], r["ran"],
                ", ".join("%d %s" % (n, what) for what, n
                          in sorted(r["ends"].items()))), flush=True)


def lane_main(args, number):
    """The process of a lane."""
    lane = Lane(args, number)
    try:
        lane.begin()
        lane.runs(args.first + number, args.at_once)
    finally:
        lane.end()


def start_lane(args, number):
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        lane_main(args, number)
        status = 0
    except SystemExit as e:
        if not isinstance(e.code, int):
            print(e, flush=True)
    finally:
        os._exit(status)


def run_lanes(args):
    """The first that fails ends all."""
    pids = {start_lane(args, n) for n in range(min(args.at_once, args.runs))}
    is_good = True
    try:
        while pids:
            pid, status = os.wait()
            pids.discard(pid)
            if status:
                is_good = False
                break
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        for pid in pids:
            os.waitpid(pid, 0)
    return is_good


def verify(args):
    """What is left in the store is whole, or says that it is not there."""
    p = subprocess.run([args.bootseer, "env", "verify",
                        args.store.replace("@PROXY@", args.server)],
                       capture_output=True, text=True)
    if p.returncode != 0:
        raise SystemExit("a snapshot is not whole: " + p.stdout + p.stderr)
    return p.stdout.count("good")


def say_figures(args):
    rows = []
    for n in range(min(args.at_once, args.runs)):
        with open(os.path.join(args.folder, "lane%d" % n, "results")) as f:
            rows += map(json.loads, f)
    took = [r["took"] for r in rows]
    done = collections.Counter(w for r in rows for w in r["done"])
    print("%.1f to %.1f s, median %.1f; %d with the service, %d with mounts, %d large; %s" % (
        min(took), max(took), statistics.median(took),
        sum(r["served"] for r in rows), sum(r["mounts"] for r in rows),
        sum(r["large"] for r in rows),
        ", ".join("%s %d" % w for w in sorted(done.items())) or "nothing"))


def main():
    p = argparse.ArgumentParser()
    for name in ("bootseer", "folder", "store", "server"):
        p.add_argument(name)
    p.add_argument("--registry")
    p.add_argument("--bootseerd")
    p.add_argument("--nodes", type=int, default=32)
    p.add_argument("--runs", type=int, default=200)
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--at-once", type=int, default=1)
    args = p.parse_args()
    # What is mounted goes with the namespace, and nodes' see what bootseerd mounts in it.
    if not os.environ.pop("DRILL_NAMESPACE", None):
        os.environ["DRILL_NAMESPACE"] = "1"
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "shared",
                              sys.executable] + sys.argv)
    # As what else ends it: what was started is ended, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    args.folder = os.path.abspath(args.folder)
    if not run_lanes(args):
        raise SystemExit(1)
    n_good = verify(args)
    if args.runs and not n_good:
        raise SystemExit("no run left a snapshot")
    say_figures(args)
    print("%d snapshots are whole" % n_good)
    print("%d runs of %d nodes: all trees are right" % (args.runs, args.nodes))


list_tree = load_list_tree()
main()
