#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes single_include/simplx.hpp: the umbrella header with everything it includes, in one file.

  tools/amalgamate.py           writes the file
  tools/amalgamate.py --check   compares; exits 1 if the file is not what the headers make

Each header appears once, where it is first included. Includes of other libraries move to the top, except those that
stand under an #if; comments stay.
"""
import argparse
import hashlib
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TARGET = os.path.join(ROOT, "single_include", "simplx.hpp")
UMBRELLA = "simplx/simplx.hpp"
BANNER = """\
// SPDX-License-Identifier: MIT
//
// simplx {version}, made of the headers of include/ by tools/amalgamate.py: do not edit.
// sha256 of the headers: {digest}
//
//   g++ -std=c++20 -O3 -march=native -I single_include -I /usr/include/eigen3 my.cpp -pthread
//
// The umbrella header with all it includes. simplx/io and simplx/report, which need more than Eigen, and simplx/cuda,
// which needs nvcc, are not part of it: a program that wants them takes include/ instead, and all headers from there.
#pragma once

#if defined(SIMPLX_TARGET)
#error "simplx: this file is the whole library; include either it or headers of include/simplx, not both"
#endif
"""


class Amalgam:
    def __init__(self):
        self.seen, self.foreign, self.lines = {}, set(), []

    def add(self, header):
        if header in self.seen:
            return
        with open(os.path.join(ROOT, "include", header), encoding="utf-8") as file:
            text = self.seen[header] = file.read()
        body, depth, conditional = [], 0, None
        for number, line in enumerate(text.splitlines(), 1):
            include = re.fullmatch(r'\s*#\s*include\s+[<"]([^>"]+)[>"].*', line)
            if re.match(r"\s*#\s*if", line):
                depth, conditional = depth + 1, conditional or number
            elif re.match(r"\s*#\s*endif", line):
                depth -= 1
                conditional = conditional if depth else None
            if include and include[1].startswith("simplx/"):
                if depth:
                    sys.exit(f"{header}:{number}: {include[1]} is included under the #if of line {conditional}\n"
                             "  hint: include it always; what depends on a condition belongs into that header")
                self.add(include[1])  # its lines come before those of this header
            elif include and not depth:
                self.foreign.add(include[1])
            elif line not in ("// SPDX-License-Identifier: MIT", "#pragma once"):
                body.append(line)
        self.lines += ["", f"// ---- {header}", "", *"\n".join(body).strip("\n").splitlines()]

    def text(self):
        self.add(UMBRELLA)
        version = ".".join(re.findall(r"#define SIMPLX_VERSION_\w+ (\d+)", self.seen[UMBRELLA]))
        inputs = "".join(f"{header}\n{text}" for header, text in sorted(self.seen.items()))
        digest = hashlib.sha256(inputs.encode()).hexdigest()[:16]
        eigen = [f"#include <{name}>" for name in sorted(self.foreign) if "/" in name and name.startswith("Eigen")]
        others = [f"#include <{name}>" for name in sorted(self.foreign) if f"#include <{name}>" not in eigen]
        lines = [BANNER.format(version=version, digest=digest), *eigen, "", *others, *self.lines, "",
                 "#define SIMPLX_SINGLE_INCLUDE  // headers of include/simplx refuse to come after this file", ""]
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    check = parser.parse_args().check
    amalgam = Amalgam()
    text = amalgam.text()
    if not check:
        os.makedirs(os.path.dirname(TARGET), exist_ok=True)
        with open(TARGET + ".new", "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(TARGET + ".new", TARGET)
    if not os.path.exists(TARGET):
        sys.exit("single_include/simplx.hpp is missing\n  hint: run tools/amalgamate.py")
    with open(TARGET, encoding="utf-8") as file:
        if file.read() != text:
            sys.exit("single_include/simplx.hpp differs from what the headers make\n"
                     "  hint: run tools/amalgamate.py and commit the file; edit the headers of include/, never this one")
    print(f"single_include/simplx.hpp: {len(amalgam.seen)} headers, {text.count(chr(10))} lines, {len(text.encode()) / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
