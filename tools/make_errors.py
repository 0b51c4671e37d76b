#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make_errors.py [--check]: docs/errors.md, every diagnostic of the library with broken and fixed code.

Each source of tests/compile_fail is a section: its `// chapter:` and `// doc:` lines, its broken code as a diff to the
fixed one, and what g++ and clang++ say first. Paths and columns are left out.

--check compiles nothing. It holds that chapters, sentences and code in the document are those of the tests, and that
every sentence beginning with "simplx:" in include/ stands in what a compiler said. That compilers still say it is held
by the tests themselves (expect_error.py): each compares its sentence, and nothing that differs between versions of a
compiler, with its section here.
"""
import concurrent.futures
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TESTS = os.path.join(ROOT, "tests", "compile_fail")
sys.path.insert(0, TESTS)
import expect_error  # noqa: E402
from expect_error import DOCUMENT, is_clang, read  # noqa: E402

CHAPTERS = ["Shapes", "Names, stacks and recomputation", "Derivatives and functions of your own", "Blocks",
            "Functions, training and checks", "Kernels of your own", "Compiler flags"]
UNTESTED = {"numbers in files are little endian"}  # no machine of the tests is big endian

HEAD = """# What the compiler says

Made by `tools/make_errors.py` from the tests in `tests/compile_fail`; do not edit.

A mistake in a model is a compile-time error whose first line is a sentence: what is wrong, which values, what to write
instead. The two numbers of a broken rule are in a comparison, `(512 == 256)`, or in `possible<11, 15>` where no two
numbers would do; g++ may show what remains of it, `(2 == 0)` for `128 % 6 == 0`. The line that breaks the rule, of your
code or of the module of the library that it uses, is in the note that says `at_line<"rule", left, right, line,
File<...>>`, with the file and its folder letter by letter. Read the first error; those after it follow from it.

Two mistakes come before all that, and the compiler tells them in its own words: a model that is not a constant ("not
usable in a constant expression"), and one that is a constant of a function ("does not have static storage duration").
The remedy of both is `inline constexpr Decoder mine{...};` outside of functions, or `static constexpr` within one.

In the code below, lines with `-` are the mistake and lines with `+` the remedy. The link above each is the whole source.
Numbers that are lines count in that source.
"""


class Section:
    """A test as the document shows it."""

    def __init__(self, source):
        text = read(source)
        self.source = source
        self.name = os.path.splitext(os.path.basename(source))[0]
        self.title = self.name.replace("_", " ").capitalize()
        self.chapter = self.field(text, "chapter")
        self.says = self.field(text, "doc")
        self.code = self.diff(text)

    def field(self, text, key):
        found = re.findall(rf"^// {key}: (.*)$", text, re.M)
        if len(found) != 1:
            sys.exit(f"{self.source} needs one line '// {key}: ...'")
        return found[0]

    @staticmethod
    def hunk(broken, fixed):
        """The lines of a condition: '-' and '+', but for those that both begin with."""
        same = os.path.commonprefix([broken, fixed])
        rest = len(same)
        return ([f"  {line}" for line in same] + [f"- {line}" for line in broken[rest:]] +
                [f"+ {line}" for line in fixed[rest:]])

    @staticmethod
    def diff(text):
        """The code behind the includes, -DFIXED as '+' and the rest of its conditions as '-'."""
        flags = re.findall(r"^// flags: (.*)$", text, re.M)
        if flags:
            standard = "" if flags[0].startswith("-std=") else "-std=c++20 "
            return f"- c++ {standard}-O3 {flags[0]}\n+ c++ -std=c++20 -O3"
        body = text.split("using namespace simplx;\n", 1)[1].strip("\n")
        lines, broken, fixed = [], [], []
        into = lines
        for line in body.split("\n"):
            if line == "#ifdef FIXED":
                broken, fixed = [], []
                into = fixed
            elif line == "#else":
                into = broken
            elif line == "#endif":
                lines += Section.hunk(broken, fixed)
                into = lines
            else:
                into.append(f"  {line}" if into is lines else line)
        return "\n".join(line.rstrip() for line in lines)

    def head(self):
        return (f"### {self.title}\n\n{self.says} [Source](../tests/compile_fail/{self.name}.cpp)\n\n"
                f"```diff\n{self.code}\n```\n\n")

    def build(self, quotes):
        said = "\n".join(f"{compiler}\n    " + "\n    ".join(quotes[compiler, self.source])
                         for compiler in ("g++", "clang++"))
        return f"{self.head()}```text\n{said}\n```\n"


def quote(lines):
    """The first error, without paths, and the line with the sentence or the comparison that follows it."""
    plain = [line.replace("\u2018", "'").replace("\u2019", "'") for line in lines]
    at = next(i for i, line in enumerate(plain) if expect_error.is_error(line))
    said = [re.sub(r"^.*?error: ", "error: ", plain[at])]
    for line in plain[at + 1:]:
        if "the comparison reduces to" in line or re.search(r"note: '.*' evaluates to false", line):
            said.append(re.sub(r"^.*?note: ", "note: ", line))
            break
    if "simplx: " not in said[0]:
        said.append(next(re.sub(r"^ *\d+ \| *", "", line).strip() for line in plain[at:] if "simplx: " in line))
    return said


def sections():
    found = [Section(os.path.join(TESTS, name)) for name in sorted(os.listdir(TESTS)) if name.endswith(".cpp")]
    for section in found:
        if section.chapter not in CHAPTERS:
            sys.exit(f"{section.source}: '{section.chapter}' is none of {CHAPTERS}")
    return [section for chapter in CHAPTERS for section in found if section.chapter == chapter]


def quoted(job):
    said = expect_error.diagnostics(*job)
    lines = quote(expect_error.first_diagnostic(said))
    if "cannot evaluate this model" in lines[0]:  # the reason that is told below
        reasons = [line for line in said if re.search(r'(throw "|// )simplx: ', line)]
        lines += [re.sub(r"^ *\d+ \| *", "", line).strip() for line in reasons[:1]]
    return lines


def make():
    jobs = [(compiler, section.source) for section in sections() for compiler in ("g++", "clang++")]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        quotes = dict(zip(jobs, pool.map(quoted, jobs)))
    parts = [HEAD]
    for chapter in CHAPTERS:
        parts.append(f"## {chapter}\n")
        parts += [section.build(quotes) for section in sections() if section.chapter == chapter]
    os.makedirs(os.path.dirname(DOCUMENT), exist_ok=True)
    with open(DOCUMENT, "w", encoding="utf-8") as file:
        file.write("\n".join(parts))


def promised():
    """Every sentence in include/, with its header: of static_assert, throw, #error, and of SIMPLX_RULE."""
    for folder, _, names in os.walk(os.path.join(ROOT, "include")):
        for name in sorted(names):
            text = re.sub(r"^\s*///.*$", "", read(os.path.join(folder, name)), flags=re.M)
            text = re.sub(r'(?<!\\)"\s*\n\s*"', "", text)
            rules = re.findall(r'^SIMPLX_RULE\("[^"]+", .*?"((?:[^"\\]|\\.)+)"\)$', text, re.M | re.S)
            if len(rules) != len(re.findall(r"^SIMPLX_RULE\(", text, re.M)):
                sys.exit(f"a SIMPLX_RULE of {name} cannot be read")
            for sentence in rules + re.findall(r'simplx: ((?:[^"\\\n]|\\.)+)', text):
                yield name, sentence.replace('\\"', '"')


def check():
    document = read(DOCUMENT)
    faults = []
    expected = [HEAD] + [f"## {chapter}\n" for chapter in CHAPTERS] + [section.head() for section in sections()]
    faults += [f"the document lacks:\n{part}" for part in expected if part not in document]
    if document.count("\n### ") != len(sections()):
        faults.append("the document has other sections than there are tests")
    said = expect_error.plain("\n".join(re.findall(r"```text\n(.*?)```", document, re.S)))
    for header, sentence in promised():
        if sentence not in said and sentence not in UNTESTED:
            faults.append(f"no test of tests/compile_fail makes a compiler say what {header} promises: {sentence}")
    for fault in faults:
        print(fault)
    if faults:
        sys.exit(f"{len(faults)} faults; docs/errors.md is made by tools/make_errors.py")


if __name__ == "__main__":
    check() if "--check" in sys.argv[1:] else make()
