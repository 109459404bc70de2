#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wait until the nodes of a swarm together hold all pieces of their image.

usage: swarm_copy.py ADDR PORT

ADDR:PORT is the tracker, which is told what each node read from the registry and
checked.  Of several swarms that of most pieces counts: metadata has one of its own.
"""
import http.client
import json
import sys
import time

POLL_S = 0.05


def holds_copy(text):
    swarms = json.loads(text)["swarms"]
    image = max(swarms, key=lambda s: s["pieces"], default=None)
    return image is not None and image["read"] == image["pieces"]


def main():
    tracker = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]), timeout=5)
    while True:
        tracker.request("GET", "/v1/swarms")
        if holds_copy(tracker.getresponse().read()):
            return
        time.sleep(POLL_S)


main()
