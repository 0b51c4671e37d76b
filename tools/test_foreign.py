#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Builds the tests of some folders for another processor and runs them under an emulator.

  test_foreign.py FOLDERS COMPILER EMULATOR      such as "core;cpu;ops" aarch64-linux-gnu-g++ qemu-aarch64-static

Headers of doctest, fmt and Eigen are those of this machine, the same for every processor; the rest comes with the
compiler. Ends with what doctest says."""
import concurrent.futures
import glob
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHARED = ("doctest", "fmt", "nlohmann", "eigen3/Eigen", "eigen3/unsupported")


def main():
    if len(sys.argv) != 4:
        sys.exit('usage: tools/test_foreign.py "core;cpu;ops" COMPILER EMULATOR')
    folders, compiler, emulator = sys.argv[1:]
    sources = [os.path.join(ROOT, "tests", "main.cpp")]
    for folder in folders.split(";"):
        sources += sorted(glob.glob(os.path.join(ROOT, "tests", folder, "*_test.cpp")))
    with tempfile.TemporaryDirectory() as scratch:
        # Not /usr/include itself: the C library's headers there are this machine's.
        for name in SHARED:
            os.symlink(os.path.join("/usr/include", name), os.path.join(scratch, os.path.basename(name)))
        flags = ["-std=c++20", "-O1", "-w", "-pthread", "-DFMT_HEADER_ONLY",
                 f'-DSIMPLX_GOLDEN_DIR="{ROOT}/tests/golden"', "-I", os.path.join(ROOT, "include"),
                 "-I", os.path.join(ROOT, "tests"), "-isystem", scratch]

        def build(job):
            number, source = job
            output = os.path.join(scratch, f"{number}.o")
            done = subprocess.run([compiler, *flags, "-c", source, "-o", output], stderr=subprocess.PIPE, text=True,
                                  check=False)
            if done.stderr:
                print(f"{source}\n{done.stderr}", flush=True)
            return None if done.returncode else output

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = list(pool.map(build, enumerate(sources)))
        if None in objects:
            sys.exit(1)
        program = os.path.join(scratch, "tests")
        subprocess.run([compiler, "-static", *objects, "-pthread", "-o", program], check=True)
        # An emulator has no speed to measure.
        sys.exit(subprocess.run([emulator, program, "--test-case-exclude=cpu/peak*"], check=False).returncode)


if __name__ == "__main__":
    main()
