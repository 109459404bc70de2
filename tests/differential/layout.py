# SPDX-License-Identifier: Apache-2.0
"""Write a stack as the only image of an OCI layout."""
import hashlib
import json
import os
import shutil

import tarwriter

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, "amd64")
OCI = "application/vnd.oci.image."


def clear(folder):
    shutil.rmtree(folder + "/blobs", ignore_errors=True)
    os.makedirs(folder + "/blobs/sha256")
    with open(folder + "/oci-layout", "w") as f:
        f.write('{"imageLayoutVersion":"1.0.0"}')


def put_blob(folder, data):
    name = hashlib.sha256(data).hexdigest()
    with open(folder + "/blobs/sha256/" + name, "wb") as f:
        f.write(data)
    return {"digest": "sha256:" + name, "size": len(data)}


def _image(folder, stack, tag, no_zstd):
    layers, diff_ids = [], []
    for layer in stack["layers"]:
        how = layer["compress"]
        plain = tarwriter.encode_layer(layer)
        stored, suffix = tarwriter.compress(
            plain, "none" if no_zstd and how == "zstd" else how)
        layers.append({"mediaType": OCI + "layer.v1.tar" + suffix,
                       **put_blob(folder, stored)})
        diff_ids.append("sha256:" + hashlib.sha256(plain).hexdigest())
    config = put_blob(folder, json.dumps({
        "architecture": ARCH, "os": "linux", "config": {"Cmd": ["/a"]},
        "rootfs": {"type": "layers", "diff_ids": diff_ids},
        "history": [{"created_by": "test"} for _ in layers]}).encode())
    manifest = put_blob(folder, json.dumps({
        "schemaVersion": 2, "mediaType": OCI + "manifest.v1+json",
        "config": {"mediaType": OCI + "config.v1+json", **config},
        "layers": layers}).encode())
    return layers, {"mediaType": OCI + "manifest.v1+json", **manifest,
                    "annotations": {"org.opencontainers.image.ref.name": tag}}


def write(folder, stack, tag):
    """Returns the descriptors of the layers, bottom first. The image TAG-umoci is the
    same without zstd, which umoci does not know."""
    clear(folder)
    layers, image = _image(folder, stack, tag, False)
    images = [image, _image(folder, stack, tag + "-umoci", True)[1]]
    with open(folder + "/index.json", "w") as f:
        json.dump({"schemaVersion": 2, "manifests": images}, f)
    return layers
