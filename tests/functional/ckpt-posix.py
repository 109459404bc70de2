#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What POSIX and Linux say of calls on files and folders: ckpt-posix.py DIR [--plain-stale]

Each case is one function; DIR is in the mount, and every case has a folder of its own
there.  What docs/checkpoints.md refuses must be refused with the errno it names.
--plain-stale: the store keeps no plain object that was replaced, even for readers."""

import ctypes
import errno
import fcntl
import os
import socket
import stat
import sys
import time

MIB = 1 << 20
LIBC = ctypes.CDLL(None, use_errno=True)
RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
CASES = []
PLAIN_STALE = "--plain-stale" in sys.argv


def case(fn):
    CASES.append(fn)
    return fn


def fails(want, fn, *args, **kwargs):
    try:
        got = fn(*args, **kwargs)
    except OSError as e:
        assert e.errno == want, f"{fn.__name__}{args}: {e}, not {errno.errorcode[want]}"
        return
    raise AssertionError(f"{fn.__name__}{args}: {got}, not {errno.errorcode[want]}")


def make(name, data=b"text"):
    with open(name, "wb") as f:
        f.write(data)


def content(name):
    with open(name, "rb") as f:
        return f.read()


def renameat2(old, new, flags):
    if LIBC.renameat2(-100, os.fsencode(old), -100, os.fsencode(new), flags) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def as_nobody(fn, *args):
    """The errno with which another user's call ends, 0 for success."""
    pid = os.fork()
    if pid == 0:
        code = 0
        try:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
            fn(*args)
        except OSError as e:
            code = e.errno
        os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@case
def open_flags():
    make("f")
    os.mkdir("d")
    fails(errno.ENOENT, os.open, "none", os.O_RDONLY)
    fails(errno.ENOENT, os.open, "none", os.O_WRONLY | os.O_TRUNC)
    fails(errno.ENOENT, os.open, "none/f", os.O_CREAT | os.O_WRONLY)
    fails(errno.EEXIST, os.open, "f", os.O_CREAT | os.O_EXCL | os.O_RDWR)
    fails(errno.EEXIST, os.open, "d", os.O_CREAT | os.O_EXCL | os.O_RDWR)
    fails(errno.EISDIR, os.open, "d", os.O_WRONLY)
    fails(errno.EISDIR, os.open, "d", os.O_RDWR)
    fails(errno.EISDIR, os.open, "d", os.O_CREAT | os.O_RDWR)
    fails(errno.ENOTDIR, os.open, "f", os.O_DIRECTORY | os.O_RDONLY)
    fails(errno.ENOTDIR, os.open, "f/x", os.O_RDONLY)
    fails(errno.ENOTDIR, os.open, "f/x", os.O_CREAT | os.O_WRONLY)
    fails(errno.EOPNOTSUPP, os.open, ".", os.O_TMPFILE | os.O_RDWR)
    assert content("f") == b"text"
    fd = os.open("f", os.O_WRONLY | os.O_APPEND)
    fails(errno.EBADF, os.read, fd, 1)
    os.write(fd, b"+")
    os.lseek(fd, 0, os.SEEK_SET)
    os.write(fd, b"-")
    os.close(fd)
    assert content("f") == b"text+-"
    fd = os.open("f", os.O_RDONLY)
    fails(errno.EBADF, os.write, fd, b"x")
    fails(errno.EINVAL, os.ftruncate, fd, 1)
    os.close(fd)
    os.close(os.open("f", os.O_RDWR | os.O_TRUNC))
    assert content("f") == b""


@case
def names():
    odd = ["a b", "ü", "%2Fx", "q?a=b&c", "#+;", "..x", ".hidden", "-",
           "~", "*", "'\"", "\\", "a:b", "x" * 200]
    for name in odd:
        make(name, name.encode())
        os.mkdir(name + "~d")
    assert sorted(os.listdir(".")) == sorted(odd + [n + "~d" for n in odd])
    for name in odd:
        assert content(name) == name.encode()
        os.rename(name, name + "~d/" + name)
        assert os.listdir(name + "~d") == [name]
        os.unlink(name + "~d/" + name)
        os.rmdir(name + "~d")
    for call in (os.mkdir, os.stat, os.unlink, os.rmdir):
        fails(errno.ENAMETOOLONG, call, "x" * 256)
    fails(errno.ENAMETOOLONG, open, "x" * 256, "w")
    make("f")
    fails(errno.ENAMETOOLONG, os.rename, "f", "x" * 256)
    for name in ("f.bsm", "new\nline", ".bootseer-folder"):
        fails(errno.EINVAL, open, name, "w")
    fails(errno.EINVAL, os.rename, "f", "f.bsm")
    fails(errno.EINVAL, os.mkdir, "d.bsm")
    assert os.listdir(".") == ["f"]


@case
def longest_names():
    """A name is taken whole, for a file of any size, or refused when it is made."""
    large = os.urandom(5 * MIB)
    most = os.statvfs(".").f_namemax
    name = "n" * most
    make(name, large)
    assert content(name) == large
    os.rename(name, "m" * most)
    assert content("m" * most) == large
    os.mkdir("d" * most)
    if most < 255:
        fails(errno.ENAMETOOLONG, open, "x" * (most + 1), "w")
        fails(errno.ENAMETOOLONG, os.rename, "m" * most, "x" * (most + 1))
        fails(errno.ENAMETOOLONG, os.mkdir, "x" * (most + 1))


@case
def rename():
    make("f", b"f")
    make("g", b"g")
    for d in ("d", "d/sub", "e", "full"):
        os.mkdir(d)
    make("full/x")
    fails(errno.ENOENT, os.rename, "none", "f")
    fails(errno.ENOENT, os.rename, "f", "none/f")
    fails(errno.ENOTDIR, os.rename, "f", "g/x")
    fails(errno.ENOTDIR, os.rename, "d", "f")
    fails(errno.EISDIR, os.rename, "f", "e")
    fails(errno.EINVAL, os.rename, "d", "d/sub/d")
    fails(errno.ENOTEMPTY, os.rename, "e", "full")
    fails(errno.EEXIST, renameat2, "f", "g", RENAME_NOREPLACE)
    fails(errno.EINVAL, renameat2, "f", "g", RENAME_EXCHANGE)
    renameat2("f", "h", RENAME_NOREPLACE)
    os.rename("h", "h")
    os.rename("h", "g")
    assert content("g") == b"f"
    fails(errno.ENOENT, os.stat, "h")
    os.rename("full", "e")
    assert os.listdir("e") == ["x"]
    os.rename("e", "d/sub/e")
    os.rename("g", "d/sub/e/x")
    assert content("d/sub/e/x") == b"f"
    assert os.listdir(".") == ["d"]


@case
def rename_large_and_small():
    large = os.urandom(9 * MIB)
    for a, b in ((large, b"small"), (b"small", large), (large, large[::-1])):
        make("a", a)
        make("b", b)
        os.rename("a", "b")
        assert content("b") == a
        assert os.listdir(".") == ["b"]
        assert os.stat("b").st_size == len(a)


@case
def unlink_and_folders():
    make("f")
    os.mkdir("d")
    make("d/x")
    fails(errno.ENOENT, os.unlink, "none")
    fails(errno.EISDIR, os.unlink, "d")
    fails(errno.ENOTDIR, os.unlink, "f/x")
    fails(errno.ENOTDIR, os.rmdir, "f")
    fails(errno.ENOENT, os.rmdir, "none")
    fails(errno.ENOTEMPTY, os.rmdir, "d")
    fails(errno.EINVAL, os.rmdir, "d/.")
    fails(errno.EEXIST, os.mkdir, "d")
    fails(errno.EEXIST, os.mkdir, "f")
    fails(errno.ENOTDIR, os.mkdir, "f/x")
    fails(errno.ENOENT, os.mkdir, "none/x")
    fails(errno.ENOTDIR, os.listdir, "f")
    os.unlink("d/x")
    assert os.listdir("d") == []
    os.rmdir("d")
    fails(errno.ENOENT, os.stat, "d")
    make("d")  # a file of that name
    assert content("d") == b"text"
    os.unlink("d")
    os.makedirs("a/b/c")
    assert [p for p, _, _ in os.walk("a")] == ["a", "a/b", "a/b/c"]
    os.removedirs("a/b/c")


@case
def large_folder():
    os.mkdir("d")
    for i in range(300):
        os.close(os.open(f"d/{i:05}", os.O_CREAT | os.O_WRONLY))
    assert len(os.listdir("d")) == 300
    for i in range(0, 300, 2):
        os.unlink(f"d/{i:05}")
    assert sorted(os.listdir("d")) == [f"{i:05}" for i in range(1, 300, 2)]
    for i in range(1, 300, 2):
        os.unlink(f"d/{i:05}")
    os.rmdir("d")


@case
def truncate():
    make("f", b"0123456789")
    os.mkdir("d")
    fails(errno.EISDIR, os.truncate, "d", 1)
    fails(errno.ENOENT, os.truncate, "none", 1)
    fails(errno.ENOTDIR, os.truncate, "f/x", 1)
    fails(errno.EINVAL, os.truncate, "f", -1)
    os.truncate("f", 4)
    assert content("f") == b"0123"
    os.truncate("f", 6)
    assert content("f") == b"0123\0\0"
    with open("f", "r+b") as f:
        os.ftruncate(f.fileno(), 2)
        assert os.fstat(f.fileno()).st_size == 2
        assert os.pread(f.fileno(), 10, 0) == b"01"
        os.ftruncate(f.fileno(), 5 * MIB)
        assert os.pread(f.fileno(), 4, 5 * MIB - 2) == b"\0\0"
        os.lseek(f.fileno(), 0, os.SEEK_END)
        os.write(f.fileno(), b"end")
    assert content("f") == b"01" + bytes(5 * MIB - 2) + b"end"


@case
def modes_and_owners():
    """Of striped files: a plain object has none."""
    old = os.umask(0o027)
    make("f", bytes(5 * MIB))
    assert stat.S_IMODE(os.stat("f").st_mode) == 0o640
    os.umask(old)
    for mode in (0, 0o400, 0o777, 0o4755, 0o1644):
        os.chmod("f", mode)
        assert stat.S_IMODE(os.stat("f").st_mode) == mode, oct(mode)
    os.chmod("f", 0o600)
    assert as_nobody(os.open, "f", os.O_RDONLY) == errno.EACCES
    assert as_nobody(os.open, "f", os.O_WRONLY) == errno.EACCES
    assert as_nobody(os.chmod, "f", 0o777) == errno.EPERM
    assert as_nobody(os.chown, "f", 65534, 65534) == errno.EPERM
    assert as_nobody(os.utime, "f") == errno.EACCES
    assert as_nobody(os.truncate, "f", 0) == errno.EACCES
    assert as_nobody(os.unlink, "f") == errno.EACCES
    assert as_nobody(os.rename, "f", "g") == errno.EACCES
    assert as_nobody(os.mkdir, "d") == errno.EACCES
    os.chown("f", 65534, 65534)
    st = os.stat("f")
    assert (st.st_uid, st.st_gid) == (65534, 65534)
    assert as_nobody(os.open, "f", os.O_RDONLY) == 0
    fails(errno.ENOENT, os.chmod, "none", 0o600)
    fails(errno.ENOENT, os.chown, "none", 0, 0)
    assert content("f") == bytes(5 * MIB)


@case
def secrets():
    """A small file that its owner alone may read is so for all, and what all may read is plain."""
    def layout():
        return os.getxattr("s", "user.bootseer.layout").split()[0]

    with open("s", "wb", opener=lambda p, f: os.open(p, f, 0o600)) as f:
        f.write(b"secret")
    assert stat.S_IMODE(os.stat("s").st_mode) == 0o600
    assert layout() == b"striped"
    assert as_nobody(os.open, "s", os.O_RDONLY) == errno.EACCES
    os.chmod("s", 0o644)
    assert layout() == b"plain" and content("s") == b"secret"
    assert as_nobody(os.open, "s", os.O_RDONLY) == 0
    with open("s", "rb"):
        os.chmod("s", 0o640)
    with open("s", "rb") as f:
        os.fchmod(f.fileno(), 0o644)
    assert stat.S_IMODE(os.stat("s").st_mode) == 0o644
    os.chmod("s", 0o640)
    assert layout() == b"striped" and content("s") == b"secret"
    assert stat.S_IMODE(os.stat("s").st_mode) == 0o640


@case
def what_is_new():
    """A file is dated when it is made, and whoever has it open sees when it has no name."""
    before = time.time_ns()
    with open("n", "wb") as f:
        assert before - 10**9 <= os.fstat(f.fileno()).st_mtime_ns <= time.time_ns() + 10**9
        f.write(b"x")
        f.flush()
        assert before - 10**9 <= os.stat("n").st_mtime_ns <= time.time_ns() + 10**9
    with open("n", "rb") as f:
        assert os.fstat(f.fileno()).st_nlink == 1
        os.unlink("n")
        assert os.fstat(f.fileno()).st_nlink == 0


@case
def folders_have_the_time_of_their_names():
    """Programs that keep their newest folders only remove the others by it."""
    def time_of(name):
        return os.stat(name).st_mtime_ns
    before = time.time_ns() - 10**9
    os.mkdir("9")
    os.mkdir("10")
    assert before <= time_of("9") <= time_of("10")
    def is_newer(fn, *args):
        was = time_of("9")
        fn(*args)
        assert time_of("9") > was, fn
    is_newer(make, "9/f")
    is_newer(os.rename, "9/f", "10/f")
    is_newer(os.rename, "10/f", "9/f")
    is_newer(os.unlink, "9/f")
    is_newer(os.mkdir, "9/d")
    is_newer(os.rmdir, "9/d")
    assert time_of("9") > time_of("10")
    os.rmdir("9")
    os.rmdir("10")


@case
def longest_paths():
    """The store has names of 1,000 bytes, of which the manifest's wants four."""
    path = ""
    while len(os.getcwd()) + len(path) < 1200:
        path += "p" * 200 + "/"
        try:
            os.mkdir(path)
        except OSError as e:
            assert e.errno == errno.ENAMETOOLONG, e
            break
    else:
        assert False, "no path is too long"
    fails(errno.ENAMETOOLONG, os.stat, path + "x" * 200)


@case
def times():
    make("f", bytes(5 * MIB))
    for ns in (0, 1, 1767225600123456789, 4102444800000000001):
        os.utime("f", ns=(ns, ns))
        assert os.stat("f").st_mtime_ns == ns, ns
    # Before 1970, and beyond what nanoseconds of 64 bits reach: the year 2262.
    os.utime("f", ns=(-1500000000, -1500000000))
    assert os.stat("f").st_mtime_ns == -1500000000
    os.utime("f", ns=(2 * 10**19, 2 * 10**19))
    assert os.stat("f").st_mtime_ns == 2**63 - 1
    fails(errno.ENOENT, os.utime, "none")
    before = time.time_ns()
    os.utime("f")
    assert before - 10**9 <= os.stat("f").st_mtime_ns <= time.time_ns() + 10**9
    # A write sets it, a read does not.
    os.utime("f", ns=(7, 7))
    content("f")
    assert os.stat("f").st_mtime_ns == 7
    with open("f", "ab") as f:
        f.write(b"x")
    assert os.stat("f").st_mtime_ns >= before - 10**9
    # Set while it is open, it stays at the close.
    with open("f", "ab") as f:
        f.write(b"y")
        f.flush()
        os.utime(f.fileno(), ns=(9, 9))
    assert os.stat("f").st_mtime_ns == 9


@case
def not_taken():
    make("f")
    fails(errno.EPERM, os.link, "f", "g")
    fails(errno.EPERM, os.symlink, "f", "g")
    fails(errno.EPERM, os.mkfifo, "g")
    fails(errno.EPERM, os.mknod, "g", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    with socket.socket(socket.AF_UNIX) as s:
        fails(errno.EPERM, s.bind, "g")
    fails(errno.EINVAL, os.readlink, "f")
    assert os.listdir(".") == ["f"]


@case
def positions():
    make("f", b"0123456789")
    fd = os.open("f", os.O_RDWR)
    assert os.lseek(fd, -3, os.SEEK_END) == 7
    assert os.read(fd, 10) == b"789"
    assert os.read(fd, 10) == b""
    fails(errno.EINVAL, os.lseek, fd, -1, os.SEEK_SET)
    os.pwrite(fd, b"xy", 20)
    os.pwritev(fd, [b"a", b"bc"], 1)
    assert os.preadv(fd, [bytearray(30)], 0) == 22
    os.close(fd)
    assert content("f") == b"0abc456789" + bytes(10) + b"xy"


@case
def locks():
    """Between processes of this node."""
    make("f")
    with open("f", "r+b") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        with open("f", "r+b") as g:
            fails(errno.EAGAIN, fcntl.flock, g, fcntl.LOCK_EX | fcntl.LOCK_NB)


@case
def many_open():
    fds = []
    for i in range(300):
        fds.append(os.open(f"f{i}", os.O_CREAT | os.O_RDWR))
        os.write(fds[-1], b"%d" % i)
    for i, fd in enumerate(fds):
        assert os.pread(fd, 10, 0) == b"%d" % i
        os.close(fd)
    assert len(os.listdir(".")) == 300
    fds = [os.open(f"f{i}", os.O_RDONLY) for i in range(300)]
    for i, fd in enumerate(fds):
        assert os.pread(fd, 10, 0) == b"%d" % i
        os.close(fd)


@case
def readers_keep_their_version():
    """Whoever opened a file reads that version, whatever is written to it in place."""
    first = os.urandom(6 * MIB)
    make("f", first)
    reader = os.open("f", os.O_RDONLY)
    assert os.pread(reader, 10, 0) == first[:10]
    with open("f", "ab") as f:
        f.write(b"more")
    assert os.pread(reader, 100, 6 * MIB - 2) == first[-2:]
    os.truncate("f", 5 * MIB)
    assert os.pread(reader, 6 * MIB, 0) == first
    with open("f", "wb") as f:
        f.write(b"second")
        f.flush()
        # It is not committed yet.
        assert content("f") == first[:5 * MIB]
        os.fsync(f.fileno())
        assert content("f") == b"second"
        f.write(b" and third")
        f.flush()
        other = os.open("f", os.O_RDONLY)
        assert os.read(other, 100) == b"second"
    if PLAIN_STALE:
        fails(errno.ESTALE, os.pread, other, 100, 0)
    else:
        assert os.pread(other, 100, 0) == b"second"
    assert os.pread(reader, 6 * MIB, 0) == first
    assert content("f") == b"second and third"
    os.close(reader)
    os.close(other)


def main():
    os.chdir(sys.argv[1])
    os.umask(0o022)
    failed = 0
    for fn in CASES:
        os.mkdir(fn.__name__)
        os.chdir(fn.__name__)
        try:
            fn()
        except (AssertionError, OSError) as e:
            at = e.__traceback__
            while at.tb_next and at.tb_next.tb_frame.f_code is not fails.__code__:
                at = at.tb_next
            print(f"{fn.__name__}, line {at.tb_lineno}: {e}")
            failed += 1
        os.chdir("..")
    sys.exit(f"{failed} of {len(CASES)} cases" if failed else 0)


main()
