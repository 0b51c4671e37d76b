#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every header compiles alone, without a warning: check_headers.py COMPILER..."""
import concurrent.futures
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FLAGS = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I", os.path.join(ROOT, "include"),
         "-isystem", "/usr/include/eigen3"]


def check(job):
    compiler, header = job
    unit = f"#include <simplx/{header}>\n#include <simplx/{header}>\n"
    done = subprocess.run([compiler, *FLAGS, "-x", "c++", "-"], input=unit, capture_output=True, text=True, check=False)
    return (compiler, header, done.stderr) if done.returncode else None


def main():
    base = os.path.join(ROOT, "include", "simplx")
    headers = [os.path.relpath(os.path.join(folder, name), base)
               for folder, _, names in os.walk(base) for name in names if name.endswith(".hpp")]
    jobs = [(compiler, header) for compiler in sys.argv[1:] for header in sorted(headers)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        faults = [fault for fault in pool.map(check, jobs) if fault]
    for compiler, header, text in faults:
        print(f"{compiler}: {header}\n{text}")
    print(f"{len(jobs)} checks, {len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
