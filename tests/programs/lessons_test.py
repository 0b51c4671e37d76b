#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""lessons_test.py [--write] PROGRAM: a lesson prints what is expected, and its page quotes what it prints.

Text and whole numbers are compared exactly, decimals with a tolerance, spaces as one space. --write accepts the output.
"""
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NUMBER = re.compile(r"(?<![\w%.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.]*\w)")
# Relative tolerances: training in float amplifies the last bit, which compilers and vectors share differently.
TOLERANCE = {"07_pre_ln_to_sas_p": 0.08, "09_your_own": 0.08}
SOURCES_AS_TEXT = "08_language_model"  # learns from this repository, which changes: see check_language_model
LONGEST = 120


def read(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def close(printed, expected, tolerance):
    """Whether two numbers agree, up to the tolerance and the last digit that is expected."""
    if re.fullmatch(r"-?\d+", printed) and re.fullmatch(r"-?\d+", expected):
        return printed == expected
    mantissa, _, exponent = expected.partition("e")
    last_digit = 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    a, b = float(printed), float(expected)
    return abs(a - b) <= tolerance * max(abs(a), abs(b)) + 1.01 * last_digit


def words(line):
    return " ".join(NUMBER.sub("#", line).split())


def differences(printed, expected, tolerance):
    printed, expected = printed.splitlines(), expected.splitlines()
    if len(printed) != len(expected):
        yield f"it prints {len(printed)} lines where {len(expected)} are expected"
    for number, (a, b) in enumerate(zip(printed, expected), 1):
        pairs = zip(NUMBER.findall(a), NUMBER.findall(b))
        if words(a) != words(b) or not all(close(x, y, tolerance) for x, y in pairs):
            yield f"line {number} is\n  {a}\nexpected\n  {b}"


def check_language_model(printed, expected):
    """Its words up to the sample, without numbers; what it learns must lie below the 2-gram."""
    end = "below the 2-gram's line\n"
    if end not in printed:
        yield "the loss does not fall below the 2-gram's line"
    blank = lambda text: [words(line) for line in text.partition(end)[0].splitlines()]
    if blank(printed) != blank(expected):
        yield f"it prints\n{printed}\nexpected, but for numbers\n{expected}"
    two_gram = float(re.search(r"2-gram ([\d.]+)", printed).group(1))
    losses = [float(loss) for loss in re.findall(r"held out ([\d.]+) nats per byte", printed)]
    if not (losses == sorted(losses, reverse=True) and losses[-1] < two_gram and 1 < losses[-1]):
        yield f"the losses {losses} do not fall from step to step to below {two_gram}"


def check_refusals(program):
    """Text that cannot be used is told before anything is printed."""
    with tempfile.TemporaryDirectory() as folder:
        missing, short = os.path.join(folder, "missing.txt"), os.path.join(folder, "short.txt")
        with open(short, "w", encoding="utf-8") as file:
            file.write("too short")
        for path, words in ((missing, missing), (short, "too short: no document has 65 tokens")):
            done = subprocess.run([program, path], capture_output=True, text=True, check=False)
            if done.returncode != 2 or done.stdout or not done.stderr.startswith("error: ") or words not in done.stderr:
                yield f"with {path} it ends with {done.returncode}: {done.stdout}{done.stderr}"


def page_faults(name, expected):
    """What a page of docs/lessons shows as output is an excerpt of it, line by line."""
    output = [line.rstrip() for line in expected.splitlines()]
    blocks = re.findall(r"```text\n(.*?)```", read("docs", "lessons", name + ".md"), re.S)
    if not blocks:
        yield "the page shows no output"
    for block in blocks:
        lines = [line.rstrip() for line in block.splitlines()]
        if not any(output[i:i + len(lines)] == lines for i in range(len(output))):
            yield f"the page shows what the program does not print:\n{block}"


def main():
    write, program = "--write" in sys.argv, os.path.abspath(sys.argv[-1])
    name = os.path.basename(program)
    path = os.path.join("tests", "lessons", "expected", name + ".txt")
    done = subprocess.run([program], capture_output=True, text=True, check=False, cwd=ROOT, errors="replace")
    if write:
        with open(os.path.join(ROOT, path), "w", encoding="utf-8") as file:
            file.write(done.stdout)
    expected = read(path)

    faults = [f"it ends with {done.returncode}: {done.stderr}"] if done.returncode else []
    if name == SOURCES_AS_TEXT:
        faults += check_language_model(done.stdout, expected)
        faults += check_refusals(program)
    else:
        faults += differences(done.stdout, expected, TOLERANCE.get(name, 1e-3))
    faults += page_faults(name, expected)
    length = read("examples", name + ".cpp").count("\n")
    if length > LONGEST:
        faults.append(f"examples/{name}.cpp has {length} lines; a lesson has at most {LONGEST}")
    for fault in faults:
        print(fault)
    print(f"{name}: {len(faults)} faults")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
