#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""own_model_test.py PROGRAM: the program of docs/training.md finds its claims true, and prints what the page quotes of
it. Numbers are not compared: training in float amplifies the last bit. (The page's code is tools/check_readme.py's.)
"""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def words(text):
    return [" ".join(re.sub(r"\d+(\.\d+)?", "#", line).split()) for line in text.splitlines()]


def main():
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([os.path.abspath(sys.argv[1])], capture_output=True, text=True, check=False, cwd=folder)
        asked = subprocess.run([os.path.abspath(sys.argv[1]), "--help"], capture_output=True, text=True, check=False,
                               cwd=folder)
        trained = os.path.exists(os.path.join(folder, "--help"))
    faults = [] if "usage:" in asked.stderr and asked.returncode == 2 and not trained else ["it takes --help for a folder"]
    faults += [f"it ends with {done.returncode}:\n{done.stdout}{done.stderr}"] if done.returncode else []
    printed, blocks = words(done.stdout), re.findall(r"```text\n(.*?)```", read("docs", "training.md"), re.S)
    if not blocks:
        faults.append("the page shows no output")
    for block in blocks:
        lines = words(block)
        if not any(printed[i:i + len(lines)] == lines for i in range(len(printed))):
            faults.append(f"the page shows what the program does not print:\n{block}\nbut\n{done.stdout}")
    for fault in faults:
        print(fault)
    print(f"own_model: {len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
