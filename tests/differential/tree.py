# SPDX-License-Identifier: Apache-2.0
"""Read a folder tree: every path, attribute and byte."""
import hashlib
import os
import stat

KIND = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "symlink",
        stat.S_IFCHR: "char", stat.S_IFBLK: "block", stat.S_IFIFO: "fifo",
        stat.S_IFSOCK: "socket"}


def _digest(path):
    h = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            h.update(block)
    return h.hexdigest()[:24]


def _xattr(path, name):
    try:
        return os.getxattr(path, name, follow_symlinks=False)
    except OSError as e:
        return "listed, but " + e.strerror


def _attributes(path, st):
    kind = KIND[stat.S_IFMT(st.st_mode)]
    a = {"kind": kind, "mode": stat.S_IMODE(st.st_mode), "uid": st.st_uid,
         "gid": st.st_gid, "mtime": st.st_mtime_ns,
         "xattrs": {k.encode("utf-8", "surrogateescape"): _xattr(path, k)
                    for k in os.listxattr(path, follow_symlinks=False)}}
    if kind != "dir":
        a["nlink"] = st.st_nlink
    if kind == "file":
        a["size"], a["bytes"] = st.st_size, _digest(path)
    elif kind == "symlink":
        a["size"], a["target"] = st.st_size, os.readlink(path)
    elif kind in ("char", "block"):
        a["dev"] = (os.major(st.st_rdev), os.minor(st.st_rdev))
    return a


def read(root):
    """{path: {attribute: value}}; paths are bytes, the root is b"". An attribute
    "names" has all names of a file of several."""
    root, out, inodes = os.fsencode(root), {}, {}
    todo = [(root, b"")]
    while todo:
        path, name = todo.pop()
        try:
            st = os.lstat(path)
        except FileNotFoundError:
            # overlayfs lists some whiteouts that it does not let anybody reach.
            out[name] = {"kind": "unreachable"}
            continue
        out[name] = _attributes(path, st)
        if stat.S_ISDIR(st.st_mode):
            todo += [(path + b"/" + n, name + b"/" + n if name else n)
                     for n in os.listdir(path)]
        elif st.st_nlink > 1:
            inodes.setdefault(st.st_ino, []).append(name)
    for names in inodes.values():
        for name in names:
            out[name]["names"] = tuple(sorted(names))
    return out
