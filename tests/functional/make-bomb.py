#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make-bomb.py LAYOUT BYTES INODES: let the artifact in an OCI layout name BYTES
of zeros, well compressed, as its metadata image, and say that it has INODES.
Every digest is right.  Prints the digest of the blob."""

import hashlib
import json
import subprocess
import sys

layout, size, inodes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def path(digest):
    return f"{layout}/blobs/{digest.replace(':', '/')}"


def put(data):
    digest = "sha256:" + hashlib.sha256(data).hexdigest()
    with open(path(digest), "wb") as f:
        f.write(data)
    return digest, len(data)


def is_artifact(entry):
    with open(path(entry["digest"]), "rb") as f:
        return json.load(f).get("artifactType", "").endswith("bootseer.image.v1")


with open(f"{layout}/index.json") as f:
    index = json.load(f)
entry = next(e for e in index["manifests"] if is_artifact(e))
with open(path(entry["digest"])) as f:
    manifest = json.load(f)
with open(path(manifest["config"]["digest"])) as f:
    config = json.load(f)

raw = hashlib.sha256()
zstd = subprocess.Popen(["zstd", "-19", "-c"], stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
zeros = bytes(1 << 20)
for _ in range(size >> 20):
    raw.update(zeros)
    zstd.stdin.write(zeros)
bomb, bomb_size = put(zstd.communicate()[0])

config["metadata"] = {"digest": "sha256:" + raw.hexdigest(), "size": size}
config["inodes"] = inodes
digest, n = put(json.dumps(config).encode())
manifest["config"].update(digest=digest, size=n)
manifest["layers"][0] = {"mediaType": manifest["layers"][0]["mediaType"],
                         "digest": bomb, "size": bomb_size}
digest, n = put(json.dumps(manifest).encode())
entry.update(digest=digest, size=n)
with open(f"{layout}/index.json", "w") as f:
    json.dump(index, f)
print(bomb)
