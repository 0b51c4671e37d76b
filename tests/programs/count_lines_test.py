#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/count_lines.py counts what holds code, and nothing else."""
import os
import subprocess
import sys
import tempfile

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "count_lines.py")
CPP = '''// a comment
#pragma once

/* one
   two */ int x = 1'000;  // code
const char* url = "http://x/*";  // a string, and no comment begins in it
char quote = '"'; /* " */

}
'''  # lines 2, 5, 6, 7 and 9
PYTHON = '''#!/usr/bin/env python3
"""A docstring
of two lines."""

def f(x,  # comment
      y):
    """Another."""
    text = """a value
of two lines"""
    return (x +

            y)
'''  # lines 5, 6, 8, 9, 10 and 12


def counted(*arguments):
    run = subprocess.run([sys.executable, TOOL, *arguments], capture_output=True, text=True, check=True)
    return [int(line.split()[0]) for line in run.stdout.splitlines()]


def main():
    with tempfile.TemporaryDirectory() as folder:
        cpp, python = os.path.join(folder, "a.hpp"), os.path.join(folder, "a.py")
        for path, text in ((cpp, CPP), (python, PYTHON)):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        found = counted(cpp, python, cpp + ":5-7", python + ":6-8")
        expected = [5, 6, 3, 2, 16]
        if found != expected:
            sys.exit("counted %s, not %s" % (found, expected))
    blocks = counted()
    if len(blocks) < 10 or sum(blocks[:-1]) != blocks[-1]:
        sys.exit("the blocks are %s" % blocks)


if __name__ == "__main__":
    main()
