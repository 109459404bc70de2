#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""between-node.py LISTEN SOCKET [FAULT]: stand between a client and bootseerd's control
socket, and pass lines on.  FAULT does something to environments that are unpacked:
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


def after(method, line):
    global blocks
    reply = json.loads(line)
    if method == 'environment.open' and 'result' in reply:
        blocks = reply['result']['blocks']
        if fault == 'metadata':
            path = listen + '.meta'
            with open(reply['result']['meta'], 'rb') as f, open(path, 'wb') as to:
                to.write(f.read())
            turn(path)
            reply['result']['meta'] = path
            return json.dumps(reply).encode() + b'\n'
    if method == 'environment.read' and fault == 'blocks' and reads == 2:
        turn(blocks)
    return line


def serve(client):
    at = socket.socket(socket.AF_UNIX)
    try:
        at.connect(node)
    except OSError:
        return
    to, ask = at.makefile('rwb'), client.makefile('rwb')
    for line in ask:
        method = json.loads(line)['method']
        before(method)
        if fault == 'before' and method == 'environment.open':
            ask.write(b'{"bootseer":1,"error":{"errno":38,"message":"no method"}}\n')
            ask.flush()
            continue
        to.write(line)
        to.flush()
        answer = to.readline()
        if not answer:
            return
        if fault == 'silent' and method == 'environment.open':
            print(method, flush=True)
            return
        print(method, flush=True)
        ask.write(after(method, answer))
        ask.flush()


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
