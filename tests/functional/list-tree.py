#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print all that a folder tree holds, a line a name, in one order."""
import hashlib
import os
import stat
import sys


def content(path, st):
    if stat.S_ISREG(st.st_mode):
        h = hashlib.sha256()
        with open(path, "rb") as f:
            while block := f.read(1 << 20):
                h.update(block)
        return h.hexdigest()
    if stat.S_ISLNK(st.st_mode):
        return repr(os.readlink(path))
    if stat.S_ISCHR(st.st_mode) or stat.S_ISBLK(st.st_mode):
        return "%d:%d" % (os.major(st.st_rdev), os.minor(st.st_rdev))
    return "-"


def lines(root):
    root = os.fsencode(root)
    groups, paths = {}, []
    for folder, dirs, files in os.walk(root):
        dirs.sort()
        names = [b""] if folder == root else []
        for name in sorted(names + dirs + files):
            paths.append(os.path.join(folder, name) if name else folder)
    for path in sorted(paths):
        st = os.lstat(path)
        name = path[len(root):] or b"/"
        # Names of one inode are shown by the first of them.  Layers of an overlay have
        # inodes of one number.
        same = groups.setdefault((st.st_dev, st.st_ino), name)
        xattrs = {k: os.getxattr(path, k, follow_symlinks=False)
                  for k in sorted(os.listxattr(path, follow_symlinks=False))}
        size = 0 if stat.S_ISDIR(st.st_mode) else st.st_size
        links = 0 if stat.S_ISDIR(st.st_mode) else st.st_nlink
        yield " ".join(map(str, (
            name, oct(st.st_mode), st.st_uid, st.st_gid, size,
            st.st_mtime_ns, links, same if same != name else "-",
            xattrs, content(path, st))))


if __name__ == "__main__":
    for line in lines(sys.argv[1]):
        print(line)
