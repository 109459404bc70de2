# SPDX-License-Identifier: Apache-2.0
"""bootseer.StorageReader and StorageWriter: DCP's own, and its files, on a mount.  PyTorch 2.7
is what they are tested with."""
import collections
import concurrent.futures
import dataclasses
import hashlib
import io
import os
import uuid

import torch
from torch.distributed._shard._utils import narrow_tensor_by_index
from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.filesystem import FileSystem, _StorageInfo
from torch.distributed.checkpoint.planner import LoadItemType, WriteItemType
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from bootseer import read_into
from bootseer_group import Group, address_of, stage

__all__ = ["StorageReader", "StorageWriter"]

_THREADS = 8
_AHEAD = 256 << 20  # bytes that are read before they are needed, at most, but for one item
_ALIGN = 64
_NAME_MAX = 512  # as docs/formats/group-save.md has it


class _Replacing(FileSystem):
    """DCP removes .metadata before it renames the new one to it: there would be a moment
    without a checkpoint.  The rename alone replaces it."""

    def rm_file(self, path):
        pass


@dataclasses.dataclass
class _Member:
    """A rank's plan has it on the way to the coordinator: the rank's node."""

    address: str


@dataclasses.dataclass
class _Shared:
    """A rank's plan has it on the way back: one file of all ranks."""

    save: str
    members: list
    rank: int


def _item_name(index):
    name = index.fqn
    if index.offset is not None:
        name += str(list(index.offset))
    if not name or len(name.encode()) > _NAME_MAX or "@rank" in name or name == "__metadata__":
        name = hashlib.sha256(name.encode()).hexdigest()
    return name


def _write_tensor(tensor, stream):
    tensor = tensor.detach().cpu()
    # torch.save would write all that the view is of.
    if tensor.untyped_storage().nbytes() != tensor.numel() * tensor.element_size():
        tensor = tensor.clone()
    torch.save(tensor, stream)


def _leave_out(group, path):
    """Have the group's save fail now for the other ranks, which would wait for this one until their
    deadline: whoever sends a later save has left out those before.  This one's is no other rank's,
    so that nothing is stored where all fail."""
    try:
        group.put_staged(path, [], stage(lambda fd: None), 2 + group.rank, timeout=1)
    except OSError:
        pass  # The mount is gone, and tells them so.


class StorageWriter(FileSystemWriter):
    """DCP's FileSystemWriter, where a save is there whole, for all ranks, or not at all, also
    one into the folder of an earlier one: its files have names of their own, .metadata is
    replaced when all are durable, and then what it does not name is removed.

    With group_socket, else $BOOTSEER_GROUP_SOCKET, the --group-socket of this node's mount, all
    ranks' items become one file, each byte of which leaves the nodes once.  Either all ranks
    have it, or none.
    """

    def __init__(self, path, *, group_socket=None, **options):
        super().__init__(path, **options)
        self.fs = _Replacing()
        self._socket = group_socket or os.environ.get("BOOTSEER_GROUP_SOCKET")

    def prepare_local_plan(self, plan):
        if self.overwrite:
            self.fs.mkdir(self.path)
        else:
            plan = super().prepare_local_plan(plan)
        if self._socket:
            plan = dataclasses.replace(plan, storage_data=_Member(address_of(self._socket)))
        return plan

    def prepare_global_plan(self, plans):
        save = uuid.uuid4().hex[:12]
        nodes = [plan.storage_data for plan in plans]
        if any(isinstance(node, _Member) for node in nodes):
            if not all(isinstance(node, _Member) for node in nodes):
                raise ValueError("some ranks have $BOOTSEER_GROUP_SOCKET, others have not")
            members = [node.address for node in nodes]
            return [dataclasses.replace(plan, storage_data=_Shared(save, members, rank))
                    for rank, plan in enumerate(plans)]
        plans = super().prepare_global_plan(plans)
        return [dataclasses.replace(plan, storage_data=dataclasses.replace(
            plan.storage_data, prefix=save + plan.storage_data.prefix)) for plan in plans]

    def write_data(self, plan, planner):
        shared = plan.storage_data
        if not isinstance(shared, _Shared):
            return super().write_data(plan, planner)
        table, descriptors = [], []

        def fill(fd):
            with open(fd, "wb", closefd=False) as stream:
                for item in plan.items:
                    stream.write(bytes(-stream.tell() % _ALIGN))
                    begin = stream.tell()
                    descriptors.append(self._write_item(item, planner, stream))
                    length = stream.tell() - begin
                    table.append([_item_name(item.index), "U8", [length], begin, length])

        name = shared.save + ".distcp"
        group = Group(self._socket, shared.rank, shared.members, shared.save)
        # The mount knows no other names of its folder.
        path = os.path.join(os.path.realpath(self.path), name)
        try:
            fd = stage(fill)
        except BaseException:
            _leave_out(group, path)
            raise
        places = group.put_staged(path, table, fd, 1).durable.wait()["places"]
        done = Future()
        done.set_result([
            WriteResult(index=item.index, size_in_bytes=row[4], storage_data=_StorageInfo(
                name, *places[row[0]], transform_descriptors=used or None))
            for item, row, used in zip(plan.items, table, descriptors)])
        return done

    def _write_item(self, item, planner, stream):
        to, descriptors = self.transforms.transform_save_stream(item, stream)
        data = planner.resolve_data(item)
        if item.type == WriteItemType.BYTE_IO:
            to.write(data.getbuffer())
        else:
            _write_tensor(data, to)
        to.close()
        return list(descriptors)

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
