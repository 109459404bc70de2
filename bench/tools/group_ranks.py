#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""group_ranks.py VARIANT MODEL ZERO MIB NODES RANKS NETNS FOLDER NAME: RANKS processes on each of NODES
network namespaces NETNS-nodeI save one step of a model by the mounts FOLDER/mntI, and print "given" and
"unique" bytes, and when the last of them went on ("stall"), knew the step "buffered", and "durable", in
seconds; "processors" is the share of the machine's that were busy until then, "alone" are bytes that
one node has and no other: of the node that has most of them.

VARIANT  grouped    bootseer.group's put() of all that each rank has
         framework  the same of what a framework leaves: the first of ranks that are alike
         distinct   the same where no two ranks have a byte in common
         files      a file of each rank, with what a framework leaves, as Megatron writes
         dcp        torch.distributed.checkpoint's FileSystemWriter
         dcp-async  the same by async_save
         tiny       ten saves of 16 tensors of 4 KiB each; prints the median of "buffered"
MODEL    1.5B, 13B or 38B, of which MIB are the unique bytes of 38B, in the parallelism of AITurbo's
         section 5.1, halved: 1 tensor and 1 pipeline rank, 4 and 1, 4 and 2
ZERO     1: ranks that are alike share the optimizer's states"""
import ctypes
import multiprocessing
import os
import statistics
import sys
import time

VARIANT, MODEL, ZERO = sys.argv[1], sys.argv[2], sys.argv[3] == "1"
MIB, NODES, RANKS = map(int, sys.argv[4:7])
NETNS, FOLDER, NAME = sys.argv[7:10]
WORLD = NODES * RANKS
SIZES = {"1.5B": 1.5, "13B": 13, "38B": 38}
SHARDS = {"1.5B": 1, "13B": 4, "38B": 8}
LAYERS = 8
PARAMETER, OPTIMIZER = 2 / 14, 12 / 14  # bytes of each 14: bf16; fp32 with both moments
IS_TORCH = VARIANT.startswith("dcp")


def plan():
    """By rank: name, begin and end in the bytes of the model, and whether a framework has the rank write it."""
    shards, copies = SHARDS[MODEL], WORLD // SHARDS[MODEL]
    layer = int(MIB * 2**20 * SIZES[MODEL] / 38 / shards / LAYERS) // 256 * 256
    cut = int(layer * PARAMETER) // 64 * 64
    piece = (layer - cut) // copies // 64 * 64 if ZERO else layer - cut
    ranks = []
    for rank in range(WORLD):
        shard, copy = rank % shards, rank // shards
        mine = []
        for i in range(LAYERS):
            at = (shard * LAYERS + i) * layer
            name = "layer%d.shard%d" % (i, shard)
            mine.append((name + ".weight", at, at + cut, copy == 0))
            begin = at + cut + (copy * piece if ZERO else 0)
            mine.append((name + ".moments" + (".%d" % copy if ZERO else ""), begin, begin + piece,
                         ZERO or copy == 0))
        ranks.append(mine)
    return ranks


def count_alone(ranks):
    holders = {}
    for rank, mine in enumerate(ranks):
        for _, begin, end, _ in mine:
            key = (begin, end, rank if VARIANT == "distinct" else 0)
            holders.setdefault(key, set()).add(rank // RANKS)
    by_node = [0] * NODES
    for (begin, end, _), nodes in holders.items():
        if len(nodes) == 1:
            by_node[nodes.pop()] += end - begin
    return max(by_node)


def enter(node):
    fd = os.open("/run/netns/%s-node%d" % (NETNS, node + 1), os.O_RDONLY)
    if ctypes.CDLL(None, use_errno=True).setns(fd, 0x40000000):
        raise OSError(ctypes.get_errno(), "setns")
    os.close(fd)


def tensors_of(mine, data, rank):
    if VARIANT == "tiny":
        return {"t%d" % i: ("U8", [4096], data[i * 4096:(i + 1) * 4096]) for i in range(16)}
    got = {}
    for name, begin, end, is_left in mine:
        part = data[begin:end]
        if VARIANT == "distinct":
            part = bytearray(part)
            for at in range(0, len(part) - 8, 1 << 20):
                part[at:at + 8] = (rank + 1).to_bytes(8, "little")
        if is_left or VARIANT in ("grouped", "distinct", "dcp", "dcp-async"):
            got[name] = ("U8", [end - begin], part)
    return got


def busy_seconds():
    with open("/proc/stat") as f:
        user, nice, system, _, _, irq, softirq = map(int, f.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def save_grouped(group, path, tensors, times):
    save = group.put(path, tensors)
    times.append(time.monotonic())
    save.buffered.wait()
    times.append(time.monotonic())
    save.durable.wait()
    times.append(time.monotonic())


def save_files(path, tensors, rank, times):
    os.makedirs(path, exist_ok=True)
    with open("%s/rank-%d" % (path, rank), "wb", buffering=0) as f:
        for _, _, part in tensors.values():
            f.write(part)
        os.fsync(f.fileno())
    times += [time.monotonic()] * 3


def save_torch(path, state, times):
    import torch.distributed.checkpoint as dcp

    if VARIANT == "dcp":
        dcp.save(state, storage_writer=dcp.FileSystemWriter(path))
        times += [time.monotonic()] * 3
        return
    saving = dcp.async_save(state, storage_writer=dcp.FileSystemWriter(path))
    times += [time.monotonic()] * 2
    saving.result()
    times.append(time.monotonic())


def run(rank, mine, data, members, barrier, results):
    node = rank // RANKS
    path = "%s/mnt%d/%s" % (FOLDER, node + 1, NAME)
    tensors = tensors_of(mine, data, rank)
    if IS_TORCH:
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        os.environ["GLOO_SOCKET_IFNAME"] = "eth1"
        dist.init_process_group("gloo", init_method="file://%s/rendezvous" % FOLDER,
                                rank=rank, world_size=WORLD)
        tensors = {k: torch.frombuffer(bytearray(v[2]), dtype=torch.uint8)
                   for k, v in tensors.items()}
    elif VARIANT != "files":
        import bootseer_group

        group = bootseer_group.Group("%s/ranks%d" % (FOLDER, node + 1), rank, members, NAME)
    for i in range(10 if VARIANT == "tiny" else 1):
        barrier.wait(600)
        times, busy = [time.monotonic()], busy_seconds()
        if IS_TORCH:
            save_torch(path, tensors, times)
        elif VARIANT == "files":
            save_files(path, tensors, rank, times)
        else:
            save_grouped(group, path + str(i), tensors, times)
        results.put(times + [busy, busy_seconds()])
        barrier.wait(600)


def child(rank, *args):
    status = 1
    try:
        enter(rank // RANKS)
        run(rank, *args)
        args[-1].close()
        args[-1].join_thread()
        status = 0
    finally:
        os._exit(status)


def main():
    ranks = plan()
    size = max(end for mine in ranks for _, _, end, _ in mine)
    data = memoryview(os.urandom(max(size, 65536)))
    members = None
    if IS_TORCH:
        import torch.distributed.checkpoint  # once, for all
    elif VARIANT != "files":
        import bootseer_group

        members = [bootseer_group.address_of("%s/ranks%d" % (FOLDER, r // RANKS + 1))
                   for r in range(WORLD)]
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(WORLD), context.Queue()
    children = [context.Process(target=child, args=(r, ranks[r], data, members, barrier, results))
                for r in range(WORLD)]
    for process in children:
        process.start()
    steps = []
    for _ in range(10 if VARIANT == "tiny" else 1):
        times = [results.get(timeout=600) for _ in children]
        begin = max(t[0] for t in times)
        steps.append([max(t[i] for t in times) - begin for i in (1, 2, 3)])
        busy = max(t[5] for t in times) - max(t[4] for t in times)
        steps[-1].append(busy / steps[-1][2] / os.cpu_count())
    for process in children:
        process.join(60)
        assert process.exitcode == 0
    given = sum(end - begin for mine in ranks for _, begin, end, _ in mine)
    unique = sum(end - begin for mine in ranks for _, begin, end, is_left in mine if is_left)
    print("given", given)
    print("unique", given if VARIANT == "distinct" else unique)
    print("alone", count_alone(ranks))
    for i, what in enumerate(("stall", "buffered", "durable", "processors")):
        print(what, "%.4f" % statistics.median(step[i] for step in steps))


main()
