#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes include/simplx/io/unicode_ranges.hpp: which characters are letters and which are numbers, as the
package unicodedata2 knows them, or Python. Unicode 16 is that of tokenizers 0.23 and tiktoken 0.14.

    tools/make_unicode.py           writes it
    tools/make_unicode.py --check   fails if it differs, where this Python has the same version of Unicode
"""
import os
import sys

try:
    import unicodedata2 as unicodedata
except ImportError:
    import unicodedata

HEADER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../include/simplx/io/unicode_ranges.hpp")
WIDTH = 120


def ranges(category):
    """First and last of each run of characters whose general category begins so."""
    found = []
    for code in range(sys.maxunicode + 1):
        if not unicodedata.category(chr(code)).startswith(category):
            continue
        if found and found[-1][1] == code - 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return found


def table(name, category):
    lines, line = [], "   "
    for first, last in ranges(category):
        entry = f" {{0x{first:X}, 0x{last:X}}},"
        if len(line) + len(entry) > WIDTH:
            lines.append(line)
            line = "   "
        line += entry
    return f"inline constexpr CharacterRange {name}[] = {{\n" + "\n".join([*lines, line]) + "\n};\n"


def text():
    return f"""// SPDX-License-Identifier: MIT
#pragma once

/// \\file simplx/io/unicode_ranges.hpp
/// Letters and numbers of Unicode {unicodedata.unidata_version}: the general categories L and N. Written by tools/make_unicode.py.

#include <simplx/core/target.hpp>

namespace simplx::inline SIMPLX_TARGET::detail {{

/// Characters from the first to the last.
struct CharacterRange {{
  char32_t first, last;
}};

{table("letter_ranges", "L")}
{table("number_ranges", "N")}
}}  // namespace simplx::detail
"""


def main():
    if "--check" in sys.argv[1:]:
        with open(HEADER, encoding="utf-8") as file:
            there = file.read()
        if f"Unicode {unicodedata.unidata_version}:" not in there:
            print(f"skipped: this Python has Unicode {unicodedata.unidata_version}")
            sys.exit(77)
        sys.exit(there != text() and "error: unicode_ranges.hpp is not what tools/make_unicode.py writes")
    with open(HEADER, "w", encoding="utf-8") as file:
        file.write(text())


if __name__ == "__main__":
    main()
