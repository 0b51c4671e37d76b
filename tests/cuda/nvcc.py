#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nvcc.py [--table] [ARCHITECTURE...]: nvcc takes every kernel without a warning, and none spills registers.

It takes prove_products.cu too, which a machine with a GPU runs.

The architectures are sm_80 and sm_90 unless given; --table prints the registers of each kernel. Exit code 77: no nvcc,
in the PATH, in CUDA_HOME or in /usr/local/cuda.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FLAGS = ["-std=c++20", "-O3", "-Xcompiler", "-Wall,-Wextra", "-Werror", "all-warnings", "-Xptxas", "-v",
         "-I", os.path.join(ROOT, "include")]
KERNEL = re.compile(r"Compiling entry function '(\w+)' for '\w+'\n(?:.*\n)*?"
                    r".*?(\d+) bytes spill stores, (\d+) bytes spill loads\n.*Used (\d+) registers")


def find_nvcc():
    folders = [os.path.join(os.environ[name], "bin") for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ]
    return shutil.which("nvcc") or shutil.which("nvcc", path=os.pathsep.join([*folders, "/usr/local/cuda/bin"]))


def demangled(symbols):
    if not shutil.which("c++filt"):
        return symbols
    done = subprocess.run(["c++filt", "-p", *symbols], capture_output=True, text=True, check=True)
    return [re.sub(r"simplx::\w+::(detail::)?", "", name) for name in done.stdout.splitlines()]


def compiled(nvcc, *arguments):
    """What nvcc says."""
    with tempfile.TemporaryDirectory() as folder:
        command = [nvcc, *FLAGS, *arguments, "-c", "-o", os.path.join(folder, "compiled.o")]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}")
    return done.stdout


def main():
    nvcc = find_nvcc()
    if not nvcc:
        print("skipped: there is no nvcc\n  hint: install the CUDA toolkit, or set CUDA_HOME")
        sys.exit(77)
    table = "--table" in sys.argv[1:]
    good = True
    for architecture in [argument for argument in sys.argv[1:] if argument != "--table"] or ["sm_80", "sm_90"]:
        told = compiled(nvcc, f"-arch={architecture}", os.path.join(HERE, "kernels.cu"))
        kernels = KERNEL.findall(told)
        if not kernels:
            sys.exit(f"ptxas tells of no kernel:\n{told}")
        for name, (_, stores, loads, registers) in zip(demangled([kernel[0] for kernel in kernels]), kernels):
            spills = int(stores) + int(loads)
            good = good and not spills
            if table or spills:
                print(f"{architecture}  {registers:>3} registers, {spills} bytes spilled  {name}")
        print(f"{architecture}: {len(kernels)} kernels, at most {max(int(kernel[3]) for kernel in kernels)} registers")
    compiled(nvcc, "-I", os.path.dirname(HERE), os.path.join(HERE, "prove_products.cu"))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
