#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""generate_test.py GENERATE TRAIN_LM: what examples/generate promises, held on a model of a few steps."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

GENERATE, TRAIN = sys.argv[1:3]
TEXT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # the tests' own sources


def run(*arguments):
    return subprocess.run([GENERATE, *map(str, arguments)], capture_output=True, check=False)


def main():
    failures = []

    def check(holds, what):
        print(("ok     " if holds else "FAILED ") + what)
        if not holds:
            failures.append(what)

    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "run")
        subprocess.run([TRAIN, "--block", "sas_p", "--steps", "20", "--text", TEXT, "--out", out], check=True, capture_output=True)

        def write(*arguments, tokens=200, seed=3):
            return run("--run", out, "--tokens", tokens, "--seed", seed, *arguments)

        done = write("--prompt", "def ")
        text = done.stdout.decode("utf-8", errors="strict")
        check(done.returncode == 0 and text.startswith("def ") and text.endswith("\n"), "it continues the prompt\n" + done.stderr.decode())
        check(all(c in "\n\t" or ord(c) >= 32 and not 127 <= ord(c) < 160 for c in text), "nothing that a terminal would obey is written")
        check(b"200 tokens in" in done.stderr and b"tokens/s" in done.stderr and b"KiB" in done.stderr, "speed and cache are told on stderr")
        check(write("--prompt", "def ").stdout == done.stdout, "a seed gives one text")
        check(write("--prompt", "def ", "--no-cache").stdout == done.stdout, "without a cache, too, beyond the context")
        other = write("--prompt", "def ", seed=4)
        check(other.returncode == 0 and other.stdout != done.stdout, "another seed gives another")
        third = write("--prompt", "def ", seed=5)
        texts = b"----\n".join([done.stdout, other.stdout, third.stdout])
        check(write("--prompt", "def ", "--samples", 3).stdout == texts, "several texts at once are those of each seed")
        check(write("--prompt", "def ", "--samples", 3, "--no-cache").stdout == texts, "without a cache, too")
        check(write("--prompt", "x" * 300).returncode == 0, "a prompt may be longer than the context")
        check(write("--prompt", "\u20ac\x1b", tokens=0).stdout.decode() == "\u20ac\ufffd\n", "a prompt is shown safely, too")
        greedy = write("--temperature", 0).stdout
        check(len(greedy) > 200 and greedy == write("--top-k", 1, seed=9).stdout == write("--top-p", 1e-9).stdout, "the most probable byte, in three ways")

        done = write("--device", "cuda", "--precision", "bfloat16")
        said = done.stderr.decode()
        check((done.returncode == 0 and "cuda, bfloat16" in said) or
              (done.returncode == 1 and "CUDA" in said and "hint:" in said),
              "a GPU writes too, or the program says what is missing: " + said)

        def refused(what, words, *arguments):
            done = run(*arguments)
            said = done.stderr.decode()
            check(done.returncode == 1 and all(word in said for word in words), f"{what}: {said.strip()}")

        refused("a run that is missing", ["run.json", "hint:"], "--run", os.path.join(folder, "nowhere"))
        refused("a checkpoint that is missing", ["nothing.safetensors", "hint:"], "--run", out, "--checkpoint", os.path.join(folder, "nothing.safetensors"))
        refused("a precision of the CPU", ["--precision tf32 is a GPU's", "hint: give --device cuda"], "--run", out, "--precision", "tf32")
        refused("an empty prompt", ["--prompt", "hint:"], "--run", out, "--prompt", "")
        for flag, value in (("--temperature", -1), ("--temperature", "nan"), ("--top-p", 0), ("--top-k", -1), ("--tokens", -1), ("--seed", -1), ("--seed", 2**64), ("--samples", 0), ("--bogus", 1)):
            refused(f"{flag} {value}", [flag.strip("-").replace("-", " ").split()[0]], "--run", out, flag, value)

        refused("a share of no probability", ["--top-p: 0 is not a number from 1e-12 to 1"], "--run", out, "--top-p", 0)

        other = os.path.join(folder, "other")
        shutil.copytree(out, other)
        record_path = os.path.join(other, "run.json")
        with open(record_path, encoding="utf-8") as file:
            record = json.load(file)

        def recorded(**changes):
            with open(record_path, "w", encoding="utf-8") as file:
                json.dump({**record, **changes}, file)

        recorded(block="resnet", width=256, layers=12)
        refused("another model, all differences at once", ["resnet", "pre_ln", "width is 256", "layers is 12", "hint:"], "--run", other)
        recorded(block="pre_ln")
        refused("weights of another block", ["blocks.0.attention.value.weight", "missing", "unexpected", "hint:"], "--run", other)
        with open(record_path, "w", encoding="utf-8") as file:
            file.write("{")
        refused("a record that ends early", ["run.json", "hint:"], "--run", other)
        recorded()
        check(run("--run", other, "--checkpoint", out, "--tokens", 5).returncode == 0, "a checkpoint may be named by its directory")
        with open(os.path.join(other, "model.safetensors"), "r+b") as file:
            file.truncate(1000)
        refused("weights that end early", ["model.safetensors", "hint:"], "--run", other)
        check(run("--help").returncode == 0, "--help ends well")
    print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
