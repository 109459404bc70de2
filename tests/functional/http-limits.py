#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""http-limits.py PORT: clients of bootseer-registry that misbehave."""
import socket, sys
port = int(sys.argv[1])


def connect(text=b""):
    s = socket.create_connection(("127.0.0.1", port), 20)
    s.settimeout(20)
    s.sendall(text)
    return s


def answer(s):
    text = b""
    while True:
        part = s.recv(65536)
        if not part:
            return text
        text += part


post = (b"POST /v1/traces/sha256:" + b"a" * 64 + b"?workload=w HTTP/1.1\r\n"
    b"Bootseer-Node: n\r\nContent-Length: %d\r\n\r\n")
# Half a head, and no head, are cut off.
assert answer(connect(b"GET / HT")) == b""
assert answer(connect()) == b""
# Half a body is told so; a second that finds no memory, too.
first, second = connect(post % 900000), connect(post % 900000)
assert b" 408 " in answer(first)
text = answer(second)
assert b" 408 " in text or b" 503 " in text, text
# More than there is place for: the idle ones give way.
many = [connect() for i in range(40)]
last = connect(b"GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n")
assert b" 200 " in answer(last)
assert b" 431 " in answer(connect(b"GET / HTTP/1.1\r\nA: " + b"b" * 20000))
# Two requests at once are answered in order.
two = answer(connect(b"GET /healthz HTTP/1.1\r\n\r\n"
    b"GET /nothing HTTP/1.1\r\nConnection: close\r\n\r\n"))
assert two.index(b" 200 ") < two.index(b" 404 "), two
# A body that nobody wants does not hide the answer.
text = answer(connect(post % 5000000 + b"x" * 2000000))
assert b" 413 " in text, text
