# SPDX-License-Identifier: Apache-2.0
"""What lies in a store of checkpoint files, as its server or its file system tells it,
and docs/formats/checkpoint.md: nothing here asks the product."""

import json
import os
import re
import struct
import urllib.error
import urllib.parse
import urllib.request

HEADER, SEGMENT = 96, 48


class Folder:
    """file:, and a bucket of which the server's folder is known."""

    def __init__(self, folder, uploads=None):
        self.folder, self.uploads = folder, uploads

    def names(self):
        for path, _, files in os.walk(self.folder):
            for name in files:
                yield os.path.relpath(os.path.join(path, name), self.folder)

    def get(self, name):
        with open(os.path.join(self.folder, name), "rb") as f:
            return f.read()

    def count_uploads(self):
        """Uploads in parts that nobody has ended: versitygw keeps each in a folder."""
        return sum(bool(files) for _, _, files in os.walk(self.uploads or ""))


class WebHdfs:
    def __init__(self, url):
        u = urllib.parse.urlsplit(url)
        self.at = f"http://{u.netloc}/webhdfs/v1{u.path}"
        self.user = urllib.parse.parse_qs(u.query).get("user", ["root"])[0]

    def ask(self, name, op):
        path = urllib.parse.quote(name)
        with urllib.request.urlopen(
                f"{self.at}/{path}?op={op}&user.name={self.user}", timeout=60) as answer:
            return answer.read()

    def names(self, folder=""):
        try:
            said = json.loads(self.ask(folder, "LISTSTATUS"))
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return
            raise
        for s in said["FileStatuses"]["FileStatus"]:
            name = f"{folder}/{s['pathSuffix']}".lstrip("/")
            if s["type"] == "DIRECTORY":
                yield from self.names(name)
            else:
                yield name

    def get(self, name):
        return self.ask(name, "OPEN")

    def count_uploads(self):
        return 0


def columns_of(manifest):
    """The columns that a manifest names."""
    chunk, unit_chunks, n_segments, size = struct.unpack_from("<IIIQ", manifest, 12)
    unit = chunk * unit_chunks
    for i in range(n_segments):
        at = HEADER + i * SEGMENT
        ident = manifest[at:at + 16].hex()
        _, stored, columns, rotation, place = struct.unpack_from(
            "<QQIIQ", manifest, at + 16)
        units = -(-stored // unit)
        for u in range(min(units, columns)):
            column = (u + place + rotation) % columns
            yield f".bootseer/data/{ident[:2]}/{ident}/c{column:02}"


def is_fixed(name):
    """There are so many of them and no more: locks of a directory, and folders. And what
    whoever was killed had locked: the next one that wants that name breaks the lock, and
    gc leaves it for two days, as somebody may have it."""
    return bool(re.search(r"^\.bootseer/lock/([0-9a-f]{2}|[0-9a-f]{32}/[0-9a-f]{16})$"
                          r"|(^|/)\.bootseer-folder$", name))


def find_leaks(store):
    """Names that no file needs, and columns that are missing."""
    names = set(store.names())
    manifests = {n for n in names if n.endswith(".bsm")}
    needed = set()
    for name in manifests:
        needed.update(columns_of(store.get(name)))
    for name in sorted(needed - names):
        yield f"missing: {name}"
    # Of a segment that is named all columns stay, also of units that are elsewhere by now.
    segments = {os.path.dirname(name) for name in needed}
    for name in sorted(names - needed - manifests):
        if is_fixed(name) or os.path.dirname(name) in segments and \
                re.fullmatch(r"c[0-9]{2}", os.path.basename(name)):
            continue
        if name.startswith(".bootseer/"):
            yield f"left: {name}"
        elif name + ".bsm" in manifests:
            yield f"hidden: {name}"
        elif not re.fullmatch(r"[a-z]+[0-9]/[a-z]+[0-9]?", name):
            yield f"unknown: {name}"
