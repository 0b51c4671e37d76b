#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""batches.py FOLDER SIZE TEST...: writes sources into FOLDER that each hold up to SIZE tests, and prints what is to be
compiled instead of the tests, with ; between.

Tests share headers, Eigen's products and kernels, two fifths of their code, which the compiler then sees once a source
instead of once a test. Each test is included into a namespace of its own, so that tests need not agree on names; their
headers come first, outside, and are not read again there.
"""
import os
import re
import sys

INCLUDE = re.compile(r'^#include ([<"])(.*)[>"]', re.MULTILINE)
# What a namespace cannot hold: specialisations for the library, and headers that need code of the test before them.
ALONE = re.compile(r"^template <>|^template class |^struct simplx::|^namespace \{$(?:.|\n)*^#include", re.MULTILINE)


def headers(test, text):
    """The test's own includes; those beside it by their path, as the batch is somewhere else."""
    for bracket, name in INCLUDE.findall(text):
        beside = os.path.join(os.path.dirname(test), name)
        yield f'#include "{beside}"' if bracket == '"' and os.path.exists(beside) else f"#include <{name}>"


def batches(folder, size, tests):
    """The sources to compile for these tests, given by their absolute paths: tests of one folder, up to size each."""
    alone, together = [], {}
    for test in tests:
        with open(test, encoding="utf-8") as file:
            text = file.read()
        name = os.path.basename(os.path.dirname(test))
        if size == 1 or ALONE.search(text):
            alone.append(test)
        else:
            together.setdefault(name, []).append((test, text))
    sources = []
    for name, found in together.items():
        count = -(-len(found) // size)
        for number in range(count):
            lines = []
            for test, text in found[number::count]:  # neighbours are alike, and often long: a batch of them would be too
                within = name + "_" + os.path.splitext(os.path.basename(test))[0]
                lines += [*headers(test, text), f"namespace {within} {{", f'#include "{test}"', "}"]
            sources.append(os.path.join(folder, f"{name}_{number}.cpp"))
            write(sources[-1], "\n".join(lines) + "\n")
    return sources + alone


def write(path, text):
    """Not what stands there already: it would be compiled again."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            if file.read() == text:
                return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    print(";".join(batches(sys.argv[1], int(sys.argv[2]), sys.argv[3:])), end="")
