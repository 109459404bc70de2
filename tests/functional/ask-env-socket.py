#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ask-env-socket.py STORE keep|leave|open TARGET...: ask for the snapshot that the store has, in
a container, by its socket; each TARGET by itself, but 'A,B' for both.  Prints the answers;
'leave' goes without a word when it was mounted.  With 'open' the blocks are asked for, and each
TARGET is a store, of which they are wanted, or lines that follow, with '+' between; 'hold'
keeps the connection until the end."""
import json
import os
import socket
import sys


def lines(text, then):
    s = socket.socket(socket.AF_UNIX)
    s.connect('/run/bootseer-env/env.sock')
    f = s.makefile('rwb')
    f.write(text)
    f.flush()
    reply = f.readline()
    if then and b'"result"' in reply:
        f.write(b'{"bootseer":1,"method":"environment.keep"}\n')
        f.flush()
        f.readline()
    return reply.decode().strip()


kept = []


def opened(params, questions, holds=False):
    """All that comes, but what the metadata has."""
    s = socket.socket(socket.AF_UNIX)
    s.connect('/run/bootseer-env/env.sock')
    f = s.makefile('rwb')
    if holds:
        kept.append((s, f))
    f.write(json.dumps({'bootseer': 1, 'method': 'environment.open',
                        'params': params}).encode() + b'\n')
    f.flush()
    reply = f.readline()
    if b'"result"' in reply:
        sizes = json.loads(reply)['result']
        f.read(sizes['meta'] + sizes['map'])
    for question in questions:
        f.write(question.encode() + b'\n')
        f.flush()
        reply += f.readline()
    return reply.decode().strip()


store, then, targets = sys.argv[1], sys.argv[2] == 'keep', sys.argv[3:]
folder = store.removeprefix('file://') + '/env/index'
key = os.listdir(folder)[0]
with open(f'{folder}/{key}', encoding='utf-8') as index:
    snapshot = json.load(index)
for target in targets:
    if target == 'noise':
        print(lines(b'x' * 70000 + b'\n', then))
        continue
    if sys.argv[2] == 'open':
        print(opened({
            'store': store if '{' in target or target == 'hold' else target, 'key': f'sha256:{key}',
            'folder': snapshot['folder'], 'manifest': snapshot['manifest'],
            'shared_packs': True}, target.split('+') if '{' in target else [],
            target == 'hold'))
        continue
    print(lines(json.dumps({
        'bootseer': 1, 'method': 'environment.restore', 'params': {
            'store': store, 'key': f'sha256:{key}', 'folder': snapshot['folder'],
            'manifest': snapshot['manifest'], 'targets': target.split(',')},
    }).encode() + b'\n', then))
