#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""expect_error.py COMPILER SOURCE: what must not compile, and what the compiler has to say.

The source lists regular expressions, one a line: `// expect: REGEX`, or `// expect-gcc:` and `// expect-clang:`.
It must be rejected, and all of them must match the first diagnostic: from the first line with "error:" (and the
lines that lead to it) up to the next one. With -DFIXED it must compile, so that it fails for the stated reason only.
`// flags: ...` adds flags to the broken compilation.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def main():
    compiler, source = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        text = file.read()
    kind = "clang" if "clang" in os.path.basename(compiler) else "gcc"
    expected = re.findall(rf"^// expect(?:-{kind})?: (.*)$", text, re.M)
    flags = sum((line.split() for line in re.findall(r"^// flags: (.*)$", text, re.M)), [])
    command = [compiler, "-std=c++20", "-fsyntax-only", "-I", os.path.join(ROOT, "include"),
               "-isystem", "/usr/include/eigen3", source]
    broken = subprocess.run([*command, *flags], capture_output=True, text=True, check=False)
    fixed = subprocess.run([*command, "-DFIXED"], capture_output=True, text=True, check=False)
    if not expected:
        sys.exit(f"{source} expects nothing")
    if broken.returncode == 0:
        sys.exit(f"{source} compiles, but must not")
    if fixed.returncode != 0:
        sys.exit(f"{source} fails for another reason; with -DFIXED:\n{fixed.stderr}")
    lines = broken.stderr.splitlines()
    errors = [i for i, line in enumerate(lines) if "error:" in line]
    end = errors[1] if len(errors) > 1 else len(lines)
    first = "\n".join(lines[:end])
    if "--show" in os.environ.get("EXPECT_ERROR", ""):
        print(first)
    for regex in expected:
        if not re.search(regex, first):
            sys.exit(f"the first diagnostic never says '{regex}':\n{first}")


if __name__ == "__main__":
    main()
