#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What the library costs the compiler, in numbers that repeat.

    python3 tests/compile_cost/measure.py

Checks: a decoder of 72 layers needs at most 2 % more template instantiations than one of 2 (counted by clang's
time trace), and each no more than 3 % beside the committed count of bench/results/compile.json; a chain of 30 reused
expressions compiles with -O0 -g in under 400 MB on every compiler found, with no symbol of over 400 characters; a graph
of 1500 nodes is planned under default limits; models are evaluated as often as their graphs need it and no more: g++
tells what that takes. Exit status 1 if one fails. Seconds are no test, for machines differ:
bench/compile tells them.
"""
import os
import shutil
import subprocess
import sys
import tempfile

from cost import baseline, compile_unit, evaluation_memory, instantiations, version

TOLERANCE = 0.03  # of the committed counts: most changes of a header move them by less
EVALUATION = 37  # MB, of which the headers themselves take 6; one evaluation too many of each layer is 7 and more


def longest_symbol(output):
    names = subprocess.run(["nm", output], capture_output=True, text=True, check=True).stdout.split()
    return max(len(name) for name in names)


def check_counts(check, folder):
    counts = {(block, layers): instantiations("clang++", folder, block, layers)
              for block, layers in (("sas_p", 2), ("sas_p", 72), ("pre_ln", 12))}
    two, many = counts["sas_p", 2], counts["sas_p", 72]
    check(abs(many - two) <= 0.02 * two,
          f"template instantiations: {two} for 2 layers, {many} for 72 ({100 * (many - two) / two:+.2f} %)")
    committed, compilers = baseline()
    here = version("clang++")
    if {name.split(".")[0] for name in compilers} != {here.split(".")[0]}:
        print(f"      not compared with the committed counts: those are of {', '.join(compilers)}, this is {here}")
        return
    for (block, layers), count in counts.items():
        before = committed[block, layers]
        change = count / before - 1
        check(abs(change) <= TOLERANCE, f"{block}, {layers} layers: {count} instantiations, {before} committed "
                                        f"({100 * change:+.2f} %)")
        if abs(change) > TOLERANCE:
            print("       if that is meant, renew bench/results/compile.json by bench/run compile, and say why")


def main():
    if len(sys.argv) > 1:
        sys.exit(__doc__)
    compilers = [c for c in ("g++", "clang++") if shutil.which(c)]
    good = True

    def check(holds, text):
        nonlocal good
        good = good and holds
        print(("ok    " if holds else "FAILED ") + text)

    with tempfile.TemporaryDirectory() as folder:
        if "clang++" in compilers:
            check_counts(check, folder)
        for compiler in compilers:
            output = os.path.join(folder, "chain.o")
            seconds, megabytes = compile_unit(compiler, "chain.cpp", ["-O0", "-g"], output)
            symbol = longest_symbol(output)
            check(megabytes < 400, f"{compiler}: 30 reused expressions at -O0 -g take {megabytes:.0f} MB "
                                   f"({seconds:.1f} s)")
            check(symbol <= 400, f"{compiler}: their longest symbol has {symbol} characters")
            seconds, megabytes = compile_unit(compiler, "many_nodes.cpp", ["-O0"], output)
            check(megabytes < 600, f"{compiler}: 1500 nodes are planned under its default limits ({seconds:.1f} s, "
                                   f"{megabytes:.0f} MB)")
        if "g++" in compilers:
            megabytes = evaluation_memory("g++", "graph.cpp", os.path.join(folder, "graph.o"))
            check(megabytes < EVALUATION, f"g++: constants of a decoder of 18 layers take {megabytes:.0f} MB, allowed "
                                          f"are {EVALUATION}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
