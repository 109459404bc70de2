#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Unpack random stacks of layers by conversion (through each data path), by layer.apply,
by containerd and by umoci, and compare every path, attribute and byte: docs/testing.md.
Ends with 0 when every difference is one of docs/formats/layers.md."""

import argparse
import collections
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import compare
import generate
import layout
import minimise
import rules
import stacks
from history import History
from implementations import (Apply, Containerd, Mounted, Node, Place, Refused,
                             Registry, Umoci, convert, umount_below)

RESTART_EVERY = 300  # stacks; bounds what a node and its log hold


class Bench:
    """All implementations, with folders of their own."""

    def __init__(self, args, folder):
        self.args, self.n, self.folder = args, 0, folder
        self.start()

    def start(self):
        args, build = self.args, self.args.build
        self.inner = tempfile.TemporaryDirectory(dir=self.folder)
        self.place = place = Place(self.inner.name)
        self.registry = registry = Registry(place, build)
        port, self.services = registry.port, [registry]

        def node(name, *options):
            self.services.append(Node(place, build, port, name, *options))
            return self.services[-1]

        lazy = node("lazy", "--datapath", "erofs-fuse")
        self.all = [Apply(place, lazy, port),
                    Mounted(place, lazy, port, "convert", False),
                    Mounted(place, node("complete"), port, "complete", True),
                    Mounted(place, node("fuse", "--datapath", "fuse"), port, "fuse", False),
                    Umoci(place)]
        for name, program in (("containerd1", args.containerd1),
                              ("containerd2", args.containerd2)):
            if program:
                self.all.append(Containerd(place, name, program))

    def stop(self):
        for one in self.all + self.services[::-1]:
            one.close()
        umount_below(self.inner.name)
        self.inner.cleanup()

    def outcomes(self, stack):
        """{implementation: its tree or the text of its refusal}"""
        self.n += 1
        if self.n % RESTART_EVERY == 0:
            self.stop()
            self.start()
        tag, out, refused = "s%d" % self.n, {}, None
        layers = layout.write(self.place.layout, stack, tag)
        try:
            # Of two stacks one keeps its blocks in its layers.
            convert(self.args.build, self.place, tag,
                    "index" if self.n % 2 else "referrer")
        except Refused as e:
            refused = str(e)
        for one in self.all:
            if refused and isinstance(one, Mounted):
                out[one.name] = refused
                continue
            try:
                out[one.name] = one.tree(tag, layers)
            except Refused as e:
                out[one.name] = str(e)
        return out

    def judge(self, stack):
        """(names of the rules and how often, differences that no rule knows)"""
        out = self.outcomes(stack)
        history, known, unknown = History(stack), collections.Counter(), []
        for d in compare.differences(out):
            name = rules.name_of(d, history)
            if name:
                known[name] += 1
            else:
                unknown.append(d)
        if all(isinstance(t, str) for t in out.values()):
            known["(all refuse)"] += 1
        return known, unknown


def like(d):
    """What stays the same of a difference while its stack is made smaller."""
    text = d.mine or d.other if d.what == "refused" else ""
    words = [w for w in str(text).split() if w.isalpha() and len(w) > 1]
    return d.ours, d.theirs, d.what, bool(d.mine), bool(d.other), tuple(words[-3:])


def report(seed, unknown, small):
    print("\nseed %s: %d differences that docs/formats/layers.md does not have" %
          (seed, len(unknown)))
    for d in unknown[:12]:
        print("  %s and %s: %r %s: %.300r and %.300r" %
              (d.ours, d.theirs, d.path, d.what, d.mine, d.other))
    print(stacks.to_json(small) if small else "  as above; --show has its stack", flush=True)


def work(args, folder, todo, done):
    """Of one process: stacks from one queue, verdicts to the other."""
    bench, seen = Bench(args, folder), set()
    try:
        while (item := todo.get()) is not None:
            name, stack = item
            known, unknown = bench.judge(stack)
            small = stack
            # Of several alike, the first is made small.
            fresh = [d for d in unknown if like(d) not in seen]
            seen.update(like(d) for d in unknown)
            if fresh and not args.no_minimise:
                wanted = like(fresh[0])
                small = minimise.minimise(stack, lambda s: any(
                    like(d) == wanted for d in bench.judge(s)[1]))
                unknown = bench.judge(small)[1] or unknown
            done.put((name, known, unknown, small if fresh or not unknown else None))
    except BaseException as e:
        done.put((None, "%s: %s" % (type(e).__name__, e), None, None))
        raise
    finally:
        bench.stop()


def feed(args, todo):
    for path in args.stack:
        with open(path) as f:
            todo.put((os.path.basename(path), stacks.from_json(f.read())))
    for seed in range(args.seed, args.seed + args.stacks):
        todo.put((seed, generate.generate(seed)))
    for _ in range(args.jobs):
        todo.put(None)


def arguments():
    p = argparse.ArgumentParser(description=__doc__.split(":")[0])
    p.add_argument("--build", default="build/release", help="folder of the programs")
    p.add_argument("--seed", type=int, default=1, help="of the first stack")
    p.add_argument("--stacks", type=int, default=0, help="how many random ones")
    p.add_argument("--stack", action="append", default=[], help="a file with one")
    p.add_argument("--show", type=int, help="print the stack of this seed, and end")
    p.add_argument("--rules", action="store_true", help="name the rules, and end")
    p.add_argument("--without-rule", choices=rules.RULES, help="not to know this one")
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--containerd1", help="program that applies as containerd 1.6")
    p.add_argument("--containerd2", help="the same of containerd 2")
    p.add_argument("--keep", help="folder for the failing stacks, minimised")
    p.add_argument("--failures", type=int, default=20, help="end after so many")
    p.add_argument("--no-minimise", action="store_true")
    p.add_argument("--json", help="file for the figures")
    return p.parse_args()


def isolate(folder):
    """Run this program in namespaces of its own, so that neither process nor mount
    outlives it, however it ends."""
    return subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child",
         "--propagation", "private", sys.executable, *sys.argv],
        env={**os.environ, "DIFFERENTIAL_FOLDER": folder}, check=False).returncode


def keep(args, name, small):
    if args.keep and small:
        os.makedirs(args.keep, exist_ok=True)
        with open("%s/%s.json" % (args.keep, name), "w") as f:
            f.write(stacks.to_json(small))


def run(args, folder):
    todo = multiprocessing.Queue(maxsize=4 * args.jobs)
    done = multiprocessing.Queue()
    total, n, failed, began = collections.Counter(), 0, 0, time.monotonic()
    workers = [multiprocessing.Process(target=work, args=(args, folder, todo, done))
               for _ in range(args.jobs)]
    feeder = multiprocessing.Process(target=feed, args=(args, todo))
    for p in workers + [feeder]:
        p.start()
    while n < args.stacks + len(args.stack) and failed < args.failures:
        name, known, unknown, small = done.get(timeout=600)
        if name is None:
            print("the test broke: " + known)
            return 2
        n += 1
        total.update({k: 1 for k in known})
        if unknown:
            failed += 1
            report(name, unknown, small)
            keep(args, name, small)
    feeder.terminate()
    if failed < args.failures:
        for p in workers:
            p.join()
    took = time.monotonic() - began
    figures = {"seed": args.seed, "stacks": n, "failed": failed,
               "seconds": round(took, 1), "rules": dict(total.most_common())}
    print("%d stacks from seed %d on, %d failed, %.1f a second" %
          (n, args.seed, failed, n / took))
    for rule_name, count in total.most_common():
        print("  %6d %s" % (count, rule_name))
    if args.json:
        with open(args.json, "w") as f:
            json.dump(figures, f)
    return 1 if failed else 0


def main():
    args = arguments()
    if args.show is not None:
        print(stacks.to_json(generate.generate(args.show)), end="")
        return 0
    if args.rules:
        print("\n".join(rules.RULES))
        return 0
    rules.RULES.pop(args.without_rule, None)
    args.build = os.path.abspath(args.build)
    inside = os.environ.get("DIFFERENTIAL_FOLDER")
    if inside:
        return run(args, inside)
    # On a disk: the kernel mounts EROFS only from files of such.
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="differential.") as folder:
        return isolate(folder)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    os._exit(status)  # workers that are in the middle of a stack end with the namespace
