#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""paper_test.py PROGRAM: what examples/paper promises, held on runs of a few steps."""
import fcntl
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

PROGRAM = sys.argv[1]
HERE = os.path.dirname(os.path.abspath(__file__))
TEXT = os.path.dirname(HERE)  # the tests' own sources
MODELS = {os.path.splitext(os.path.basename(path))[0]
          for path in glob.glob(os.path.join(HERE, "..", "..", "examples", "paper", "models", "*.cpp"))}
EXPERIMENTS = ("s-f2 s-f3 s-f4 s-f5 s-f6 s-f7 s-f8 s-f9 s-f12 s-f13 s-f14 s-f15 s-f17 s-f23 s-f24 s-f25 s-f28 s-t1 "
               "n-t2 n-t4 n-t5 n-f3 n-f4 n-f5 n-f7").split()


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)


def lines_of(folder):
    """The finished runs by the text of their task."""
    runs = {}
    for path in glob.glob(os.path.join(folder, "*.jsonl")):
        with open(path, encoding="utf-8") as file:
            for line in file:
                try:
                    one = json.loads(line)
                except ValueError:
                    continue
                assert os.path.basename(path) == one["task"]["model"] + ".jsonl"
                runs[json.dumps(one["task"])] = one
    return runs


def new_runs(done):
    return int(next(line for line in done.stdout.splitlines() if " runs now, " in line).split()[0])


def main():
    failures = []

    def check(holds, what, done=None):
        print(("ok     " if holds else "FAILED ") + what)
        if not holds:
            failures.append(what)
            if done:
                print(done.stdout + done.stderr)

    with tempfile.TemporaryDirectory() as folder:
        results = os.path.join(folder, "deep", "results")
        small = ("--steps", 3, "--text", TEXT, "--results", results, "--threads", 2)
        os.makedirs(os.path.join(folder, "none"))
        listed = run("list", "--results", os.path.join(folder, "none"))
        names = [line.split()[0] for line in listed.stdout.splitlines()[1:] if line.startswith("  ")]
        check(listed.returncode == 0 and sorted(names) == sorted(EXPERIMENTS), "list shows every experiment", listed)
        missing = [line for line in listed.stdout.splitlines() if line.startswith("Built without")]
        absent = set(missing[0].split("models ")[1].split(":")[0].split(", ")) if missing else set()
        check(absent <= MODELS, f"every model that an experiment names has a source {absent - MODELS}")

        done = run("run", "s-f15", "n-f4", "s-f17", *small)
        check(done.returncode == 0 and new_runs(done) == 7, "three experiments, seven runs", done)
        runs = lines_of(results)
        check(len(runs) == 7 and all(one["loss"] > 0 and len(one["log"]) == 3 for one in runs.values()),
              "each finished run is a line with its loss and its curve")
        check(all(abs(line[1] - 1e-3 * one["milliseconds"] * line[0]) <= 2e-3 * line[1]
                  for one in runs.values() for line in one["log"]), "curves by time have the time of one step")
        check(all(word in done.stdout for word in ("claim ", "miniature ", "3 steps of 16 sequences", "one seed")),
              "the paper's claim, the setting and what was seen are told")
        check(done.stdout.count("below") >= 6 and ("holds" in done.stdout or "DOES NOT HOLD" in done.stdout),
              "and whether the orderings hold")
        kept = {}
        for one in runs.values():
            values = one.get("layers", {}).get("values", {})
            if "attention.value.beta" in values and "factors" in one["task"]["settings"]:
                kept[one["task"]["settings"].get("base", "own")] = values["attention.value.beta"]
        check(len(kept) == 4 and all(row == [0.1] * 6 for rows in kept.values() for row in rows),
              "what is fixed keeps its value in every layer, for all four bases")
        free = [one["layers"]["values"] for one in runs.values()
                if one["task"]["settings"].get("base") == "identity" and "factors" not in one["task"]["settings"]]
        check(len(free) == 1 and free[0]["attention.value.beta"][0] == [0.2] * 6 and
              free[0]["attention.value.beta"][-1] != [0.2] * 6, "what is trained leaves it")
        gradients = [one for one in runs.values() if "gradient.mlp.down.weight" in one["layers"]["values"]]
        check(len(gradients) == 2 and all(len(row) == 6 and min(row) > 0 for one in gradients
                                          for row in one["layers"]["values"]["gradient.mlp.down.weight"]),
              "NormFormer's runs tell the gradients of every layer")
        sizes = sorted(one["parameters"] for one in gradients)
        check(sizes[1] - sizes[0] == 6 * 64, "parameters that are not trained do not count")

        done = run("run", "s-f15", "n-f4", "s-f17", *small)
        check(done.returncode == 0 and new_runs(done) == 0 and lines_of(results) == runs,
              "the same command has nothing to do", done)
        path = os.path.join(results, "norm_former_resscale.jsonl")
        with open(path, "rb") as file:
            content = file.read()
        with open(path, "wb") as file:
            file.write(content[:-200])  # as a full disk or a power cut would leave it
        done = run("run", "n-f4", *small)
        again = lines_of(results)
        check(new_runs(done) == 1 and "1 lines" in done.stdout and again.keys() == runs.keys() and
              all(again[key]["loss"] == runs[key]["loss"] for key in runs),
              "half a line does not count: its run is made anew, with the same bits")
        with open(path, "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # as another program does that appends a run
            before = os.path.getsize(path)
            with subprocess.Popen([PROGRAM, "run", "n-f4", "--seeds", "2", *map(str, small)], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True) as program:
                try:
                    program.wait(3)
                except subprocess.TimeoutExpired:
                    pass
                waits = program.poll() is None and os.path.getsize(path) == before
                file.close()
                output = program.communicate()
        done = subprocess.CompletedProcess(program.args, program.returncode, *output)
        check(waits, "a run is not appended while another program appends one", done)
        check(new_runs(done) == 2 and len(lines_of(results)) == 9 and " to " in done.stdout, "seeds accumulate")
        done = run("run", "s-f9", "--minutes", 0.01, "--steps", 40, "--text", TEXT, "--results", results)
        words = done.stdout
        check(done.returncode == 0 and 1 <= new_runs(done) < 6 and "did not fit" in words and "open" in words,
              "what does not fit into the minutes is left for the next call", done)

        before = lines_of(results)
        flags = ["run", "s-f17", "--steps", "100000", "--text", TEXT, "--results", results]
        with subprocess.Popen([PROGRAM, *flags], stdout=subprocess.PIPE, text=True) as program:
            try:
                program.wait(2)
            except subprocess.TimeoutExpired:
                pass
            program.send_signal(signal.SIGINT)
            rest = program.stdout.read()
            check(program.wait() == 130 and "stopped after 0 of 1" in rest and lines_of(results) == before,
                  "Ctrl-C ends a run, which leaves no line")

        page = os.path.join(folder, "page", "paper.html")
        done = run("report", "--steps", 3, "--results", results, "--out", page)
        root = xml.etree.ElementTree.parse(page).getroot()
        words = "".join(root.itertext())
        charts = [e for e in root.iter() if e.tag.endswith("svg") and e.get("class") == "chart"]
        check(done.returncode == 0 and all(name + ": " in words for name in EXPERIMENTS),
              "the page has every experiment", done)
        check("Tied orthogonal matrices" in words and "Not run yet." in words and "1.194" in words,
              "what the papers say, beside what was seen and what was not run")
        check(len(charts) >= 10, f"with its figures ({len(charts)})")
        check("residual_scale" in words and "nothing was logged" not in words, "none of which is empty")
        check("what 9 runs of" in words and f"{len(before) - 9} runs of other steps or settings are left out" in words,
              "the page counts the runs that it shows")
        check("the paper, nats per token" in words and "the paper, perplexity" in words,
              "the paper's numbers have their unit")
        done = run("report", "--results", os.path.join(folder, "none"), "--out", page)
        check(done.returncode == 0, "a page of nothing", done)

        forged = os.path.join(folder, "forged")
        os.makedirs(forged)
        curves = {"identity": [9, 3, 2], "all_layers_tied": [8, 7, 4], "last_layer_tied": [9, 2, 1], "own": [9, 8, 3]}
        with open(os.path.join(forged, "shaped_reparam_trainable.jsonl"), "w", encoding="utf-8") as file:
            for one in runs.values():
                task = one["task"]
                if task["model"] != "shaped_reparam_trainable" or "factors" not in task["settings"]:
                    continue
                base = task["settings"].get("base", "own")
                one = dict(one, loss=curves[base][-1], log=[[i, i, 1, y] for i, y in enumerate(curves[base])])
                file.write(json.dumps(one) + "\n")
                if base == "identity":
                    file.write(json.dumps(dict(one, loss=5, task=dict(task, seed=2))) + "\n")
        done = run("report", "--steps", 3, "--results", forged, "--out", page)
        figures = {figure.find("{*}figcaption/{*}b").text: figure
                   for figure in xml.etree.ElementTree.parse(page).getroot().findall(".//{*}figure")}
        sweep = figures["Held-out loss by beta"]
        dots = [dot.find("{*}title").text for dot in sweep.iter() if dot.tag.endswith("circle")]
        check(dots == ["identity: 2 at 0.1", "orthogonal: 3 at 0.1"] and "seed 1" in "".join(sweep.itertext()),
              f"a sweep compares the seeds that all its arms have: {dots}")
        drawn = figures["Held-out loss by steps"]
        lines = [line.get("d") for line in drawn.iter() if line.get("class") == "line" and line.get("d") != "M1 4H27"]
        check(len(lines) == 4 and all("L" in line for line in lines), f"the curve of every arm is a line: {lines}")
        words = "".join(drawn.itertext())
        check("first seed, up to 5.20" in words and "all layers tied: from 8 to 4, between 4 and 8." in words,
              "and is told whole where the drawing is cut")

        def refused(what, *arguments, says):
            done = run(*arguments)
            words = done.stdout + done.stderr
            check(done.returncode == 1 and says in words and "runs now" not in words, what, done)

        misspelt = os.path.join(folder, "resluts")
        for command in ("list", "report"):
            refused(f"{command} of a directory that is not there", command, "--results", misspelt, says=misspelt)
        refused("an unknown experiment is refused with the nearest names", "run", "s-f33", says="s-f3, s-f13")
        refused("and so is one among others", "run", "s-f15", "n_t4", *small, says="n-t4")
        refused("an unknown flag is named", "run", "s-f15", "--sedes", 3, says="--sedes")
        refused("no seeds are refused", "run", "s-f15", "--seeds", 0, says="--seeds")
        refused("minutes that are no number are refused", "run", "s-f15", "--minutes", "nan", says="--minutes")
        nowhere = os.path.join(folder, "nowhere")
        refused("text that is not there is named", "run", "s-f15", "--text", nowhere, says=nowhere)
        refused("a command is needed", says="subcommand")
        blocked = os.path.join(folder, "file")
        with open(blocked, "w", encoding="utf-8") as file:
            file.write("no directory\n")
        refused("a directory that cannot be written is named", "run", "n-f4", "--steps", 1, "--text", TEXT, "--results",
                os.path.join(blocked, "results"), says="--results DIR")
        refused("a page that cannot be written has a hint", "report", "--out", os.path.join(blocked, "x", "y.html"),
                "--results", results, says="--out FILE")
        if absent:
            refused("what needs a model that was not built says so", "run", "s-t1", *small, says="SIMPLX_PAPER=ON")
        else:  # all models are there: every experiment
            every = os.path.join(folder, "every")
            done = run("run", "--steps", 1, "--text", TEXT, "--results", every)
            check(done.returncode == 0 and "nothing to read off" not in done.stdout,
                  "all experiments run", done)
            done = run("run", "s-f13", "s-f24", *small)
            check(new_runs(done) == 6, "arms that two experiments share are run once", done)
            turns = [one for one in lines_of(every).values() if one["task"]["settings"].get("turns")]
            check(len(turns) == 6 and all(one["milliseconds"] > 0 for one in turns), "models that take turns are timed")

    print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
