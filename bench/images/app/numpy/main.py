# SPDX-License-Identifier: Apache-2.0
# A small numerical service: it is ready when it has solved its first system.
import sys

import numpy as np
from scipy import linalg, sparse, stats
from scipy.sparse.linalg import spsolve


def main():
    rng = np.random.default_rng(1)
    a = rng.standard_normal((64, 64)) + 64 * np.eye(64)
    b = rng.standard_normal(64)
    assert np.allclose(a @ linalg.solve(a, b), b)
    assert np.allclose(a @ spsolve(sparse.csc_matrix(a), b), b)
    assert 0 <= stats.kstest(b, "norm").pvalue <= 1
    print("ready", flush=True)
    if "--serve" in sys.argv[1:]:
        sys.stdin.read()


main()
