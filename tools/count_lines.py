#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Counts lines of code, without blank lines, comments and docstrings: count_lines.py [FILE[:FIRST-LAST]...]

Prints a line for each file of include/simplx/blocks and their sum, or for each file that is named (C++ or Python), of
which lines FIRST to LAST may be taken alone. A line that holds nothing but brackets and a semicolon counts.
"""
import glob
import io
import os
import re
import sys
import tokenize

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Strings and characters first, so that a // in them is no comment; a ' between digits separates them.
CPP = re.compile(r'"(?:\\.|[^"\\\n])*"|(?<![0-9A-Fa-f])\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*.*?\*/', re.S)


def cpp_lines(text):
    """Numbers of the lines of a C++ file that hold code."""
    kept = CPP.sub(lambda m: m[0] if m[0][0] in "\"'" else "\n" * m[0].count("\n"), text)
    return {number for number, line in enumerate(kept.splitlines(), 1) if line.strip()}


def python_lines(text):
    """The same of a Python file; an expression that is a string alone is a docstring."""
    lines, statement = set(), []
    no_code = (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NEWLINE:
            if any(part.type != tokenize.STRING for part in statement):
                lines.update(n for part in statement for n in range(part.start[0], part.end[0] + 1))
            statement = []
        elif token.type not in no_code:
            statement.append(token)
    return lines


def count(path, first=1, last=sys.maxsize):
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        sys.exit("error: %s: %s" % (path, error.strerror))
    lines = python_lines(text) if path.endswith(".py") else cpp_lines(text)
    return sum(first <= number <= last for number in lines)


def main():
    named = [re.fullmatch(r"(.*?)(?::(\d+)-(\d+))?", argument).groups() for argument in sys.argv[1:]]
    if not named:
        named = [(path, None, None) for path in sorted(glob.glob(os.path.join(ROOT, "include/simplx/blocks/*.hpp")))]
    total = 0
    for path, first, last in named:
        lines = count(path, int(first), int(last)) if first else count(path)
        total += lines
        print("%5d  %s" % (lines, os.path.relpath(path, ROOT) if path.startswith(ROOT) else path))
    print("%5d  together" % total)


if __name__ == "__main__":
    main()
