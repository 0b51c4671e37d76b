#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""expect_error.py COMPILER SOURCE [FOLDER]: what must not compile, and what the compiler has to say.
expect_error.py COMPILER --precompile FOLDER: the library, precompiled for the sources above; half of their time is to
read it.
expect_error.py COMPILER --mended FOLDER SOURCE...: the sources above, those that can share a source, mended and together.

The source lists regular expressions, one a line: `// expect: REGEX`, or `// expect-gcc:` and `// expect-clang:`.
It must be rejected, and all of them must match the first diagnostic: from the first line with "error:" (and the
lines that lead to it) up to the next one. `// reason: REGEX` is what it or an error behind it says, `// never: REGEX`
what no line may say. With -DFIXED it must compile, so
that it fails for the stated reason only. Given a FOLDER, that is left to --mended, but for sources that cannot share
one: those must with g++, and with clang++ too where SIMPLX_EVERY_CHECK is set, as `tools/test --all` does.
`// flags: ...` adds flags to the broken compilation. What is said must be what docs/errors.md says there.
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests"))
import batches  # noqa: E402
DOCUMENT = os.path.join(ROOT, "docs", "errors.md")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def is_clang(compiler):
    return "clang" in os.path.basename(compiler)


def start(compiler, *flags):
    command = [compiler, "-std=c++20", "-I", os.path.join(ROOT, "include"), "-isystem", "/usr/include/eigen3", *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})


def precompile(compiler, folder):
    os.makedirs(folder, exist_ok=True)
    header = os.path.join(folder, "library.hpp")
    with open(header, "w", encoding="utf-8") as file:
        file.write("#include <simplx/simplx.hpp>\n")
    done = start(compiler, "-x", "c++-header", header, "-o", header + ".gch")
    if done.returncode != 0:
        sys.exit(done.stderr)


def precompiled(source, folder):
    """Flags that put the library before a source, unless that has flags or headers of its own."""
    if not folder or re.search(r'^// flags:|^#include "', read(source), re.M):
        return []
    return ["-include", os.path.join(folder, "library.hpp"), "-Winvalid-pch"]


def mended_together(source, folder):
    """Whether a source can be compiled with others, each in a namespace of its own; not if it chooses its headers."""
    alone = batches.ALONE.search(read(source)) or re.search(r"^#if(?:.|\n)*^#include", read(source), re.M)
    return precompiled(source, folder) and not alone


def mended(compiler, folder, sources):
    together = [os.path.abspath(source) for source in sources if mended_together(source, folder)]
    for batch in batches.batches(os.path.join(folder, "mended"), 40, together):
        done = start(compiler, "-fsyntax-only", *precompiled(batch, folder), batch, "-DFIXED")
        if done.returncode != 0:
            sys.exit(f"these sources fail for another reason than is said; with -DFIXED:\n{done.stderr}")


def is_error(line):
    """Not the headline of an error that the next one explains."""
    return "error:" in line and "non-constant condition" not in line


def diagnostics(compiler, source, folder=None):
    """The lines about the broken source; nothing if it compiles."""
    flags = sum((line.split() for line in re.findall(r"^// flags: (.*)$", read(source), re.M)), [])
    broken = start(compiler, "-fsyntax-only", *precompiled(source, folder), source, *flags)
    return broken.stderr.splitlines() if broken.returncode else []


def first_diagnostic(lines):
    """Those up to the second error."""
    errors = [i for i, line in enumerate(lines) if is_error(line)]
    return lines[:errors[1] if len(errors) > 1 else len(lines)]


def plain(text):
    """In one spelling of quotes."""
    return text.replace('\\"', '"')


def sentence(lines):
    """What simplx says: in the first error, or in the line of source that it shows."""
    said = [plain(line) for line in lines if "simplx: " in line]
    said = [line for line in said if "error:" in line] or said
    found = re.search(r"simplx: (.*[^\s\"';])", said[0]) if said else None
    return found[1] if found else "nothing of simplx"


def section(source):
    """The part of docs/errors.md about a source, as plain text; empty if there is none."""
    name = os.path.splitext(os.path.basename(source))[0]
    parts = [part for part in read(DOCUMENT).split("\n### ") if f"/{name}.cpp)" in part]
    return plain(parts[0]) if parts else ""


def main():
    compiler, source, folder = (*sys.argv[1:], None)[:3]
    if source == "--precompile":
        return precompile(compiler, folder)
    if source == "--mended":
        return mended(compiler, folder, sys.argv[4:])
    expected = re.findall(rf"^// expect(?:-{'clang' if is_clang(compiler) else 'gcc'})?: (.*)$", read(source), re.M)
    if not expected:
        sys.exit(f"{source} expects nothing")
    every_line = diagnostics(compiler, source, folder)
    lines = first_diagnostic(every_line)
    if not lines:
        sys.exit(f"{source} compiles, but must not")
    if not mended_together(source, folder) and (not is_clang(compiler) or "SIMPLX_EVERY_CHECK" in os.environ):
        fixed = start(compiler, "-fsyntax-only", *precompiled(source, folder), source, "-DFIXED")
        if fixed.returncode != 0:
            sys.exit(f"{source} fails for another reason; with -DFIXED:\n{fixed.stderr}")
    first = "\n".join(lines)
    for regex in expected:
        if not re.search(regex, first):
            sys.exit(f"the first diagnostic never says '{regex}':\n{first}")
    for regex in re.findall(r"^// reason: (.*)$", read(source), re.M):
        if not re.search(regex, "\n".join(every_line)):
            sys.exit(f"the reason '{regex}' is not said:\n" + "\n".join(every_line))
    for regex in re.findall(r"^// never: (.*)$", read(source), re.M):
        if said := [line for line in every_line if re.search(regex, line)]:
            sys.exit(f"'{regex}' is said:\n{said[0]}")
    if sentence(lines) not in section(source):
        sys.exit(f"docs/errors.md does not say '{sentence(lines)}' for {source}: run tools/make_errors.py")


if __name__ == "__main__":
    main()
