#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The README's programs are those that are compiled: examples/my_block.cpp and my_function.cpp, the op in the tests."""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def main():
    block, function, extension = re.findall(r"```cpp\n(.*?)```", read("README.md"), re.S)
    faults = []
    for program, name in ((block, "my_block.cpp"), (function, "my_function.cpp")):
        if program != read("examples", name).split("\n", 1)[1]:
            faults.append(f"a program of the README is not examples/{name}")
    if extension not in read("tests", "ops", "elementwise_test.cpp"):
        faults.append("the op of the README is not in tests/ops/elementwise_test.cpp")
    for fault in faults:
        print(fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
