# SPDX-License-Identifier: Apache-2.0
"""bootseer.KVCache: blocks of bytes by name, in the memory of a group's nodes and in the store, by
mounts with --group-blocks.  The messages are in docs/formats/blocks.md."""
import concurrent.futures
import json
import mmap
import os
import socket
import struct

import bootseer
import bootseer_group

__all__ = ["KVCache"]

_GET, _PUT, _HAS = 1, 2, 3
_KEY_MAX = 1024
_ENOENT = 2
_ETIMEDOUT = 110
# More than the mount gives other nodes and the store to answer.
_ANSWER_S = 300
# What keeps a block from being cached or found is no fault of the program: memory is short (ENOMEM,
# ENOBUFS), the mount ends (ECANCELED), or nobody answered in time.
_MISSES = {_ENOENT, 5, 12, 105, 110, 111, 125}


class KVCache:
    """Blocks of one cache, which is whatever makes blocks of equal keys equal: a model, its
    version, type and layout, the rank in its tensor parallel group.

    Any thread may call anything.  A block that is not there, or not to be had, is None.
    """

    def __init__(self, cache, address=None, threads=4):
        """address: --group-socket of this node's mount; else $BOOTSEER_GROUP_SOCKET.
        threads: so many blocks are under way at a time; all programs of a node have 32."""
        self._cache = cache
        self._address = address or os.environ["BOOTSEER_GROUP_SOCKET"]
        self._idle = []
        self._pool = concurrent.futures.ThreadPoolExecutor(threads)
        self._idle.append(self._connect())

    def _connect(self):
        sock = bootseer_group._call(self._address, {"op": "blocks", "cache": self._cache})
        sock.settimeout(_ANSWER_S)
        said = b""
        while not said.endswith(b"\n"):
            more = sock.recv(1)
            if not more:
                break
            said += more
        said = json.loads(said or b'{"reason": "it said nothing"}')
        if "blocks" not in said:
            sock.close()
            raise OSError("the mount at '%s': %s" % (self._address, said.get("reason")))
        return sock

    def _ask(self, op, key, fd=None):
        """(length, or a negative errno; a descriptor, or None)"""
        key = key.encode() if isinstance(key, str) else bytes(key)
        if not 0 < len(key) <= _KEY_MAX:
            raise ValueError("a key of %d bytes: 1 to %d" % (len(key), _KEY_MAX))
        request = struct.pack("<II", op, len(key)) + key
        try:
            sock = self._idle.pop()
        except IndexError:
            sock = self._connect()
        try:
            answer, fds = self._exchange(sock, request, fd)
        except socket.timeout:
            sock.close()
            return -_ETIMEDOUT, None
        except OSError:
            # The mount's process was started anew, or this connection was its last one's.
            sock.close()
            sock = self._connect()
            answer, fds = self._exchange(sock, request, fd)
        self._idle.append(sock)
        return struct.unpack("<q", answer)[0], fds[0] if fds else None

    @staticmethod
    def _exchange(sock, request, fd):
        if fd is None:
            sock.sendall(request)
        else:
            sent = socket.send_fds(sock, [request], [fd])
            sock.sendall(request[sent:])
        answer, fds = b"", []
        while len(answer) < 8:
            more, got, _, _ = socket.recv_fds(sock, 8 - len(answer), 1)
            fds += got
            if not more:
                raise ConnectionError("the mount's process ended")
            answer += more
        return answer, fds

    @staticmethod
    def _check(n, what):
        if n < 0 and -n not in _MISSES:
            raise OSError(-n, "%s: %s" % (what, os.strerror(-n)))
        return n >= 0

    def get(self, key, into=None):
        """The block's bytes, which cannot be changed, or None.

        into: memory to copy them to (a buffer, or a contiguous tensor of torch on the CPU), as long
        as the block; then their number, or None.
        """
        n, fd = self._ask(_GET, key)
        if not self._check(n, "get"):
            return None
        try:
            if into is None:
                return memoryview(mmap.mmap(fd, n, mmap.MAP_SHARED, mmap.PROT_READ))
            room = _buffer(into)
            if len(room) != n:
                raise ValueError("a block of %d bytes into %d" % (n, len(room)))
            bootseer.read_into(fd, room, 0)
            return n
        finally:
            os.close(fd)

    def put(self, key, data):
        """Keep the bytes (a buffer, a tensor on the CPU, or a list of these, one after the other)
        as the block.  False: there was no room.  A block that is there stays as it is."""
        parts = [_buffer(d) for d in (data if isinstance(data, (list, tuple)) else [data])]

        def fill(fd):
            size = sum(len(p) for p in parts)
            os.ftruncate(fd, size)
            for p in parts:
                while p:
                    p = p[os.write(fd, p):]

        fd = bootseer_group.stage(fill)
        try:
            return self._check(self._ask(_PUT, key, fd)[0], "put")
        finally:
            os.close(fd)

    def has(self, key):
        """Is the block there?  It is not fetched."""
        return self._check(self._ask(_HAS, key)[0], "has")

    def prefix(self, keys):
        """How many of the keys, which follow one another, are there from the first one on."""
        n = 0
        for key in keys:
            if not self.has(key):
                break
            n += 1
        return n

    def get_many(self, keys, into=None):
        """get() of each, side by side."""
        rooms = into or [None] * len(keys)
        return list(self._pool.map(self.get, keys, rooms))

    def put_many(self, keys, blocks):
        """put() of each, side by side."""
        return list(self._pool.map(self.put, keys, blocks))

    def close(self):
        self._pool.shutdown()
        while self._idle:
            self._idle.pop().close()


def _buffer(data):
    if hasattr(data, "data_ptr"):
        import ctypes

        if not data.is_contiguous() or data.device.type != "cpu":
            raise ValueError("a tensor that is not contiguous, or not on the CPU")
        n = data.numel() * data.element_size()
        return memoryview((ctypes.c_char * n).from_address(data.data_ptr())).cast("B")
    return memoryview(data).cast("B")
