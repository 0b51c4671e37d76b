#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""train_lm_test.py PROGRAM: what examples/train_lm promises, held on small runs."""
import json
import os
import struct
import subprocess
import sys
import tempfile

PROGRAM = sys.argv[1]
HERE = os.path.dirname(os.path.abspath(__file__))
TEXT = os.path.dirname(HERE)  # the tests' own sources


def run(*arguments, cwd=None):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False, cwd=cwd)


def tensors(path):
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(length))
        return header, file.read()


def main():
    failures = []

    def check(holds, what):
        print(("ok     " if holds else "FAILED ") + what)
        if not holds:
            failures.append(what)

    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "deep", "run")
        done = run("--steps", 30, "--text", TEXT, "--out", out, "--threads", 2)
        check(done.returncode == 0, "a run of 30 steps ends well\n" + done.stderr if done.returncode else "a run of 30 steps ends well")
        check(sorted(os.listdir(out)) == ["log.jsonl", "model.safetensors", "run.json", "sample.txt"], "it leaves four files")
        for word in ("sas_p", "1 049 558", "FLOPs", "threads", "build", "held out", "% of peak", "left", "steps"):
            check(word in done.stdout, f"it says '{word}'")
        check("\r" not in done.stdout, "piped output has plain lines")
        with open(os.path.join(out, "log.jsonl"), encoding="utf-8") as file:
            log = [json.loads(line) for line in file]
        keys = ["step", "tokens", "seconds", "train_loss", "val_loss", "learning_rate", "grad_norm", "tokens_per_second"]
        check(all(list(line) == keys for line in log), "every line of the log has the eight keys")
        check(log[-1]["step"] == 30 and log[-1]["tokens"] == 30 * 256 and log[-1]["val_loss"] is not None, "the last line is complete")
        check(any(line["val_loss"] is None for line in log) or len(log) <= 11, "val_loss is null between validations")
        check(all(a["seconds"] <= b["seconds"] for a, b in zip(log, log[1:])), "seconds grow")
        check(log[-1]["train_loss"] < log[0]["train_loss"], "the loss falls")
        with open(os.path.join(out, "run.json"), encoding="utf-8") as file:
            record = json.load(file)
        check(record["block"] == "sas_p" and record["steps"] == 30 and record["seed"] == 1 and "blocks.0.norm1.epsilon" in record["hyper"],
              "run.json records the options")
        header, data = tensors(os.path.join(out, "model.safetensors"))
        shapes = {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}
        check(shapes["blocks.0.mlp.up.weight"] == [128, 512] and shapes["blocks.1.attention.alpha"] == [4] and shapes["blocks.5.mlp_gain"] == [],
              "the checkpoint has names and shapes of checkpoints")
        check(len(data) == 4 * 1049558, "and all parameters")
        with open(os.path.join(out, "sample.txt"), encoding="utf-8") as file:
            check(len(file.read()) >= 400, "the sample is text")

        again = os.path.join(folder, "again")
        run("--steps", 30, "--text", TEXT, "--out", again, "--threads", 1)
        check(tensors(os.path.join(again, "model.safetensors"))[1] == data, "the same seed gives the same bits, on another number of threads")
        run("--steps", 30, "--text", TEXT, "--out", again, "--seed", 2)
        check(tensors(os.path.join(again, "model.safetensors"))[1] != data, "another seed gives others")
        done = run("--block", "pre_ln", "--steps", 3, "--text", TEXT, "--out", again)
        check(done.returncode == 0 and "1 230 464" in done.stdout, "pre_ln trains too")

        def refused(what, words, *arguments):
            done = run(*arguments)
            text = done.stderr
            check(done.returncode == 1 and all(word in text for word in words), f"{what}: {text.strip() or done.stdout.strip()}")

        empty, short, binary = (os.path.join(folder, name) for name in ("empty.txt", "short.txt", "binary.bin"))
        open(empty, "w", encoding="utf-8").close()
        with open(short, "w", encoding="utf-8") as file:
            file.write("too short")
        with open(binary, "wb") as file:
            file.write(bytes(range(256)))
        refused("a block that does not exist", ["--block", "resnet", "pre_ln"], "--block", "resnet")
        refused("a flag that does not exist", ["--bogus"], "--bogus")
        refused("a number that is none", ["--steps"], "--steps", "many")
        refused("no steps at all", ["--steps"], "--steps", "0")
        refused("text that is missing", [os.path.join(folder, "nowhere"), "hint:"], "--text", os.path.join(folder, "nowhere"))
        refused("text that is empty", [empty, "hint:"], "--text", empty)
        refused("text that is too short", ["too short", "129 bytes", "hint:"], "--text", short)
        refused("text that is binary", [binary, "hint:"], "--text", binary)
        refused("a directory that cannot be written", ["/proc/nowhere", "hint:"], "--out", "/proc/nowhere", "--text", TEXT)
        refused("a loss that explodes", ["no longer finite at step", "parameter concerned is", "hint:"],
                "--steps", 60, "--learning-rate", 1e25, "--text", TEXT, "--out", os.path.join(folder, "explodes"))
        check(not os.path.exists(os.path.join(folder, "explodes", "model.safetensors")), "and leaves no model behind")
        check(run("--help").returncode == 0, "--help ends well")
    print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
