# SPDX-License-Identifier: Apache-2.0
"""Write a wheel of N small files into directory DIR.

Usage: files-wheel.py DIR N [PACKAGE]

The package, "bulk", has a folder for each 100 files, with sizes as in a source tree.  The
content is pseudo-random text, the package's own, and the same on every run.
"""
import random
import sys
import zipfile

STAMP = (2024, 1, 1, 0, 0, 0)


def words():
    letters = "abcdefghijklmnopqrstuvwxyz_"
    return ["".join(random.Random(i).choices(letters, k=1 + i % 9))
            for i in range(4096)]


def main():
    top, count = sys.argv[1], int(sys.argv[2])
    package = sys.argv[3] if len(sys.argv) > 3 else "bulk"
    rng = random.Random(1 if package == "bulk" else package)
    text = " ".join(rng.choices(words(), k=400000)).encode()
    record = []
    with zipfile.ZipFile(top + "/" + package + "-1.0-py3-none-any.whl", "w",
                         zipfile.ZIP_DEFLATED) as wheel:

        def add(name, data):
            wheel.writestr(zipfile.ZipInfo(name, STAMP), data,
                           zipfile.ZIP_DEFLATED)
            record.append(name + ",,")

        add(package + "/__init__.py", b"")
        for n in range(count):
            folder = package + "/d%03d/" % (n // 100)
            if n % 100 == 0:
                add(folder + "__init__.py", b"FOLDER = %d\n" % (n // 100))
            size = min(int(rng.lognormvariate(7.5, 1.4)), 1 << 20)
            at = rng.randrange(len(text) - size)
            add(folder + "f%05d.txt" % n, b"%d " % n + text[at:at + size])
        info = package + "-1.0.dist-info/"
        add(info + "METADATA",
            b"Metadata-Version: 2.1\nName: %s\nVersion: 1.0\n" % package.encode())
        add(info + "WHEEL",
            b"Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: true\n"
            b"Tag: py3-none-any\n")
        add(info + "RECORD", "\n".join(record + [info + "RECORD,,", ""]))


main()
