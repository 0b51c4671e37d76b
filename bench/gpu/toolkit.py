# SPDX-License-Identifier: MIT
"""What bench/gpu/run needs of a machine: commands that end at a deadline, the CUDA toolkit, and programs that are
compiled ahead of those who run them."""
import concurrent.futures
import hashlib
import importlib.util
import math
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from typing import NamedTuple

import record


class Failure(record.Failure):
    pass


class Deadline:
    """So many seconds from now, but not after another one."""

    def __init__(self, seconds, within=None):
        self.end, self.within = time.monotonic() + seconds, within

    def left(self):
        left = self.end - time.monotonic()
        return min(left, self.within.left()) if self.within else left


def last_of(text):
    """What fits on a screen: the end of what a program said."""
    return "\n".join(line[-500:] for line in text.strip().splitlines()[-12:])


class Said(NamedTuple):
    """How a command ended (no status: it was stopped) and what it said until then."""
    command: list
    status: int | None
    out: str
    err: str

    def check(self, also=()):
        """Errors: Failure with the last lines, if the command did not end with 0 or one of the statuses `also`."""
        if self.status == 0 or self.status in also:
            return
        how = "was stopped: no time was left" if self.status is None else "ended with status %d" % self.status
        raise Failure("%s %s\n%s" % (" ".join(self.command), how, last_of(self.out + "\n" + self.err)))


def run(command, deadline, **variables):
    """Runs a command, with these variables of the environment, until the deadline, when its children end with it."""
    if deadline.left() <= 0:
        return Said(command, None, "", "")
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:  # pipes would wait for children of children
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                       env={**os.environ, **variables}, start_new_session=True)
        except FileNotFoundError:
            raise Failure("%s is not installed" % command[0]) from None
        try:
            while process.poll() is None and deadline.left() > 0:  # closing a Builder moves deadlines
                try:
                    process.wait(min(0.1, max(deadline.left(), 0)))
                except subprocess.TimeoutExpired:
                    pass
            status = process.returncode
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
        return Said(command, status, *texts)


def find_nvcc():
    """nvcc in the PATH, else in CUDA_HOME, CUDA_PATH or /usr/local/cuda; None if it is nowhere."""
    folders = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if name in os.environ] + ["/usr/local/cuda"]
    return shutil.which("nvcc") or shutil.which("nvcc", path=os.pathsep.join(folder + "/bin" for folder in folders))


class CublasLt(NamedTuple):
    """Where header and library are; flags for nvcc."""
    include: str
    library: str
    flags: list


def is_file_in(folder, *names):
    return any(os.path.isfile(os.path.join(folder, name)) for name in names)


def cublas_of_pip():
    """(include, lib) of the packages nvidia-cublas of this Python."""
    try:
        folders = list(importlib.util.find_spec("nvidia").submodule_search_locations)
    except (AttributeError, ImportError, ValueError):
        folders = []
    places = [os.path.join(folder, name) for name in ("cu13", "cublas") for folder in folders]
    return [(os.path.join(place, "include"), os.path.join(place, "lib")) for place in places]


def find_cublas(nvcc):
    """cuBLASLt beside nvcc, or in the packages of pip: header and library from one place, for they belong together.

    Errors: Failure if there is none
    """
    root = os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))
    machine = os.uname().machine
    libraries = ["lib64", "lib", "targets/%s-linux/lib" % machine, "lib/%s-linux-gnu" % machine]
    toolkit = [(os.path.join(root, include), os.path.join(root, library))
               for include in ("include", "targets/%s-linux/include" % machine) for library in libraries]
    for include, library in toolkit + cublas_of_pip():
        names = os.listdir(library) if os.path.isdir(library) else []
        versions = [name for name in names if re.fullmatch(r"libcublasLt\.so\.\d+", name)]
        if not is_file_in(include, "cublasLt.h") or not (versions or "libcublasLt.so" in names):
            continue
        # The packages of pip have no link without a number.
        name = "-lcublasLt" if "libcublasLt.so" in names else "-l:" + max(versions)
        header = [] if (include, library) in toolkit else ["-isystem", include]  # behind nvcc's own, which it knows
        return CublasLt(include, library, [*header, "-L", library, "-Xlinker", "-rpath," + library, name])
    raise Failure("there is no cublasLt.h with libcublasLt.so beside %s or in the packages of this Python\n"
                  "  hint: install the toolkit's libcublas, or pip install nvidia-cublas" % nvcc)


def find_sanitizer(nvcc):
    """compute-sanitizer, which toolkits keep in more than one place."""
    root = os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))
    beside = [os.path.dirname(nvcc), os.path.join(root, "bin"), os.path.join(root, "compute-sanitizer")]
    pip = [os.path.join(os.path.dirname(include), "bin") for include, _ in cublas_of_pip()]
    found = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path=os.pathsep.join(beside + pip))
    if not found:
        raise Failure("compute-sanitizer is not installed, or not in the PATH")
    return found


class Program(NamedTuple):
    """A source of CUDA, constants for it, sources for the host's compiler, and folders of headers before the others;
    for_groups with the instructions of warpgroups, for an H100 alone; or for_cpu what the host's compiler makes of the
    source, which then tells numbers."""
    source: str
    constants: tuple = ()
    on_host: tuple = ()
    headers: tuple = ()
    for_cpu: bool = False
    for_groups: bool = False

    @property
    def name(self):
        """Such as "training-tiny-sas_p-bfloat16"."""
        stem = os.path.splitext(os.path.basename(self.source))[0]
        words = [stem, *(constant.split("=")[1] for constant in self.constants), *["cpu"] * self.for_cpu]
        return "-".join(words)


OF_GROUPS = "sm_90a"


def flags_of(architecture):
    """For nvcc: an architecture with warpgroups is one to use them. Of -arch=sm_90a it would make compute_90, too."""
    if architecture != OF_GROUPS:
        return ["-arch=" + architecture]
    return ["-gencode", "arch=compute_90a,code=sm_90a", "-DSIMPLX_WARPGROUPS"]


def has_groups(architecture):
    return architecture in ("sm_90", OF_GROUPS)


def architecture():
    """Of the first card, such as "sm_90"; "native", which nvcc must find out itself, if nvidia-smi does not know."""
    try:
        said = run(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"], Deadline(60))
    except Failure:
        return "native"
    known = re.match(r"(\d+)\.(\d)\s", said.out)
    return "sm_%s%s" % known.groups() if known else "native"


def hash_of(folders):
    """Of the names and bytes of all sources in folders."""
    sources = hashlib.sha256()
    for folder in folders:
        for place, inner, names in os.walk(folder):
            inner.sort()
            for name in sorted(names):
                path = os.path.join(place, name)
                if not name.endswith((".hpp", ".cuh", ".cpp", ".cu", ".h")):
                    continue
                with open(path, "rb") as file:
                    sources.update(b"%s %d " % (os.path.relpath(path, record.ROOT).encode(), os.path.getsize(path)))
                    sources.update(file.read())
    return sources.hexdigest()


class Builder:
    """Compiles programs side by side: nvcc takes half a minute for one, and the GPU should not wait for it. So many
    cores are left to what is timed meanwhile, which also goes first. What a folder holds is not compiled again."""

    def __init__(self, nvcc, eigen, cublas, folder, deadline, limit, architecture, spared=2):
        self.nvcc, self.eigen, self.cublas, self.folder = nvcc, eigen, cublas, folder
        self.deadline, self.limit = Deadline(float("inf"), deadline), limit
        self.architecture = architecture
        cores = len(os.sched_getaffinity(0))
        self.pool = concurrent.futures.ThreadPoolExecutor(max(cores - spared, 1))
        self.jobs = {}

    def start(self, program):
        if program not in self.jobs:
            path = os.path.join(self.folder, program.name)
            self.jobs[program] = self.pool.submit(self.make, program, path)

    def path_of(self, program, deadline):
        """The program, when it is there; of one for the CPU, what it has told.

        Errors: Failure if it does not compile, or not before the deadline
        """
        self.start(program)
        try:
            left = max(deadline.left(), 0)
            return self.jobs[program].result(left if math.isfinite(left) else None)
        except concurrent.futures.TimeoutError:
            raise Failure("%s was not compiled in time" % program.name) from None

    def make(self, program, path):
        deadline = Deadline(self.limit, self.deadline)
        wanted = path + ".told" if program.for_cpu else path
        if not os.path.exists(wanted):
            new = os.path.join(self.folder, "new", program.name)
            os.makedirs(os.path.dirname(new), exist_ok=True)
            self.compile(program, new, deadline)
            os.replace(new, path)
            if program.for_cpu:
                said = run([path], deadline, SIMPLX_TELL=wanted + ".new")
                said.check()
                if not os.path.exists(wanted + ".new"):
                    raise Failure("%s told nothing\n%s" % (program.name, last_of(said.out + said.err)))
                os.replace(wanted + ".new", wanted)
        return wanted

    def compile(self, program, path, deadline):
        after_others = ["nice", "-n", "10"] if shutil.which("nice") else []
        # No -march: it must be one for the host's objects and what nvcc gives to the host's compiler, for the library's
        # names contain it; and headers of newer compilers have vectors which nvcc cannot read.
        folders = [*program.headers, os.path.join(record.ROOT, "tests"), os.path.join(record.ROOT, "include")]
        include = ["-std=c++20", *(word for folder in folders for word in ("-I", folder)), "-isystem", self.eigen]
        if program.for_cpu:
            run([*after_others, "g++", "-O1", *include, *program.constants, "-x", "c++", program.source, "-o", path,
                 "-pthread"], deadline).check()
            return
        objects = []
        for source in program.on_host:
            objects.append("%s-%d.o" % (path, len(objects)))
            run([*after_others, "g++", "-O2", *include, "-c", source, "-o", objects[-1]], deadline).check()
        architecture = OF_GROUPS if program.for_groups else self.architecture
        run([*after_others, self.nvcc, "-O3", "-lineinfo", *flags_of(architecture), "-DEIGEN_NO_CUDA", *include,
             *program.constants, program.source, *objects, "-o", path, *self.cublas.flags], deadline).check()
        for one in objects:
            os.remove(one)

    def close(self):
        """Ends what is still compiled."""
        self.deadline.end = 0
        self.pool.shutdown(wait=True, cancel_futures=True)
