#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kill_test.py PROGRAM [KILLS [SEED]]: runs of train_lm that are killed at random moments, with kill -9.

After each kill there are only whole checkpoints, and none earlier than before; the same command goes on; and what
comes out in the end has the bits of a run that nobody disturbed."""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import time

from little_text import write_text

PROGRAM, KILLS, SEED = sys.argv[1], *(int(given) for given in (sys.argv[2:] + ["10", "1"][len(sys.argv) - 2:]))
STEPS = 24


def command(text, out, threads):
    return [PROGRAM, "--text", text, "--steps", str(STEPS), "--checkpoint-every", "1", "--keep", "2", "--out", out,
            "--threads", str(threads)]


def check_whole(path):
    """The size of a safetensors file is what its header says."""
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(length))
    end = max(entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__")
    assert os.path.getsize(path) == 8 + length + end, f"{path} is cut off"
    return header["__metadata__"]


def latest(out):
    """The step of the newest checkpoint, after a look into all of them; 0 if there is none."""
    folder, newest = os.path.join(out, "checkpoints"), 0
    if not os.path.isdir(folder):
        return newest
    for name in sorted(os.listdir(folder)):
        if name.startswith("step-"):
            check_whole(os.path.join(folder, name, "model.safetensors"))
            newest = int(name[len("step-"):])
            assert int(check_whole(os.path.join(folder, name, "state.safetensors"))["steps"]) == newest, name
    return newest


def results(out):
    """All of a finished run that does not depend on how fast it was."""
    files = {}
    for name in ("model.safetensors", "sample.txt", "checkpoints/index.json", f"checkpoints/step-{STEPS:08}/model.safetensors"):
        with open(os.path.join(out, name), "rb") as file:
            files[name] = file.read()
    with open(os.path.join(out, "log.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    assert all(a["seconds"] <= b["seconds"] for a, b in zip(lines, lines[1:])), "seconds fall"
    for line in lines:
        del line["seconds"], line["tokens_per_second"]
    return {**files, "log.jsonl": lines}


def main():
    chance = random.Random(SEED)
    with tempfile.TemporaryDirectory() as folder:
        text, whole = os.path.join(folder, "text"), os.path.join(folder, "whole")
        write_text(text)
        begin = time.monotonic()
        subprocess.run(command(text, whole, 1), check=True, stdout=subprocess.DEVNULL)
        expected, delay = results(whole), (time.monotonic() - begin) / STEPS

        kills = runs = without_progress = 0
        while kills < KILLS:
            out, before, ended = os.path.join(folder, f"run{runs}"), 0, False
            while not ended:
                program = subprocess.Popen(command(text, out, chance.choice((1, 2))), stdout=subprocess.PIPE, text=True)
                if kills >= KILLS:
                    program.communicate()  # to its end, undisturbed
                else:
                    if chance.random() < 0.8:  # usually it may begin with its work
                        for line in program.stdout:
                            if line.startswith("  steps"):
                                break
                    time.sleep(chance.random() * 2 * delay)
                    program.kill()
                    program.communicate()
                ended = program.returncode == 0
                kills += program.returncode == -9
                assert program.returncode in (0, -9), f"exit status {program.returncode}"
                now = latest(out)
                assert now >= before, f"the checkpoint of step {before} is lost: the latest is {now}"
                without_progress += now == before
                delay *= 1.3 if now == before else 0.8  # however busy the machine: kills fall before and after checkpoints
                before = now
            found = results(out)
            for name, content in expected.items():
                assert found[name] == content, f"{name} of run {runs} is not that of a run without kills"
            runs += 1
            print(f"{kills} kills, {runs} runs ended with the same bits", flush=True)
        print(f"ok: {kills} kills, {without_progress} of them before another checkpoint")


if __name__ == "__main__":
    main()
