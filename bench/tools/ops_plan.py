#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What happens on a cluster in some days, with the figures of arXiv 2605.09370 where it has them:
ops_plan.py FOLDER NODES DAYS BEGIN writes FOLDER/plan, which bench-ops-blocks makes metrics of,
FOLDER/jobs, as sacct prints them, and FOLDER/truth, what an analysis has to find."""
import json
import math
import random
import sys

FOLDER, NODES, DAYS, BEGIN = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
END, HOUR = BEGIN + DAYS * 86400, 3600
SAVES = 523 if DAYS == 55 else 0  # 0: as many as come
FAILURES = max(2, DAYS * 10 // 55)
SAVE_S, LOAD_S = 18.0, 1980.0
# Nodes that large jobs run without at times: the first is kept away by somebody.
OUT = [n for n in (10, 20, 30, 40, 2, 4) if n < NODES][:4 if NODES > 40 else 1]
# Nodes that are slow for a while, and by how much.
SLOW = [(3 % NODES, BEGIN + 0.2 * (END - BEGIN), BEGIN + 0.6 * (END - BEGIN), 0.15),
        (41 % NODES, BEGIN + 0.5 * (END - BEGIN), END, 0.3)]
CALM = [n for n in range(NODES) if n not in OUT and n not in [s[0] for s in SLOW]]


def interval_at(t):
    """The paper's three configurations: their interval and its deviation."""
    part = (t - BEGIN) / (END - BEGIN)
    return (8010, 324) if part < 0.88 else (11940, 200) if part < 0.97 else (4890, 100)


def make_jobs(rng):
    """Jobs on all nodes but a few, each ended by a failure or a person, some tried more than once."""
    jobs, t, number, mean = [], BEGIN + 600, 1000, max(8 * HOUR, 56.2 * HOUR * DAYS / 55)
    while t < END - 4 * HOUR:
        length = min(max(3.5 * HOUR, rng.expovariate(1 / mean)), 160 * HOUR, END - HOUR - t)
        out = sorted(set(OUT[:1] * (rng.random() < 0.9) + [n for n in OUT[1:] if rng.random() < 0.3]))
        state = "FAILED" if rng.random() < 0.8 else "CANCELLED by 7"
        if t + length >= END - HOUR:
            state = "CANCELLED by 7"
        jobs.append({"id": number, "begin": int(t), "end": int(t + length), "state": state, "out": out,
                     "trains": True})
        t += length + rng.uniform(450, 3600)
        number += 1
        if state != "FAILED":
            t += 26 * HOUR * (rng.random() < 0.1)
        while state == "FAILED" and rng.random() < 0.35 and t < END - 8 * HOUR:
            # Every other retry is the scheduler's own, of the same number.
            own = rng.random() < 0.5
            if own:
                number -= 1
                jobs[-1]["state"] = "NODE_FAIL"
            early = int(rng.uniform(600, 1500))
            jobs.append({"id": number, "begin": int(t), "end": int(t) + early, "state": "FAILED",
                         "out": out, "trains": False})
            t += early + rng.uniform(450, 3600)
            number += 1
    return jobs


def make_saves(jobs, rng):
    for j in jobs:
        j["saves"], at = [], j["begin"] + LOAD_S
        while j["trains"]:
            mean, deviation = interval_at(j["begin"])
            at += mean + deviation * min(2, max(-2, rng.gauss(0, 1)))
            if at + SAVE_S + 90 > j["end"]:
                break
            j["saves"].append(round(at, 2))


def make_failures(jobs, rng):
    """At the ends of jobs: node, time, XID, what moves before it, and for how long."""
    ends = [j for j in jobs if j["trains"] and j["state"] in ("FAILED", "NODE_FAIL")]
    if len(ends) < FAILURES:
        return None
    chosen = sorted(rng.sample(ends, FAILURES), key=lambda j: j["end"])
    return [{"node": rng.choice(CALM), "at_s": j["end"] - 45.0, "xid": (79, 145, 94)[k % 3],
             "what": ("intr", "running", "temp", None, None)[k % 5], "lead_s": 600 + 6000 * rng.random()}
            for k, j in enumerate(chosen)]


def make_all():
    for seed in range(100000):
        rng = random.Random(seed)
        jobs = make_jobs(rng)
        make_saves(jobs, rng)
        failures = make_failures(jobs, rng)
        if failures and (not SAVES or sum(len(j["saves"]) for j in jobs) == SAVES):
            return jobs, failures
    raise SystemExit("no plan")


def node_name(n):
    return f"gpu{n:03d}"


def find_chains(jobs):
    """Runs of jobs, each but the last failed, the next within a day."""
    chains, run = [], [jobs[0]]
    for a, b in zip(jobs, jobs[1:] + [None]):
        if b and a["state"][0] in "FN" and b["begin"] - a["end"] <= 86400:
            run.append(b)
            continue
        if len(run) > 1:
            chains.append({"tries": len(run), "begin": run[0]["begin"], "end": run[-1]["end"],
                           "automatic": sum(x["id"] == y["id"] for x, y in zip(run, run[1:])),
                           "wasted_node_s": sum((j["end"] - j["begin"]) * (NODES - len(j["out"]))
                                                for j in run if not j["trains"])})
        run = [b]
    return chains


def find_truth(jobs, failures):
    trained = [j for j in jobs if j["trains"]]
    failed = [j for j in trained if j["state"][0] in "FN"]
    mtbf = sum(j["end"] - j["begin"] for j in trained) / len(failed)
    without = {n: [j for j in jobs if n in j["out"]] for n in OUT}
    return {
        "begin": BEGIN, "end": END, "save_s": SAVE_S,
        "saves": [{"at_s": s, "job": k} for k, j in enumerate(jobs) for s in j["saves"]],
        "mtbf_s": mtbf, "best_interval_s": math.sqrt(2 * SAVE_S * mtbf),
        "lost_s": [j["end"] - (j["saves"][-1] + SAVE_S if j["saves"] else j["begin"]) for j in failed],
        "chains": find_chains(jobs),
        "nodes": {node_name(n): {"left_out": len(v), "excluded_s": sum(j["end"] - j["begin"] for j in v),
                                 "held_s": sum(j["end"] - j["begin"] for j in v) if n == OUT[0] else 0}
                  for n, v in without.items() if v},
        "failures": [{"node": node_name(f["node"]), "at_s": f["at_s"],
                      "lead_s": f["lead_s"] if f["what"] else None} for f in failures],
        "slow": sorted(node_name(s[0]) for s in SLOW),
    }


def node_list(out):
    return "gpu[" + ",".join(f"{n:03d}" for n in range(NODES) if n not in out) + "]"


def write_jobs(jobs, f):
    f.write("JobID|User|State|ExitCode|Start|End|NodeList|AllocTRES|JobName\n")
    for j in jobs:
        f.write(f"{j['id']}|u|{j['state']}|1:0|{j['begin']}|{j['end']}|{node_list(j['out'])}|"
                f"gres/gpu={8 * (NODES - len(j['out']))}|train\n")
    f.write(f"7|v|CANCELLED by 7|0:0|{BEGIN}|{END}|{node_name(OUT[0])}|gres/gpu=8|hold\n")


def write_plan(jobs, failures, f):
    f.write(f"cluster {NODES} {BEGIN} {END}\n")
    for j in jobs:
        load_end = min(j["begin"] + LOAD_S, j["end"])
        f.write(f"job {j['begin']} {load_end} {j['end']} {','.join(map(str, j['out'])) or '-'}\n")
        for s in j["saves"]:
            f.write(f"save {s} {s + SAVE_S}\n")
    for v in failures:
        f.write(f"xid {v['node']} {v['at_s']} {v['xid']}\n")
        # It is started again: its counters begin again.
        f.write(f"away {v['node']} {v['at_s'] + 75} {v['at_s'] + 300}\n")
        if v["what"]:
            f.write(f"moved {v['node']} {v['at_s'] - v['lead_s']} {v['at_s']} {v['what']}\n")
    for n, a, b, share in SLOW:
        f.write(f"slow {n} {a} {b} {share}\n")


def main():
    jobs, failures = make_all()
    with open(f"{FOLDER}/plan", "w") as f:
        write_plan(jobs, failures, f)
    with open(f"{FOLDER}/jobs", "w") as f:
        write_jobs(jobs, f)
    with open(f"{FOLDER}/truth", "w") as f:
        json.dump(find_truth(jobs, failures), f)


main()
