# SPDX-License-Identifier: Apache-2.0
"""bootseer.group: ranks of a job that save together, by mounts with --group-socket.  The messages
are in docs/formats/group-save.md."""
import asyncio
import concurrent.futures
import errno
import fcntl
import hashlib
import json
import mmap
import os
import socket
import struct
import threading
import uuid

__all__ = ["Group", "Save", "SaveError"]

_ALIGN = 64
_SEALS = 0x1 | 0x2 | 0x4 | 0x8  # no more seals, nor shorter, longer, or other bytes
_LENGTH_SEALS = 0x1 | 0x2 | 0x4
_ADD_SEALS = 1033
_DTYPES = {"bool": "BOOL", "uint8": "U8", "int8": "I8", "uint16": "U16", "int16": "I16",
           "float16": "F16", "bfloat16": "BF16", "uint32": "U32", "int32": "I32",
           "float32": "F32", "uint64": "U64", "int64": "I64", "float64": "F64",
           "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2"}


class SaveError(OSError):
    """A save, or a step of it, that did not come about, and why."""


class _Future(concurrent.futures.Future):
    """A future that may be waited for or awaited."""

    def wait(self, timeout=None):
        return self.result(timeout)

    def __await__(self):
        return asyncio.wrap_future(self).__await__()


class Save:
    """What put() returns.

    buffered: every byte is in the memory of two nodes (of one, where there is one alone), and the
    tensors may change.  A rank that ends before may take its step with it.  durable: the file is in
    the store, whole.  Both give a dict of `given`, `unique` and `stored` bytes of all ranks, and of
    `places`, which has offset and length in the file of each of this rank's tensors; or raise
    SaveError.
    """

    def __init__(self, path):
        self.path = path
        self.buffered = _Future()
        self.durable = _Future()
        for future in (self.buffered, self.durable):
            # Whoever awaits it with a timeout would else cancel it for all.
            future.set_running_or_notify_cancel()

    def _say(self, line):
        state = line.pop("state", None)
        if state == "failed":
            raise SaveError("'%s' is not saved: %s" % (self.path, line.get("reason")))
        if state in ("buffered", "durable") and not self.buffered.done():
            self.buffered.set_result(line)
        if state == "durable":
            self.durable.set_result(line)

    def _follow(self, sock):
        try:
            with sock, sock.makefile("rb") as lines:
                for line in lines:
                    self._say(json.loads(line))
            if not self.durable.done():
                raise SaveError("the mount's process ended before it said that '%s' is in the "
                                "store: look whether it is" % self.path)
        except Exception as why:
            for future in (self.buffered, self.durable):
                if not future.done():
                    future.set_exception(why)


def _digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _call(address, request, fd=None):
    text = json.dumps(request).encode()
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(address)
        head = struct.pack("<I", len(text))
        if fd is None:
            sock.sendall(head)
        else:
            socket.send_fds(sock, [head], [fd])
        sock.sendall(text)
    except BaseException:
        sock.close()
        raise
    return sock


def _describe(tensors):
    """[name, dtype, shape, offset, length] of each in memory of so many bytes."""
    table, at = [], 0
    for name, t in tensors.items():
        if isinstance(t, tuple):
            dtype, shape, data = t
            length = len(memoryview(data).cast("B"))
        else:
            dtype = _DTYPES[str(t.dtype).rpartition(".")[2]]
            shape, length = list(t.shape), t.numel() * t.element_size()
        table.append([name, dtype, list(shape), at, length])
        at += -(-length // _ALIGN) * _ALIGN
    return table, at


def _copy_tensor(memory, t, at, length):
    import torch

    whole = torch.frombuffer(memory, dtype=torch.uint8, count=length, offset=at)
    whole.view(t.dtype).reshape(t.shape).copy_(t.detach())


def _fill(fd, tensors, table, size):
    memory = mmap.mmap(fd, size)
    # A child that the process forks meanwhile would keep it from being sealed.
    memory.madvise(mmap.MADV_DONTFORK)
    try:
        for t, (_, _, _, at, length) in zip(tensors.values(), table):
            if not length:
                continue
            if isinstance(t, tuple):
                memory[at:at + length] = memoryview(t[2]).cast("B")
            else:
                _copy_tensor(memory, t, at, length)
    finally:
        memory.close()


def stage(fill):
    """Memory that fill(fd) has filled, sealed, for the mount to take over."""
    fd = os.memfd_create("bootseer-save", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        fill(fd)
        fcntl.fcntl(fd, _ADD_SEALS, _SEALS)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _stage_tensors(tensors):
    """The one copy that is made of them."""
    table, size = _describe(tensors)

    def fill(fd):
        os.ftruncate(fd, size)
        if size:
            _fill(fd, tensors, table, size)

    return table, stage(fill)


class Group:
    """The ranks of a job, each with the mount of its node.

    Every rank makes one, and calls put() as often as the others do and in their order.
    """

    def __init__(self, address=None, rank=None, members=None, job=None):
        """address: --group-socket of this node's mount; else $BOOTSEER_GROUP_SOCKET.

        Ranks find one another by torch.distributed, which is to be initialized; or they are told:
        their rank, the answers of address_of() of all ranks, and a name of this run that no other
        run has.
        """
        self._address = address or os.environ["BOOTSEER_GROUP_SOCKET"]
        if members is None:
            rank, members, job = self._exchange()
        self.rank = rank
        self._members = list(dict.fromkeys(members))
        self._nodes = [self._members.index(m) for m in members]
        self._job, self._n = job, 0
        self._lock = threading.Lock()

    def _exchange(self):
        import torch.distributed as dist

        mine = (address_of(self._address), uuid.uuid4().hex)
        if not dist.is_available() or not dist.is_initialized():
            return 0, [mine[0]], mine[1]
        said = [None] * dist.get_world_size()
        dist.all_gather_object(said, mine)
        return dist.get_rank(), [s[0] for s in said], said[0][1]

    def put(self, path, tensors, timeout=600, durable_timeout=3600):
        """Save the tensors of all ranks as one safetensors file, and return a Save.

        path is on the mount, or from its root on.  tensors: a dict of tensors of torch, or of
        (dtype, shape, bytes) as safetensors has them.  What is equal is stored once, whoever has
        it and under whichever names.  A name that ranks have with different bytes becomes
        NAME@rankN in the file.  Until `timeout` seconds it is buffered, `durable_timeout` after
        that durable, or it fails.
        """
        # Counted first: a put() that fails must not shift the later ones of this rank alone.
        with self._lock:
            self._n += 1
            number = self._n
        table, fd = _stage_tensors(tensors)
        return self.put_staged(path, table, fd, number, timeout, durable_timeout)

    def put_staged(self, path, table, fd, number, timeout=600, durable_timeout=3600):
        """As put(), of what lies in memory of stage(), which is closed here: table has name, dtype,
        shape, offset and length of each tensor."""
        try:
            sock = _call(self._address, {
                "op": "put", "job": _digest(self._job), "number": number,
                "path": os.fspath(path), "rank": self.rank, "members": self._members,
                "nodes": self._nodes, "tensors": table, "stage_ms": int(timeout * 1000),
                "store_ms": int(durable_timeout * 1000)}, fd)
        finally:
            os.close(fd)
        save = Save(os.fspath(path))
        threading.Thread(target=save._follow, args=(sock,), daemon=True).start()
        return save

    def get(self, path, device="cpu"):
        """This rank's tensors of a file that put() made, by the names that it gave them, and
        those that ranks have in common."""
        import bootseer

        reads = _said(self._address, {"op": "reads"}, "reads")
        socket_or_none = self._address if reads else None
        tensors = bootseer.load_file(path, device, socket_or_none)
        for name, key in bootseer.read_metadata(path, socket_or_none).items():
            if key in tensors:
                tensors[name] = tensors[key]
        mine, suffix = {}, "@rank%d" % self.rank
        for name, t in tensors.items():
            if name.endswith(suffix):
                mine[name[:-len(suffix)]] = t
            elif "@rank" not in name:
                mine.setdefault(name, t)
        return mine


class GroupFile:
    """A file of the store, by a bootseer-ckpt --ranks-only: what several nodes read leaves the
    store once."""

    def __init__(self, address, path):
        self._sock, said = _ask(address, {"op": "read", "path": os.fspath(path)}, "size")
        self.size = said["size"]

    def read(self, offset, length):
        """The bytes, in memory of their own."""
        if not length:
            return bytearray()
        fd = os.memfd_create("bootseer-read", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, length)
            fcntl.fcntl(fd, _ADD_SEALS, _LENGTH_SEALS)
            # Pages count for the control group of whoever has them first: they are this rank's.
            memory = mmap.mmap(fd, length, mmap.MAP_SHARED | mmap.MAP_POPULATE)
            socket.send_fds(self._sock, [struct.pack("<QQ", offset, length)], [fd])
        finally:
            os.close(fd)
        answer = self._sock.recv(8, socket.MSG_WAITALL)
        failure = -struct.unpack("<q", answer)[0] if len(answer) == 8 else errno.EPIPE
        if failure:
            raise OSError(failure, os.strerror(failure))
        return memory

    def close(self):
        self._sock.close()


def _ask(address, request, wanted):
    """The connection, and its first line, which is to have what is wanted."""
    sock = _call(address, request)
    with sock.makefile("rb", 0) as lines:
        said = json.loads(lines.readline() or b'{"reason": "it said nothing"}')
    if wanted in said:
        return sock, said
    sock.close()
    raise SaveError("the mount at '%s': %s" % (address, said.get("reason")))


def _said(address, request, wanted):
    sock, said = _ask(address, request, wanted)
    sock.close()
    return said[wanted]


def address_of(address):
    """Where the mount of this socket is asked by other nodes' mounts."""
    return _said(address, {"op": "hello"}, "address")
