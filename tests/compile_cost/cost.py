# SPDX-License-Identifier: MIT
"""What compiling one of the sources beside this file costs: seconds and memory, which differ from machine to machine,
and template instantiations, which are the same wherever the compiler is."""
import json
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
FLAGS = ["-std=c++20", "-I", os.path.join(ROOT, "include"), "-isystem", "/usr/include/eigen3", "-pthread"]
BASELINE = os.path.join(ROOT, "bench", "results", "compile.json")


def compile_unit(compiler, source, flags, output):
    """Compiles; returns seconds and the peak memory in MB (1e6 bytes) of the largest process."""
    command = [compiler, *FLAGS, *flags, "-c", os.path.join(HERE, source), "-o", output]
    start = time.time()
    child = subprocess.Popen([sys.executable, "-c", """
import resource, subprocess, sys
status = subprocess.call(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stdout)
sys.exit(status)""", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    out, err = child.communicate()
    if child.returncode:
        sys.exit(f"{' '.join(command)}\n{err}")
    return time.time() - start, int(out.split()[-1]) * 1024e-6  # of KiB


def trainer_flags(block, layers):
    return [f"-DBLOCK={block}", f"-DLAYERS={layers}"]


def instantiations(compiler, folder, block, layers):
    """Templates that clang instantiates for the trainer of such a model, from its time trace."""
    output = os.path.join(folder, f"trainer-{block}-{layers}.o")
    flags = ["-O0", "-ftime-trace", "-ftime-trace-granularity=0"]
    compile_unit(compiler, "trainer.cpp", trainer_flags(block, layers) + flags, output)
    with open(output[:-2] + ".json", encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    return sum(e["name"] in ("InstantiateClass", "InstantiateFunction") for e in events)


def evaluation_memory(compiler, source, output):
    """MB that g++ hands out while it evaluates the constants of a source: a count, for it repeats to a few bytes."""
    command = [compiler, *FLAGS, "-O1", "-ftime-report", "-c", os.path.join(HERE, source), "-o", output]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = re.search(r"^ constant expression evaluation .*?(\d+)([kM]?) \( *\d+%\)$", done.stderr, re.MULTILINE)
    if done.returncode or not told:
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return int(told[1]) / {"": 1e6, "k": 1e3, "M": 1}[told[2]]


def version(compiler):
    """Such as "clang++ 14.0.6"."""
    text = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    return os.path.basename(compiler) + " " + re.search(r"\d+\.\d+\.\d+", text)[0]


def baseline():
    """The counts that were committed last, by block and layers, and the compiler that gave them."""
    with open(BASELINE, encoding="utf-8") as file:
        rows = json.load(file)["rows"]
    newest = max(rows, key=lambda row: row["date"])  # counts do not depend on the machine, but on the sources
    results = newest["results"]
    return ({(r["block"], r["layers"]): r["instantiations"] for r in results},
            {r["counted_by"] for r in results})
