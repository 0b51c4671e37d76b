#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nvcc.py [--table | --write] [--eigen FOLDER] [ARCHITECTURE...]: nvcc takes every kernel and each header of cuda alone
without a warning, or products of warpgroups that wait for each other; no kernel spills, takes more registers than
registers.txt allows it, or stores neighbours one by one. A program with them says in a sentence that there is no GPU.
No process of nvcc takes more memory than usual: its front end once needed 11.7 GB for what now takes 1.0.
What only a GPU can run is compiled, too: of bench/gpu and of the tests the code for a GPU, some tests at once.

The architecture is sm_90 unless given, and for kernels of warpgroups sm_90a; --table prints the registers of each
kernel, --write renews registers.txt. With SIMPLX_EVERY_CHECK also sm_80 and sm_90a, a GPT-2, and train_lm's blocks, and
all that bench/gpu/run runs is compiled for the host, too, each program by itself.
Exit code 77: no nvcc, in the PATH, in CUDA_HOME or in /usr/local/cuda.
"""
import argparse
import concurrent.futures
import glob
import importlib.machinery
import importlib.util
import os
import platform
import re
import subprocess
import sys
import tempfile
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path[:0] = [os.path.join(ROOT, "bench", "gpu"), os.path.join(ROOT, "bench"), os.path.join(ROOT, "tests")]
from batches import batches  # noqa: E402
from toolkit import OF_GROUPS, find_nvcc, flags_of  # noqa: E402

INCLUDE = os.path.join(ROOT, "include")
EXAMPLE = os.path.join(ROOT, "examples", "on_a_gpu.cu")
KERNELS = [os.path.join(HERE, "kernels.cu"), os.path.join(HERE, "ops.cu"), EXAMPLE]
GPT2 = os.path.join(HERE, "model.cu")
GROUPS = os.path.join(HERE, "warpgroups.cu")
BUDGETS = os.path.join(HERE, "registers.txt")
BUDGETED = ["sm_80", "sm_90"]
FLAGS = ["-std=c++20", "-O3", "-DEIGEN_NO_CUDA", "-Xcompiler", "-Wall,-Wextra", "-Werror", "all-warnings",
         "-I", INCLUDE]
FOR_TESTS = ["-diag-suppress", "445", "-Xcompiler", "-Wno-sign-compare"]  # lambdas of tests, and what they compare
READ = ["-ptx", "-Ofc=max"]  # code for a GPU alone, as quickly as it is made
AT_ONCE = 6  # tests that are read: in two fifths of the time that each by itself takes
KERNEL = re.compile(r"Compiling entry function '(\w+)' for '\w+'\n(?:.*\n)*?"
                    r".*?(\d+) bytes spill stores, (\d+) bytes spill loads\n.*Used (\d+) registers")
# A host with all vectors and a matrix unit: CMake gives nvcc -march=native, and what its front end reads depends on it.
WIDE_HOST = ["-Xcompiler", "-march=sapphirerapids"] if platform.machine() == "x86_64" else []
SERIALISED = re.compile(r"\(C75\d\d\).*")  # ptxas only informs of it
APART = ["CudaCores<", "map_backward_sums_kernel<"]  # multiplies for longer; places of parts that begin anywhere
ENTRY_OR_STORE = re.compile(r"\.entry (?P<kernel>\w+)|"
                            r"\bst\.global\.[fbu](?P<bits>\d+)\s+\[(?P<base>%rd\d+)\+?(?P<at>\d*)\]")
MEMORY, OF_BATCH, OF_CHECK = 3.5, 5, 10  # GB; taken are at most 2.4, 3.9, and 8.8 by the eleven models of check.cu
UNIT = 8  # a multiprocessor hands out registers of a thread by so many: within a unit as many warps are resident


def run(command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def run_measured(command):
    """What it says, its status, and the GB (1e9 bytes) that the largest of its processes takes."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as child:
        said = child.stdout.read()
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    return said, child.returncode, used.ru_maxrss * 1024e-9


class Taken(NamedTuple):
    """Registers of a thread, and the bytes that it spills; "128" or, with 16 bytes spilled, "128/16"."""
    registers: int
    spills: int

    def __str__(self):
        return "%d/%d" % self if self.spills else "%d" % self.registers


def taken(words):
    registers, _, spills = words.partition("/")
    return Taken(int(registers), int(spills or 0))


class Kernel(NamedTuple):
    name: str
    registers: int
    spills: int  # bytes: stored or loaded, the more of both


def without_graph(name):
    """Kernels of a graph's nodes differ by the node: they share a row."""
    begin = name.find("Graph<")
    if begin < 0:
        return name
    end, depth = begin + len("Graph<"), 1
    while depth:
        depth += {"<": 1, ">": -1}.get(name[end], 0)
        end += 1
    return name[:begin] + re.sub(r"^, \d+, ", "", name[end:])


def kernels_of(text):
    """Each kernel as ptxas tells of it; of those of one name, the most registers."""
    told = KERNEL.findall(text)
    if not told:
        sys.exit(f"ptxas tells of no kernel:\n{text}")
    demangled = run(["c++filt", "-p", *(symbol for symbol, *_ in told)]).stdout.splitlines()
    found = {}
    for name, (_, stores, loads, registers) in zip(demangled, told, strict=True):
        name = without_graph(re.sub(r"simplx::\w+::(?:(?:detail|cpu|gpu)::)?", "", name).replace("> >", ">>"))
        before = found.get(name, Kernel(name, 0, 0))
        found[name] = Kernel(name, max(before.registers, int(registers)),
                             max(before.spills, int(stores), int(loads)))
    return found


def stores_apart(compiled):
    """Kernels that store four numbers beside each other one by one, by the PTX in an object: nvcc does so where the
    summands of an index have no bits in common (Index(blockIdx.x) * 4 + threadIdx.x / 32; in int it does not see that).
    Those of APART may. OF_GROUPS is compiled without PTX."""
    with open(compiled, "rb") as file:
        text = file.read().decode("latin-1")
    found, kernel, run_of, length = {}, "", None, 0
    for match in ENTRY_OR_STORE.finditer(text):
        if match["kernel"]:
            kernel = match["kernel"]
            continue
        size, at = int(match["bits"]) // 8, int(match["at"] or 0)
        length = length + 1 if run_of == (match["base"], size, at) else 1
        run_of = match["base"], size, at + size
        if length == 4:
            found[kernel] = True
    if not kernel:
        sys.exit(f"{compiled} has no PTX of a kernel")
    names = run(["c++filt", "-p", *found]).stdout.splitlines() if found else []
    return [f"{without_graph(name)} stores four neighbours one by one" for name in names
            if not any(words in name for words in APART)]


def budgeted(source):
    """The architectures that registers.txt has numbers of, for the kernels of a source."""
    return [OF_GROUPS] if source == os.path.basename(GROUPS) else BUDGETED


class Budgets:
    """registers.txt: a line for each kernel of a source, with a number for each of its architectures."""

    def __init__(self, release):
        self.release, self.rows = release, {}
        with open(BUDGETS, encoding="utf-8") as file:
            lines = [line for line in file if not line.startswith("#")]
        self.of_release = lines[0].split()[1]
        for line in lines[1:]:
            numbers, source, name = re.fullmatch(r"([\d/ ]+)  (\S+)  (.+)\n", line).groups()
            self.rows[source, name] = dict(zip(budgeted(source), map(taken, numbers.split()), strict=True))

    def complaints(self, source, architecture, kernels):
        """Of another nvcc, or an architecture that has no column, about spills alone, of which there must be none."""
        column = architecture if architecture in budgeted(source) else architecture.removesuffix("a")
        judged = self.release == self.of_release and column in budgeted(source)
        if not judged:
            print(f"{architecture} {source}: registers are not judged: registers.txt is of "
                  f"{', '.join(budgeted(source))} by CUDA {self.of_release}, not {self.release}")
        rows = {name: numbers[column] for (of, name), numbers in self.rows.items() if of == source and judged}
        bad = []
        for kernel in kernels.values():
            allowed = rows.get(kernel.name, Taken(kernel.registers, 0))
            if kernel.spills > allowed.spills:
                bad.append(f"{kernel.name} spills {kernel.spills} bytes, allowed are {allowed.spills}")
            if kernel.registers > allowed.registers:
                bad.append(f"{kernel.name} takes {kernel.registers} registers, allowed are {allowed.registers}")
        bad += [f"{name} has no line in registers.txt" for name in kernels if judged and name not in rows]
        return bad + [f"{name} is in registers.txt, but is no kernel" for name in rows if name not in kernels]


def write_budgets(release, told):
    """told: kernels by source and architecture."""
    sources = dict.fromkeys(source for source, _ in told)
    lines = [f"# Registers of a thread, at most, as they are handed out: {UNIT} at a time; after a stroke the bytes "
             "that it spills. nvcc.py --write renews it.",
             "CUDA " + release]
    for source in sources:
        of = [told[source, architecture] for architecture in budgeted(source)]
        for name in sorted({name for kernels in of for name in kernels}):
            numbers = [Taken(-(-kernels[name].registers // UNIT) * UNIT, kernels[name].spills) for kernels in of]
            lines.append("".join(f"{number!s:>3} " for number in numbers) + f" {source}  {name}")
    with open(BUDGETS + ".new", "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    os.replace(BUDGETS + ".new", BUDGETS)


def of_what(arguments):
    """The source among nvcc's arguments, and the constants it is compiled with."""
    words = [word for word in arguments if word.startswith("-D")]
    return " ".join([*(os.path.basename(word) for word in arguments if word.endswith((".cu", ".cpp"))), *words])


class Compiler:
    """nvcc, as many at a time as there are processors. The first file that it refuses ends the program."""

    def __init__(self, nvcc, eigen, folder):
        self.nvcc, self.flags, self.folder = nvcc, [*FLAGS, "-isystem", eigen], folder
        self.pool, self.count = concurrent.futures.ThreadPoolExecutor(os.cpu_count()), 0
        self.memory = []  # of each compilation: GB, and of what

    def start(self, *arguments):
        """A future: what nvcc says, and the file that it writes."""
        self.count += 1
        output = os.path.join(self.folder, f"{self.count}.o")
        command = [self.nvcc, *self.flags, *arguments, "-o", output]

        def compiled():
            said, status, gigabytes = run_measured(command)
            if status:
                self.pool.shutdown(wait=False, cancel_futures=True)
                sys.exit(f"{' '.join(command)}\n{said}")
            self.memory.append((gigabytes, of_what(arguments)))
            return said, output
        return self.pool.submit(compiled)

    def headers(self, *paths, to="-cubin", also=()):
        """Headers of cuda, each twice, in a file of their own, for a GPU alone (a third of the time): nothing is made
        of it. For the host as well with to="-cuda"."""
        unit = os.path.join(self.folder, f"{self.count}-{os.path.basename(paths[-1])}.cu")
        with open(unit, "w", encoding="utf-8") as file:
            file.writelines(f"#include <{os.path.relpath(path, INCLUDE)}>\n" * 2 for path in paths)
        return self.start("-arch=sm_90", to, *also, unit)


def for_a_gpu(nvcc, every_check, folder):
    """Arguments for what is compiled here and run elsewhere: the programs of bench/gpu/run."""
    loader = importlib.machinery.SourceFileLoader("gpu_run", os.path.join(ROOT, "bench", "gpu", "run"))
    parts = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(parts)

    def arguments(program):
        include = [word for name in [*program.headers, os.path.dirname(HERE)] for word in ("-I", name)]
        return [*flags_of(OF_GROUPS if program.for_groups else "sm_90"), *include, *program.constants, program.source]

    def programs(*names):
        return [program for name in names for program in parts.programs_of(name) if not program.for_cpu]
    if every_check:
        compiled = programs("products", "check", "tests", "kernels", "generation", "sanitize-memcheck", "tiny-sas_p",
                            "bert-sas_p_no_norm")
        blocks = sorted(glob.glob(os.path.join(ROOT, "examples", "*", "blocks", "*.cu")))
        return [*(["-c", *arguments(program)] for program in dict.fromkeys(compiled)),
                *(["-c", *flags_of("sm_90"), "-DSIMPLX_VOCAB=256", block] for block in blocks)]
    read_as = READ[:1 + ("--Ofast-compile" in run([nvcc, "--help"]).stdout)]  # an older nvcc has it not
    apart = [parts.Test(name) for name in ("tensor_cores", "warpgroups")]  # instructions, and kernels of sm_90a
    tests = [test for test in parts.tests() if test.name not in {one.name for one in apart}]
    together = batches(folder, AT_ONCE, [os.path.join(HERE, f"{test.name}_test.cpp") for test in tests])
    read = [*(programs(name)[0] for name in ("check", "kernels", "generation", "tiny-sas_p")), apart[1].on_gpu,
            *(tests[0].on_gpu._replace(source=batch, constants=("-x", "cu")) for batch in together)]
    return [*(["-c", *arguments(program)] for program in [*programs("products"), apart[0].on_gpu]),
            *([*read_as, *arguments(program)] for program in read)]


def says_whether_there_is_a_gpu(nvcc, architecture, compiled):
    """Links what was compiled and runs it: a loss on a GPU, elsewhere a sentence and a hint."""
    program = compiled.removesuffix(".o")
    linked = run([nvcc, *flags_of(architecture), compiled, "-o", program, "-lcublasLt"])
    if linked.returncode:
        sys.exit(f"the program was not linked:\n{linked.stdout}")
    done = run([program])
    print(done.stdout.strip())
    return done.returncode == 0 or (done.returncode == 1 and "this machine has no GPU" in done.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("architectures", nargs="*", metavar="ARCHITECTURE")
    parser.add_argument("--eigen", default="/usr/include/eigen3", metavar="FOLDER")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    nvcc = find_nvcc()
    if not nvcc:
        print("skipped: there is no nvcc\n  hint: install the CUDA toolkit, or set CUDA_HOME")
        sys.exit(77)
    release = re.search(r"release ([\d.]+)", run([nvcc, "--version"]).stdout)[1]
    every_check = bool(os.environ.get("SIMPLX_EVERY_CHECK"))
    architectures = BUDGETED if args.write else args.architectures or (
        ["sm_80", "sm_90", "sm_90a"] if every_check else ["sm_90"])
    sources = KERNELS + [GPT2] * (every_check or args.write)
    headers = sorted(glob.glob(os.path.join(INCLUDE, "simplx", "cuda", "*")))
    with tempfile.TemporaryDirectory() as folder:
        compiler = Compiler(nvcc, args.eigen, folder)
        both = [(source, architecture) for architecture in architectures for source in sources]
        compiling = {(os.path.basename(source), architecture):
                     compiler.start("-Xptxas", "-v", "-no-compress", *flags_of(architecture), "-c", source)
                     for source, architecture in [*both, (GROUPS, OF_GROUPS)]}
        others = [] if args.write else [
            *(compiler.start(*FOR_TESTS, *program) for program in for_a_gpu(nvcc, every_check, folder)),
            *map(compiler.headers, headers),
            *(compiler.headers(*headers, to="-cuda", also=host) for host in ((), WIDE_HOST))]
        said = {which: future.result()[0] for which, future in compiling.items()}
        apart = {which: stores_apart(future.result()[1]) if which[1] != OF_GROUPS else []
                 for which, future in compiling.items()}
        told = {which: kernels_of(text) for which, text in said.items()}
        if args.write:
            write_budgets(release, told)
        budgets, good = Budgets(release), True
        for (source, architecture), kernels in told.items():
            for kernel in kernels.values() if args.table else []:
                print(f"{architecture}  {kernel.registers:>3} registers  {kernel.name}")
            complaints = [*SERIALISED.findall(said[source, architecture]), *apart[source, architecture],
                          *budgets.complaints(source, architecture, kernels)]
            print(f"{architecture} {source}: {len(kernels)} kernels, at most "
                  f"{max(kernel.registers for kernel in kernels.values())} registers, {len(complaints)} complaints",
                  *complaints, sep="\n  ")
            if complaints:
                good = False
                print("  hint: if kernels are better so, tests/cuda/nvcc.py --write")
        for architecture in architectures:
            compiled = compiling[os.path.basename(EXAMPLE), architecture].result()[1]
            good = says_whether_there_is_a_gpu(nvcc, architecture, compiled) and good
        for future in others:
            future.result()
        if others:
            print(f"each header of cuda alone, and what only a GPU runs: {len(others)} compile")
        for gigabytes, what in sorted(compiler.memory)[-4:]:
            allowed = OF_CHECK if "check.cu" in what else OF_BATCH if ".cpp" in what else MEMORY
            good = good and gigabytes <= allowed
            print(f"{what}: {gigabytes:.1f} GB of memory, allowed are {allowed}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
