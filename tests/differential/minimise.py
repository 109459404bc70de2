# SPDX-License-Identifier: Apache-2.0
"""Make a failing stack small: without layers, entries and attributes that it fails
without, too."""
import copy

from stacks import DEFAULTS

TRIES_MAX = 200


def _without(stack):
    """Stacks with one thing less, large things first."""
    layers = stack["layers"]
    for n in range(len(layers)):
        if len(layers) > 1:
            yield {"layers": layers[:n] + layers[n + 1:]}
    for n, layer in enumerate(layers):
        entries = layer["entries"]
        for step in (len(entries) // 2, 1):
            for i in range(0, len(entries), step or 1):
                less = copy.deepcopy(stack)
                less["layers"][n]["entries"][i:i + (step or 1)] = []
                if less["layers"][n]["entries"]:
                    yield less
    for n, layer in enumerate(layers):
        for key, plain in (("compress", "gzip"), ("end", 2)):
            if layer[key] != plain:
                less = copy.deepcopy(stack)
                less["layers"][n][key] = plain
                yield less
        for i, e in enumerate(layer["entries"]):
            for key, plain in DEFAULTS.items():
                if key == "mode" and e["kind"] == "dir":
                    plain = 0o755
                if e[key] == plain or (key == "link" and e["kind"] in ("symlink", "hard")):
                    continue
                less = copy.deepcopy(stack)
                less["layers"][n]["entries"][i][key] = plain
                if key == "data":
                    less["layers"][n]["entries"][i]["holes"] = []
                yield less


def minimise(stack, still_fails):
    tries, smaller = 0, True
    while smaller:
        smaller = False
        for less in _without(stack):
            tries += 1
            if tries > TRIES_MAX:
                return stack
            try:
                fails = still_fails(less)
            except ValueError:  # no tar can say that
                fails = False
            if fails:
                stack, smaller = less, True
                break
    return stack
