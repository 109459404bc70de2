# SPDX-License-Identifier: Apache-2.0
"""torch-dcp.py TMP FOLDER [SOCKET FOLDER SOCKET]: 8 ranks save, 6 load; a save that is killed leaves
the one before.  Ranks of two nodes have a folder and a --group-socket each.  Without other processes
than those that this one forks, after the imports."""
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

import bootseer

PARTS = 12
FOLDERS, SOCKETS = sys.argv[2::2], sys.argv[3::2]


def value(step):
    torch.manual_seed(step)
    return {"w%d" % i: torch.randn(48, 1000 + i) for i in range(PARTS)}


def shards(step, ranks):
    mesh = init_device_mesh("cpu", (ranks,))
    return {k: distribute_tensor(v, mesh, [Shard(0)]) for k, v in value(step).items()}


def save(path, step, ranks, rank, dies=None, fails=None):
    writer = bootseer.StorageWriter(path)
    if rank == fails:
        writer._write_item = None
    if rank == dies:
        write = writer.write_data

        def write_and_die(*args):
            write(*args)
            os._exit(7)  # its file is written, and nobody is told

        writer.write_data = write_and_die
    state = {**shards(step, ranks), "step": step, "all": value(-step)["w0"]}
    if step != 4:
        dcp.save(state, storage_writer=writer)
        return
    saving = dcp.async_save(state, storage_writer=writer)
    for tensor in state.values():
        if isinstance(tensor, torch.Tensor):
            tensor.zero_()
    saving.result()


def load(path, step, ranks, rank, reader=bootseer.StorageReader):
    state = {**shards(0, ranks), "step": -1, "all": torch.empty(48, 1000)}
    dcp.load(state, storage_reader=reader(path))
    want = shards(step, ranks)
    assert state["step"] == step, state["step"]
    assert torch.equal(state["all"], value(-step)["w0"])
    for name, tensor in want.items():
        assert torch.equal(state[name].to_local(), tensor.to_local()), (rank, name)


def run(ranks, what, path, *args, **more):
    """On so many ranks; the exit statuses."""
    store = os.path.join(sys.argv[1], "rendezvous")
    pids = []
    for rank in range(ranks):
        pid = os.fork()
        if not pid:
            status = 1
            try:
                torch.set_num_threads(1)
                node = rank * len(FOLDERS) // ranks
                if SOCKETS:
                    os.environ["BOOTSEER_GROUP_SOCKET"] = SOCKETS[node]
                dist.init_process_group("gloo", init_method="file://" + store,
                                        rank=rank, world_size=ranks)
                what(os.path.join(FOLDERS[node], path), *args, ranks, rank, **more)
                status = 0
            except Exception as e:
                print("rank %d: %r" % (rank, e), file=sys.stderr)
            os._exit(status)
        pids.append(pid)
    got = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    if os.path.exists(store):
        os.unlink(store)
    return got


def main(path):
    assert run(8, save, path, 1) == [0] * 8
    assert run(6, load, path, 1) == [0] * 6
    # Plain DCP reads what we wrote, and we what it wrote.
    assert run(6, load, path, 1, reader=dcp.FileSystemReader) == [0] * 6
    got = run(8, save, path, 2, dies=5)
    assert got[5] == 7 and 0 not in got, got
    assert run(6, load, path, 1) == [0] * 6, "a save that was killed took the one before"
    assert run(6, save, path, 3) == [0] * 6
    assert run(2, load, path, 3) == [0] * 2
    if SOCKETS:
        # The others are told so, and do not wait for it until their deadline.
        begin = time.monotonic()
        assert run(6, save, path, 9, fails=4) == [1] * 6
        assert time.monotonic() - begin < 300
        assert run(6, load, path, 3) == [0] * 6
    assert run(6, save, path, 4) == [0] * 6
    assert run(3, load, path, 4) == [0] * 3
    whole = os.path.join(FOLDERS[0], path)
    names = os.listdir(whole)
    assert len([n for n in names if n.endswith(".distcp")]) == (1 if SOCKETS else 6), names
    dcp.save({"a": torch.arange(9)}, checkpoint_id=whole + ".plain", no_dist=True)
    state = {"a": torch.zeros(9, dtype=torch.int64)}
    dcp.load(state, storage_reader=bootseer.StorageReader(whole + ".plain"), no_dist=True)
    assert torch.equal(state["a"], torch.arange(9))


main("last")
