#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""job_figures.py RESULT.json [FOLDER]: figures 12 to 14 of the paper from what bench/job
--json wrote, as job-12.svg, job-13.svg and job-14.svg in FOLDER, or beside the result; on
standard output the same as tables.

Figure 12 is the whole start by the number of nodes, 13 its stages, 14 the time of the
environment on each node of the largest number.  All of them are of the profiler's times."""
import json
import os
import statistics
import sys
from xml.sax.saxutils import escape

WAYS = {"today": "#b8b8b8", "baseline": "#e07b39", "ours": "#2f6db5"}
STAGES = {"image": "image", "env": "environment", "ckpt": "checkpoint"}
WIDE, HIGH, LEFT, TOP, LOW = 260, 200, 44, 46, 40  # of a plot and around it


def values(result, series, way):
    return [s["value"] for s in result["samples"]
            if s["series"] == series and s["variant"] == way]


def counts_of(result):
    return sorted({int(s["series"].split()[0]) for s in result["samples"]
                   if s["series"].endswith(" nodes: all")})


def medians(result, stage):
    """{WAY: {NODES: SECONDS}} of a stage, where it was measured."""
    found = {}
    for way in WAYS:
        for n in counts_of(result):
            took = values(result, f"{n} nodes: {stage}", way)
            if took:
                found.setdefault(way, {})[n] = statistics.median(took)
    return found


def quartiles(took):
    """Least, quartiles and most: the whiskers are the extremes, as in the paper."""
    took = sorted(took)

    def at(share):
        low = int(share * (len(took) - 1))
        high = min(low + 1, len(took) - 1)
        return took[low] + (share * (len(took) - 1) - low) * (took[high] - took[low])
    return [at(q) for q in (0, .25, .5, .75, 1)]


# --- drawing --------------------------------------------------------------------------------

def text(x, y, words, anchor="middle", size=11):
    return (f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" '
            f'text-anchor="{anchor}">{escape(str(words))}</text>')


def rect(x, y, wide, high, colour):
    return (f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" '
            f'fill="{colour}"/>')


def line(x1, y1, x2, y2, colour="#444"):
    return (f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
            f'stroke="{colour}"/>')


def axis_step(most):
    """The least of 1, 2, 5 times a power of ten that is reached five times at most."""
    step = 10.0 ** -2
    while most / step > 5:
        step *= 2.5 if f"{step:e}"[0] == "2" else 2
    return step


def axis(left, most, title):
    """Seconds upwards, and what stands over the plot."""
    step = axis_step(most)
    parts = [text(left + WIDE / 2, TOP - 12, title, size=12)]
    for i in range(int(most / step) + 1):
        y = TOP + HIGH * (1 - i * step / most)
        parts += [line(left, y, left + WIDE, y, "#ddd"),
                  text(left - 5, y + 4, f"{i * step:g}", "end", 10)]
    return parts + [line(left, TOP + HIGH, left + WIDE, TOP + HIGH)]


def legend(ways, left):
    parts = []
    for i, way in enumerate(ways):
        x = left + 90 * i
        parts += [rect(x, 8, 10, 10, WAYS[way]), text(x + 14, 17, way, "start")]
    return parts


def page(plots, parts):
    wide = plots * (WIDE + LEFT) + 16
    high = TOP + HIGH + LOW
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" '
                      f'height="{high}" font-family="sans-serif">',
                      rect(0, 0, wide, high, "#fff"), *parts, "</svg>", ""])


def bars(found, left, title):
    """A group of bars for each number of nodes."""
    counts = sorted({n for of_way in found.values() for n in of_way})
    most = max(max(of_way.values()) for of_way in found.values()) * 1.08
    parts = axis(left, most, title)
    group = WIDE / len(counts)
    each = group * .8 / len(found)
    for i, n in enumerate(counts):
        for k, (way, of_way) in enumerate(found.items()):
            if n not in of_way:
                continue
            high = HIGH * of_way[n] / most
            x = left + group * (i + .1) + each * k
            parts += [rect(x, TOP + HIGH - high, each, high, WAYS[way]),
                      text(x + each / 2, TOP + HIGH - high - 3, f"{of_way[n]:.3g}", size=8)]
        parts.append(text(left + group * (i + .5), TOP + HIGH + 15, n))
    return parts + [text(left + WIDE / 2, TOP + HIGH + 31, "nodes")]


def boxes(found, left, title):
    """A box for each way, with whiskers to its extremes."""
    most = max(max(took) for took in found.values()) * 1.08
    parts = axis(left, most, title)
    group = WIDE / len(found)

    def y(seconds):
        return TOP + HIGH * (1 - seconds / most)
    for i, (way, took) in enumerate(found.items()):
        low, first, middle, third, high = quartiles(took)
        x = left + group * (i + .5)
        parts += [line(x, y(low), x, y(high)), line(x - 10, y(low), x + 10, y(low)),
                  line(x - 10, y(high), x + 10, y(high)),
                  rect(x - 22, y(third), 44, max(y(first) - y(third), 1), WAYS[way]),
                  line(x - 22, y(middle), x + 22, y(middle), "#000"),
                  text(x, TOP + HIGH + 15, way)]
    return parts


# --- the figures ------------------------------------------------------------------------------

def figure_12(result):
    found = medians(result, "all")
    return page(1, legend(found, LEFT) + bars(found, LEFT, "whole start, s"))


def figure_13(result):
    parts = []
    for i, (stage, name) in enumerate(STAGES.items()):
        found = medians(result, stage)
        left = LEFT + i * (WIDE + LEFT)
        if i == 0:
            parts += legend(found, left)
        parts += bars(found, left, f"{name}, s")
    return page(len(STAGES), parts)


def figure_14(result):
    n = counts_of(result)[-1]
    found = {way: took for way in WAYS
             if (took := values(result, f"{n} nodes: env, each node", way))}
    return page(1, boxes(found, LEFT, f"environment on each of {n} nodes, s"))


def tables(result):
    """Figures 12 and 13 as one table, 14 as another."""
    ways = list(medians(result, "all"))
    rows = ["| nodes | " + " | ".join(f"{stage}: {', '.join(ways)}, s" for stage in
                                      ["all", *STAGES.values()]) + " |",
            "|---" * (2 + len(STAGES)) + "|"]
    for n in counts_of(result):
        cells = []
        for stage in ["all", *STAGES]:
            found = medians(result, stage)
            cells.append(", ".join(f"{found[way][n]:.1f}" if n in found.get(way, {}) else "-"
                                   for way in ways))
        rows.append(f"| {n} | " + " | ".join(cells) + " |")
    n = counts_of(result)[-1]
    rows += ["", f"| environment of {n} nodes | least | quartiles | most | s |",
             "|---|---|---|---|---|"]
    for way in ways:
        took = values(result, f"{n} nodes: env, each node", way)
        if took:
            low, *box, high = quartiles(took)
            rows.append(f"| {way} | {low:.1f} | " + ", ".join(f"{q:.1f}" for q in box) +
                        f" | {high:.1f} | |")
    return "\n".join(rows) + "\n"


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        result = json.load(file)
    if not counts_of(result):
        sys.exit(f"{sys.argv[1]}: it has no starts of a job")
    folder = sys.argv[2] if len(sys.argv) == 3 else os.path.dirname(sys.argv[1])
    for name, figure in (("12", figure_12), ("13", figure_13), ("14", figure_14)):
        with open(os.path.join(folder, f"job-{name}.svg"), "w", encoding="utf-8") as file:
            file.write(figure(result))
    sys.stdout.write(tables(result))


if __name__ == "__main__":
    main()
