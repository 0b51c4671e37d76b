#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""draw_test.py PROGRAM: a picture for every block and layer, and words for what cannot be drawn."""
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

PROGRAM = sys.argv[1]


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, check=False)


def main():
    failures = []

    def check(condition, what):
        if not condition:
            failures.append(what)

    with tempfile.TemporaryDirectory() as folder:
        everything = os.path.join(folder, "all")
        check(run("--all", everything).returncode == 0, "--all draws")
        names = sorted(os.listdir(everything))
        check(len(names) == 42, f"a picture for each of 42 blocks, not {len(names)}")
        for name in names:
            root = xml.etree.ElementTree.parse(os.path.join(everything, name)).getroot()
            check(root.tag == "{http://www.w3.org/2000/svg}svg", f"{name} is an SVG")

        one = os.path.join(folder, "one.svg")
        with open(os.path.join(everything, "sas.svg"), encoding="utf-8") as file:
            later = file.read()
        for arguments, alike in ((("--block", "sas"), True), (("--block", "sas", "--layer", "5"), True),
                                 (("--block", "sas", "--layer", "0"), False)):
            drawn = run(*arguments, "--out", one)
            check(drawn.returncode == 0 and drawn.stdout == one + "\n", f"{arguments} draws, and says where")
            with open(one, encoding="utf-8") as file:
                check((file.read() == later) == alike, f"{arguments}: the first layer is another, the later ones are one")

        for arguments, words in ((("--block", "nothing"), "nothing"), (("--layer", "6", "--out", one), "layer 6"),
                                 (("--layer", "-5", "--out", one), "-5 is not a whole number from 0 to 999"),
                                 (("--out", os.path.join(folder, "none", "a.svg")), "a.svg"),
                                 (("--all", everything, "--block", "sas"), "--block excludes --all"),
                                 (("--all", everything, "--out", one), "--out excludes --all")):
            result = run(*arguments)
            check(result.returncode != 0 and words in result.stdout + result.stderr, f"{arguments} says {words!r}")

    for failure in failures:
        print(f"draw: {failure}", file=sys.stderr)
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
