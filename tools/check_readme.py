#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every C++ snippet of README.md, docs/training.md, docs/modules.md and docs/lessons is compiled somewhere: a whole
program of it is one of examples/, a part is a run of lines of a source of include/, examples/ or tests/."""
import glob
import os
import re
import sys
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGES = ["README.md", "docs/training.md", "docs/modules.md", "docs/lessons/*.md"]
COMPILED = ["include/simplx/**/*.hpp", "examples/**/*.cpp", "examples/**/*.hpp", "examples/*.cu", "tests/**/*_test.cpp"]


def find(patterns):
    return sorted(path for pattern in patterns for path in glob.glob(os.path.join(ROOT, pattern), recursive=True))


def lines_of(text):
    return [line.rstrip() for line in textwrap.dedent(text).strip("\n").splitlines()]


def contains(source, part):
    """Whether the lines of `part` follow each other in `source`, wherever they are indented to."""
    for i in range(len(source) - len(part) + 1):
        if source[i].strip() == part[0].strip() and lines_of("\n".join(source[i:i + len(part)])) == part:
            return True
    return False


def fault_of(snippet, sources):
    part = lines_of(snippet)
    if "int main(" in snippet:
        examples = os.path.join(ROOT, "examples")
        if any(path.startswith(examples) and lines[1:] == part for path, lines in sources.items()):
            return None
        return "a program that is none of examples/ (but for the licence line)"
    return None if any(contains(lines, part) for lines in sources.values()) else "a snippet that no source contains"


def main():
    sources = {}
    for path in find(COMPILED):
        with open(path, encoding="utf-8") as file:
            sources[path] = [line.rstrip() for line in file.read().splitlines()]
    count, faults = 0, []
    for page in find(PAGES):
        with open(page, encoding="utf-8") as file:
            snippets = re.findall(r"```cpp\n(.*?)```", file.read(), re.S)
        count += len(snippets)
        for snippet in snippets:
            fault = fault_of(snippet, sources)
            if fault:
                faults.append(f"{os.path.relpath(page, ROOT)}: {fault}:\n{snippet}")
    for fault in faults:
        print(fault)
    print(f"{count} snippets, {len(faults)} faults")
    sys.exit(1 if faults or not count else 0)


if __name__ == "__main__":
    main()
