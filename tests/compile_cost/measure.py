#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the library costs the compiler, in numbers that repeat.

    python3 tests/compile_cost/measure.py [--report]

Checks: a decoder of 72 layers needs at most 2 % more template instantiations than one of 2 (counted by clang's
time trace); a chain of 30 reused expressions compiles with -O0 -g in under 400 MB on every compiler found, with
no symbol of over 400 characters; a graph of 1500 nodes is planned under default limits. Exit status 1 if one fails. --report also prints seconds and memory of the
trainer at -O3, which are no test: machines differ.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FLAGS = ["-std=c++20", "-I", os.path.join(ROOT, "include"), "-isystem", "/usr/include/eigen3", "-pthread"]


def compile_unit(compiler, source, flags, output):
    """Compiles; returns seconds and the peak memory in MB of the largest process."""
    command = [compiler, *FLAGS, *flags, "-c", os.path.join(HERE, source), "-o", output]
    start = time.time()
    child = subprocess.Popen(["/usr/bin/env", "python3", "-c", """
import resource, subprocess, sys
status = subprocess.call(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stdout)
sys.exit(status)""", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = child.communicate()
    if child.returncode:
        sys.exit(f"{' '.join(command)}\n{err}")
    return time.time() - start, int(out.split()[-1]) / 1024


def instantiations(compiler, folder, layers):
    output = os.path.join(folder, f"trainer{layers}.o")
    compile_unit(compiler, "trainer.cpp",
                 [f"-DLAYERS={layers}", "-O0", "-ftime-trace", "-ftime-trace-granularity=0"], output)
    with open(output[:-2] + ".json", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    return sum(e["name"] in ("InstantiateClass", "InstantiateFunction") for e in events)


def longest_symbol(output):
    names = subprocess.run(["nm", output], capture_output=True, text=True, check=True).stdout.split()
    return max(len(name) for name in names)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--report", action="store_true", help="also print seconds and memory at -O3")
    arguments = parser.parse_args()
    compilers = [c for c in ("g++", "clang++") if shutil.which(c)]
    good = True

    def check(holds, text):
        nonlocal good
        good = good and holds
        print(("ok    " if holds else "FAILED ") + text)

    with tempfile.TemporaryDirectory() as folder:
        if "clang++" in compilers:
            two, many = (instantiations("clang++", folder, layers) for layers in (2, 72))
            check(abs(many - two) <= 0.02 * two,
                  f"template instantiations: {two} for 2 layers, {many} for 72 ({100 * (many - two) / two:+.2f} %)")
        for compiler in compilers:
            output = os.path.join(folder, "chain.o")
            seconds, megabytes = compile_unit(compiler, "chain.cpp", ["-O0", "-g"], output)
            symbol = longest_symbol(output)
            check(megabytes < 400, f"{compiler}: 30 reused expressions at -O0 -g take {megabytes:.0f} MB ({seconds:.1f} s)")
            check(symbol <= 400, f"{compiler}: their longest symbol has {symbol} characters")
            seconds, megabytes = compile_unit(compiler, "many_nodes.cpp", ["-O0"], output)
            check(megabytes < 600, f"{compiler}: 1500 nodes are planned under its default limits ({seconds:.1f} s, {megabytes:.0f} MB)")
        if arguments.report:
            for compiler in compilers:
                for layers in (6, 72):
                    seconds, megabytes = compile_unit(compiler, "trainer.cpp",
                                                      [f"-DLAYERS={layers}", "-O3", "-march=native"],
                                                      os.path.join(folder, "trainer.o"))
                    print(f"      {compiler} -O3 -march=native, {layers} layers: {seconds:.1f} s, {megabytes:.0f} MB")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
