#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""grafana-import.py FILE...: what Grafana's own models of a dashboard do not keep of each FILE, a
line each.  Keys that they do not know would be lost by an import; PYTHONPATH has the models."""
import json
import sys

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard


def find_lost(given, kept, at):
    if isinstance(given, dict) and isinstance(kept, dict):
        for key, value in given.items():
            if key in kept:
                yield from find_lost(value, kept[key], f"{at}.{key}")
            else:
                yield f"{at}.{key} is no key"
    elif isinstance(given, list) and isinstance(kept, list) and len(given) == len(kept):
        for i, (a, b) in enumerate(zip(given, kept)):
            yield from find_lost(a, b, f"{at}[{i}]")
    elif given != kept:
        yield f"{at} is {given!r}, not {kept!r}"


register_default_plugins()
for path in sys.argv[1:]:
    with open(path) as f:
        dashboard = json.load(f)
    imported = json.loads(JSONEncoder(sort_keys=True).encode(Dashboard.from_json(dashboard)))
    print(*find_lost(dashboard, imported, path), sep="\n", end="")
