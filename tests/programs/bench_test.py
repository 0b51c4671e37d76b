#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bench_test.py COMPILER: the programs and scripts of bench/ work, on the smallest of their sizes. What they say is in
order; how fast anything is, no test can know."""
import contextlib
import importlib.machinery
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BENCH = os.path.join(ROOT, "bench")
FLAGS = ["-std=c++20", "-O1", "-march=native", "-DSIMPLX_SMOKE", "-DSIMPLX_CONFIG=tiny", "-DSIMPLX_BLOCK=sas_p",
         "-DSIMPLX_PATH=fast", "-DSIMPLX_ALONG=sequences", "-I",
         os.path.join(ROOT, "include"), "-isystem", "/usr/include/eigen3", "-pthread"]
# A rival that needs 20 ms for a step, after the protocol of bench/compare.
RIVAL = """#!%s
import json, sys, time
assert "--config" in sys.argv and "--mode" in sys.argv and "--serve" in sys.argv
print(json.dumps({"ready": True, "peer": "a sleeper", "parameters": 1033174}), flush=True)
for line in sys.stdin:
    count = int(line.split()[1])
    time.sleep(0.02 * count)
    print(json.dumps({"ms": [20.0] * count}), flush=True)
"""

# Either side of bench/compare, with what it tells of itself; `fails` at its first step, and `pids` to name itself in.
SIDE = """#!%s
import json, os, sys
about = json.loads(%r)
with open(about["pids"], "a") as file:
    file.write("%%d\\n" %% os.getpid())
print(json.dumps({"ready": True, **about}), flush=True)
for line in sys.stdin:
    if about.get("fails"):
        sys.exit(3)
    count = int(line.split()[1])
    print(json.dumps({"ms": [20.0] * count, "peak_gflops": about["peak_gflops"]}), flush=True)
"""

# bench/run at a command of its own.
RUNS = """
import signal, sys
sys.path[:0] = %r
from bench_test import script
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
script("run").outcome(%r, None)
"""

GROWING = """#!%s
import json, sys
at, power = int(sys.argv[-1]), %g
print(json.dumps({"axis": "context", "at": at, "ms": 3 * at**power, "limit_ms": 2 * at, "gflop": at, "parameters": at,
                  "arena_mb": at, "trainer_mb": 5 * at, "resident_mb": 9}))
"""


def script(name):
    """A program of bench/ without the ending .py, as a module."""
    loader = importlib.machinery.SourceFileLoader("bench_" + name, os.path.join(BENCH, name))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def run(*command, text=None):
    result = subprocess.run(command, input=text, capture_output=True, text=True)
    assert result.returncode == 0, "%s\n%s%s" % (" ".join(command), result.stdout, result.stderr)
    return result.stdout


def rows(*command):
    """What a program says with --json."""
    found = [json.loads(line) for line in run(*command, "--json").splitlines()]
    assert found and all(isinstance(row, dict) for row in found), command
    shares = [row[key] for row in found for key in row if key in ("of_peak", "of_limit", "of_least")]
    assert shares and all(share > 0 for share in shares), (command, shares)  # above 1 where the machine is busy
    return found


def check_programs(compiler, folder):
    def build(name, *flags):
        source, program = os.path.join(BENCH, name + ".cpp"), os.path.join(folder, name)
        run(compiler, *FLAGS, *flags, source, "-o", program, *(["-lfmt"] if name == "growth_page" else []))
        return program

    for path, least, most in (("fast", 0, 1e-5), ("bfloat16", 1e-4, 1e-2)):
        program = build("gemm", "-USIMPLX_PATH", "-DSIMPLX_PATH=" + path)
        products = rows(program, "--only", "512x", "--rounds", "1")
        assert [(row["product"], row["path"]) for row in products] == [("Y", path), ("dX", path), ("dW", path)]
        assert all(least <= row["difference"] < most for row in products), products
    attention = rows(build("attention"), "--only", "4x1", "--rounds", "1")
    assert [row["tokens"] for row in attention] == [128, 128, 1024, 1024]
    short, long = ({row["bytes_per_token"] for row in attention if row["tokens"] == tokens} for tokens in (128, 1024))
    assert max(long) <= min(short) < 1.5 * max(long), "the memory of attention is not linear: %s, %s" % (short, long)
    losses = rows(build("loss"), "--rounds", "1")
    assert [row["labelled"] for row in losses] == [1, 0.25, 1, 0.25]
    assert all(row["tiled_arena_mb"] < row["held_arena_mb"] for row in losses), losses
    memory, = rows(build("memory"))
    assert memory["allocations_per_step"] == 0, memory
    parts = ("parameters_mb", "moments_mb", "gradient_mb", "packed_mb", "constants_mb", "arenas_mb")
    assert abs(sum(memory[part] for part in parts) - memory["trainer_mb"]) < 1e-3 < memory["arenas_mb"], memory
    short, long = (rows(program, "--at", at)[0] for program in [build("growth")] for at in ("128", "256"))
    assert long["gflop"] > 1.9 * short["gflop"] and long["arena_mb"] < 2.1 * short["arena_mb"], (short, long)

    inference = build("inference")
    rows(inference, "--threads", "2")
    ready, answer = map(json.loads, run(inference, "--serve", text="run 2\n").splitlines())
    assert ready["ready"] and ready["parameters"] == 1033174 and len(answer["ms"]) == 2
    refused = subprocess.run([inference, "--thread", "2"], capture_output=True, text=True)
    assert refused.returncode == 1 and "--thread" in refused.stderr

    rival = os.path.join(folder, "rival")
    with open(rival, "w", encoding="utf-8") as file:
        file.write(RIVAL % sys.executable)
    os.chmod(rival, 0o755)
    said = run(os.path.join(BENCH, "compare"), "--mode", "infer", "--rounds", "1", "--step-binary", inference,
               "--rival", rival)
    result = json.loads(said.splitlines()[-1])
    assert result["peer_ms"] == 20 and abs(result["ratio"] - 20 / result["simplx_ms"]) < 1e-3, result
    assert result["simplx_mb"] > 4 and result["peer_mb"] > 4 and result["peer"] == "a sleeper", result
    return build("growth_page")


def check_compare(folder):
    """What bench/compare makes of its sides, and that none outlives it."""
    compare, pids = script("compare"), os.path.join(folder, "pids")

    def side(name, **about):
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(SIDE % (sys.executable, json.dumps({"pids": pids, "peak_gflops": 100, **about})))
        os.chmod(path, 0o755)
        return path

    def is_alive(pid):
        try:
            os.kill(pid, 0)
            return True
        except ProcessLookupError:
            return False

    def begun():
        with open(pids, encoding="utf-8") as file:
            return [int(line) for line in file]

    ours = side("ours", parameters=5, flops_per_step=1e9)
    for about, share in (({"parameters": 5}, "50.0 %"), ({"parameters": 4}, "-"),
                         ({"parameters": 4, "flops_per_step": 5e8}, "25.0 %")):
        said = run(os.path.join(BENCH, "compare"), "--rounds", "1", "--step-binary", ours, "--rival",
                   side("peer", peer="another", **about))
        table = {line.split()[0]: line for line in said.splitlines()[:4]}
        assert " 50.0 % " in table["simplx"] and " %s " % share in table["another"], said

    cores = sorted(os.sched_getaffinity(0))[-1:]
    name, _ = compare.fastest({"one that fails": [side("failing", fails=True)], "one that runs": [ours]}, cores)
    assert name == "one that runs" and not any(map(is_alive, begun())), name

    command = [os.path.join(BENCH, "compare"), "--rounds", "100000", "--step-binary", ours, "--rival", side("peer")]
    for stopped in (command, [sys.executable, "-c", RUNS % ([os.path.dirname(__file__), BENCH], command)]):
        os.remove(pids)
        with subprocess.Popen(stopped, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as program:
            deadline = time.monotonic() + 60
            while not (os.path.exists(pids) and len(begun()) == 2) and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(0.2)  # into the turns, where one side is stopped
            program.terminate()
            assert program.wait(60) == 143
        assert len(begun()) == 2 and not any(map(is_alive, begun()))

    refused = subprocess.run([os.path.join(BENCH, "compare"), "--rival", "llm.c", "--mode", "infer"],
                             capture_output=True, text=True)
    assert refused.returncode == 2 and "llm.c is timed in training" in refused.stderr, refused.stderr

    with open(os.path.join(folder, "memory"), "w", encoding="utf-8") as status:
        status.write("VmHWM:    20000 kB\n")
    compare.open = lambda path: open(status.name, encoding="utf-8")
    assert compare.peak_megabytes(1) == 20.5  # 20 480 000 bytes


def check_records(folder):
    """A row takes the place of the one of its command and machine; files keep what they are given."""
    record = sys.modules["record"]
    kept, record.RESULTS = record.RESULTS, folder
    record.save("q", "bench/a", [{"x": 1}])
    record.save("q", "bench/b", [{"x": 2}, {"x": 3}], fit={"p": 1})
    record.save("q", "bench/a", [{"x": 4}])
    assert [(row["command"], row["results"]) for row in record.rows_of("q")] == [
        ("bench/a", [{"x": 4}]), ("bench/b", [{"x": 2}, {"x": 3}])]
    assert [r["x"] for r in record.results_of("q")] == [4, 2, 3] and record.rows_of("q")[1]["fit"] == {"p": 1}
    assert record.rows_of("nothing") == []
    machine, record.machine = record.machine, lambda: "another machine"
    record.save("q", "bench/a", [{"x": 5}])
    record.machine = machine
    record.save("q", "bench/a", [{"x": 6}])
    assert [r["x"] for r in record.results_of("q")] == [6, 2, 3, 5]
    record.RESULTS = kept


def check_compiler(folder):
    """A row names the compiler that CMake was given."""
    record, other = sys.modules["record"], os.path.join(folder, "c++")
    with mock.patch.object(record, "BUILD", folder):
        assert record.compiler().startswith("g++ ")
        with open(os.path.join(folder, "CMakeCache.txt"), "w", encoding="utf-8") as file:
            file.write("CMAKE_CXX_COMPILER:FILEPATH=%s\n" % other)
        for said, name in (("Debian clang version 14.0.6", "clang++ 14.0.6 "),
                           ("c++ (Debian) 12.2.0 Copyright (C) 2022 Free Software Foundation", "g++ 12.2.0 ")):
            with open(other, "w", encoding="utf-8") as file:
                file.write("#!/bin/sh\necho '%s'\n" % said)
            os.chmod(other, 0o755)
            assert record.compiler().startswith(name), record.compiler()


def check_report(folder):
    """Files that are damaged are named; rows of which nothing is shown, or a part, are no fault."""
    record, report = sys.modules["record"], script("report")
    kept, record.RESULTS = record.RESULTS, folder
    machine, record.machine = record.machine, lambda: "a machine of which nothing is shown"
    record.save("math", "math", [{"scalar": "double", "eigen_is": "vectorised", "ratio": 2}])
    record.machine = machine
    record.save("compile", "bench/compile", [{"block": "sas_p", "layers": 12, "g++_seconds": 60, "g++_mb": 2000}])
    for text in (report.figures(), report.details()):
        assert "that trainer" in text and "instantiations" not in text and "nothing is shown" not in text, text
    for damaged in ("{", "[]", '{"row": []}'):
        with open(record.path_of("math"), "w", encoding="utf-8") as file:
            file.write(damaged)
        try:
            report.figures()
            raise AssertionError("no word about " + damaged)
        except record.Failure as failure:
            assert record.path_of("math") in str(failure) and "hint: " in str(failure), failure
    record.RESULTS = kept
    refused = subprocess.run([os.path.join(BENCH, "compile"), "--only", "typo"], capture_output=True, text=True)
    assert refused.returncode == 2 and "no row has typo in its name: sas_p-2, " in refused.stderr, refused
    refused = subprocess.run([os.path.join(BENCH, "gpt2"), "--program", "/typo"], capture_output=True, text=True)
    assert refused.returncode == 1 and "there is no /typo\n  hint: after tools/demo: cmake --build build/demo --target gpt2" in refused.stderr, refused


def check_growth(page, folder):
    growth = script("growth")

    def points(time, memory, ms=3):
        return [{"axis": "depth", "at": at, "ms": ms * at**time, "limit_ms": 2 * at, "gflop": at, "parameters": at,
                 "arena_mb": at**memory, "trainer_mb": 5 * at**memory, "resident_mb": 9} for at in (1, 2, 4)]
    fitted = growth.fit("depth", points(1.05, 1))
    assert fitted == {"time": 1.05, "arithmetic": 1.0, "memory": 1.0, "arena": 1.0, "stored": 1, "holds": True}
    assert not growth.fit("depth", points(1.2, 1))["holds"] and not growth.fit("depth", points(1, 1.2))["holds"]

    record = sys.modules["record"]
    kept, record.RESULTS = record.RESULTS, folder
    record.save("growth", "bench/growth <depth>", points(1.2, 1), fit=growth.fit("depth", points(1.2, 1)))
    html = os.path.join(folder, "growth.html")
    run(page, record.path_of("growth"), html)
    with open(html, encoding="utf-8") as file:
        text = file.read()
    tree = ET.fromstring(text.split("\n", 1)[1])
    assert "<script" not in text and len(list(tree.iter("{http://www.w3.org/2000/svg}circle"))) >= 12
    labels = {text.text for text in tree.iter("{http://www.w3.org/2000/svg}text")}
    assert "1.5" not in labels, labels  # there is no half of what is counted
    for words in ("Time grows as depth^1.20", "its arithmetic as depth^1.00", "bench/growth &lt;depth&gt;",
                  "<h2>By depth, on %s</h2>" % record.machine(), "<td>%s</td>" % record.machine()):
        assert words in text, words
    assert "ms per step" in labels
    record.save("growth", "bench/growth <depth>", points(1.2, 1, 300), fit=growth.fit("depth", points(1.2, 1, 300)))
    run(page, record.path_of("growth"), html)
    with open(html, encoding="utf-8") as file:
        text = file.read()
    assert "seconds per step" in text and "ms per step" not in text and ">limit, s<" in text

    damaged = os.path.join(folder, "damaged.json")
    with open(damaged, "w", encoding="utf-8") as file:
        file.write('{"rows": [{}]}')
    refused = subprocess.run([page, damaged, html + ".no"], capture_output=True, text=True)
    assert refused.returncode == 1 and "damaged.json is not what bench/growth saves" in refused.stderr, refused

    # The status is that of the axes of this call: another machine's, and what was saved before, are not.
    program = os.path.join(folder, "program")
    for power, status in ((1, 0), (1.5, record.GROWS_FASTER), (1, 0)):
        with open(program, "w", encoding="utf-8") as file:
            file.write(GROWING % (sys.executable, power))
        os.chmod(program, 0o755)
        with mock.patch.object(record, "build", lambda names: [page if names == ["growth_page"] else program]), \
                mock.patch.object(sys, "argv", ["growth", "context"]), contextlib.redirect_stdout(io.StringIO()), \
                contextlib.redirect_stderr(io.StringIO()):
            assert growth.main() == status, power
    for said, builds in (("", program), (GROWING % (sys.executable, 1), "/bin/false")):  # nothing; no page
        with open(program, "w", encoding="utf-8") as file:
            file.write(said or "#!/bin/sh\n")
        with mock.patch.object(record, "build", lambda names: [builds if names == ["growth_page"] else program]), \
                mock.patch.object(sys, "argv", ["growth", "context"]), contextlib.redirect_stderr(io.StringIO()):
            assert growth.main() == 1

    runner, told = script("run"), io.StringIO()
    ended = {"bench/growth": subprocess.CompletedProcess([], record.GROWS_FASTER),
             "bench/report": subprocess.CompletedProcess([], 0)}
    with mock.patch.object(runner, "outcome", lambda command, stdout: ended[command[0]]), \
            mock.patch.object(runner.subprocess, "run", lambda command, **more: ended[command[0]]), \
            mock.patch.object(record, "version", lambda: "1"), mock.patch.object(record, "machine", lambda: "one"), \
            mock.patch.object(sys, "argv", ["run", "growth-depth"]), contextlib.redirect_stderr(told):
        assert runner.main() == 1 and "saved, but grow faster" in told.getvalue() and "failed" not in told.getvalue()
    # What is saved from changed sources may be from others than these.
    for version, taken in (("1", 0), ("1+", 1), ("unknown", 1)):
        with mock.patch.object(record, "version", lambda: version), contextlib.redirect_stderr(io.StringIO()), \
                mock.patch.object(runner.subprocess, "run", lambda command, **more: ended["bench/report"]), \
                mock.patch.object(runner, "take", mock.Mock(return_value=True)) as take, \
                mock.patch.object(record, "compiler", lambda: "g++"), \
                mock.patch.object(sys, "argv", ["run", "--resume", "growth-depth"]):
            record.save("growth", "bench/growth depth", points(1, 1), fit={"holds": True})
            assert runner.main() == 0 and take.call_count == taken, version
    record.RESULTS = kept


def main():
    sys.path.insert(0, BENCH)
    script("run")  # which brings `record`
    with tempfile.TemporaryDirectory() as folder:
        check_compare(folder)
        page = check_programs(sys.argv[1], folder)
        check_records(folder)
        check_growth(page, folder)
    for check in (check_compiler, check_report):
        with tempfile.TemporaryDirectory() as folder:
            check(folder)
    names = [name for name, _, _ in script("run").all_rows()]
    assert len(names) == len(set(names))
    print("the benchmarks work")


if __name__ == "__main__":
    main()
