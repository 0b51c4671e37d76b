#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Plants faults and sees whether a test notices: mutants.py [LIST...]

A list (tests/mutants/*.txt) names faults of one line each:

    @ ops/functions.hpp : ops/functions       the header, and the test that must fail
    - return g / x; }                         what is there
    + return g * x; }                         what is planted

Prints the faults that no test noticed; exit status 1 if there are any, or if a line is not there any more. With --there
only the latter, which takes no time: a test of every run, so that no list outlives what it is about.
"""
import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FLAGS = ["-std=c++20", "-O0", "-march=native", "-w", "-isystem", "/usr/include/eigen3", "-pthread",
         f'-DSIMPLX_GOLDEN_DIR="{ROOT}/tests/golden"']
ENTRY = re.compile(r"^@ (\S+) : (\S+)\n- (.*)\n\+ ?(.*)$", re.M)


def run(command, **options):
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False, **options).returncode


def missing(faults):
    """Prints those of which the header, the test or the line is not there; whether there are any."""
    gone = 0
    for path, header, test, old, _ in faults:
        source = os.path.join(ROOT, "tests", test + "_test.cpp")
        target = os.path.join(ROOT, "include", "simplx", header)
        there = os.path.isfile(source) and os.path.isfile(target) and old in open(target, encoding="utf-8").read()
        if not there:
            print(f"{os.path.relpath(path, ROOT)}: not there for {test}: {header}: {old}")
        gone += not there
    print(f"{len(faults)} faults to plant, {gone} not there")
    return gone > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lists", nargs="*", metavar="LIST", help="all of tests/mutants unless given")
    parser.add_argument("--there", action="store_true", help="only see that the lines are there")
    options = parser.parse_args()
    lists = options.lists
    for path in lists:
        if not os.path.isfile(path):
            parser.error("no such list: %s" % path)
    lists = lists or sorted(glob.glob(os.path.join(ROOT, "tests", "mutants", "*.txt")))
    faults = [(path, *entry) for path in lists for entry in ENTRY.findall(open(path, encoding="utf-8").read())]
    if options.there:
        sys.exit(1 if missing(faults) else 0)
    bad = []
    with tempfile.TemporaryDirectory() as folder:
        include = os.path.join(folder, "include")
        shutil.copytree(os.path.join(ROOT, "include"), include)
        common = ["g++", *FLAGS, "-I", include, "-I", os.path.join(ROOT, "tests")]
        main_object = os.path.join(folder, "main.o")
        subprocess.run([*common, "-c", os.path.join(ROOT, "tests", "main.cpp"), "-o", main_object], check=True)
        for number, (path, header, test, old, new) in enumerate(faults, 1):
            target = os.path.join(include, "simplx", header)
            with open(target, encoding="utf-8") as file:
                text = file.read()
            verdict = "NOT THERE"
            if old in text:
                with open(target, "w", encoding="utf-8") as file:
                    file.write(text.replace(old, new, 1))
                program = os.path.join(folder, "program")
                source = os.path.join(ROOT, "tests", test + "_test.cpp")
                if run([*common, source, main_object, "-o", program, "-lfmt"]):
                    verdict = "refused by the compiler"
                else:
                    try:
                        verdict = "noticed" if run([program], timeout=600) else "SURVIVED"
                    except subprocess.TimeoutExpired:
                        verdict = "noticed"
                with open(target, "w", encoding="utf-8") as file:
                    file.write(text)
                if verdict == "refused by the compiler" and run([*common, "-fsyntax-only", source]):
                    verdict = "THE TEST ITSELF DOES NOT COMPILE"
            if verdict.isupper():
                bad.append((header, old, new))
            print(f"{number}/{len(faults)} {verdict}: {header}: {old.strip()} -> {new.strip()}", flush=True)
    print(f"{len(faults) - len(bad)} noticed, {len(bad)} not")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
