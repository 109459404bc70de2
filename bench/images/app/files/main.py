# SPDX-License-Identifier: Apache-2.0
# What a tool for a large source tree does first: it follows every require() from
# the first package on, and is ready when it has read all that is needed.
import json
import os
import re
import sys

TOP = "/app/node_modules"
REQUIRE = re.compile(r'require\("([^"]+)"\)')


def resolve(base, what):
    """Where require(what) in folder `base` leads to: probed as Node.js does."""
    if what.startswith("."):
        at = os.path.normpath(os.path.join(base, what))
    else:
        at = os.path.join(TOP, what)
    if os.path.isdir(at):
        with open(at + "/package.json") as file:
            yield at + "/package.json"
            at = os.path.normpath(os.path.join(at, json.load(file)["main"]))
    for end in ("", ".js", ".json", "/index.js"):
        if os.path.isfile(at + end):
            yield at + end
            return
    raise FileNotFoundError(what)


def main():
    with open("/app/start") as file:
        todo = list(resolve(TOP, file.read().strip()))
    with open("/app/expected") as file:
        expected = int(file.read())
    seen = set()
    while todo:
        path = todo.pop()
        if path in seen:
            continue
        seen.add(path)
        with open(path) as file:
            for what in REQUIRE.findall(file.read()):
                todo += resolve(os.path.dirname(path), what)
    assert len(seen) == expected, (len(seen), expected)
    print("ready", flush=True)
    if "--serve" in sys.argv[1:]:
        sys.stdin.read()


main()
