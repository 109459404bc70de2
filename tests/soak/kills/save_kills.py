#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Kill ranks and mounts at random, and stop mounts as a cut link does, while ranks of three nodes
save steps together: a step is whole or not there, after `buffered` the loss of one node loses
nothing, each future says the truth, and all end within their deadlines. Steps have bytes in common,
earlier ones are removed meanwhile, and `ckpt gc` gives back what no step needs. docs/testing.md,
"Long runs". Ends with 0 when that was so.

All runs in PID and mount namespaces of its own, so that nothing is left behind however it ends."""

import argparse
import json
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../../../python")]
sys.dont_write_bytecode = True

import bootseer_group
from apart import Stuck, bind, kill, libc, run_inside, wait_for

NODES, RANKS = 3, 6
WAIT = 2  # --group-wait, seconds
STAGE, STORE = 10, 20  # deadlines of a save, seconds
SLACK = 30  # for a busy machine
COMMON, OWN = 13_000_000, 2_500_000
SAME = 8  # steps in a row that have the same common bytes
KEPT = 2  # steps that are there are not removed
OLDER = 45  # seconds: longer than a save may take
MNT_DETACH = 2
FINDINGS_MAX = 10


def tensors(step, rank):
    common = random.Random(step // SAME).randbytes(COMMON)
    own = random.Random("%d %d" % (step, rank)).randbytes(OWN)
    return {"common": ("U8", [COMMON], common), "own": ("U8", [OWN], own)}


def check_file(path, step):
    """Is it the step, whole, of all ranks?"""
    with open(path, "rb") as f:
        data = f.read()
    length, = struct.unpack("<Q", data[:8])
    head = json.loads(data[8:8 + length])
    for rank in range(RANKS):
        for name, (_, _, want) in tensors(step, rank).items():
            key = name if name in head else "%s@rank%d" % (name, rank)
            begin, end = (8 + length + o for o in head[key]["data_offsets"])
            if data[begin:end] != want:
                return "%s of rank %d is other bytes" % (name, rank)
    return None


class Node:
    def __init__(self, soak, number):
        self.soak, self.number = soak, number
        self.path = "%s/m%d" % (soak.folder, number)
        self.socket = "%s/ranks%d" % (soak.folder, number)
        self.process = None
        os.mkdir(self.path)

    def start(self):
        log = open("%s/log%d" % (self.soak.folder, self.number), "ab")
        self.process = subprocess.Popen(
            [self.soak.bootseer, "ckpt", "mount", "--foreground", "--run=" + self.soak.folder + "/run",
             "--group=127.0.0.1:%d" % self.soak.port, "--group-key=" + self.soak.folder + "/key",
             "--group-socket=" + self.socket, "--group-wait=%ds" % WAIT, self.soak.store, self.path],
            stdout=log, stderr=log, start_new_session=True)
        log.close()
        wait_for("the socket of node %d" % self.number, self.is_ready)

    def is_ready(self):
        try:
            return bool(bootseer_group.address_of(self.socket))
        except (OSError, ValueError):
            return False

    def pids(self):
        """The process that holds the mount, and the one that serves it."""
        out = subprocess.run(["ps", "-o", "pid=", "-s", str(self.process.pid)],
                             capture_output=True, text=True, check=False).stdout
        return [int(pid) for pid in out.split()]

    def tell(self, number):
        for pid in self.pids():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def kill(self):
        self.tell(signal.SIGKILL)
        self.process.wait()
        libc.umount2(self.path.encode(), MNT_DETACH)
        self.process = None


class Rank:
    """A process that saves one step; what its futures said is `said` when it is over."""

    def __init__(self, nodes, members, rank, job, step):
        self.rank, self.node = rank, nodes[rank * NODES // RANKS]
        self.said, self.is_killed = [], False
        reader, writer = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(reader)
            self.save(writer, members, job, step)
        os.close(writer)
        self.thread = threading.Thread(target=self.listen, args=(reader,), daemon=True)
        self.thread.start()

    def save(self, writer, members, job, step):
        try:
            group = bootseer_group.Group(self.node.socket, self.rank, members, job)
            save = group.put("step%d" % step, tensors(step, self.rank), STAGE, STORE)
            for name in ("buffered", "durable"):
                try:
                    getattr(save, name).wait()
                    line = name
                except bootseer_group.SaveError as why:
                    line = "not %s: %s" % (name, why)
                os.write(writer, (line + "\n").encode())
        except Exception as why:
            os.write(writer, ("not saved: %r\n" % why).encode())
        os._exit(0)

    def listen(self, reader):
        with os.fdopen(reader) as lines:
            for line in lines:
                self.said.append(line.strip())
        os.waitpid(self.pid, 0)

    def kill(self):
        self.is_killed = True
        kill(self.pid)


class Soak:
    def __init__(self, options, folder):
        self.folder, self.rng = folder, random.Random(options.seed)
        self.kills, self.findings, self.counts = options.kills, [], {}
        self.store = "file://%s/store" % folder
        self.bootseer = os.path.join(options.build, "cli/bootseer")
        os.environ["PATH"] = os.path.join(options.build, "ckpt-fuse/mount") + ":" + os.environ["PATH"]
        self.port = 20000 + os.getpid() % 1000
        os.mkdir(folder + "/store")
        with open(os.open(folder + "/key", os.O_CREAT | os.O_WRONLY, 0o600), "w") as f:
            f.write(random.Random(options.seed).randbytes(32).hex())
        self.nodes = [Node(self, i) for i in range(NODES)]
        self.there = []  # steps that are

    def ckpt(self, *command):
        return subprocess.run([self.bootseer, "ckpt", *command], capture_output=True, check=False,
                              text=True)

    def forget(self):
        """Remove steps, while another is saved."""
        for step in self.there[:-KEPT]:
            done = self.ckpt("rm", self.store, "step%d" % step)
            if done.returncode:
                self.findings.append("step%d is not removed: %s" % (step, done.stderr))
        del self.there[:-KEPT]
        done = self.ckpt("gc", "--older=%ds" % OLDER, self.store)
        if done.returncode:
            self.findings.append("gc: %s" % done.stderr)

    def look(self, step):
        """None: the step is not there; what is wrong with it, or ''."""
        copy = self.folder + "/copy"
        found = self.ckpt("cp", self.store, ":step%d" % step, copy)
        if found.returncode:
            self.last_error = found.stderr
            return None
        wrong = check_file(copy, step)
        os.unlink(copy)
        return wrong or ""

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def harm(self, ranks):
        """Does one or two things to the job; how many nodes were lost, and how many kills it were."""
        kind = self.rng.choice(["node", "node", "rank", "two nodes", "stop", "node and rank", "late node"])
        self.count(kind)
        if kind == "late node":
            # Once the step is buffered, wherever that is heard.
            wait_until = time.monotonic() + STAGE
            while time.monotonic() < wait_until and not any("buffered" in r.said for r in ranks):
                time.sleep(0.001)  # a deadline poll
        else:
            time.sleep(self.rng.random() * self.rng.choice([0.1, 0.6, 2]))  # the moment is random
        victims = self.rng.sample(self.nodes, 2 if kind == "two nodes" else 1)
        if kind == "stop":
            victims[0].tell(signal.SIGSTOP)
            time.sleep(WAIT * self.rng.choice([0.3, 2]))  # random: as long as a link is cut
            victims[0].tell(signal.SIGCONT)
            return 1, 1
        n = 0
        if "rank" in kind:
            self.rng.choice(ranks).kill()
            n += 1
        if "node" in kind:
            for victim in victims:
                victim.kill()
                n += 1
        return (len(victims) if "node" in kind else 0), n

    def judge(self, step, ranks, n_lost):
        name = "step%d" % step
        wrong = self.look(step)
        said = [line for r in ranks for line in r.said]
        is_there = wrong is not None
        if wrong:
            self.findings.append("%s: %s" % (name, wrong))
        for before in self.there:
            wrong = self.look(before)
            if wrong != "":
                self.findings.append("step%d was there, and after %s: %s"
                                     % (before, name, wrong or self.last_error))
        if is_there:
            self.there.append(step)
        if not is_there and "durable" in said:
            self.findings.append("%s is said to be durable, and is not there: %s"
                                 % (name, self.last_error))
        if not is_there and "buffered" in said and n_lost < 2:
            self.findings.append("%s was buffered, %d nodes were lost, and it is not there: %s"
                                 % (name, n_lost, said))
        for line in said if is_there else ():
            if line.startswith("not durable") and "look" not in line:
                self.findings.append("%s is there, and a rank was told: %s" % (name, line))
        self.count("there" if is_there else "not there")

    def round(self, step):
        for node in self.nodes:
            if not node.process:
                node.start()
        members = [bootseer_group.address_of(self.nodes[r * NODES // RANKS].socket)
                   for r in range(RANKS)]
        job = "soak %d" % step
        ranks = [Rank(self.nodes, members, r, job, step) for r in range(RANKS)]
        forgetting = threading.Thread(target=self.forget)
        forgetting.start()
        n_lost, n = self.harm(ranks)
        forgetting.join()
        end = time.monotonic() + STAGE + STORE + SLACK
        for r in ranks:
            r.thread.join(max(0, end - time.monotonic()))
            if r.thread.is_alive():
                self.findings.append("step%d: rank %d hangs; it heard %s" % (step, r.rank, r.said))
                r.kill()
            elif not r.is_killed and (not r.said or not (
                    r.said[-1] == "durable" or r.said[-1].startswith("not "))):
                self.findings.append("step%d: rank %d heard %s" % (step, r.rank, r.said))
        self.judge(step, ranks, n_lost)
        return n

    def run(self):
        step, done = 0, 0
        while done < self.kills and len(self.findings) < FINDINGS_MAX:
            step += 1
            done += self.round(step)
        for node in self.nodes:
            if node.process:
                node.kill()
        named = 0
        for n in range(NODES):
            with open("%s/log%d" % (self.folder, n), errors="replace") as log:
                named += sum(int(line.rpartition(" unchanged=")[2]) for line in log
                             if " unchanged=" in line)
        print(json.dumps({"kills": done, "steps": step, **self.counts, "unchanged": named,
                          "findings": self.findings}))
        return 1 if self.findings else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--kills", type=int, required=True)
    parser.add_argument("--inside")
    options = parser.parse_args()
    if options.inside:
        libc.setsid()
        bind(options.inside)
        try:
            return Soak(options, options.inside).run()
        except Stuck as why:
            print("stuck: %s" % why, file=sys.stderr)
            return 1
    with tempfile.TemporaryDirectory(prefix="save-kills.") as folder:
        status = run_inside(folder)
        if status:
            for n in range(NODES):
                with open("%s/log%d" % (folder, n), errors="replace") as log:
                    sys.stderr.write("node %d:\n%s" % (n, log.read()[-6000:]))
        return status


sys.exit(main())
