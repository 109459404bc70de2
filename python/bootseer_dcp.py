# SPDX-License-Identifier: Apache-2.0
"""bootseer.StorageReader and StorageWriter: DCP's own, and its files, on a mount.  PyTorch 2.7
is what they are tested with."""
import collections
import concurrent.futures
import dataclasses
import io
import os
import uuid

import torch
from torch.distributed._shard._utils import narrow_tensor_by_index
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.filesystem import FileSystem
from torch.distributed.checkpoint.planner import LoadItemType
from torch.futures import Future

from bootseer import read_into

__all__ = ["StorageReader", "StorageWriter"]

_THREADS = 8
_AHEAD = 256 << 20  # bytes that are read before they are needed, at most, but for one item


class _Replacing(FileSystem):
    """DCP removes .metadata before it renames the new one to it: there would be a moment
    without a checkpoint.  The rename alone replaces it."""

    def rm_file(self, path):
        pass


class StorageWriter(FileSystemWriter):
    """DCP's FileSystemWriter, where a save is there whole, for all ranks, or not at all, also
    one into the folder of an earlier one: its files have names of their own, .metadata is
    replaced when all are durable, and then what it does not name is removed."""

    def __init__(self, path, **options):
        super().__init__(path, **options)
        self.fs = _Replacing()

    def prepare_local_plan(self, plan):
        if not self.overwrite:
            return super().prepare_local_plan(plan)
        self.fs.mkdir(self.path)
        return plan

    def prepare_global_plan(self, plans):
        save = uuid.uuid4().hex[:12]
        plans = super().prepare_global_plan(plans)
        return [dataclasses.replace(plan, storage_data=dataclasses.replace(
            plan.storage_data, prefix=save + plan.storage_data.prefix)) for plan in plans]

    def finish(self, metadata, results):
        super().finish(metadata, results)
        named = {info.relative_path for info in metadata.storage_data.values()}
        for name in os.listdir(self.path):
            if name.endswith(".distcp") and name not in named:
                os.unlink(os.path.join(self.path, name))


class StorageReader(FileSystemReader):
    """DCP's FileSystemReader, with items in the order in which they lie in the files, read
    side by side and ahead, each by one large read."""

    def read_data(self, plan, planner):
        def place(item):
            info = self.storage_data[item.storage_index]
            return info.relative_path, info.offset

        items = collections.deque(sorted(plan.items, key=place))
        fds, coming, ahead = {}, collections.deque(), 0
        try:
            with concurrent.futures.ThreadPoolExecutor(_THREADS) as pool:
                while items or coming:
                    while items and (ahead < _AHEAD or not coming):
                        item = items.popleft()
                        info = self.storage_data[item.storage_index]
                        coming.append((item, info, pool.submit(self._fetch, fds, info)))
                        ahead += info.length
                    item, info, data = coming.popleft()
                    self._give(item, info, data.result(), planner)
                    ahead -= info.length
        finally:
            for fd in fds.values():
                os.close(fd)
        done = Future()
        done.set_result(None)
        return done

    def _fetch(self, fds, info):
        path = os.path.join(self.path, info.relative_path)
        fd = fds.get(path)
        if fd is None:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            kept = fds.setdefault(path, fd)
            if kept != fd:  # another thread was first
                os.close(fd)
                fd = kept
        data = bytearray(info.length)
        read_into(fd, data, info.offset)
        return io.BytesIO(data)

    def _give(self, item, info, raw, planner):
        stream = self.transforms.transform_load_stream(
            item, info.transform_descriptors or (), raw)
        if not stream.seekable():
            stream = io.BytesIO(stream.read(-1))
        if item.type == LoadItemType.BYTE_IO:
            planner.load_bytes(item, io.BytesIO(stream.read(-1)))
            return
        tensor = torch.load(stream, map_location="cpu", weights_only=True)
        tensor = narrow_tensor_by_index(tensor, item.storage_offsets, item.lengths)
        target = planner.resolve_tensor(item).detach()
        if target.size() != tensor.size():
            raise ValueError("%s has the size %s, not %s" % (
                item.storage_index, tensor.size(), target.size()))
        target.copy_(tensor)
        planner.commit_tensor(item, target)
