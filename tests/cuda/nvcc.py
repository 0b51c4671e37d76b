#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""nvcc.py [--table] [--eigen FOLDER] [ARCHITECTURE...]: nvcc takes every kernel without a warning, and none spills
registers; a program with them says in a sentence that there is no GPU. It takes what only a GPU can run, too.

The architecture is sm_90 unless given; --table prints the registers of each kernel. With SIMPLX_EVERY_CHECK sm_80 as
well, a GPT-2, and the programs of bench/gpu.
Exit code 77: no nvcc, in the PATH, in CUDA_HOME or in /usr/local/cuda.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
EXAMPLE = os.path.join(ROOT, "examples", "on_a_gpu.cu")
FLAGS = ["-std=c++20", "-O3", "-DEIGEN_NO_CUDA", "-Xcompiler", "-Wall,-Wextra", "-Werror", "all-warnings",
         "-Xptxas", "-v", "-I", os.path.join(ROOT, "include")]
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


def run(command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def compile_kernels(nvcc, flags, architecture, source, output, table):
    """Whether all kernels of a source keep their registers; ends the program if nvcc refuses it."""
    command = [nvcc, *flags, f"-arch={architecture}", "-c", source, "-o", output]
    done = run(command)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}")
    kernels = KERNEL.findall(done.stdout)
    if not kernels:
        sys.exit(f"ptxas tells of no kernel:\n{done.stdout}")
    good = True
    for name, (_, stores, loads, registers) in zip(demangled([kernel[0] for kernel in kernels]), kernels):
        spills = int(stores) + int(loads)
        good = good and not spills
        if table or spills:
            print(f"{architecture}  {registers:>3} registers, {spills} bytes spilled  {name}")
    print(f"{architecture} {os.path.basename(source)}: {len(kernels)} kernels, at most {max(int(k[3]) for k in kernels)} registers")
    return good


def check_program(nvcc, architecture, compiled, folder):
    """Links what was compiled and runs it: a loss on a GPU, elsewhere a sentence and a hint."""
    program = os.path.join(folder, "on_a_gpu")
    linked = run([nvcc, f"-arch={architecture}", compiled, "-o", program, "-lcublasLt"])
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
    args = parser.parse_args()
    nvcc = find_nvcc()
    if not nvcc:
        print("skipped: there is no nvcc\n  hint: install the CUDA toolkit, or set CUDA_HOME")
        sys.exit(77)
    flags = FLAGS + ["-isystem", args.eigen]
    every_check = bool(os.environ.get("SIMPLX_EVERY_CHECK"))
    every = ["sm_80", "sm_90"] if every_check else ["sm_90"]
    good = True
    for architecture in args.architectures or every:
        with tempfile.TemporaryDirectory() as folder:
            compiled = os.path.join(folder, "compiled.o")  # of the last one
            more = [os.path.join(HERE, "model.cu")] if every_check else []
            for source in [os.path.join(HERE, "kernels.cu"), os.path.join(HERE, "ops.cu"), *more, EXAMPLE]:
                good = compile_kernels(nvcc, flags, architecture, source, compiled, args.table) and good
            good = check_program(nvcc, architecture, compiled, folder) and good
    with tempfile.TemporaryDirectory() as folder:  # programs that only a GPU runs
        check = os.path.join(ROOT, "bench", "gpu")
        training = ["-DSHAPE=tiny", "-DBLOCK=sas_p", "-DPRECISION=bfloat16", os.path.join(check, "training.cu")]
        encoder = ["-DSHAPE=bert", "-DTILED_LOSS=true", *training[1:]]
        more = [[os.path.join(check, "kernels.cu")], [os.path.join(check, "check.cu")], training, encoder]
        more = more if every_check else []
        for source in [[os.path.join(HERE, "prove_products.cu")], *more]:
            command = [nvcc, *flags, "-I", os.path.dirname(HERE), "-arch=sm_90", "-c", *source,
                       "-o", os.path.join(folder, "program.o")]
            done = run(command)
            if done.returncode:
                sys.exit(f"{' '.join(command)}\n{done.stdout}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
