#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""gpu_test.py [EIGEN]: bench/gpu/run on a machine without a GPU, where nvcc, compute-sanitizer and nvidia-smi are
scripts that say what this test has told them to. What the programs themselves do, only a GPU can show."""
import ast
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import time
import weakref
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GPU = os.path.join(ROOT, "bench", "gpu")
# Makes of SOURCE.cu the script that lies in canned/SOURCE, or canned/SOURCE-CONSTANTS, and notes when and how.
NVCC = """#!%s
import json, os, shutil, sys, time
words, root = sys.argv[1:], os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if words == ["--version"]:
    sys.exit(print("Cuda compilation tools, release 13.0, V13.0.88"))
begin = time.time()
name = os.path.basename(next(word for word in words if word.endswith(".cu")))[:-3]
values = [word.split("=")[1] for word in words if word.startswith("-D") and "=" in word]
found = [os.path.join(root, "canned", "-".join([name, *values[:count]])) for count in range(len(values), -1, -1)]
time.sleep(float(os.environ.get("NVCC_SLEEPS", "0")))
with open(os.path.join(root, "log"), "a") as log:
    print(json.dumps({"words": words, "begin": begin, "end": time.time()}), file=log)
try:
    shutil.copy(next(path for path in found if os.path.exists(path)), words[words.index("-o") + 1])
except StopIteration:
    sys.exit("nvcc takes no " + name)
"""
GXX = """#!%s
import json, os, shutil, sys
words, root = sys.argv[1:], os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
if words == ["--version"]:
    sys.exit(print("g++ (Nobody's) 12.2.0"))
output = words[words.index("-o") + 1]
canned = os.path.join(root, "canned", os.path.basename(output))
shutil.copy(canned, output) if os.path.exists(canned) else open(output, "w").close()
with open(os.path.join(root, "log"), "a") as log:
    print(json.dumps({"words": words}), file=log)
"""
SANITIZER = """#!/bin/sh
case "$5" in */training-watched-*) ;; *) exit 3 ;; esac
"$5" "$6" "$7"
"""
HOLDS = '{"check": "double", "error": 1e-12, "bound": 1e-10, "holds": "yes"}'


def script(name):
    loader = importlib.machinery.SourceFileLoader("gpu_" + name, os.path.join(GPU, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


SMI = """#!/bin/sh
case "$*" in *compute_cap*) echo 9.0 ;; *) echo 'A card, 580.1, 80 GiB' ;; esac
"""


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, 0o755)


class Machine:
    """A folder with a toolkit of scripts, the only folder of the PATH: neither git nor nice is there."""

    def __init__(self, folder):
        self.folder, self.out, self.canned = folder, os.path.join(folder, "out"), os.path.join(folder, "canned")
        self.bin = os.path.join(folder, "bin")
        write(os.path.join(self.bin, "nvcc"), NVCC % sys.executable)
        write(os.path.join(self.bin, "g++"), GXX % sys.executable)
        write(os.path.join(self.bin, "nvidia-smi"), SMI)
        write(os.path.join(folder, "compute-sanitizer", "compute-sanitizer"), SANITIZER)
        write(os.path.join(folder, "include", "cublasLt.h"), "")
        write(os.path.join(folder, "lib64", "libcublasLt.so"), "")
        os.makedirs(os.path.join(folder, "eigen", "Eigen"))
        self.proven = os.path.join(folder, "proven_products.inc")
        self.reload()
        self.record = sys.modules["record"]

    def reload(self):
        """The script as it is in its file, but for what it would write into the sources."""
        self.run_script = script("run")
        assert os.path.samefile(os.path.dirname(self.run_script.PROVEN), os.path.join(ROOT, "tests", "emulation"))
        assert len(self.run_script.kinds_of(open(self.run_script.PROVEN, encoding="utf-8").read())) > 100
        self.run_script.PROVEN = self.proven

    def program(self, name, text):
        write(os.path.join(self.canned, name), "#!/bin/sh\n" + text + "\n")

    def run(self, *words):
        """(status, what was said, rows of the file by part, seconds)."""
        text, begin, kept = io.StringIO(), time.time(), os.environ["PATH"]
        os.environ["PATH"] = self.bin
        try:
            with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
                options = ["--out", self.out, "--eigen", os.path.join(self.folder, "eigen")]
                status = self.run_script.main([*options, *words])
        finally:
            os.environ["PATH"] = kept
        return status, text.getvalue(), self.rows(), time.time() - begin

    def rows(self):
        def refuse(word):
            raise AssertionError("%s is no JSON" % word)
        try:
            with open(os.path.join(self.out, "gpu.json"), encoding="utf-8") as file:
                rows = json.load(file, parse_constant=refuse)["rows"]
        except FileNotFoundError:
            return {}
        assert sorted({*os.listdir(self.out)} - {"proven_products.inc"}) == ["gpu.json", "gpu.md"], os.listdir(self.out)
        return {row["command"].split()[-1]: row for row in rows}

    def page(self):
        with open(os.path.join(self.out, "gpu.md"), encoding="utf-8") as file:
            return file.read()

    def log(self):
        with open(os.path.join(self.folder, "log"), encoding="utf-8") as file:
            return [json.loads(line) for line in file]


def check_check(machine):
    """An end with status 1 is a comparison that does not hold, every other one a failure that is told."""
    machine.program("check", "echo '%s'" % HOLDS)
    status, text, rows, _ = machine.run("check")
    row = rows["check"]
    assert status == 0 and "failed" not in row and "unfinished" not in row, (text, row)
    assert row["version"] == "unknown" and row["device"] == "A card, 580.1, 80 GiB"
    assert row["compiler"] == "nvcc 13.0.88, g++ 12.2.0 -O3" and len(row["results"]) == 1, row
    host, device = (next(words for words in [line["words"] for line in machine.log()] if end in "".join(words))
                    for end in ("check_on_cpu.cpp", "check.cu"))
    assert not any("-march" in word for word in host + device), "the library's names contain what -march says"
    assert any(word.endswith(".o") for word in device[device.index("-o") - 1:device.index("-o")]), device

    machine.program("check", "echo '%s'; echo 'error: out of memory' >&2; exit 2" % HOLDS)
    status, text, rows, _ = machine.run("check")
    assert status == 1 and "status 2" in text and "error: out of memory" in text, text
    assert len(rows["check"]["results"]) == 1 and "out of memory" in rows["check"]["failed"][0], rows
    machine.program("check", "echo '%s'; exit 1" % HOLDS.replace("yes", "no"))
    status, text, rows, _ = machine.run("check")
    assert status == 1 and len(rows["check"]["failed"]) == 1 and "bound 1e-10, holds no" in text, text
    machine.program("check", "echo '%s'; exit 1" % HOLDS)
    assert machine.run("check")[0] == 1, "status 1 without a comparison that fails"
    machine.program("check", "echo nothing")
    status, text, _, _ = machine.run("check")
    assert status == 1 and "said nothing" in text, text


def check_tests(machine):
    """A test on the GPU compares with what the same test on the CPU has told; one that is not there is told."""
    run, test = machine.run_script, '{"test": "%s", "checks": 3, "holds": "%s", "said": "%s"}'
    names = {one.name for one in run.tests()}
    assert {"norm", "map", "tensor_cores"} <= names and "trainer" not in names, names
    assert [one.name for one in run.tests() if one.on_gpu.for_groups] == ["warpgroups"]
    for name in run.ELSEWHERE:
        assert os.path.exists(os.path.join(run.TESTS, name + "_test.cpp")), name
    run.tests = lambda: [run.Test(name) for name in ("norm", "map", "rows", "update")]
    assert [len(one.programs()) for one in run.tests()] == [1, 2, 2, 2]
    machine.program("test-norm", """echo '%s'""" % test % ("norm", "yes", "'$CUDA_LAUNCH_BLOCKING$SIMPLX_TOLD'"))
    machine.program("test-map-cpu", "echo yes > $SIMPLX_TELL")
    machine.program("test-map", """read told < $SIMPLX_TOLD; echo '%s'""" % test % ("map", "'$told'", ""))
    machine.program("test-rows-cpu", "exit 1")
    machine.program("test-rows", "echo")
    machine.program("test-update-cpu", "echo > $SIMPLX_TELL")
    machine.program("test-update", """echo '%s'; exit 1""" % test % ("update", "no", "update_test.cpp:80"))
    try:
        status, text, rows, _ = machine.run("tests")
    finally:
        machine.reload()
    found = {row["test"]: row for row in rows["tests"]["results"]}
    assert status == 1 and len(rows["tests"]["failed"]) == 2 and "test-rows-cpu ended with status 1" in text, text
    assert found["norm"]["said"] == "1" and found["map"]["holds"] == "yes", found
    assert "update_test.cpp:80" in text, text
    assert "| update | 3 | no | update_test.cpp:80 |" in machine.page()
    plain, = (words for words in [line["words"] for line in machine.log()] if "-DTEST=norm" in words)
    folders = [os.path.relpath(word, ROOT) for word in plain if word.startswith(os.path.join(ROOT, "tests"))]
    assert folders[:3] == ["tests/device", "tests/device/stand_in", "tests"], "the stand-ins come first"


def check_told(eigen):
    """A test of g++ tells its numbers; with others, with none, or with too few it does not hold."""
    run = script("run")

    def status(path, **variables):
        said = run.toolkit.run([path], run.Deadline(100), **variables)
        assert said.status == (1 if '"holds": "no"' in said.out else 0), said
        return said.status
    with tempfile.TemporaryDirectory() as folder:
        builder = run.toolkit.Builder(None, eigen, None, folder, run.Deadline(600), 600, "native")
        told = builder.path_of(run.Test("map").on_cpu, run.Deadline(600))
        path = told.removesuffix(".told")
        assert status(path, SIMPLX_TOLD=told) == 0
        assert status(path, SIMPLX_TOLD=told + ".not") == 1
        with open(told, "rb") as file:
            numbers = file.read()
        count, first = struct.unpack_from("=Qd", numbers)
        assert count > 100 and len(numbers) > 8 * count
        for other in (struct.pack("=Qd", count, first + 1e-3) + numbers[16:], numbers[:-8]):
            with open(told, "wb") as file:
                file.write(other)
            assert status(path, SIMPLX_TOLD=told) == 1
        builder.close()


def check_programs(machine):
    """Programs that were compiled ahead are run as they are; those of other sources are refused."""
    kept = os.path.join(machine.folder, "programs")

    def run(*words):
        before = len(machine.log())
        status, text, _, _ = machine.run("--programs", kept, *words)
        return status, text, len(machine.log()) - before
    assert run("kernels")[:2] == (1, "error: %s holds no programs\n  hint: an empty folder, with --compile sm_90 first\n" % kept)
    status, text, compiled = run("--compile", "sm_90", "kernels", "sanitize-initcheck")
    assert status == 0 and "4 programs compiled, 0 failed" in text and compiled == 4, text
    assert "-arch=sm_90" in machine.log()[-1]["words"]
    machine.program("kernels", """echo '{"kernel": "add", "us": 2}'""")
    assert run("--compile", "sm_90", "kernels")[2] == 0
    status, text, compiled = run("kernels")
    assert status == 0 and compiled == 0, text
    assert "are for sm_90, not sm_90a" in run("--warpgroups", "kernels")[1]
    with open(os.path.join(kept, "sources.sha256"), "w", encoding="utf-8") as file:
        file.write("0 sm_90")
    assert "of other sources" in run("kernels")[1]
    assert "nowhere to put programs" in machine.run("--compile", "sm_80", "kernels")[1]
    groups = ["arch=compute_90a,code=sm_90a", "-DSIMPLX_WARPGROUPS"]
    machine.run("--warpgroups", "kernels")
    assert all(word in machine.log()[-1]["words"] for word in groups), machine.log()[-1]
    for words in ("--warpgroups", "kernels"), ("kernels",):  # neither takes the other's figures away
        machine.run(*words)
        page = machine.page()
        assert page.count("## A card, 580.1, 80 GiB\n") == page.count("## A card, 580.1, 80 GiB, with warpgroups\n") == 1
    assert machine.run("--compile", "sm_90a", "--programs", kept + "90a", "kernels")[0] == 0
    text = machine.run("--programs", kept + "90a", "kernels")[1]
    assert "are for sm_90a, not sm_" in text and "--warpgroups for those of sm_90a" in text, text
    assert all(word in machine.log()[-1]["words"] for word in groups), machine.log()[-1]
    status, text, _, _ = machine.run("--compile", "sm_80", "--warpgroups", "--programs", kept + "80", "kernels")
    assert status == 1 and "sm_80 has no warpgroups" in text, text


def check_numbers(machine):
    """What is not finite does not hold, what cannot be read is kept, and the parts after are asked all the same."""
    machine.program("check", "echo '{\"error\": Infinity, \"loss\": NaN}'; echo '{\"error\": inf}'")
    machine.program("kernels", "echo '{\"kernel\": \"add\", \"us\": 2}'")
    status, text, rows, _ = machine.run("check", "kernels")
    assert rows["check"]["results"] == [{"error": "inf", "loss": "nan", "holds": "no"},
                                        {"unreadable": "{\"error\": inf}", "holds": "no"}], rows["check"]
    assert status == 1 and rows["kernels"]["results"] == [{"kernel": "add", "us": 2}] and "1 parts failed" in text, text
    machine.program("check", """echo '{"curve": "CPU", "model": "sas", "losses": [%s4.5, NaN]}'""" % ("4, " * 10))
    status, _, rows, _ = machine.run("check")
    curve, = rows["check"]["results"]
    assert status == 1 and curve["losses"] == [4] * 10 + [4.5, "nan"] and curve["holds"] == "no", curve
    assert "| model | on | step 1 | step 10 |\n| --- | --- | --- | --- |\n| sas | CPU | 4 | 4 |\n" in machine.page()
    machine.run_script.rows_of = lambda text: {}["key"]
    machine.run_script.prove = lambda part: part.add([{"kinds": 1}])
    try:
        status, text, rows, _ = machine.run("kernels", "products")
    finally:
        machine.reload()
    assert status == 1 and "KeyError" in text and rows["products"]["results"] == [{"kinds": 1}], text
    assert "KeyError" in rows["kernels"]["failed"][0], rows["kernels"]


def check_products(machine):
    """The table of the sources becomes what was printed, if that has the same kinds and nothing else."""
    def kept():
        return [os.path.exists(path) and open(path, encoding="utf-8").read() for path in paths]
    paths = (machine.proven, os.path.join(machine.out, "proven_products.inc"))
    before = '// Has it run\n{"f32", not_yet},\n{"f64", not_yet},\n'
    write(machine.proven, before)
    half, other = """echo '{"f64", proven},'""", """echo '{"f32, TN", proven},'"""
    for words in (half, half + "; " + other, half + "; " + half, half + """; echo '{"f32", maybe},'""",
                  half + """; echo '{"f32", proven},'; """ + other, "%s; echo '{\"f32\", proven},'; exit 2" % half):
        machine.program("prove_products", words)
        status, text, rows, _ = machine.run("products")
        assert status == 1 and kept() == [before, False] and "failed" in rows["products"], (words, text)
        assert "exit" in words or "is left as it is" in text, text
    machine.program("prove_products", """echo '// Has it run'; echo '{"f64", proven},'
echo 'f32: the product was refused: status 15' >&2; echo '{"f32", not_yet},'; exit 1""")
    status, text, rows, _ = machine.run("products")
    row, = rows["products"]["results"]
    assert row["kinds"] == 2 and row["proven"] == 1 and row["holds"] == "no" and status == 1, row
    assert row["refused"] == ["f32: the product was refused: status 15"] and row["refused"][0] in text, text
    assert row["table"] == '{"f64", proven},\n{"f32", not_yet},' and "written: " + machine.proven in text, (row, text)
    assert kept() == ['// Has it run\n{"f64", proven},\n{"f32", not_yet},\n'] * 2, kept()
    page = machine.page()
    assert "\n```\nrefused:\nf32: the product was refused" in page and "1 of 2 products proven" in page, page
    machine.program("prove_products", """echo '{"f64", proven},'
echo 'f32: finished by kernels' >&2; echo '{"f32", not_yet},'""")
    status, text, rows, _ = machine.run("products")
    row, = rows["products"]["results"]
    assert status == 0 and row["holds"] == "yes" and row["proven"] == 1 and "f32: finished by kernels" in text, text
    machine.program("prove_products", """echo '{"f64", proven},'; echo '{"f32", proven},'""")
    status, _, rows, _ = machine.run("products")
    assert status == 0 and rows["products"]["results"][0]["refused"] == [] and kept()[0].count(" proven") == 2
    assert not os.path.exists(machine.proven + ".new")


def check_sanitizers(machine):
    """Clean is what says so; the tool is found beside nvcc, and sees tensor cores."""
    said = {"memcheck": "echo '========= ERROR SUMMARY: %d errors'", "racecheck":
            "echo '========= RACECHECK SUMMARY: %d hazards displayed (0 errors, 0 warnings)'"}
    for tool, words in said.items():
        machine.program("training", '[ "$1 $2" = "--steps 3" ] && ' + words % 0)
        status, text, rows, _ = machine.run("sanitize-" + tool)
        row = rows["sanitize-" + tool]
        assert status == 0 and [r["holds"] for r in row["results"]] == ["yes"] * 5, (text, row)
        names = [block + " " + precision for block in ("sas_p", "pre_ln") for precision in ("float32", "bfloat16")]
        assert [r["program"] for r in row["results"]] == [*names, "sas_p bfloat16, logits in tiles"]
        machine.program("training-watched-pre_ln", words % 1)  # status 0 all the same
        machine.program("training-watched-sas_p", "echo '========= Invalid read at line 7'; exit 9")
        status, text, rows, _ = machine.run("sanitize-" + tool)
        results = rows["sanitize-" + tool]["results"]
        assert status == 1 and [r["holds"] for r in results] == ["no"] * 5, results
        assert "Invalid read at line 7" in text and results[1]["first"] == ["========= Invalid read at line 7"], text
        os.remove(os.path.join(machine.canned, "training-watched-pre_ln"))
        os.remove(os.path.join(machine.canned, "training-watched-sas_p"))
    words = machine.log()[-1]["words"]
    assert "-lineinfo" in words and "-arch=sm_90" in words and "-DPRECISION=bfloat16" in words and "-DSHAPE=watched" in words, words
    os.remove(os.path.join(machine.folder, "compute-sanitizer", "compute-sanitizer"))
    status, text, _, _ = machine.run("sanitize-memcheck")
    assert status == 1 and "compute-sanitizer is not installed" in text, text


def check_deadlines(machine):
    """All children of a part share its time, and what was there before the end is saved."""
    run, row = machine.run_script, "echo '{\"ms\": %d}'"
    run.LIMIT, run.LEAST = 1.5, 0
    machine.program("training-tiny-sas", row % 1)
    machine.program("training-tiny-sas-tf32", row % 2 + "; /bin/sleep 61 & wait")
    machine.program("kernels", row % 3)
    status, text, rows, seconds = machine.run("--no-peers", "tiny-sas", "kernels")
    saved = rows["tiny-sas"]
    assert [r["ms"] for r in saved["results"]] == [1, 2] and status == 1 and seconds < 5, (saved, seconds)
    assert all("no time was left" in words or "in time" in words for words in saved["failed"]), saved["failed"]
    assert len(saved["failed"]) == 2 and rows["kernels"]["results"] == [{"ms": 3}], saved
    for number in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open("/proc/%s/cmdline" % number, encoding="utf-8") as file:
            assert file.read() != "/bin/sleep\x0061\x00", "a child outlives its part"
    os.environ["NVCC_SLEEPS"] = "60"
    status, text, rows, seconds = machine.run("kernels")
    del os.environ["NVCC_SLEEPS"]
    late = "kernels was not compiled in time|nvcc .*kernels.cu .* was stopped: no time was left"  # who notices first
    assert status == 1 and re.search(late, text) and seconds < 5, (text, seconds)
    assert rows["kernels"]["results"] == []

    machine.program("kernels", row % 3 + "; /bin/sleep 0.7")
    machine.program("prove_products", """echo '{"f64", proven},'""")
    run.LIMIT, run.LEAST = 60, 3
    status, text, rows, _ = machine.run("--seconds", "3.6", "kernels", "products", "check")
    assert status == 0 and text.count("not run") == 3 and "0 parts failed, 2 were not run" in text, text
    assert re.search("products +not run", text), text
    machine.program("kernels", row % 3 + "; /bin/sleep 61")
    status, text, rows, seconds = machine.run("--seconds", "4", "kernels")
    assert status == 1 and "no time was left" in text and seconds < 8, "a part outlives the call: %s" % text
    status, text, _, _ = machine.run("--seconds", "0.1", "kernels")
    assert status == 1 and "1 were not run" in text, "nothing at all was run: %s" % text
    machine.program("training-tiny-sas-tf32", "exit 1")  # which would sleep where there is time
    machine.reload()


def check_signals(machine):
    """SIGTERM ends the children too, which have sessions of their own."""
    said = os.path.join(machine.folder, "said")
    machine.program("kernels", "echo $$ >%s.new; /bin/mv %s.new %s; exec /bin/sleep 62" % (said, said, said))
    command = [sys.executable, os.path.join(GPU, "run"), "--out", machine.out, "--eigen",
               os.path.join(machine.folder, "eigen"), "kernels"]
    with subprocess.Popen(command, env={**os.environ, "PATH": machine.bin}, stdout=subprocess.DEVNULL) as program:
        while not os.path.exists(said) and program.poll() is None:
            time.sleep(0.05)
        program.terminate()
        assert program.wait(60) == 143
    with open(said, encoding="utf-8") as file, contextlib.suppress(ProcessLookupError):
        os.kill(int(file.read()), 0)
        raise AssertionError("a child outlives the call")


def check_trainings(machine):
    """A row of ours for each precision, one of PyTorch beside it, each saved at once; programs are compiled ahead."""
    machine.program("training", "echo '{\"ours\": 1, \"not_fused\": [\"y = a b, epilogue dgelu, was refused\"]}'")
    peer = os.path.join(machine.folder, "peer")
    write(peer, "#!/bin/sh\necho '{\"peer\": \"torch\", \"ms\": 1}'\necho 'error: no more of it' >&2; exit 1\n")
    kept, saves = (sys.executable, os.sched_getaffinity, machine.record.save), []

    def save(*words, **more):
        saves.append((len(words[2]), more.get("unfinished", False)))
        kept[2](*words, **more)
    sys.executable, os.sched_getaffinity, machine.record.save = peer, lambda _: set(range(8)), save
    os.environ["NVCC_SLEEPS"] = "0.5"
    before = len(machine.log())
    try:
        status, text, rows, _ = machine.run("tiny-sas_p")
        compiled = machine.log()[before:]
        del os.environ["NVCC_SLEEPS"]
        bert = machine.run("--no-peers", "bert-sas_p_no_norm", "bert-v_skip_init_shaped")[2]
    finally:
        sys.executable, os.sched_getaffinity, machine.record.save = kept
    results = rows["tiny-sas_p"]["results"]
    assert status == 0 and [r.get("ours") for r in results[:3]] == [1, 1, 1] and len(results) == 9, results
    assert [r["failed"] for r in results if "failed" in r] == ["error: no more of it"] * 3 and "no more of it" in text
    assert text.count("not fused: y = a b, epilogue dgelu, was refused") == 1, text
    page = machine.page()
    assert "1 kinds of products not fused" in page and "\n```\nnot_fused:\ny = a b, epilogue dgelu" in page, page
    assert saves[:3] == [(1, True), (2, True), (3, True)] and saves[9] == (9, False), saves
    assert len(compiled) == 3 and max(c["begin"] for c in compiled) < min(c["end"] for c in compiled), compiled
    assert len(bert) >= 2 and len(bert["bert-sas_p_no_norm"]["results"]) == 6, bert
    assert sum({"-DTILED_LOSS=true", "-DSHAPE=bert"} <= set(line["words"]) for line in machine.log()) == 6
    in_tiles = [one for one in machine.run_script.trainings("gpt2-sas_p") if "-DTILED_LOSS=true" in one.constants]
    assert len(in_tiles) == 1 and "-DPRECISION=bfloat16" in in_tiles[0].constants, in_tiles


def check_tables(machine):
    """Each of our trainings in a line, beside the fastest rival of the same numbers; what is not known stays empty."""
    def row(**more):
        return json.dumps({"shape": "tiny", **more})
    ours = {"precision": "bfloat16", "tokens_per_s": 1e6, "tflops": 200.0, "gb": 2.0}
    for block, ms, parameters in (("pre_ln", 10.0, 2 * 10**8), ("sas", 8.0, 10**8)):
        machine.program("training-tiny-" + block, "exit 1")
        said = row(block=block, ms=ms, parameters=parameters, **ours)
        machine.program("training-tiny-%s-bfloat16" % block, "echo '%s'" % said)
    rivals = [("eager authors", {"ms": 20.0, "gb": 6.0}), ("eager fused", {"ms": 16.0, "gb": 5.0}),
              ("compile authors", {"ms": 18.0, "gb": 5.0}), ("compile fused", {"ms": 12.0, "gb": 4.0}),
              ("compile graphs fused", {"ms": 10.0, "gb": 4.0}), ("compile graphs authors", {"ms": 17.0, "gb": 4.0}),
              ("none", {"failed": "a|b"})]
    said = [row(peer="torch", block="sas", precision=precision, way=way, **more)
            for precision in ("bfloat16", "tf32") for way, more in rivals]
    peer, kept = os.path.join(machine.folder, "peer"), sys.executable
    write(peer, "#!/bin/sh\n[ $5 = sas ] && [ $7 = bfloat16 ] && " + " && ".join("echo '%s'" % line for line in said))
    machine.program("kernels", """echo '{"ceiling": "product bfloat16", "tflops": 800}'
echo '{"ceiling": "copy", "tb_per_s": 1.4}'
echo '{"kernel": "add", "us": 2000.4, "floor_us": 1800, "of_floor": 0.9}'""")
    machine.run("--no-peers", "tiny-pre_ln")
    sys.executable = peer
    try:
        machine.run("tiny-sas", "kernels")
    finally:
        sys.executable = kept
    lines = machine.page().splitlines()
    beside = "2 | 1.5 | 2.5 | 2.25 | compile graphs fused | 10 | 0.5 | 1.25"
    assert "| tiny | sas | bfloat16 | 8 | 1000000 | 0.25 | 2 | %s |" % beside in lines, lines
    # 28 bytes of 2e8 parameters in 10 ms are 0.4 of the copy, and its products 0.25 of the large one
    assert "| tiny | pre_ln | bfloat16 | 10 | 1000000 | 0.4 | 2 |%s 1 |" % ("  |" * 7) in lines, lines
    assert "| add | 2000 | 1800 | 0.9 |  |" in lines and "| product bfloat16 |  | 800 |" in lines, lines
    assert any(line.startswith("| kernels | 3 results | 2") for line in lines), lines
    assert any("failed a|b" in line for line in lines), lines
    tables = [line for line in lines if line.startswith("|")]
    head = next(line for line in tables if line.startswith("| shape"))
    assert head.count("|") == 16 and lines[lines.index(head) + 1] == "| --- " * 15 + "|", head
    tables, judged = machine.run_script.tables, {"precision": "tf32", "ms": 10.0, "tflops": 200.0, "parameters": 1000}
    known = {"product tf32": 400.0, "copy": 1.4}
    assert tables.share_of_floor(judged, known) == 0.5
    for unknown in ({**judged, "ms": "nan"}, {**judged, "tflops": "inf"}, {"precision": "tf32", "ms": 10.0}):
        assert tables.share_of_floor(unknown, known) is None, unknown
    for one in known:
        assert tables.share_of_floor(judged, {one: known[one]}) is None, one


def check_nvcc(machine):
    """It is found where CUDA_HOME or CUDA_PATH says, if not in the PATH."""
    machine.program("kernels", """echo '{"kernel": "add", "us": 2}'""")
    kept, bare = machine.bin, os.path.join(machine.folder, "bare")
    for name in ("g++", "nvidia-smi"):
        write(os.path.join(bare, name), "#!/bin/sh\nexec %s \"$@\"\n" % os.path.join(machine.bin, name))
    for name, other in (("CUDA_HOME", "CUDA_PATH"), ("CUDA_PATH", "CUDA_HOME")):
        with mock.patch.dict(os.environ, {name: machine.folder}):
            os.environ.pop(other, None)
            machine.bin = bare
            status, text, _, _ = machine.run("kernels")
            machine.bin, os.environ[name] = kept, bare
            assert status == 0 == machine.run("kernels")[0], text


def check_prerequisites(machine):
    run = machine.run
    status, text, _, _ = run("--list")
    assert status == 0 and "bert-sas_p\n" in text and "bert-sas_p_norm_free\n" not in text, text
    assert all("%s-%s\n" % (shape, block) in text for shape in ("gpt2", "paper", "tiny")
               for block in ("sas_p_no_norm", "sas_p_norm_free")), text
    status, text, _, _ = run("nonsense")
    assert status == 1 and "nonsense" in text
    status, text, _, _ = run("--eigen", machine.folder, "check")
    assert status == 1 and "there is no Eigen" in text and "--eigen" in text
    library = os.path.join(machine.folder, "lib64", "libcublasLt.so")
    os.rename(library, library + ".13")
    assert run("kernels")[0] == 0 and "-l:libcublasLt.so.13" in machine.log()[-1]["words"]
    os.remove(library + ".13")
    pip = os.path.join(machine.folder, "pip")
    write(os.path.join(pip, "nvidia", "cu13", "include", "nothing.h"), "")
    sys.path.insert(0, pip)
    importlib.invalidate_caches()
    if importlib.util.find_spec("nvidia").submodule_search_locations[0].startswith(pip):
        kept = machine.run_script.toolkit.cublas_of_pip
        machine.run_script.toolkit.cublas_of_pip = lambda: kept()[:1]
        status, text, _, _ = run("kernels")
        assert status == 1 and "there is no cublasLt.h" in text and "hint" in text, text
        write(os.path.join(pip, "nvidia", "cu13", "include", "cublasLt.h"), "")
        write(os.path.join(pip, "nvidia", "cu13", "lib", "libcublasLt.so.13"), "")
        assert run("kernels")[0] == 0
        words = machine.log()[-1]["words"]
        folder = os.path.join(pip, "nvidia", "cu13")
        for word in (os.path.join(folder, "include"), "-rpath," + os.path.join(folder, "lib"), "-l:libcublasLt.so.13"):
            assert word in words, (word, words)
    sys.path.remove(pip)
    os.remove(os.path.join(machine.bin, "nvidia-smi"))
    status, text, _, _ = run("check")
    assert status == 77 and "there is no GPU" in text


def check_shapes():
    """shapes.cuh, peers.py and kernels.cu speak of the same models."""
    def text(name):
        with open(os.path.join(GPU, name), encoding="utf-8") as file:
            return file.read()
    ours = {name: list(map(int, numbers.split(", "))) for name, numbers in
            re.findall(r"(\w+)\{(?:true|false), ([\d, ]+)\}", text("shapes.cuh"))}
    del ours["watched"]  # by sanitizers alone
    trees = {node.targets[0].id: node for node in ast.parse(text("peers.py")).body if isinstance(node, ast.Assign)}
    tree, blocks = trees["SHAPES"], ast.literal_eval(trees["BLOCKS"].value)
    peers = {key.value: {word.arg: word.value.value for word in call.keywords}
             for key, call in zip(tree.value.keys, tree.value.values)}
    order = ("vocab", "width", "heads", "layers", "context", "batch")
    assert ours == {name: [shape[key] for key in order] for name, shape in peers.items()}, (ours, peers)
    assert ours.keys() == script("run").SHAPES.keys()
    assert {block for all_of in script("run").SHAPES.values() for block in all_of} == set(blocks), blocks
    vocab, = re.findall(r"vocab = (\d+)", text("kernels.cu"))
    assert int(vocab) == ours["gpt2"][0] and int(vocab) % 64 == 0


def read_golden(torch, name):
    """(sizes, tensors, gradients) that the equations give, in double; simplx is held against the same file."""
    with open(os.path.join(ROOT, "tests", "golden", name + "_small.safetensors"), "rb") as file:
        raw = file.read()
    begin = 8 + struct.unpack_from("<Q", raw)[0]
    header, tensors = json.loads(raw[8:begin]), {}
    sizes = header.pop("__metadata__")
    for key, entry in header.items():
        kind = {"F64": torch.float64, "I32": torch.int32}[entry["dtype"]]
        first, last = (begin + offset for offset in entry["data_offsets"])
        tensors[key] = torch.frombuffer(bytearray(raw[first:last]), dtype=kind).reshape(entry["shape"])
    gradients = {key[5:]: tensors.pop(key) for key in list(tensors) if key.startswith("grad.")}
    return {key: int(value) for key, value in sizes.items() if value.isdigit()}, tensors, gradients


def in_names_of_peers(torch, tensors):
    """Parameters, or their gradients, as peers.py has them: matrices with outputs first, query and key in one."""
    made = {}
    for name, value in tensors.items():
        kind = "weight" if name.replace("gain", "bias") in tensors else "gain"  # of a LayerNorm, or another
        for old, new in (("final_norm", "norm"), ("position.", ""), ("mlp.", ""), ("projection", "out"),
                         (".delta", ".delta.weight"), (".gain", "." + kind)):
            name = name.replace(old, new)
        made[name] = value if value.dim() < 2 or name == "embedding.weight" else value.T
    for begin in [name[:-len("query.weight")] for name in made if name.endswith("query.weight")]:
        made[begin + "query_key.weight"] = torch.cat([made.pop(begin + part + ".weight") for part in ("query", "key")])
        if begin + "gamma" in made:
            gains = [made.pop(begin + gain)[:, None, None] for gain in ("alpha", "beta", "gamma")]
            made[begin + "gains"] = torch.stack(gains)
    return made


def check_equations(torch, peers, name, block):
    """Both formulations have the parameters, the logits and the gradients of simplx."""
    sizes, tensors, gradients = read_golden(torch, name)
    tokens, targets = tensors["tokens"].long(), tensors["targets"].long()
    for fused in (False, True):
        shape = {**sizes, "encoder": name.startswith("bert")}
        model = peers.Model(shape, block, fused).double()
        weights = in_names_of_peers(torch, {key: tensors[key] for key in gradients})
        if not shape["encoder"]:  # the files' positions are not trained
            weights["positions"] = peers.sinusoids(sizes["context"], sizes["width"]).double()
        model.load_state_dict(weights)
        assert {key for key, _ in model.named_parameters()} == weights.keys(), name
        seen = {}
        model.norm.register_forward_hook(lambda module, x, y: seen.update(x=y))
        model(tokens, targets)
        logits = seen["x"] @ model.embedding.weight.T
        assert (logits - tensors["logits"]).abs().max() < 1e-6, (name, (logits - tensors["logits"]).abs().max())
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
        expected = in_names_of_peers(torch, gradients)
        for key, parameter in model.named_parameters():
            if key != "positions":
                assert (parameter.grad - expected[key]).abs().max() < 1e-6, (name, key)


def check_ways():
    """What a way has left, in the compiler and in cycles, is gone when the next one begins: a PyTorch of names alone,
    whose memory is the number of models."""
    torch, alive, compiled, modes = mock.MagicMock(__version__="2"), weakref.WeakSet(), [], []
    torch.nn.Module, torch.cuda.OutOfMemoryError = object, MemoryError
    torch.cuda.Event.return_value.elapsed_time.return_value = 2.0
    torch.randint.return_value.numel.return_value = 8
    torch.cuda.max_memory_allocated = lambda: len(alive) * 10**9
    torch.compiler.reset = compiled.clear
    torch.compile = lambda model, mode=None: (compiled.append(model), modes.append(mode)) and model

    class Model:
        def __init__(self, *_):
            self.cycle = self
            alive.add(self)

        def __call__(self, *_):
            return mock.Mock(**{"item.return_value": 1.0})

        def cuda(self):
            return self

        def parameters(self):
            return []
    with mock.patch.dict(sys.modules, {"torch": torch, "torch.nn": torch.nn}):
        peers = script("peers.py")
    said = io.StringIO()
    with mock.patch.object(peers, "Model", Model), contextlib.redirect_stdout(said), \
            mock.patch.object(sys, "argv", ["peers.py", "--shape", "tiny", "--block", "sas_p"]):
        peers.main()
    rows = [json.loads(line) for line in said.getvalue().splitlines()]
    assert [row["way"] for row in rows] == [way + formulation for way in ("eager", "compile", "compile graphs")
                                            for formulation in (" authors", " fused")], rows
    assert modes == [None, None, "reduce-overhead", "reduce-overhead"], modes
    assert {*script("run").tables.RIVALS} - {"eager", "compile"} <= {row["way"] for row in rows}
    assert [row["gb"] for row in rows] == [1] * 6, rows
    assert torch.cuda.empty_cache.call_count == 6 and not peers.is_shaped("pre_ln")


def check_peers():
    """PyTorch's models on the CPU: both formulations of shaped attention are one function, the head of the labelled
    tokens gives what that of all gives, and nobody of a decoder sees what comes."""
    try:
        import torch
    except ImportError:
        return print("skipped: PyTorch's models")
    sys.path.insert(0, GPU)
    import peers
    for block in peers.BLOCKS:
        for name in (block, "bert_" + block):
            if os.path.exists(os.path.join(ROOT, "tests", "golden", name + "_small.safetensors")):
                check_equations(torch, peers, name, block)
    for encoder in (False, True):
        shape = {"vocab": 61, "width": 32, "heads": 4, "layers": 3, "context": 16, "batch": 4}
        shape.update({"encoder": True, "hidden": 64} if encoder else {})
        for block in script("run").SHAPES["bert" if encoder else "tiny"]:
            torch.manual_seed(1)
            tokens, labels = peers.batch_of(shape, "cpu")
            given = int((labels != peers.UNLABELLED).sum())
            assert given == (16 if encoder else 64)
            model, fused = (peers.Model(shape, block, way).double() for way in (False, True))
            for parameter in model.parameters():
                torch.nn.init.normal_(parameter, std=0.3)
            fused.load_state_dict(model.state_dict())
            loss = model(tokens, labels)
            assert abs(loss - fused(tokens, labels)) < 1e-9, block
            seen = {}
            model.norm.register_forward_hook(lambda module, x, y: seen.update(x=y))
            model(tokens, labels)
            logits = seen["x"] @ model.embedding.weight.T
            whole = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
            assert abs(loss - whole) < 1e-6, (block, loss, whole)
            tokens[:, -1] = (tokens[:, -1] + 1) % 61
            before = seen["x"]
            model(tokens, labels)
            assert torch.equal(before[:, 0], seen["x"][:, 0]) == (not encoder), block


def main():
    sys.path.insert(0, os.path.join(ROOT, "bench"))
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(folder)
        for check in (check_check, check_tests, check_numbers, check_products, check_sanitizers, check_deadlines,
                      check_signals, check_trainings, check_tables, check_programs, check_nvcc, check_prerequisites):
            check(machine)
    check_told(sys.argv[1] if len(sys.argv) > 1 else "/usr/include/eigen3")
    check_shapes()
    check_ways()
    check_peers()
    print("bench/gpu/run works")


if __name__ == "__main__":
    main()
