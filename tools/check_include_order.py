#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A folder of include/simplx includes itself and the folders above it in ORDER, no header includes itself, and only
cuda, which needs nvcc, includes cuda. No line is longer than 120 characters."""
import os
import re
import sys

ORDER = ["core", "cpu", "ops", "nn", "blocks", "models", "train", "generate", "differentiate", "cuda", "io", "report"]
LONGEST_LINE = 120
ROOT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "include", "simplx")


def headers():
    for folder, _, files in os.walk(ROOT):
        for name in sorted(files):
            if name.endswith((".hpp", ".cuh")):
                yield os.path.relpath(os.path.join(folder, name), ROOT)


def main():
    includes, faults = {}, []
    for header in headers():
        with open(os.path.join(ROOT, header), encoding="utf-8") as file:
            text = file.read()
        includes[header] = re.findall(r'#include [<"]simplx/([^>"]+)[>"]', text)
        faults += [f"{header}:{number}: {len(line)} characters in a line"
                   for number, line in enumerate(text.splitlines(), 1) if len(line) > LONGEST_LINE]
        folder = header.split("/")[0]  # the umbrella has none
        for other in includes[header]:
            if other.startswith("cuda/") and folder != "cuda":
                faults.append(f"{header} includes {other}: device code, which only nvcc compiles")
        if "/" not in header:
            continue
        for other in includes[header]:
            if ORDER.index(other.split("/")[0]) > ORDER.index(folder):
                faults.append(f"{header} includes {other}: {folder} comes before {other.split('/')[0]}")

    def visit(header, path):
        if header in path:
            faults.append("a circle of includes: " + " -> ".join([*path[path.index(header):], header]))
            return
        for other in includes.get(header, []):
            visit(other, [*path, header])

    visit("simplx.hpp", [])
    for fault in faults:
        print(fault)
    print(f"{len(includes)} headers, {len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
