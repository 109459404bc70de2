# SPDX-License-Identifier: Apache-2.0
"""torch-dcp.py FOLDER TMP: 8 ranks save, 6 load; a save that is killed leaves the one before.  Without
other processes than those that this one forks, after the imports."""
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

import bootseer

PARTS = 12


def value(step):
    torch.manual_seed(step)
    return {"w%d" % i: torch.randn(48, 1000 + i) for i in range(PARTS)}


def shards(step, ranks):
    mesh = init_device_mesh("cpu", (ranks,))
    return {k: distribute_tensor(v, mesh, [Shard(0)]) for k, v in value(step).items()}


def save(path, step, ranks, rank, dies=None):
    writer = bootseer.StorageWriter(path)
    if rank == dies:
        write = writer.write_data

        def write_and_die(*args):
            write(*args)
            os._exit(7)  # its file is written, and nobody is told

        writer.write_data = write_and_die
    state = {**shards(step, ranks), "step": step}
    dcp.save(state, storage_writer=writer)


def load(path, step, ranks, rank, reader=bootseer.StorageReader):
    state = {**shards(0, ranks), "step": -1}
    dcp.load(state, storage_reader=reader(path))
    want = shards(step, ranks)
    assert state["step"] == step, state["step"]
    for name, tensor in want.items():
        assert torch.equal(state[name].to_local(), tensor.to_local()), (rank, name)


def run(ranks, what, path, *args, **more):
    """On so many ranks; the exit statuses."""
    store = os.path.join(sys.argv[2], "rendezvous")
    pids = []
    for rank in range(ranks):
        pid = os.fork()
        if not pid:
            status = 1
            try:
                torch.set_num_threads(1)
                dist.init_process_group("gloo", init_method="file://" + store,
                                        rank=rank, world_size=ranks)
                what(path, *args, ranks, rank, **more)
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
    names = os.listdir(path)
    assert len([n for n in names if n.endswith(".distcp")]) == 6, names
    dcp.save({"a": torch.arange(9)}, checkpoint_id=path + ".plain", no_dist=True)
    state = {"a": torch.zeros(9, dtype=torch.int64)}
    dcp.load(state, storage_reader=bootseer.StorageReader(path + ".plain"), no_dist=True)
    assert torch.equal(state["a"], torch.arange(9))


main(sys.argv[1])
