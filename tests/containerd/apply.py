# SPDX-License-Identifier: Apache-2.0
"""containerd's part in unpacking a layer: apply.py SOCKET TYPE DIGEST SIZE DIR [LOWER]

Has the Diff service on the socket unpack a layer into DIR on top of the folders LOWER (a:b)
and prints the digest of what it unpacked, or the status of the call.
"""

import os
import sys

import grpc

from protobuf import decode, encode

socket, media_type, digest, size, folder, *lower = sys.argv[1:]
options = ["rw", "rbind"]
if lower:
    options = ["index=off", "workdir=/none", f"upperdir={folder}", f"lowerdir={lower[0]}"]
mount = [(1, "overlay" if lower else "bind"), (2, folder)]
mount += [(3, os.environ.get("TARGET", ""))]
options += os.environ.get("OPTIONS", "").split()
mount += [(4, option) for option in options]
rpc = grpc.insecure_channel("unix:" + socket).unary_unary(
    "/containerd.services.diff.v1.Diff/Apply",
    request_serializer=encode,
    response_deserializer=decode,
)
try:
    diff = [(1, media_type), (2, digest), (3, int(size))]
    reply = rpc([(1, diff), (2, mount)], timeout=120)
    print(decode(reply[1][-1])[2][-1].decode())
except grpc.RpcError as e:
    print(e.code().name)
