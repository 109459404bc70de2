#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""load_model.py make|safetensors|torch|torch-mmap|dcp DIR [MIB]: `make` writes a model of
MIB in every form that the packages here can; the others load it, touch every byte of each
tensor, and print the seconds from the first call to the last byte."""
import sys
import time

TENSORS = 32


def torch_or_none():
    try:
        import torch
    except ImportError:
        return None
    return torch


def make(top, mib):
    import numpy as np
    from safetensors.numpy import save_file
    rand = np.random.default_rng(1)
    n = (mib << 20) // TENSORS // 4
    model = {f"layer.{i}": rand.standard_normal(n, np.float32) for i in range(TENSORS)}
    save_file(model, f"{top}/model.safetensors")
    torch = torch_or_none()
    if torch:
        model = {k: torch.from_numpy(v) for k, v in model.items()}
        torch.save(model, f"{top}/model.pt")
        if has_dcp(torch):
            import torch.distributed.checkpoint as dcp
            dcp.save(model, checkpoint_id=f"{top}/dcp", no_dist=True)


def has_dcp(torch):
    return tuple(int(n) for n in torch.__version__.split(".")[:2]) >= (2, 2)


def load(what, top):
    if what == "safetensors":
        from safetensors.numpy import load_file
        return load_file(f"{top}/model.safetensors")
    import torch
    if what == "torch":
        return torch.load(f"{top}/model.pt")
    if what == "torch-mmap":
        return torch.load(f"{top}/model.pt", mmap=True)
    import torch.distributed.checkpoint as dcp
    meta = dcp.FileSystemReader(f"{top}/dcp").read_metadata().state_dict_metadata
    model = {k: torch.empty(v.size) for k, v in meta.items()}
    dcp.load(model, checkpoint_id=f"{top}/dcp", no_dist=True)
    return model


def main():
    what, top = sys.argv[1], sys.argv[2]
    if what == "make":
        make(top, int(sys.argv[3]))
        return
    if what == "has":
        torch = torch_or_none()
        print("safetensors", *(["torch"] if torch else []),
              *(["torch-mmap", "dcp"] if torch and has_dcp(torch) else []))
        return
    if what != "safetensors":  # importing it is not what is measured
        import torch
        if what == "dcp":
            import torch.distributed.checkpoint  # noqa: F401
    start = time.monotonic()
    model = load(what, top)
    total = sum(float(t.sum()) for t in model.values())
    assert len(model) == TENSORS and total == total
    print(f"{time.monotonic() - start:.6f}")


main()
