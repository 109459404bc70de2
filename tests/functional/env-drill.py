#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Nodes that set up one environment while things go wrong.

env-drill.py BOOTSEER FOLDER STORE SERVER [--registry PROGRAM] [--nodes N] [--runs N]
             [--seed N]

Each run begins with no snapshot: N `bootseer env run` at once, each in a mount namespace
of its own, in which FOLDER/site is the node's folder.  At random moments the node whose
command runs is killed, and started again; the store is cut off for a while; and where
PROGRAM, bootseer-registry, keeps the index, which it does in half of the runs, it is killed
and started again: each of these, some or none.  Every node has to end with status 0 and the
same tree, by path, attribute and byte, in bounded time, and every snapshot that is left has
to be whole.  SERVER is the host:port of the S3 server, which nodes reach through a proxy
here; STORE is the URL with @PROXY@ in its place.
"""
import argparse
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BOUND_S = 180

COMMAND = """
set -e
cd "$SITE"
echo $PPID >>"$RAN"
mkdir -p pkg/sub deep/a/b old
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
	echo "file $i" >pkg/sub/f$i
	head -c $((i * 30000)) /dev/zero | tr '\\0' "\\\\$((100 + i % 8))" >pkg/g$i
done
sleep 0.2
ln -f pkg/g1 deep/a/link
ln -sf ../nowhere pkg/symlink
truncate -s 5M pkg/sparse
chmod 0711 pkg/sub
chmod 4755 pkg/g2
setfattr -n user.origin -v drill pkg/g3
rm -f old/gone
find . -not -name '.bootseer*' -exec touch -h -d '2020-01-01 00:00:00.123456789' {} +
"""


class Proxy:
    """TCP to the server; cut: nothing comes through, and what was open is closed."""

    def __init__(self, server=None):
        self.is_cut = False
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

    def cut(self, is_cut):
        self.is_cut = is_cut
        if is_cut:
            with self.lock:
                for s in self.open:
                    try:
                        s.shutdown(socket.SHUT_RDWR)
                    except OSError:
                        pass


class Service:
    """A bootseer-registry that is killed and started again, at the same address."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.proxy = Proxy()
        self.log = os.path.join(folder, "registry.log")
        self.start()

    def start(self):
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [self.program, "--listen", "127.0.0.1:0", "--insecure-no-auth",
                 "--db", "sqlite:" + os.path.join(self.folder, "registry.db")],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        until = time.monotonic() + BOUND_S
        while True:
            with open(self.log) as f:
                found = re.search(r"ready port=(\d+)", f.read())
            if found:
                break
            if time.monotonic() > until or self.process.poll() is not None:
                self.end()
                raise SystemExit("the service does not start: see " + self.log)
            time.sleep(0.05)
        self.proxy.lead_to("127.0.0.1:" + found[1])

    def end(self):
        self.process.kill()
        self.process.wait()


class Drill:
    def __init__(self, args, proxy, service):
        self.args, self.proxy, self.service = args, proxy, service
        self.is_served = False  # the service keeps the index in this run
        self.site = os.path.join(args.folder, "site")
        self.ran = os.path.join(args.folder, "ran")
        self.script = os.path.join(args.folder, "setup.sh")
        os.makedirs(self.site, exist_ok=True)
        with open(self.script, "w") as f:
            f.write(COMMAND)

    def node_dir(self, n):
        return os.path.join(self.args.folder, "node%d" % n)

    def prepare(self, n):
        folder = self.node_dir(n)
        subprocess.run(["rm", "-rf", folder], check=True)
        os.makedirs(folder + "/old")
        for name in ("gone", "kept"):
            with open(folder + "/old/" + name, "w") as f:
                f.write(name)
        subprocess.run(["find", folder, "-exec", "touch", "-d", "2018-01-01",
                        "{}", "+"], check=True)

    def start(self, n, run, command=True):
        env = dict(os.environ, SITE=self.site, RAN=self.ran)
        words = ["sh", self.script]
        if command:
            served = (["--service", "http://" + self.service.proxy.at]
                      if self.is_served else [])
            words = [self.args.bootseer, "env", "run", "--store",
                     self.args.store.replace("@PROXY@", self.proxy.at),
                     "--store-timeout", "3s", "--lease", "2s", "--wait", "60s",
                     "--key", "RUN=%s" % run, "--target", self.site
                     ] + served + ["--"] + words
        with open(self.node_dir(n) + ".log", "a") as log:
            return subprocess.Popen(
                ["unshare", "--mount", "sh", "-c",
                 'mount --bind "$0" "$SITE" && exec "$@"',
                 self.node_dir(n)] + words,
                env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def tree(self, n):
        return subprocess.run(
            [sys.executable, os.path.join(HERE, "list-tree.py"),
             self.node_dir(n)], check=True, capture_output=True).stdout

    def capturer(self):
        """The node whose command began last, if there is one: its pid."""
        try:
            with open(self.ran) as f:
                return int(f.read().split()[-1])
        except (OSError, IndexError, ValueError):
            return None

    def hurt(self, rng, procs, kind, run):
        """Kill and cut at moments that the seed says; returns what was done."""
        done = []
        until = time.monotonic() + BOUND_S / 3
        # From the moment on when the command runs: however busy the machine is, it is the
        # command or its capture that is hit, and not the start.
        while not self.capturer() and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(rng.random() ** 2 * 3)
        if "cut" in kind:
            self.proxy.cut(True)
            done.append("cut")
        if "service" in kind:
            self.service.end()
            done.append("service")
        if "kill" in kind:
            pid = self.capturer()
            for n, p in enumerate(procs):
                if p.pid == pid and p.poll() is None:
                    p.send_signal(signal.SIGKILL)
                    p.wait()
                    procs[n] = self.start(n, run)
                    done.append("killed %d" % n)
        if "service" in kind:
            time.sleep(rng.random() * 3)
            self.service.start()
        if "cut" in kind:
            time.sleep(rng.random() * 5)
            self.proxy.cut(False)
        return done

    def run(self, number):
        rng = random.Random(self.args.seed * 100003 + number)
        kinds = [("kill",), ("cut",), ("kill", "cut"), ("kill",), ()]
        self.is_served = bool(self.service) and rng.random() < 0.5
        if self.is_served:
            kinds += [("service",), ("kill", "service"), ("cut", "service"),
                      ("kill", "cut", "service")]
        kind = rng.choice(kinds)
        run = "%d-%d" % (os.getpid(), number)
        for path in (self.ran,):
            if os.path.exists(path):
                os.unlink(path)
        for n in range(self.args.nodes):
            self.prepare(n)
            open(self.node_dir(n) + ".log", "w").close()
        begun = time.monotonic()
        procs = [self.start(n, run) for n in range(self.args.nodes)]
        try:
            done = self.hurt(rng, procs, kind, run)
            for n, p in enumerate(procs):
                left = max(0, begun + BOUND_S - time.monotonic())
                if p.wait(timeout=left) != 0:
                    raise SystemExit("run %d: node %d ended with %d: %s" % (
                        number, n, p.returncode, self.said(n)))
        except subprocess.TimeoutExpired:
            raise SystemExit("run %d: node %d is not done in %d s: %s" % (
                number, n, BOUND_S, self.said(n)))
        finally:
            self.proxy.cut(False)
            for p in procs:
                if p.poll() is None:
                    p.kill()
                    p.wait()
        took = time.monotonic() - begun
        self.compare(number)
        with open(self.ran) as f:
            n_ran = len(f.read().split())
        print("run %d: %s%s: %.1f s, the command ran %d times" % (
            number, "with the service, " if self.is_served else "",
            ", ".join(done) or "nothing", took, n_ran), flush=True)

    def said(self, n):
        with open(self.node_dir(n) + ".log") as f:
            return f.read()[-500:]

    def compare(self, number):
        for n in range(self.args.nodes):
            if self.tree(n) != self.wanted:
                raise SystemExit("run %d: node %d has another tree, kept in "
                                 "%s: %s" % (number, n, self.node_dir(n),
                                             self.said(n)))

    def verify(self):
        """What is left in the store is whole, or says that it is not there."""
        p = subprocess.run([self.args.bootseer, "env", "verify",
                            self.args.store.replace("@PROXY@", self.proxy.at)],
                           capture_output=True, text=True)
        if p.returncode != 0:
            raise SystemExit("a snapshot is not whole: " + p.stdout + p.stderr)
        return p.stdout.count("good")

    def reference(self):
        """What the command alone makes."""
        self.prepare(0)
        if self.start(0, "", command=False).wait() != 0:
            raise SystemExit("the command fails: " + self.said(0))
        self.wanted = self.tree(0)


def main():
    p = argparse.ArgumentParser()
    for name in ("bootseer", "folder", "store", "server"):
        p.add_argument(name)
    p.add_argument("--registry")
    p.add_argument("--nodes", type=int, default=32)
    p.add_argument("--runs", type=int, default=200)
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    # As what else ends it: what was started is ended, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    service = Service(args.registry, args.folder) if args.registry else None
    try:
        drill = Drill(args, Proxy(args.server), service)
        drill.reference()
        for number in range(args.runs):
            drill.run(number)
        n_good = drill.verify()
        if args.runs and not n_good:
            raise SystemExit("no run left a snapshot")
    finally:
        if service:
            service.end()
    print("%d snapshots are whole" % n_good)
    print("%d runs of %d nodes: all trees are right" % (args.runs, args.nodes))


main()
