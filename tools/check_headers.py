#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Every header compiles alone, without a warning: check_headers.py [--rest | --tests FOLDERS] COMPILER...

So do all together for this CPU with the warnings that a user may ask for beside: names that shadow, lossy conversions.
And so do all of them backwards, those of device code first: no header's names hide what another one means.
Those of device code (.cuh) do so where nvcc's names are the executor's of tests/emulation.
--rest: but for those that a test includes before anything else, so that to compile the test is the check.
--tests: the tests of these folders ("core;cpu") are read as well, and what they use is instantiated."""
import concurrent.futures
import glob
import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FLAGS = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-I", os.path.join(ROOT, "include"),
         "-isystem", "/usr/include/eigen3"]
FOR_USERS = ["-march=native", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wno-sign-conversion"]
FOR_TESTS = ["-march=native", "-I", os.path.join(ROOT, "tests"), f'-DSIMPLX_GOLDEN_DIR="{ROOT}/tests/golden"']


def check(job):
    compiler, file = job
    if isinstance(file, tuple):
        flags = FOR_TESTS if file[0] == "emulation/cuda.hpp" else FOR_USERS
        command, unit = [*FLAGS, *flags, "-x", "c++", "-"], "".join(f"#include <{name}>\n" for name in file)
        file = "all headers together, " + ("backwards" if flags is FOR_TESTS else "as a user compiles them")
    elif file.endswith(".cpp"):
        command, unit = [*FLAGS, *FOR_TESTS, file], ""
    else:
        command, unit = [*FLAGS, "-x", "c++", "-"], f"#include <simplx/{file}>\n#include <simplx/{file}>\n"
        if file.endswith(".cuh"):
            command, unit = [*FOR_TESTS, *command], '#include "emulation/cuda.hpp"\n' + unit
    done = subprocess.run([compiler, *command], input=unit, capture_output=True, text=True, check=False)
    return (compiler, file, done.stderr) if done.returncode else None


def first_includes():
    """The headers that come first in a test, those of device code behind nvcc's names."""
    found = set()
    for name in glob.glob(os.path.join(ROOT, "tests", "*", "*_test.cpp")):
        with open(name, encoding="utf-8") as file:
            first = re.search(r'^#include (?!"emulation/cuda.hpp")(.*)$', file.read(), re.M)
        header = re.fullmatch("<simplx/(.*)>", first[1]) if first else None
        if header:
            found.add(header[1])
    return found


def main():
    base = os.path.join(ROOT, "include", "simplx")
    headers = [os.path.relpath(os.path.join(folder, name), base)
               for folder, _, names in os.walk(base) for name in names if name.endswith((".hpp", ".cuh"))]
    together = tuple(f"simplx/{name}" for name in sorted(headers)
                     if name.endswith(".hpp") and not name.startswith("cuda/"))
    backwards = sorted(headers, key=lambda name: (name.endswith(".cuh"), name), reverse=True)
    backwards = ("emulation/cuda.hpp", *(f"simplx/{name}" for name in backwards))
    compilers, tests = sys.argv[1:], []
    if compilers[:1] == ["--rest"]:
        headers = sorted(set(headers) - first_includes())
        compilers = compilers[1:]
    if compilers[:1] == ["--tests"]:
        tests = [file for folder in compilers[1].split(";")
                 for file in glob.glob(os.path.join(ROOT, "tests", folder, "*_test.cpp"))]
        compilers = compilers[2:]
    if not compilers or not all(map(shutil.which, compilers)):
        sys.exit("error: no such compiler: %s\n  hint: tools/check_headers.py [--rest] [--tests FOLDERS] g++" %
                 (" ".join(compilers) or "none is named"))
    files = [together, backwards, *sorted(headers), *sorted(tests)]
    jobs = [(compiler, file) for compiler in compilers for file in files]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        faults = [fault for fault in pool.map(check, jobs) if fault]
    for compiler, file, text in faults:
        print(f"{compiler}: {file}\n{text}")
    print(f"{len(jobs)} checks, {len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
