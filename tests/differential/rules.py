# SPDX-License-Identifier: Apache-2.0
"""What may differ: docs/formats/layers.md, "Where implementations differ", has a line for each
rule here. A rule knows a difference by the entries of the stack that make it, and by
the values themselves; what no rule knows fails the test."""
import re
import time

from compare import OTHERS
from history import History

BEGAN = time.time_ns() - 60 * 10**9
CONTAINERD = ("containerd1", "containerd2")
APART = CONTAINERD + ("apply",)  # unpack each layer into a folder of its own
ALL_BUT_UMOCI = APART + ("convert",)
ACL = b"system.posix_acl_access"
RULES = {}


def rule(function):
    RULES[function.__name__.replace("_", "-")] = function
    return function


def name_of(d, history):
    """Of the rule that a difference is, or None."""
    for name, is_it in RULES.items():
        if is_it(d, history):
            return name
    return None


# --- what rules ask ------------------------------------------------------------------

def is_now(value):
    return isinstance(value, int) and BEGAN < value <= time.time_ns()


def is_xattr(d, prefix=b""):
    return isinstance(d.what, bytes) and d.what.startswith(b"xattr " + prefix)


def refuses(d, who, pattern):
    """One of `who` refuses with such a text what the other takes."""
    for name, text, other in (d.ours, d.mine, d.other), (d.theirs, d.other, d.mine):
        if d.what == "refused" and name in who and text and other is None and \
                re.search(pattern, text, re.DOTALL):
            return True
    return False


def between(d, some, others):
    """Is the difference between one of these and one of those?"""
    return (d.ours in some and d.theirs in others) or \
        (d.ours in others and d.theirs in some)


def all_entries(h):
    return (e for layer in h.stack["layers"] for e in layer["entries"])


def in_one_layer(h, first, second):
    """Touches A and B of one layer, A before B, for which both functions hold."""
    return any(first(a, b) and second(b) for b in h.touches for a in h.touches
               if a.layer == b.layer and a.index < b.index)


def is_below(path, folder):
    return path is not None and (not folder or path == folder or
                                 path.startswith(folder + b"/"))


# --- folders -------------------------------------------------------------------------

@rule
def folder_time(d, h):
    """Of a folder of which names were changed without an entry of it."""
    return d.what == "mtime" and d.path is not None and h.is_time_free(d.path) and \
        (is_now(d.mine) or is_now(d.other) or not h.listed[d.path])


@rule
def umoci_folder_time(d, h):
    """umoci keeps the time of an entry's folder, but not of those it makes parents in,
    or takes names from, as an opaque marker above them says, nor of one that it empties
    for a whiteout behind its entry."""
    return d.what == "mtime" and d.theirs == "umoci" and is_now(d.other) and \
        (d.path == b"" or any(is_below(f, d.path) and f != d.path for f in h.implied) or
         any(t.what == "opaque" and t.layer and is_below(d.path, t.path)
             for t in h.touches) or
         in_one_layer(h, lambda a, b: a.path == d.path and is_below(d.path, b.path),
                      lambda b: b.what in ("whiteout", "opaque")))


@rule
def root_folder(d, h):
    return d.path == b"" and d.what != "there" and \
        (d.theirs in CONTAINERD or "apply" in (d.ours, d.theirs)) and \
        bool(d.what == "mtime" or h.listed[b""])


@rule
def set_gid_folder(d, h):
    """A folder that is made in one with the set-group-id bit has its group."""
    if d.what not in ("gid", "mode") or not d.path or not h.implied[d.path]:
        return False
    return any(e["kind"] == "dir" and e["mode"] & 0o2000 for e in all_entries(h))


# --- attributes ----------------------------------------------------------------------

@rule
def trusted_xattr(d, h):
    return d.theirs in CONTAINERD and is_xattr(d, b"trusted.") and d.other is None


@rule
def overlay_xattr(d, h):
    return is_xattr(d, b"trusted.overlay.") and d.mine is None


@rule
def folder_listed_again(d, h):
    """containerd adds to the xattrs of a folder that its layer made already."""
    return d.theirs in CONTAINERD and is_xattr(d) and d.mine is None and \
        d.path is not None and any(t.what == "again" for t in h.entries(d.path))


@rule
def empty_xattr(d, h):
    return d.theirs == "umoci" and is_xattr(d) and d.mine == b"" and d.other is None


@rule
def time_out_of_range(d, h):
    if d.what != "mtime" or d.mine is None:
        return False
    late = d.mine > 2**63 - 1
    return (d.theirs in CONTAINERD and (d.mine < 0 or late) and d.other == 0) or \
        (d.theirs == "umoci" and late)


@rule
def hard_link_header(d, h):
    """containerd and BootSeer take what a hard link's header says, umoci does not."""
    if d.theirs != "umoci" or not (d.what in ("mode", "uid", "gid", "mtime") or
                                   is_xattr(d)):
        return False
    return any(t.entry["kind"] == "hard" for t in h.entries(d.path)) or \
        any(e["kind"] == "hard" and History.clean(e["link"])[0][-1:] ==
            d.path.split(b"/")[-1:] for e in all_entries(h))


@rule
def folder_time_lost(d, h):
    """containerd sets times of folders at the end, by names of entries: one that led
    through a symlink which is gone then leads elsewhere."""
    return d.what == "mtime" and d.theirs in CONTAINERD and is_now(d.other) and \
        any(t.path == d.path and t.entry["kind"] == "dir" and
            b"/".join(History.clean(t.entry["name"])[0]) != t.path for t in h.touches)


@rule
def replaced_folder_time(d, h):
    """containerd sets times of folders at the end, also of what took their place."""
    def is_of(a, b):  # by where it was, or by what leads there now
        return is_below(a.path, b.path) or \
            b"/".join(History.clean(a.entry["name"])[0]) == b.path

    return d.what == "mtime" and d.theirs in CONTAINERD and \
        in_one_layer(h, lambda a, b: is_of(a, b) and
                     a.entry["kind"] == "dir" and
                     d.other == bounded(stamp(a.entry)),
                     lambda b: b.what in ("over", "made"))


def stamp(e):
    sign = -1 if e["mtime"].startswith("-") else 1
    whole, _, part = e["mtime"].lstrip("-").partition(".")
    return sign * (int(whole) * 10**9 + int(part.ljust(9, "0")[:9]))


def bounded(nanoseconds):
    """A time as containerd sets it."""
    return nanoseconds if 0 <= nanoseconds < 2**63 else 0


@rule
def overlay_links(d, h):
    """overlayfs counts names of a file that a layer above hides."""
    return d.what in ("nlink", "names") and any(n in APART for n in (d.ours, d.theirs))


# --- trees ---------------------------------------------------------------------------

@rule
def opaque_root(d, h):
    """overlayfs has no opaque root, and neither has convert."""
    return between(d, ALL_BUT_UMOCI, ("umoci",)) and \
        any(t.what == "opaque" and not t.path and t.layer for t in h.touches)


def hides(marker, path):
    """Is it gone in containerd behind this whiteout or opaque marker?"""
    return marker.path == path if marker.what == "whiteout" else \
        is_below(path, marker.path)


@rule
def whiteout_in_bottom(d, h):
    """containerd applies the bottom layer's whiteouts in order, to the layer itself."""
    if refuses(d, CONTAINERD, "link .*: no such file"):
        return in_one_layer(h, lambda a, b: not a.layer and b.entry["kind"] == "hard" and
                            a.what in ("whiteout", "opaque"), lambda b: True)
    if d.theirs in CONTAINERD and \
            refuses(d, ("convert", "apply"),
                    "is not a folder|Not a directory|more than .* symlinks on its"):
        return any(a.layer == b.layer == c.layer == 0 and a.index < b.index < c.index
                   and hides(b, a.path) and is_below(c.path, a.path)
                   for c in h.touches if c.what == "lost"
                   for b in h.touches if b.what in ("whiteout", "opaque")
                   for a in h.touches if a.what in ("made", "over"))
    # A symlink is gone, so that paths no longer lead through it.
    if d.theirs in CONTAINERD and d.what == "there" and \
            in_one_layer(h, lambda a, b: not a.layer and a.path == b.path and
                         a.entry["kind"] == "symlink", lambda b: b.what == "whiteout"):
        return True
    return d.theirs in CONTAINERD and d.what != "refused" and \
        (d.other is None or d.what != "there") and \
        in_one_layer(h, lambda a, b: not a.layer and is_below(d.path, b.path),
                     lambda b: b.what in ("whiteout", "opaque"))


@rule
def whiteout_then_folder(d, h):
    """containerd's folder in place of a whiteout shows what lies below."""
    return d.theirs in CONTAINERD and d.what in ("there", "kind") and d.other and \
        in_one_layer(h, lambda a, b: a.what == "whiteout" and a.path == b.path and
                     is_below(d.path, b.path), lambda b: b.entry["kind"] == "dir")


@rule
def replaced_twice(d, h):
    """A folder, a file in its place, and a folder again: containerd's last one shows
    what lies below."""
    return d.theirs in CONTAINERD and d.what == "there" and d.other and \
        in_one_layer(h, lambda a, b: a.path == b.path and is_below(d.path, a.path),
                     lambda b: b.what == "over" and b.entry["kind"] == "dir")


@rule
def whiteout_listed(d, h):
    """overlayfs lists a whiteout in a folder that no layer below has."""
    return d.theirs in CONTAINERD and d.other == "unreachable" and \
        any(is_whiteout(t) and d.path in (t.path, t.path.replace(b".wh.", b""))
            for t in h.touches)


@rule
def whiteout_alone(d, h):
    """umoci makes no folder for a whiteout alone."""
    if d.theirs != "umoci" or d.what not in ("there", "kind") or d.mine != "dir":
        return False
    below = [t for t in h.touches if is_below(t.path, d.path) and t.what != "note"]
    top = max((t.layer for t in below), default=None)
    return top is not None and all(is_whiteout(t) for t in below if t.layer == top)


def is_whiteout(t):
    """Also one whose path leads nowhere, as a file is in it."""
    return t.what in ("whiteout", "opaque") or \
        (t.what == "lost" and t.path.split(b"/")[-1].startswith(b".wh."))


@rule
def opaque_between(d, h):
    """containerd gives an implied folder what it was below an opaque marker's folder, or
    below one that was taken away."""
    if d.theirs not in CONTAINERD or d.path is None:
        return False
    hidden = (t.entry for t in h.entries(d.path) if t.entry["kind"] == "dir"
              for o in h.touches if o.what in ("opaque", "whiteout") and o.layer > t.layer
              and o.path != d.path and is_below(d.path, o.path)
              and any(n >= o.layer for n in h.implied[d.path]))
    if is_xattr(d):
        name = d.what[len(b"xattr "):]
        return any(d.other == e["xattrs"].get(name, b"") for e in hidden)
    return d.what in ("uid", "gid", "mode") and \
        any(d.other == e[d.what] for e in hidden)


@rule
def symlink_below(d, h):
    """umoci follows a symlink of a layer below; for the others a folder hides it."""
    if not h.through or not between(d, ALL_BUT_UMOCI, ("umoci",)):
        return False
    if d.what in ("refused", "names", "nlink"):
        return True
    if d.what == "there" and \
            bool(h.find(d.path)) != bool(History(h.stack, follows=True).find(d.path)):
        return True
    if d.what == "mtime" and any(is_below(link, d.path) for link, _, _ in h.through):
        return True

    def is_led_to(path):
        return any(is_below(path, link) or is_below(path, folder) or
                   is_below(folder, path) for link, folder, _ in h.through)

    # What comes to lie there in a later layer, where the symlink still leads.
    umocis = History(h.stack, follows=True)
    if [t.entry for t in umocis.entries(d.path)] != [t.entry for t in h.entries(d.path)]:
        return True
    # Other names of what it wrote there have its bytes, too.
    return is_led_to(d.path) or any(
        t.path == d.path and t.entry["kind"] == "hard" and
        is_led_to(b"/".join(History.clean(t.entry["link"])[0])) for t in h.touches)


@rule
def symlink_below_attributes(d, h):
    """containerd gives that folder what the symlink leads to is like."""
    if d.theirs not in CONTAINERD or d.path not in (link for link, _, _ in h.through):
        return False
    folders = [e for e in all_entries(h) if e["kind"] == "dir"]
    if is_xattr(d):
        name = d.what[len(b"xattr "):]
        return any(d.other == e["xattrs"].get(name) for e in folders)
    return d.what in ("uid", "gid", "mode") and \
        any(d.other == e[d.what] for e in folders)


@rule
def device_zero(d, h):
    """A character device 0:0, or a hard link to it, is overlayfs' own whiteout."""
    zero = any(e["kind"] == "char" and e["dev"] == [0, 0] for e in all_entries(h))
    if zero and "apply" in (d.ours, d.theirs) and \
            refuses(d, OTHERS + ("convert",), "not a (directory|folder)"):
        return True
    zeros = set()
    for t in h.touches:
        if (t.entry["kind"] == "char" and t.entry["dev"] == [0, 0]) or \
                (t.entry["kind"] == "hard" and
                 b"/".join(History.clean(t.entry["link"])[0]) in zeros):
            zeros.add(t.path)
    listed = d.ours == "apply" and d.theirs in CONTAINERD and "unreachable" in (d.mine, d.other)
    return (listed or between(d, APART, ("convert", "umoci"))) and \
        d.path is not None and any(is_below(d.path, path) for path in zeros)


@rule
def folder_over_file(d, h):
    """A folder that is implied where a layer below has a file: umoci refuses it."""
    return bool(h.over) and refuses(d, ("umoci",), "mkdir parent: mkdir .*: not a directory")


@rule
def opaque_in_and_of(d, h):
    """`D/opq`, then a marker above D, then `D/f`: umoci makes D anew."""
    return d.theirs == "umoci" and d.what in ("uid", "gid", "mode", "mtime") and \
        bool(d.path) and \
        in_one_layer(h, lambda a, b: a.what == "opaque" and a.path == d.path,
                     lambda b: b.what == "opaque" and b.path != d.path and
                     is_below(d.path, b.path))


# --- refusals ------------------------------------------------------------------------

@rule
def gnu_sparse(d, h):
    return any(e["holes"] and e["format"] == "gnu" for e in all_entries(h)) and \
        (refuses(d, CONTAINERD, "unhandled tar header type 83") or
         refuses(d, ("umoci",), "unknown typeflag"))


@rule
def global_header(d, h):
    return any(e["kind"] == "global" for e in all_entries(h)) and \
        refuses(d, ("umoci",), r"unknown typeflag '\\x67'")


@rule
def gzip_header_crc(d, h):
    """umoci does not know a gzip header with a checksum of its own."""
    return any(l["compress"] == "gzip-fields" for l in h.stack["layers"]) and \
        refuses(d, ("umoci",), "gzip: invalid header")


@rule
def link_below_itself(d, h):
    """containerd has lost the symlink, for an opaque marker behind it, that is both what
    the link is of and in its path: it makes a folder there, which it cannot link."""
    return refuses(d, CONTAINERD, "link .*: operation not permitted") and \
        any(e["kind"] == "hard" and e["name"].startswith(e["link"] + b"/")
            for e in all_entries(h))


@rule
def link_to_whiteout(d, h):
    """A whiteout is a device for containerd and layer.apply, which a hard link of its
    layer can name: another whiteout."""
    return refuses(d, ("convert", "umoci"), "hard link to .* does not exist|"
                   "no such file or directory") and in_one_layer(
        h, lambda w, e: w.what == "whiteout" and e.entry["kind"] == "hard" and
        b"/".join(History.clean(e.entry["link"])[0]) == w.path, lambda e: True)


@rule
def acl_mode(d, h):
    """umoci sets the ACL last: where the mode says something else the ACL holds."""
    return between(d, ALL_BUT_UMOCI, ("umoci",)) and \
        (d.what == "mode" or is_xattr(d, ACL)) and \
        any(t.path == d.path and ACL in t.entry["xattrs"] for t in h.touches)


@rule
def symlink_gone(d, h):
    """containerd has lost a symlink, for a marker behind it in its layer, and makes a
    folder where later entries lead through it."""
    def is_near(path):
        return is_below(d.path, path) or is_below(path, d.path)

    def is_lost(t):
        return in_one_layer(
            h, lambda s, m: s.entry["kind"] == "symlink" and is_below(s.path, m.path),
            lambda m: m.what in ("whiteout", "opaque") and
            m.layer == t.layer and m.index < t.index)

    def named(t):
        return b"/".join(History.clean(t.entry["name"])[0])

    return d.path is not None and between(d, CONTAINERD, ("convert", "apply", "umoci")) and \
        any(named(t) != t.path and (is_near(t.path) or is_near(named(t))) and is_lost(t)
            for t in h.touches)


@rule
def hard_link_below(d, h):
    """A layer that is unpacked into a folder of its own cannot link to one below."""
    return any(t.entry["kind"] == "hard" and t.layer for t in h.touches) and \
        refuses(d, APART, "^link |hard link to .*No such file|: link |"
                "its folder: No such file")


@rule
def climbs(d, h):
    return any(History.clean(e["name"])[1] for e in all_entries(h)) and \
        refuses(d, ("convert", "apply"), "leads out of the root")


@rule
def whiteout_of_own(d, h):
    """containerd makes a device of a whiteout, which is in the way of what its layer
    has, or is itself in the way of another; or it has taken away what is in the way."""
    if refuses(d, ("convert", "apply", "umoci"), "is not a folder|ot a directory") and \
            in_one_layer(h, lambda a, b: b.what == "whiteout" and a.path == b.path and
                         a.entry["kind"] != "dir", lambda b: True):
        return True
    return refuses(d, CONTAINERD, "convert whiteout file .*: file exists|"
                   "mkparent .*: not a directory") and \
        any(t.what == "whiteout" for t in h.touches)


@rule
def folder_gone_again(d, h):
    """containerd sets times of folders at the end, and fails where one is gone."""
    return refuses(d, CONTAINERD, "UtimesNanoAt .*no such file|too many (links|levels)|"
                   "lstat .*: not a directory")


@rule
def user_xattr_of_others(d, h):
    """umoci does not pass over user.* of what cannot have them."""
    return refuses(d, ("umoci",), "restore xattr metadata.*not permitted") and \
        any(k.startswith(b"user.") for e in all_entries(h) for k in e["xattrs"])


@rule
def whiteout_of_nothing(d, h):
    """umoci passes over whiteouts without a name or below what is no folder."""
    return d.theirs == "umoci" and refuses(
        d, ("convert", "apply"), r"whites out no name|a whiteout of '\.{0,2}'|"
        r"'[^']*\.wh\.[^']*': its parent .* is not a folder|"
        r"'[^']*\.wh\.[^']*': its folder: Not a directory")


# --- not mended yet ------------------------------------------------------------------

@rule
def whiteout_in_and_of(d, h):
    """`D/.wh.x`, then `.wh.D`: layer.apply keeps D, as it is below."""
    return "apply" in (d.ours, d.theirs) and d.theirs not in CONTAINERD and \
        d.what in ("uid", "gid", "mode", "mtime", "there") and \
        in_one_layer(h, lambda a, b: b.what == "whiteout" and
                     a.what in ("whiteout", "opaque") and
                     (a.what == "opaque" or a.path != b.path) and
                     is_below(a.path, b.path) and is_below(d.path, b.path),
                     lambda b: True)
