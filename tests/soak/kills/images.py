# SPDX-License-Identifier: Apache-2.0
"""The images of the soak: versions that share most of their blocks, and the
folder that each was made from, which is the truth that readers compare with."""

import hashlib
import io
import json
import os
import random
import subprocess
import tarfile

PART = 6 << 20  # bytes of a big file
N_PARTS = 3  # big files of an image; the next version has all but the first
N_SMALL = 40


def content(size, *seed):
    """Bytes that nothing compresses, none of whose pages is zeros."""
    return random.Random(repr(seed)).randbytes(size)


def files_of(number, seed):
    """(lower layer, upper layer) of version `number`: path -> bytes."""
    lower = {f"base/{i}": content(64 << 10, seed, "base", i) for i in range(16)}
    lower["base/big"] = content(PART, seed, "big")
    for i in range(N_SMALL):
        lower[f"small/{i}"] = content(1 + i * 397, seed, "small", i)
    upper = {
        f"part/{i}": content(PART + 1000 * i, seed, "part", i)
        for i in range(number, number + N_PARTS)
    }
    upper["version"] = content(5000, seed, "version", number)
    return lower, upper


class Layout:
    """An OCI layout that is written file by file."""

    def __init__(self, path):
        self.path = path
        self.manifests = []
        os.makedirs(f"{path}/blobs/sha256")
        with open(f"{path}/oci-layout", "w") as out:
            out.write('{"imageLayoutVersion":"1.0.0"}')

    def blob(self, data, kind):
        digest = hashlib.sha256(data).hexdigest()
        with open(f"{self.path}/blobs/sha256/{digest}", "wb") as out:
            out.write(data)
        media = f"application/vnd.oci.image.{kind}"
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(data)}

    def image(self, tag, layers):
        blobs = [self.blob(tar_of(files), "layer.v1.tar") for files in layers]
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [b["digest"] for b in blobs]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": self.blob(json.dumps(config).encode(), "config.v1+json"),
            "layers": blobs,
        }
        entry = self.blob(json.dumps(manifest).encode(), "manifest.v1+json")
        entry["annotations"] = {"org.opencontainers.image.ref.name": tag}
        self.manifests.append(entry)
        with open(f"{self.path}/index.json", "w") as out:
            json.dump({"schemaVersion": 2, "manifests": self.manifests}, out)


def tar_of(files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(files):
            info = tarfile.TarInfo(path)
            info.size = len(files[path])
            info.mode = 0o644
            tar.addfile(info, io.BytesIO(files[path]))
    return out.getvalue()


def truth_of(files, broken):
    if broken == "wrong":
        return {path: content(len(files[path]), "wrong") for path in files}
    if broken == "zeros":
        return {path: content(len(files[path]), "zeros")
                if path.startswith("zeros/") else files[path] for path in files}
    if broken == "undeclared":
        return files | {f"none/{i}": content(4096, "none") for i in range(50)}
    return files


def make(folder, n, seed, bootseer, broken=None):
    """FOLDER/oci with the converted images v0 .. v(n-1), FOLDER/truth/vN. `broken`
    makes the two differ, so that a run must find just that."""
    layout = Layout(f"{folder}/src")
    for number in range(n):
        lower, upper = files_of(number, seed)
        if broken == "zeros":
            upper |= {f"zeros/{i}": bytes(PART) for i in range(10)}
        layout.image(f"v{number}", [lower, upper])
        for path, data in truth_of(lower | upper, broken).items():
            name = f"{folder}/truth/v{number}/{path}"
            os.makedirs(os.path.dirname(name), exist_ok=True)
            with open(name, "wb") as out:
                out.write(data)
    for number in range(n):
        subprocess.run(
            [bootseer, "image", "convert", f"oci:{folder}/src:v{number}",
             f"oci:{folder}/oci:v{number}"],
            check=True, stdout=subprocess.DEVNULL,
        )
