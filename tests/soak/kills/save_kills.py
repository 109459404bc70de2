#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Kill ranks and mounts at random, stop mounts, drop what comes to a node's ports, and kill the
store's server, while ranks of three nodes save steps together, and then read them together: a step is
whole or not there, after `buffered` the loss of one node loses nothing, each future says the truth,
whoever reads has the step's bytes unless the own mount was killed, and all end within their deadlines.
Steps have bytes in common, earlier ones are removed meanwhile, and `ckpt gc` gives back what no step
needs. docs/testing.md, "Long runs". Ends with 0 when that was so.

All runs in PID, mount and network namespaces of its own, so that nothing is left behind however it
ends."""

import argparse
import json
import os
import random
import re
import signal
import socket
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
LOAD = 20  # seconds that readers may take, whoever was killed
PORT, S3_PORT = 29600, 9000  # in a network namespace of their own
MNT_DETACH = 2
FINDINGS_MAX = 10
SAVE_HARMS = ["node", "node", "rank", "two nodes", "stop", "node and rank", "late node", "link"]
LOAD_HARMS = ["node", "stop", "link"]


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
             "--group=127.0.0.1:%d" % PORT, "--group-key=" + self.soak.folder + "/key",
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

    def cut(self, seconds):
        """Drop what comes to its ports, and what they answer, for so long."""
        pids = {str(pid) for pid in self.pids()}
        listening = subprocess.run(["ss", "-ltnpH"], capture_output=True, text=True, check=True).stdout
        ports = {re.search(r":([0-9]+) ", line)[1] for line in listening.splitlines()
                 if pids & set(re.findall(r"pid=([0-9]+)", line))}
        subprocess.run(["nft", "-f", "-"], input="".join(
            ["add table inet cut\nadd chain inet cut input { type filter hook input priority 0; }\n",
             *("add rule inet cut input tcp %s %s drop\n" % (side, port)
               for port in ports for side in ("sport", "dport"))]), text=True, check=True)
        time.sleep(seconds)  # random: as long as the link is cut
        subprocess.run(["nft", "delete", "table", "inet", "cut"], check=True)

    def kill(self):
        self.tell(signal.SIGKILL)
        self.process.wait()
        libc.umount2(self.path.encode(), MNT_DETACH)
        self.process = None


class Server:
    """The store's: versitygw, on a folder."""

    def __init__(self, program, folder):
        self.command = [program, "--keep-alive", "--virtual-domain", "localhost", "--port",
                        "127.0.0.1:%d" % S3_PORT, "posix", folder + "/s3"]
        self.log = folder + "/s3.log"
        self.is_there = threading.Event()
        os.makedirs(folder + "/s3/bkt")
        os.environ.update(ROOT_ACCESS_KEY="testkey1234", ROOT_SECRET_KEY="testsecret1234",
                          AWS_ACCESS_KEY_ID="testkey1234", AWS_SECRET_ACCESS_KEY="testsecret1234",
                          AWS_EC2_METADATA_DISABLED="true", no_proxy="*")
        self.start()

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        wait_for("the store", self.listens)
        self.is_there.set()

    def listens(self):
        try:
            socket.create_connection(("127.0.0.1", S3_PORT), 1).close()
            return True
        except OSError:
            return False

    def be_away(self, seconds):
        self.is_there.clear()
        self.process.kill()
        self.process.wait()
        time.sleep(seconds)  # random: as long as it is away
        self.start()


class Child:
    """A process of a node's job, that says the lines of `work`, which are `said` when it is over."""

    def __init__(self, node, work):
        self.node, self.said, self.is_killed = node, [], False
        reader, writer = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.close(reader)
            try:
                for line in work:
                    os.write(writer, (line + "\n").encode())
            except Exception as why:
                os.write(writer, ("not done: %r\n" % why).encode())
            os._exit(0)
        os.close(writer)
        self.thread = threading.Thread(target=self.listen, args=(reader,), daemon=True)
        self.thread.start()

    def listen(self, reader):
        with os.fdopen(reader) as lines:
            for line in lines:
                self.said.append(line.strip())
        os.waitpid(self.pid, 0)

    def kill(self):
        self.is_killed = True
        kill(self.pid)


def save_step(node, rank, members, job, step):
    group = bootseer_group.Group(node.socket, rank, members, job)
    save = group.put("step%d" % step, tensors(step, rank), STAGE, STORE)
    for name in ("buffered", "durable"):
        try:
            getattr(save, name).wait()
            yield name
        except bootseer_group.SaveError as why:
            yield "not %s: %s" % (name, why)


def load_step(node, step):
    yield check_file("%s/step%d" % (node.path, step), step) or "whole"


class Soak:
    def __init__(self, options, folder):
        self.folder, self.rng = folder, random.Random(options.seed)
        self.kills, self.findings, self.counts = options.kills, [], {}
        self.server = Server(options.s3, folder) if options.s3 else None
        self.store = ("s3://bkt/ckpt?endpoint=http://127.0.0.1:%d" % S3_PORT if options.s3 else
                      "file://%s/store" % folder)
        self.bootseer = os.path.join(options.build, "cli/bootseer")
        os.environ["PATH"] = os.path.join(options.build, "ckpt-fuse/mount") + ":" + os.environ["PATH"]
        os.mkdir(folder + "/store")
        with open(os.open(folder + "/key", os.O_CREAT | os.O_WRONLY, 0o600), "w") as f:
            f.write(random.Random(options.seed).randbytes(32).hex())
        self.nodes = [Node(self, i) for i in range(NODES)]
        self.there = []  # steps that are

    def ckpt(self, *command):
        return subprocess.run([self.bootseer, "ckpt", *command], capture_output=True, check=False,
                              text=True)

    def ckpt_again(self, *command):
        """The same, once more where the store may have been away."""
        done = self.ckpt(*command)
        if done.returncode and self.server:
            self.server.is_there.wait()
            done = self.ckpt(*command)
        return done

    def forget(self):
        """Remove steps, while another is saved."""
        for step in self.there[:-KEPT]:
            done = self.ckpt_again("rm", self.store, "step%d" % step)
            # Its answer may have been lost with the server.
            if done.returncode and self.look(step) is not None:
                self.findings.append("step%d is not removed: %s" % (step, done.stderr))
        del self.there[:-KEPT]
        done = self.ckpt_again("gc", "--older=%ds" % OLDER, self.store)
        if done.returncode:
            self.findings.append("gc: %s" % done.stderr)

    def look(self, step):
        """None: the step is not there; what is wrong with it, or ''."""
        copy = "%s/copy%d" % (self.folder, threading.get_ident())
        found = self.ckpt("cp", self.store, ":step%d" % step, copy)
        if found.returncode:
            self.last_error = found.stderr
            return None
        wrong = check_file(copy, step)
        os.unlink(copy)
        return wrong or ""

    def count(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def harm(self, children, kinds):
        """Does one or two things to the job; how many nodes were lost, and how many kills it were."""
        kind = self.rng.choice(kinds + ["store"] * bool(self.server))
        self.count("%s while it %s" % (kind, "saves" if kinds is SAVE_HARMS else "loads"))
        if kind == "late node":
            # Once the step is buffered, wherever that is heard.
            wait_until = time.monotonic() + STAGE
            while time.monotonic() < wait_until and not any("buffered" in c.said for c in children):
                time.sleep(0.001)  # a deadline poll
        else:
            time.sleep(self.rng.random() * self.rng.choice([0.1, 0.6, 2]))  # the moment is random
        victims = self.rng.sample(self.nodes, 2 if kind == "two nodes" else 1)
        if kind == "store":
            self.server.be_away(self.rng.random() * 3)
            return 0, 1
        if kind == "link":
            victims[0].cut(WAIT * self.rng.choice([0.3, 2]))
            return 1, 1
        if kind == "stop":
            victims[0].tell(signal.SIGSTOP)
            time.sleep(WAIT * self.rng.choice([0.3, 2]))  # random: as long as it stands still
            victims[0].tell(signal.SIGCONT)
            return 1, 1
        n = 0
        if "rank" in kind:
            self.rng.choice(children).kill()
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
        return is_there

    def start_nodes(self):
        for node in self.nodes:
            if not node.process:
                node.start()

    def end(self, what, children, seconds):
        """Wait for them, and kill those that hang."""
        end = time.monotonic() + seconds + SLACK
        for c in children:
            c.thread.join(max(0, end - time.monotonic()))
            if c.thread.is_alive():
                self.findings.append("%s: a process of node %d hangs; it said %s"
                                     % (what, c.node.number, c.said))
                c.kill()

    def load(self, step):
        """Two readers of each node have the step, but for those whose mount was killed."""
        self.start_nodes()
        readers = [Child(node, load_step(node, step)) for node in self.nodes * 2]
        _, n = self.harm(readers, LOAD_HARMS)
        self.end("loading step%d" % step, readers, LOAD)
        for r in readers:
            is_excused = not r.node.process and r.said and r.said[0].startswith("not done")
            if r.said != ["whole"] and not r.is_killed and not is_excused:
                self.findings.append("step%d: a reader of node %d said %s"
                                     % (step, r.node.number, r.said))
        return n

    def round(self, step):
        self.start_nodes()
        nodes = [self.nodes[r * NODES // RANKS] for r in range(RANKS)]
        members = [bootseer_group.address_of(node.socket) for node in nodes]
        ranks = [Child(node, save_step(node, r, members, "soak %d" % step, step))
                 for r, node in enumerate(nodes)]
        forgetting = threading.Thread(target=self.forget)
        forgetting.start()
        n_lost, n = self.harm(ranks, SAVE_HARMS)
        forgetting.join()
        self.end("step%d" % step, ranks, STAGE + STORE)
        for r in ranks:
            if not r.is_killed and (not r.said or not (
                    r.said[-1] == "durable" or r.said[-1].startswith("not "))):
                self.findings.append("step%d: a rank heard %s" % (step, r.said))
        return n + (self.load(step) if self.judge(step, ranks, n_lost) else 0)

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
        print(json.dumps({"store": self.store.partition(":")[0], "kills": done, "steps": step,
                          **dict(sorted(self.counts.items())), "unchanged": named,
                          "findings": self.findings}))
        return 1 if self.findings else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--kills", type=int, required=True)
    parser.add_argument("--s3", help="versitygw, for a bucket; else the store is a folder")
    parser.add_argument("--inside")
    options = parser.parse_args()
    if options.inside:
        libc.setsid()
        bind(options.inside)
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        try:
            return Soak(options, options.inside).run()
        except Stuck as why:
            print("stuck: %s" % why, file=sys.stderr)
            return 1
    with tempfile.TemporaryDirectory(prefix="save-kills.") as folder:
        status = run_inside(folder, "--net")
        if status:
            for n in range(NODES):
                with open("%s/log%d" % (folder, n), errors="replace") as log:
                    sys.stderr.write("node %d:\n%s" % (n, log.read()[-6000:]))
        return status


sys.exit(main())
