#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""otlp-check.py FILE: hold a file to OTLP's ExportTraceServiceRequest in JSON, and print
its spans by name.

The rules are those of opentelemetry-proto 1.x: lowerCamelCase keys, ids in lower-case hex,
64-bit numbers as decimal strings, enums as numbers; unknown keys are refused."""
import collections
import json
import re
import sys

HEX = {"traceId": 32, "spanId": 16, "parentSpanId": 16}
SPAN = {
    "traceId", "spanId", "parentSpanId", "name", "kind", "startTimeUnixNano",
    "endTimeUnixNano", "attributes", "status",
}


def must(ok, what):
    if not ok:
        sys.exit("no OTLP: %s" % (what,))


def keys(o, allowed):
    must(isinstance(o, dict) and set(o) <= set(allowed), o)


def attributes(items):
    for a in items:
        keys(a, ["key", "value"])
        keys(a["value"], ["stringValue", "intValue", "boolValue"])
        must(isinstance(a["key"], str) and len(a["value"]) == 1, a)
        must(all(type(v) is (bool if k == "boolValue" else str) for k, v in a["value"].items()), a)
        if "intValue" in a["value"]:
            must(re.fullmatch("-?[0-9]+", a["value"]["intValue"]), a)


def span(s):
    keys(s, SPAN)
    for key, n in HEX.items():
        must(key not in s or re.fullmatch("[0-9a-f]{%d}" % n, s[key]), s)
        must(key not in s or int(s[key], 16), s)
    for key in "startTimeUnixNano", "endTimeUnixNano":
        must(re.fullmatch("[0-9]+", s[key]), s)
    must(int(s["startTimeUnixNano"]) <= int(s["endTimeUnixNano"]), s)
    must(s["kind"] == 1 and s["name"], s)
    attributes(s.get("attributes", []))
    keys(s.get("status", {}), ["code", "message"])
    must(type(s.get("status", {}).get("code", 0)) is int, s)


spans = []
request = json.load(open(sys.argv[1]))
keys(request, ["resourceSpans"])
for r in request["resourceSpans"]:
    keys(r, ["resource", "scopeSpans"])
    keys(r["resource"], ["attributes"])
    attributes(r["resource"]["attributes"])
    for scope in r["scopeSpans"]:
        keys(scope, ["scope", "spans"])
        keys(scope["scope"], ["name", "version"])
        must(all(isinstance(v, str) for v in scope["scope"].values()), scope["scope"])
        spans += scope["spans"]
for s in spans:
    span(s)
ids = {s["spanId"]: s["name"] for s in spans}
must(len(ids) == len(spans), "a span id comes twice")
must(len({s["traceId"] for s in spans}) == 1, "there are several traces")
must(all(s.get("parentSpanId", "") in ids for s in spans if s["name"] != "start"),
     "a span has no parent")
count = collections.Counter((s["name"], ids.get(s.get("parentSpanId"), "")) for s in spans)
for (name, parent), n in sorted(count.items()):
    print("%s spans=%d parent=%s" % (name, n, parent))
