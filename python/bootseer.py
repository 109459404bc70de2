# SPDX-License-Identifier: Apache-2.0
"""Checkpoints on a mount of BootSeer, for programs that have torch.

    import bootseer

    tensors = bootseer.load_file("/ckpt/model.safetensors")
    dcp.save(state, storage_writer=bootseer.StorageWriter("/ckpt/last"))
    dcp.load(state, storage_reader=bootseer.StorageReader("/ckpt/last"))

    group = bootseer.group()
    save = group.put("/ckpt/step-100.safetensors", tensors)
    save.buffered.wait()

    cache = bootseer.KVCache("my-model")
    cache.put(key, block)

The files are plain safetensors and those of torch.distributed.checkpoint (DCP), and the folder
may be any.  Where it is a mount with --group, ranks of all nodes that load the same files at
the same time read them from the store once.
"""
import concurrent.futures
import contextlib
import json
import mmap
import os

__all__ = ["load_file", "group", "KVCache", "StorageReader", "StorageWriter"]

_HEADER_MAX = 100 << 20  # as safetensors has it
_PIECE = 16 << 20
_THREADS = 8


def __getattr__(name):
    # DCP takes a second to import, which load_file needs not.
    if name in ("StorageReader", "StorageWriter"):
        import bootseer_dcp

        return getattr(bootseer_dcp, name)
    if name == "KVCache":
        import bootseer_kv

        return bootseer_kv.KVCache
    raise AttributeError(name)


def group(*args, **named):
    """The ranks of this job, which save together: bootseer_group.Group."""
    import bootseer_group

    return bootseer_group.Group(*args, **named)


def read_into(fd, buffer, offset):
    """Fill the buffer with the bytes of a file from offset on."""
    view = memoryview(buffer).cast("B")
    while view:
        n = os.preadv(fd, [view], offset)
        if not n:
            raise EOFError("the file ends at %d" % offset)
        view, offset = view[n:], offset + n


def _read_all(fd, buffer, offset):
    view = memoryview(buffer).cast("B")
    with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
        parts = [pool.submit(read_into, fd, view[at:at + _PIECE], offset + at)
                 for at in range(0, len(view), _PIECE)]
        for part in parts:
            part.result()


class _File:
    """A file of a folder."""

    def __init__(self, path):
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._fd).st_size

    def read(self, offset, length):
        """The bytes, in memory of their own."""
        if not length:
            return bytearray()
        memory = mmap.mmap(-1, length, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        _read_all(self._fd, memory, offset)
        return memory

    def close(self):
        os.close(self._fd)


def _open(path, group_socket):
    if group_socket is None:
        return _File(path)
    import bootseer_group

    return bootseer_group.GroupFile(group_socket, path)


def _read_header(file, path):
    length = int.from_bytes(file.read(0, 8), "little") if file.size >= 8 else 0
    if length > min(_HEADER_MAX, file.size - 8):
        raise ValueError("%s is no safetensors file: of %d bytes, a header of %d"
                         % (path, file.size, length))
    return json.loads(bytes(file.read(8, length))), 8 + length


def read_metadata(path, group_socket=None):
    """The texts that a safetensors file has beside its tensors."""
    with contextlib.closing(_open(path, group_socket)) as file:
        return _read_header(file, path)[0].get("__metadata__", {})


def _tensor(torch, data, entry):
    names = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16",
             "F16": "float16", "BF16": "bfloat16", "U32": "uint32", "I32": "int32",
             "F32": "float32", "U64": "uint64", "I64": "int64", "F64": "float64",
             "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2"}
    dtype = getattr(torch, names[entry["dtype"]])
    begin, end = entry["data_offsets"]
    shape = entry["shape"]
    width = torch.empty(0, dtype=dtype).element_size()
    count = 1
    for n in shape:
        count *= n
    if not 0 <= begin <= end <= data.numel() or count * width != end - begin:
        raise ValueError("a tensor that is not within the file")
    part = data[begin:end]
    # Where one of another width stands before it.
    if begin % width:
        part = part.clone()
    return part.view(dtype).reshape(shape)


def load_file(path, device="cpu", group_socket=None):
    """The tensors of a safetensors file, by name, as safetensors.torch.load_file has them.

    The file is read by large reads side by side into memory of the tensors, which share it;
    nothing is mapped, so that a file that is replaced meanwhile stays what it was.
    group_socket: that of a bootseer-ckpt --ranks-only, which has the file without a mount.
    """
    import torch

    with contextlib.closing(_open(path, group_socket)) as file:
        header, at = _read_header(file, path)
        header.pop("__metadata__", None)
        memory = file.read(at, file.size - at)
    data = (torch.frombuffer(memory, dtype=torch.uint8) if memory
            else torch.empty(0, dtype=torch.uint8))
    if str(device) != "cpu":
        data = data.to(device)
    return {name: _tensor(torch, data, entry) for name, entry in header.items()}
