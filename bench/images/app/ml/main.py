# SPDX-License-Identifier: Apache-2.0
# An inference service: it is ready after its first forward pass.
import sys

import torch
import torchvision


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = torchvision.models.resnet18(weights=None).eval()
    with torch.inference_mode():
        out = model(torch.randn(1, 3, 64, 64))
    assert out.shape == (1, 1000)
    print("ready", flush=True)
    if "--serve" in sys.argv[1:]:
        sys.stdin.read()


main()
