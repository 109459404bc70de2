#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Do references to documents lead somewhere?  links.py FILE...: one line for each
name of a document, each [text](NAME.md#section) and each "Section" after a name, in
documents, comments and messages alike, whose file or heading is not there."""
import glob
import os
import re
import sys

headings = {}


def headings_of(path):
    if path not in headings:
        with open(path, encoding="utf-8") as f:
            text = re.sub(r"^```.*?^```", "", f.read(), flags=re.M | re.S)
        headings[path] = ([h.replace("`", "") for h in
                           re.findall(r"^#+ (.*)$", text, flags=re.M)],
                          [h.rstrip(".:") for h in
                           re.findall(r"^(?:- )?\*\*([^*]+)\*\*", text, flags=re.M)])
    return headings[path]


def anchor(heading):
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def joined(text):
    """Words of a comment or message that goes over lines are on one line."""
    text = re.sub(r'"[ \t]*\n[ \t]*"', "", text)
    return re.sub(r"\n[ \t]*(?:\*|#|//)?[ \t]*", " ", text)


def check(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        text = f.read()
    if path.endswith(".md"):
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            name, _, section = target.partition("#")
            if re.match(r"[a-z]+:", target):
                continue
            file = (os.path.normpath(os.path.join(os.path.dirname(path), name))
                    if name else path)
            if not os.path.exists(file):
                yield "%s: no %s" % (path, target)
            elif section and section not in map(anchor, headings_of(file)[0]):
                yield "%s: no section %s" % (path, target)
    text = joined(text)
    # "its docs/X.md", "systemd's docs/X.md" are another project's.
    for name in re.findall(r"(?<!its )(?<!'s )\bdocs/[\w/-]+(?:\.md)?", text):
        if not (os.path.exists(name) or glob.glob(name + "-*.md")) and (
                name.endswith(".md") or name.startswith("docs/decisions/")):
            yield "%s: no %s" % (path, name)
    named = r"""(docs/[\w/-]+\.md)[^\w"']{1,3}(?:\\?"|')([A-Z][^"'\\]{2,60})(?:\\?"|')"""
    for name, section in re.findall(named, text):
        section = section.rstrip(",.")
        if os.path.exists(name) and section not in sum(headings_of(name), []):
            yield "%s: no section '%s' in %s" % (path, section, name)


wrong = [line for file in sys.argv[1:] for line in check(file)]
print("\n".join(wrong), end="\n" if wrong else "")
sys.exit(bool(wrong))
