#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Uses simplx as an outside project does: consume.py WAY COMPILER, where WAY is a folder beside this file.

The project is copied to a temporary folder, built there against the library, and run. What it prints is shown; the
first command that fails ends the test with its output. Exit code 77: a tool is missing.
"""
import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "cuda"))
from nvcc import find_nvcc  # noqa: E402
# The headers are in a user's own compilation, and get the warnings that the user asks for.
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-pedantic", "-Werror", "-isystem", "/usr/include/eigen3"]


class Failure(Exception):
    pass


def run(*command, fails=False, **options):
    """Output of a command, which must succeed, or must fail."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    if (done.returncode != 0) != fails:
        raise Failure(f"exit code {done.returncode}: {' '.join(command)}\n{done.stdout}")
    return done.stdout


def expect(condition, sentence):
    if not condition:
        raise Failure(sentence)


class Consumer:
    def __init__(self, way, compiler, folder):
        self.compiler, self.folder = compiler, folder
        self.project, self.build = os.path.join(folder, "project"), os.path.join(folder, "build")
        shutil.copytree(os.path.join(HERE, way), self.project)
        if not os.path.exists(os.path.join(self.project, "main.cpp")):
            shutil.copy(os.path.join(HERE, "main.cpp"), self.project)

    def configure(self, *options, source=None, build=None, **expectation):
        ninja = ["-G", "Ninja"] if shutil.which("ninja") else []
        return run("cmake", "-S", source or self.project, "-B", build or self.build, *ninja,
                   f"-DCMAKE_CXX_COMPILER={self.compiler}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", *options,
                   **expectation)

    def compile(self):
        run("cmake", "--build", self.build, "--parallel")

    def start(self, program="consumer", folder=None):
        print(run(os.path.join(folder or self.build, program), cwd=self.folder), end="")

    def library(self):
        """The build folder of the library itself, without tests and examples."""
        build = os.path.join(self.folder, "library")
        self.configure("-DSIMPLX_TESTS=OFF", "-DSIMPLX_EXAMPLES=OFF", source=ROOT, build=build)
        return build

    def installed(self):
        """The prefix of an installation that was moved after it was made."""
        first, prefix = os.path.join(self.folder, "first"), os.path.join(self.folder, "prefix")
        run("cmake", "--install", self.library(), "--prefix", first)
        os.rename(first, prefix)
        return prefix


def find_package(consumer):
    installed = f"-DCMAKE_PREFIX_PATH={consumer.installed()}"
    for component, package in (("io", "nlohmann_json"), ("report", "fmt")):
        sentence = f"simplx::{component} needs {package}"
        said = consumer.configure(installed, f"-DCMAKE_DISABLE_FIND_PACKAGE_{package}=ON", fails=True)
        expect(sentence in said, f"without {package} nothing says '{sentence}':\n{said}")
    shutil.rmtree(consumer.build)
    consumer.configure(installed)
    consumer.compile()
    consumer.start()
    consumer.start("components")
    # The build folder serves as well; mixed_targets compiles against it.
    shutil.rmtree(consumer.build)
    consumer.configure(f"-Dsimplx_DIR={consumer.folder}/library")


def cuda(consumer):
    nvcc = find_nvcc()
    if not nvcc:
        print("skipped: there is no nvcc\n  hint: install the CUDA toolkit, or set CUDA_HOME")
        sys.exit(77)
    consumer.configure(f"-DCMAKE_PREFIX_PATH={consumer.installed()}", f"-DCMAKE_CUDA_COMPILER={nvcc}",
                       f"-DCMAKE_CUDA_HOST_COMPILER={consumer.compiler}", "-DCMAKE_CUDA_ARCHITECTURES=90")
    consumer.compile()
    said = run(os.path.join(consumer.build, "consumer"))
    print(said, end="")
    expect("= 6.5" in said or "this machine has no GPU" in said, "neither a sum nor that there is no GPU")


def belongs_to_consumer(consumer):
    """Nothing of ours but the headers: no flags, no programs, no tests, nothing installed."""
    with open(os.path.join(consumer.build, "compile_commands.json"), encoding="utf-8") as file:
        commands = json.load(file)
    expect([os.path.basename(command["file"]) for command in commands] == ["main.cpp"], f"also compiled: {commands}")
    flags = re.findall(r" (-(?:W|O|march|f)\S*)", commands[0]["command"])
    expect(not flags, f"flags that the consumer has not asked for: {flags}")
    expect("Total Tests: 0" in run("ctest", "-N", cwd=consumer.build), "the consumer has tests of ours")
    prefix = os.path.join(consumer.folder, "consumers_prefix")
    run("cmake", "--install", consumer.build, "--prefix", prefix)
    expect(not os.path.exists(prefix), "the consumer installs files of ours")


def add_subdirectory(consumer):
    consumer.configure(f"-DSIMPLX_SOURCE={ROOT}")
    belongs_to_consumer(consumer)
    consumer.compile()
    consumer.start()


def fetch_content(consumer):
    archive = os.path.join(consumer.folder, "simplx.tar.gz")
    with tarfile.open(archive, "w:gz") as tar:
        for name in ("CMakeLists.txt", "cmake", "include"):
            tar.add(os.path.join(ROOT, name), f"simplx/{name}")
    consumer.configure(f"-DSIMPLX_SOURCE=file://{archive}")
    belongs_to_consumer(consumer)
    consumer.compile()
    consumer.start()


def pkg_config(consumer):
    if not shutil.which("pkg-config"):
        print("skipped: pkg-config is missing\n  hint: apt-get install pkg-config")
        sys.exit(77)
    search = {"PKG_CONFIG_PATH": os.path.join(consumer.installed(), "share", "pkgconfig")}
    run("./build", cwd=consumer.project, env={**os.environ, **search, "CXX": consumer.compiler})
    consumer.start(folder=consumer.project)
    search = {"PKG_CONFIG_PATH": os.path.join(consumer.folder, "library")}
    said = run("pkg-config", "--cflags", "simplx", env={**os.environ, **search})
    expect(f"-I{ROOT}/include " in said, f"uninstalled, pkg-config says {said}")


def single_header(consumer):
    include = os.path.join(ROOT, "single_include")

    def compiles(*arguments):
        run(consumer.compiler, "-std=c++20", "-I", include, *WARNINGS, *arguments, cwd=consumer.project)

    jobs = [["-O1", "-c", "main.cpp"], ["-O1", "-c", "other.cpp"],
            ["-march=native", f"{ROOT}/examples/my_block.cpp", "-fsyntax-only"],
            ["-O1", "-march=native", f"{ROOT}/examples/my_function.cpp", "-o", "my_function", "-pthread"]]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda job: compiles(*job), jobs))
    run(consumer.compiler, "main.o", "other.o", "-o", "consumer", "-pthread", cwd=consumer.project)
    consumer.start(folder=consumer.project)
    consumer.start("my_function", folder=consumer.project)
    # A forgotten -std=c++20 is told at once, and so is half from one place and half from the other.
    said = run(consumer.compiler, "-std=c++17", "-fsyntax-only", "-I", include, *WARNINGS, "main.cpp",
               cwd=consumer.project, fails=True)
    errors = [line for line in said.splitlines() if "error: " in line]
    expect("simplx: the library needs C++20" in errors[0], f"as C++17 the first error is:\n{errors[0]}")
    expect(len(errors) == 2, f"as C++17 the compiler goes on after that:\n{said[:2000]}")
    for first, then in (("simplx.hpp", "simplx/io/safetensors.hpp"), ("simplx/core/shape.hpp", "simplx.hpp")):
        with open(os.path.join(consumer.project, "both.cpp"), "w", encoding="utf-8") as file:
            file.write(f"#include <{first}>\n#include <{then}>\n")
        said = run(consumer.compiler, "-std=c++20", "-fsyntax-only", "-Wfatal-errors", "-I", include,
                   "-I", f"{ROOT}/include", *WARNINGS, "both.cpp", cwd=consumer.project, fails=True)
        expect("#error" in said or "error: \"simplx: " in said, f"mixed with the header tree, the compiler says:\n{said}")


def mixed_targets(consumer):
    library = consumer.library()
    # Without optimisation every inline function is emitted: the harder case.
    for optimised in ("-O0", "-O2") if "SIMPLX_EVERY_CHECK" in os.environ else ("-O0",):
        shutil.rmtree(consumer.build, ignore_errors=True)
        consumer.configure(f"-Dsimplx_DIR={library}", f"-DCMAKE_CXX_FLAGS={optimised}")
        consumer.compile()
        consumer.start()
        keep_their_kernels(consumer.build, optimised)


def functions_of(unit):
    """The inline functions of an object file."""
    lines = run("nm", "--defined-only", unit).splitlines()
    return {name for _, kind, name in (line.split() for line in lines if line.count(" ") == 2) if kind in "WVu"}


def width_of_functions(program):
    """Name -> widest vector register of each function, in bytes; 16 also stands for the AVX form of an instruction."""
    widths, name = {}, None
    for line in run("objdump", "-d", "--no-show-raw-insn", program).splitlines():
        if head := re.match(r"[0-9a-f]+ <(.*)>:", line):
            name = head[1]
            widths[name] = 0
        elif "\t" in line:
            width = 64 if "%zmm" in line else 32 if "%ymm" in line else 16 if re.search(r"\tv[a-z]", line) else 0
            widths[name] = max(widths[name], width)
    return widths


def keep_their_kernels(build, optimised):
    units = {unit: functions_of(os.path.join(build, "CMakeFiles", f"{unit}.dir", "unit.cpp.o"))
             for unit in ("baseline", "avx2", "native")}
    target = {unit: next(name for name in sorted(names) if "Trainer" in name) for unit, names in units.items()}
    sets = r"6simplx\d+(sse2|avx2_fma|avx512_bf16|avx512|amx_bf16)"
    target = {unit: re.search(sets, name)[1] for unit, name in target.items()}
    expect(target["baseline"] == "sse2" and target["avx2"] == "avx2_fma", f"the units are of {target}")

    shared = {name for one in units for two in units if target[one] != target[two] for name in units[one] & units[two]}
    ours = [name for name in shared if "6simplx" in name]
    expect(not ours, f"{optimised}: {len(ours)} functions of simplx belong to two units, for example {ours[:3]}")

    widths = width_of_functions(os.path.join(build, "consumer"))
    for unit, names in units.items():
        wanted = {"sse2": 0, "avx2": 32, "avx512": 64, "amx": 64}[target[unit].split("_")[0]]
        kernels = [widths[name] for name in names & widths.keys() if target[unit] in name]
        expect(max(kernels) == wanted, f"{optimised}: the kernels of {unit} have vectors of {max(kernels)} bytes")
        print(f"{optimised} {unit}: {len(kernels)} functions of simplx::{target[unit]}, "
              + (f"{kernels.count(wanted)} with vectors of {wanted} bytes" if wanted else "none of them with AVX"))
    beyond = [name for name in units["baseline"] & widths.keys() if widths[name]]
    expect(not beyond, f"{optimised}: a plain machine would stop in {beyond[:3]}")
    print(f"{optimised}: {len(shared)} functions of std and Eigen are shared, as the plain unit has them")


WAYS = {way.__name__: way
        for way in (find_package, cuda, add_subdirectory, fetch_content, pkg_config, single_header, mixed_targets)}


def main():
    way, compiler = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix=f"simplx-{way}-") as folder:
        try:
            WAYS[way](Consumer(way, compiler, folder))
        except Failure as failure:
            sys.exit(str(failure))


if __name__ == "__main__":
    main()
