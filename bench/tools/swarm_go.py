#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tell many bootseerds at once to prefetch an image, and note when each has it.

usage: swarm_go.py IMAGE-ID DEADLINE-SECONDS FILE SPARED

FILE has a line "NODE SOCKET DELAY" for each.  Prints "NODE HOT-SECONDS ALL-SECONDS
HOT-BYTES ALL-BYTES" for each that got it, and "NODE failed WHY" for the others.
The connections are made before, so that all begin within milliseconds.  Nodes named
in the file SPARED, which may grow, are not waited for once the others have it.
FILE.begun is there when all that have no delay were told: nobody is to be killed
before, however long this takes to start.
"""
import json
import selectors
import socket
import sys
import time

WAIT_MS = 60000
LATER_S = 1  # one that failed tries again by itself
NONE, AGAIN, LATER, END = range(4)


class Node:
    def __init__(self, name, path, delay):
        self.name, self.due = name, float(delay)
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(path)
        self.text = b""
        self.begun = None
        self.text = b""
        self.why = "it did not end in time"

    def ask(self, image):
        params = {"id": image, "wait_ms": WAIT_MS}
        if self.begun is None:
            self.begun = time.monotonic()
            params["what"] = "all"
        self.text = b""
        try:
            body = json.dumps(params)
            self.sock.sendall("POST /v1/image.prefetch HTTP/1.1\r\nHost: bootseer\r\n"
                              f"Content-Length: {len(body)}\r\n\r\n{body}".encode())
        except ConnectionError:
            pass # it was killed: answer() finds the connection closed


def answer(node):
    """What is to follow: NONE until the answer is whole."""
    try:
        data = node.sock.recv(1 << 16)
    except ConnectionError: # killed with our question unread
        data = b""
    node.text += data
    if data and not (node.text.endswith(b"\n") and b"\r\n\r\n{" in node.text):
        return NONE
    now = time.monotonic()
    if not data:
        print(node.name, "failed", "bootseerd is gone", flush=True)
        return END
    reply = json.loads(node.text.partition(b"\r\n\r\n")[2])
    result = reply.get("result")
    if not result:
        print(node.name, "failed", reply["error"]["message"], flush=True)
        return END
    if result["phase"] != "done":
        node.why = result.get("error", node.why)
        return LATER if result["phase"] == "failed" else AGAIN
    print(node.name, result["hot_ms"] / 1000, now - node.begun,
          result["hot_bytes"], result["all_bytes"], flush=True)
    return END


def spared(path):
    try:
        with open(path, encoding="utf-8") as names:
            return set(names.read().split())
    except FileNotFoundError:
        return set()


def main():
    image, deadline = sys.argv[1], float(sys.argv[2])
    with open(sys.argv[3], encoding="utf-8") as lines:
        nodes = [Node(*line.split()) for line in lines]
    waiting = nodes[:]
    watch = selectors.DefaultSelector()
    start = time.monotonic()
    left, begun = {n.name for n in nodes}, False
    while left - spared(sys.argv[4]) and time.monotonic() < start + deadline:
        waiting.sort(key=lambda n: n.due)
        while waiting and time.monotonic() - start >= waiting[0].due:
            node = waiting.pop(0)
            node.ask(image)
            watch.register(node.sock, selectors.EVENT_READ, node)
        if not begun:
            with open(sys.argv[3] + ".begun", "w", encoding="utf-8"):
                begun = True
        until = start + (waiting[0].due if waiting else deadline)
        # Now and then to see who is spared by now.
        wait = max(0, min(1, until - time.monotonic()))
        for key, _ in watch.select(wait):
            node, what = key.data, answer(key.data)
            if what == AGAIN:
                node.ask(image)
            elif what != NONE:
                watch.unregister(node.sock)
            if what == LATER:
                node.due = time.monotonic() - start + LATER_S
                waiting.append(node)
            elif what == END:
                left.discard(node.name)
    for node in nodes:
        if node.name in left:
            print(node.name, "failed", node.why, flush=True)


main()
