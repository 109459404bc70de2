#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Make a wheel of a package with many modules: make-wheel.py FOLDER NAME VERSION."""
import base64
import hashlib
import os
import random
import sys
import zipfile


def files(name, version):
    rng = random.Random(name + version)
    yield f"{name}/__init__.py", f"__version__ = '{version}'\n".encode()
    for i in range(60):
        lines = [f"def f{k}():\n    return {rng.random()}\n" for k in range(20)]
        yield f"{name}/sub/m{i}.py", "\n".join(lines).encode()
    yield f"{name}/sub/__init__.py", b""
    yield f"{name}/data.bin", rng.randbytes(3_000_000)
    info = f"{name}-{version}.dist-info"
    yield f"{info}/METADATA", (
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n").encode()
    yield f"{info}/WHEEL", (
        b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n"
        b"Tag: py3-none-any\n")
    yield f"{info}/entry_points.txt", (
        f"[console_scripts]\n{name} = {name}.sub.m0:f0\n").encode()


def main():
    folder, name, version = sys.argv[1:]
    record = []
    path = os.path.join(folder, f"{name}-{version}-py3-none-any.whl")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as z:
        for member, data in files(name, version):
            z.writestr(member, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
            record.append(f"{member},sha256={digest.rstrip(b'=').decode()},"
                          f"{len(data)}")
        member = f"{name}-{version}.dist-info/RECORD"
        z.writestr(member, "\n".join(record + [f"{member},,", ""]))


main()
