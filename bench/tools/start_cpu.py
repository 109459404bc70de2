#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sorts the samples of `perf script` by process and by what they were for.

Prints rows "GROUP<tab>PURPOSE<tab>SECONDS", a sum ("all") for each group.  Groups:
"node" (bootseerd and its children), "plugin", "runtime" (containerd, shim, runc),
"container", "kernel" (threads of its own: writeback, network), all else is "other"
and of other work on the machine.  The first rule that fits a sample decides; a rule
looks at the innermost symbol and its object, or at any frame of the kernel.
"""
import argparse
import collections
import re

RUNTIME = re.compile(r"containerd|runc|^exe$|^ctr")
KERNEL = re.compile(r"^(kworker|ksoftirqd|jbd2|kswapd|rcu_|migration|kcompactd)")

# (purpose, regex of "symbol object" of the innermost frame, regex of kernel frames)
RULES = [
    ("idle", r"^(default_idle|cpu_idle|pv_native_safe_halt|native_safe_halt)", None),
    ("zstd", r"^(ZSTD|HUF|FSE|ERR_isError)| \S*libzstd", None),
    ("CRC", r"crc32", None),
    # The hashes of blocks and, over https, TLS: the library has no symbols.
    ("hashing, TLS", r"^sha256|^SHA256| \S*lib(ssl|crypto)\.so", None),
    ("receive", r" \S*lib(curl|nghttp2)\.so",
     r"tcp_recvmsg|sock_recvmsg|inet6?_recvmsg|sock_read_iter"),
    ("send", None, r"tcp_sendmsg|sock_sendmsg|sock_write_iter|__sys_send"),
    ("FUSE, asking", None, r"^(__?fuse_(simple_request|request|get_req|send|readpages|readahead|file_read|lookup|direct)|fuse_wait|queue_request|request_wait)"),
    ("FUSE, answering", None, r"^fuse_(dev|copy|uring)"),
    ("EROFS", None, r"^(z_)?erofs_"),
    ("overlayfs", None, r"^ovl_"),
    ("cache, write", None, r"(vfs_p?write|ksys_write|ksys_pwrite|__x64_sys_pwrite|generic_perform_write|fallocate|ext4_da_write|io_uring.*write)"),
    ("cache, read", None, r"(filemap_read|generic_file_read|ksys_pread|ext4_file_read|page_cache_ra|preadv)"),
    ("writeback", None, r"(wb_workfn|writepages|jbd2|ext4_end_io|fsync|sync_file_range|fdatasync)"),
    ("network, below", None, r"(net_rx_action|__napi_poll|process_backlog|tcp_v4_rcv)"),
    ("page faults", None, r"(exc_page_fault|handle_mm_fault)"),
    ("exec, exit, fork", None, r"(do_execve|do_exit|exit_mmap|kernel_clone|mmput)"),
    ("memory maps", None, r"(do_mmap|vm_munmap|mprotect|madvise|__x64_sys_brk)"),
    ("wake-ups, locks", None, r"(futex|epoll|schedule|eventfd|poll_schedule|ppoll)"),
    ("copies", r"^_*mem(cpy|move|set)|^__memcpy|^__memmove|^__memset", None),
    ("allocation", r"^(_int_)?(malloc|free|calloc|realloc)|malloc_consolidate|^unlink_chunk", None),
    ("paths", None, r"(path_lookup|path_openat|vfs_statx|do_filp_open|filename_lookup|getdents|readlink|getxattr)"),
]
RULES = [(name, leaf and re.compile(leaf), frame and re.compile(frame))
         for name, leaf, frame in RULES]


def purpose_of(frames):
    """Names what a sample was for; frames are (symbol, object), innermost first."""
    leaf = "%s %s" % frames[0] if frames else "?"
    kernel = [s for s, o in frames if "kernel" in o or o.startswith("[")]
    for name, leaf_rule, frame_rule in RULES:
        if leaf_rule and leaf_rule.search(leaf):
            return name
        if frame_rule and any(frame_rule.search(s) for s in kernel):
            return name
    return "other kernel" if kernel else "own code"


class Family:
    """Knows which group a process belongs to, by its ancestors."""

    def __init__(self, roots):
        self.roots = roots
        self.parent = {}

    def group(self, pid, comm):
        if KERNEL.match(comm):
            return "kernel"
        seen = set()
        at = pid
        while at in self.parent and at not in self.roots and at not in seen:
            seen.add(at)
            at = self.parent[at]
        group = self.roots.get(at, "other")
        if group == "runtime" and not RUNTIME.search(comm):
            return "container"
        return group


HEAD = re.compile(r"^(.+?)\s+(\d+)/(\d+)\s*(.*)$")
FORK = re.compile(r"PERF_RECORD_FORK\((\d+):\d+\):\((\d+):\d+\)")
FRAME = re.compile(r"^\s+[0-9a-f]+ (.+?) \((.*)\)$")


def samples(lines, family):
    """Gives (pid, comm, frames) of each sample; notes forks on the way."""
    head, frames = None, []
    for line in lines:
        line = line.rstrip("\n")
        fork = FORK.search(line)
        if fork:
            child, parent = int(fork[1]), int(fork[2])
            if child != parent:
                family.parent.setdefault(child, parent)
            continue
        if line and not line[0].isspace() or HEAD.match(line.strip()) and "(" not in line:
            found = HEAD.match(line.strip())
            head = found and (int(found[2]), found[1])
            frames = []
            continue
        frame = FRAME.match(line)
        if frame:
            frames.append((re.sub(r"\+0x.*", "", frame[1]), frame[2]))
        elif not line and head:
            yield head[0], head[1], frames
            head = None
    if head:
        yield head[0], head[1], frames


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--hz", type=float, required=True)
    for name in ("node", "plugin", "runtime"):
        parser.add_argument("--" + name, default="")
    parser.add_argument("--leaves", action="store_true",
                        help="print innermost symbols of what has no rule, too")
    parser.add_argument("script")
    args = parser.parse_args()
    family = Family({int(getattr(args, g)): g for g in ("node", "plugin", "runtime")
                     if getattr(args, g)})
    with open(args.script, errors="replace") as file:
        found = list(samples(file, family))
    sums = collections.Counter()
    leaves = collections.Counter()
    for pid, comm, frames in found:
        group, purpose = family.group(pid, comm), purpose_of(frames)
        if purpose == "idle" or comm == "swapper":
            continue
        sums[group, purpose] += 1
        sums[group, "all"] += 1
        if args.leaves:
            leaves[group, purpose, frames[0] if frames else "?"] += 1
    for (group, purpose), count in sorted(sums.items(), key=lambda r: (r[0][0], -r[1])):
        print("%s\t%s\t%.3f" % (group, purpose, count / args.hz))
    for (group, purpose, leaf), count in leaves.most_common(60 if args.leaves else 0):
        print("#", group, purpose, leaf, count)


if __name__ == "__main__":
    main()
