#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares a report of bootseer ops with what is true: ops_judge.py TRUTH REPORT prints lines
NAME<tab>VALUE.  Shares are of 1, and "off" is the largest distance from the truth."""
import json
import statistics
import sys

with open(sys.argv[1]) as f:
    truth = json.load(f)
with open(sys.argv[2]) as f:
    report = json.load(f)
phases, cost, found = report["phases"], report["cost"], report["precursors"]
STEP = phases["sample_s"]


def show(name, value):
    print(f"{name}\t{value:.6g}")


def share_off(value, right):
    return abs(value / right - 1)


def judge_saves():
    wanted = [s["at_s"] for s in truth["saves"]]
    got = [s["begin_s"] for s in phases["saves"]]
    near = [any(abs(g - w) <= 1.5 * STEP for g in got) for w in wanted]
    show("true saves", len(wanted))
    show("true saves that were found", sum(near))
    show("saves that are none", len(got) - sum(near))


def true_intervals(setting):
    """Between saves of one job, in the time of a configuration."""
    s = [v for v in truth["saves"] if setting["from_s"] - STEP <= v["at_s"] <= setting["to_s"] + STEP]
    return [b["at_s"] - a["at_s"] for a, b in zip(s, s[1:]) if a["job"] == b["job"]]


def judge_costs():
    settings = [s for s in phases["settings"] if s["timed"]]
    show("intervals off, s", max(abs(s["interval_s"] - statistics.median(true_intervals(s)))
                                 for s in settings))
    show("durations off, s", max(abs(s["takes_s"] - truth["save_s"]) for s in settings))
    show("time between failures off", share_off(cost["mtbf_s"], truth["mtbf_s"]))
    show("lost time off", share_off(cost["losses"]["sum_s"], sum(truth["lost_s"])) +
         abs(len(truth["lost_s"]) - cost["losses"]["failures"]))
    off, mtbf = [], truth["mtbf_s"]
    best = 2 * truth["save_s"] / truth["best_interval_s"]
    for s, c in zip(phases["settings"], cost["settings"]):
        interval = statistics.median(true_intervals(s))
        now = truth["save_s"] / interval + interval / 2 / mtbf
        off += [share_off(c["now"]["save"] + c["now"]["lost"], now),
                share_off(c["best"]["save"] + c["best"]["lost"], best),
                share_off(c["best"]["interval_s"], truth["best_interval_s"])]
    show("costs and optimum off", max(off))


def judge_jobs():
    keys = ("begin", "end", "tries", "automatic", "wasted_node_s")

    def rows(chains):
        return sorted(tuple(round(c[k]) for k in keys) for c in chains)
    show("chains differ", rows(truth["chains"]) != rows(report["chains"]["chains"]))
    got = {n["node"]: [n["left_out"], round(n["excluded_s"]), round(n["held_s"])]
           for n in report["nodes"]["nodes"] if n["left_out"]}
    wanted = {k: [v["left_out"], v["excluded_s"], v["held_s"]] for k, v in truth["nodes"].items()}
    show("exclusions differ", got != wanted)


def judge_precursors():
    hits = wrong = known = 0
    leads = []
    for f in truth["failures"]:
        same = [g for g in found["failures"] if g["node"] == f["node"] and -60 < g["at_s"] - f["at_s"] < 120]
        known += bool(same)
        before = [m["lead_s"] for g in same for m in g["metrics"] if m["is_before"]]
        if f["lead_s"] is None:
            wrong += bool(before)
        elif before:
            off = min(abs(lead - f["lead_s"]) for lead in before)
            leads.append(off)
            hits += off < 2 * STEP
    show("failures that were found", known / len(truth["failures"]))
    show("precursors that were found", hits / sum(f["lead_s"] is not None for f in truth["failures"]))
    show("leads off, s", max(leads, default=float("inf")))
    show("precursors that are none", wrong)
    show("false alarms a day", found["alarms"] / found["days"])
    slow = {s["node"] for s in found["slow"]}
    right = slow & set(truth["slow"])
    show("precision of slow nodes", len(right) / max(1, len(slow)))
    show("recall of slow nodes", len(right) / len(truth["slow"]))


judge_saves()
judge_costs()
judge_jobs()
judge_precursors()
