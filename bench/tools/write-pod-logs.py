#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""write-pod-logs.py DIR RATE SECONDS: lines of CRI in the logs of 8 pods, every tenth of
a second, one in a hundred of them a stage event."""
import os
import sys
import time

PODS = 8


def main():
    root, rate, seconds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    logs = []
    for i in range(PODS):
        folder = os.path.join(root, "bench_pod-%d_uid-%d" % (i, i), "main")
        os.makedirs(folder)
        logs.append(open(os.path.join(folder, "0.log"), "ab", buffering=0))
    begin, n = time.monotonic(), 0
    for step in range(10 * seconds):
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + ".%09dZ"
        lines = [[] for _ in logs]
        while n < rate * (step + 1) // 10:
            text = "step %d " % n + "." * 70
            if n % 100 == 0:
                text = "BOOTSEER stage=s%d ev=mark" % (n // 100)
            lines[n % PODS].append((stamp + " stdout F %s\n") % (n % 10**9, text))
            n += 1
        for log, some in zip(logs, lines):
            log.write("".join(some).encode())
        time.sleep(max(0, begin + (step + 1) / 10 - time.monotonic()))


if __name__ == "__main__":
    main()
