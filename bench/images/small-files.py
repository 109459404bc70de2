# SPDX-License-Identifier: Apache-2.0
"""Write layer LAYER of the small-files image into directory DIR.

Usage: small-files.py DIR LAYER

Layer 0 has 20 000 files in 200 directories, with sizes as in a source tree.
Layer 1 replaces one file in ten, layer 2 deletes one in twenty and one whole
directory.  The content is pseudo-random text and the same on every run.
"""
import os
import random
import sys


def text(rng, size):
    words = [rng.choice(WORDS) for _ in range(size // 6 + 1)]
    return " ".join(words).encode()[:size]


WORDS = [
    "".join(random.Random(i).choices("abcdefghijklmnopqrstuvwxyz_", k=1 + i % 9))
    for i in range(4096)
]


def main():
    top, layer = sys.argv[1], int(sys.argv[2])
    for d in range(200):
        path = os.path.join(top, "srv", "tree", "d%03d" % d)
        if layer == 2 and d == 199:
            open(os.path.join(top, "srv", "tree", ".wh.d199"), "w").close()
            continue
        os.makedirs(path, exist_ok=True)
        for f in range(100):
            n = d * 100 + f
            rng = random.Random(n * 4 + layer)
            size = min(int(rng.lognormvariate(7.5, 1.4)), 1 << 20)
            if layer == 0 or (layer == 1 and n % 10 == 3):
                with open(os.path.join(path, "f%05d" % n), "wb") as out:
                    out.write(text(rng, size))
            elif layer == 2 and n % 20 == 7:
                open(os.path.join(path, ".wh.f%05d" % n), "w").close()


main()
