#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""packet-classes.py READY: looks at packets of TCP on the loopback of its network namespace until
its input ends, and prints for each family and DSCP how many there were, and how many bytes of
data: "4 8 120 1000000".  Resets have no socket, and do not count."""
import collections
import select
import socket
import sys

ALL = 3  # ETH_P_ALL
sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ALL))
sock.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
sock.bind(("lo", ALL))
packets, size = collections.Counter(), collections.Counter()


def look(p, outgoing):
    family = p[0] >> 4 if p else 0
    if family == 4:
        dscp, protocol, tcp = p[1] >> 2, p[9], p[(p[0] & 15) * 4:]
    elif family == 6:
        dscp, protocol, tcp = (p[0] & 15) << 2 | p[1] >> 6, p[6], p[40:]
    else:
        return
    if protocol != 6 or not outgoing or tcp[13] & 4:
        return
    packets[family, dscp] += 1
    size[family, dscp] += len(tcp) - (tcp[12] >> 4) * 4


with open(sys.argv[1], "w", encoding="ascii"):
    pass
while True:
    ready, _, _ = select.select([sock, sys.stdin], [], [])
    if sock in ready:
        got, where = sock.recvfrom(1 << 17)
        look(got, where[2] == socket.PACKET_OUTGOING)
    elif not sys.stdin.read(1):
        break
for (family, dscp), n in sorted(packets.items()):
    print(family, dscp, n, size[family, dscp])
