#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""between-node.py LISTEN SOCKET [FAULT]: stand between a client and bootseerd's control
socket, and pass calls on.  FAULT does something to environments that are unpacked:
'blocks' turns a byte of what the second environment.read gave, 'metadata' of the metadata that
environment.open names, of which it names a copy; 'kill:PID' kills bootseerd before the second
read; 'silent' leaves without an answer when something was opened; 'before' answers as a bootseerd does that has no such method."""
import json
import os
import signal
import socket
import sys

listen, node, fault = sys.argv[1:3] + (sys.argv[3:] or [''])
reads = 0
blocks = None


def turn(path):
    with open(path, 'r+b') as f:
        byte = f.read(1)
        f.seek(0)
        f.write(bytes((byte[0] ^ 1,)))


def before(method):
    global reads
    if method != 'environment.read':
        return
    reads += 1
    if reads == 2 and fault.startswith('kill:'):
        os.kill(int(fault[5:]), signal.SIGKILL)


def after(method, body):
    global blocks
    reply = json.loads(body)
    if method == 'environment.open' and 'result' in reply:
        blocks = reply['result']['blocks']
        if fault == 'metadata':
            path = listen + '.meta'
            with open(reply['result']['meta'], 'rb') as f, open(path, 'wb') as to:
                to.write(f.read())
            turn(path)
            reply['result']['meta'] = path
            return json.dumps(reply).encode()
    if method == 'environment.read' and fault == 'blocks' and reads == 2:
        turn(blocks)
    return body


def read_message(f):
    """The first line and the body of the next; None: there is none."""
    first, size = f.readline().decode(), 0
    if not first:
        return None
    for line in iter(f.readline, b'\r\n'):
        name, _, value = line.decode().partition(':')
        if name.lower() == 'content-length':
            size = int(value)
    return first, f.read(size)


def write_message(f, first, body):
    f.write(f'{first.strip()}\r\nHost: node\r\nContent-Length: {len(body)}\r\n\r\n'.encode() + body)
    f.flush()


def serve(client):
    at = socket.socket(socket.AF_UNIX)
    try:
        at.connect(node)
    except OSError:
        return
    to, ask = at.makefile('rwb'), client.makefile('rwb')
    while message := read_message(ask):
        method = message[0].split()[1].rpartition('/')[2]
        before(method)
        if fault == 'before' and method == 'environment.open':
            write_message(ask, 'HTTP/1.1 404 Not Found',
                          b'{"bootseer":1,"error":{"errno":38,"message":"no method"}}')
            continue
        write_message(to, *message)
        answer = read_message(to)
        if not answer:
            return
        if fault == 'silent' and method == 'environment.open':
            print(method, flush=True)
            return
        print(method, flush=True)
        write_message(ask, answer[0], after(method, answer[1]))


s = socket.socket(socket.AF_UNIX)
s.bind(listen)
s.listen(16)
print('ready', flush=True)
while True:
    c = s.accept()[0]
    try:
        serve(c)
    except OSError:
        pass
    c.close()
