#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tokens_test.py PREPARE TRAIN_LM GENERATE TRAIN_LM_OF_BYTES GENERATE_OF_BYTES: text, a tokenizer of 300 tokens, a model
of them, and text again. The last two programs know bytes alone."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

from little_text import write_text

PREPARE, TRAIN, GENERATE, TRAIN_BYTES, GENERATE_BYTES = sys.argv[1:]


def run(*arguments):
    return subprocess.run([*map(str, arguments)], capture_output=True, encoding="utf-8", check=False)


def content(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def main():
    failures = []

    def check(holds, what):
        print(("ok     " if holds else "FAILED ") + what)
        if not holds:
            failures.append(what)

    with tempfile.TemporaryDirectory() as folder:
        names = ("text", "data", "out", "again", "byte_run")
        text, data, out, again, byte_run = (os.path.join(folder, name) for name in names)
        write_text(text)
        done = run(PREPARE, "--vocab", 300, "--window", 129, "--out", data, text)
        check(done.returncode == 0, "text becomes tokens\n" + done.stderr)
        flags = ("--steps", 30, "--text", data, "--out")
        done = run(TRAIN, *flags, out)
        check(done.returncode == 0, "a model of 300 tokens is trained on them\n" + done.stderr)
        record = json.loads(content(out, "run.json"))
        check((record["vocab"], record["tokenizer"]) == (300, "tokenizer.json"), "the record of the run says so")
        check(content(out, "tokenizer.json") == content(data, "tokenizer.json"), "and the tokenizer lies beside it")
        check(re.findall(r"\bbytes\b", done.stdout.replace("vectors of ", "").replace("64 bytes", "")) == [],
              "nothing else is said of bytes\n" + done.stdout)
        losses = re.search(r"([\d.]+) nats per token, ([\d.]+) nats per byte, on held-out text", done.stdout)
        tokens, by_byte = map(float, losses.groups()) if losses else (0, 1)
        check(losses and abs(tokens / by_byte - record["bytes_per_token"]) < 0.02, "the record says how long they are")
        check(1.2 < tokens / by_byte < 5, "the loss is also told by the byte\n" + done.stdout[-300:])
        check(len(content(out, "sample.txt")) > 150 and content(out, "sample.txt").startswith(b"def"),
              "the sample is text, of tokens that are longer than bytes")

        with subprocess.Popen([TRAIN, *map(str, flags), again], stdout=subprocess.PIPE, text=True) as program:
            for line in program.stdout:
                if line.startswith("step "):
                    break
            program.terminate()
            program.stdout.read()
        check(program.returncode == 143, "a signal stops it")
        other = os.path.join(folder, "other")
        shutil.copytree(data, other)
        tokenizer = json.loads(content(data, "tokenizer.json"))
        vocab = tokenizer["model"]["vocab"]
        vocab["0"], vocab["9"] = vocab["9"], vocab["0"]
        with open(os.path.join(other, "tokenizer.json"), "w", encoding="utf-8") as file:
            json.dump(tokenizer, file)
        done = run(TRAIN, "--steps", 30, "--text", other, "--out", again)
        check(done.returncode == 1 and "text_fingerprint" in done.stderr, "another tokenizer is refused:" + done.stderr)
        done = run(TRAIN, *flags, again)
        check(done.returncode == 0 and content(again, "model.safetensors") == content(out, "model.safetensors") and
              content(again, "sample.txt") == content(out, "sample.txt"), "the same one goes on to the same bits:" + done.stderr)

        def write(*arguments, of=GENERATE, where=out):
            return run(of, "--run", where, *arguments)

        done = write("--prompt", "7 times 3\u20ac", "--tokens", 50)
        check(done.returncode == 0 and done.stdout.startswith("7 times 3\u20ac") and "50 tokens in" in done.stderr,
              "generate continues text by tokens:" + done.stderr)
        check(len(write("--tokens", 50).stdout.encode()) > len("def ") + 51, "which are longer than bytes")
        check(write("--tokens", 50, "--no-cache").stdout == write("--tokens", 50).stdout, "without a cache, too")
        # So hot that one token is as probable as another: one in 300 ends the text.
        done = write("--tokens", 20000, "--temperature", 1e6)
        written = int(done.stderr.split()[0])
        check(0 < written < 20000 and "endoftext" not in done.stdout, "where the text ends, generate stops:" + done.stderr)
        lost = os.path.join(folder, "lost")
        shutil.copytree(out, lost)
        os.remove(os.path.join(lost, "tokenizer.json"))
        done = write(where=lost)
        check(done.returncode == 1 and "tokenizer.json" in done.stderr and "hint:" in done.stderr,
              "a tokenizer that is missing is told:" + done.stderr)

        done = run(TRAIN, "--steps", 10, "--text", text, "--out", byte_run)
        check(done.returncode == 0 and re.search(r"\d nats per byte on held-out", done.stdout) is not None and
              json.loads(content(byte_run, "run.json"))["tokenizer"] == "bytes", "a larger model reads bytes, too:" + done.stderr)
        done = write("--tokens", 50, "--temperature", 1e6, where=byte_run)
        check(done.returncode == 0 and "\ufffd" in done.stdout, "what it draws beyond them is shown as no character:" + done.stderr)
        os.remove(os.path.join(other, "meta.json"))
        numbers = os.path.join(folder, "numbers")
        done = run(TRAIN, "--steps", 10, "--text", os.path.join(other, "train.bin"), "--out", numbers)
        sample = content(numbers, "sample.txt").split() if done.returncode == 0 else []
        check(len(sample) == 151 and all(0 <= int(token) < 300 for token in sample) and "nats per byte" not in done.stdout,
              "tokens of which nothing is known are sampled as numbers:" + done.stderr)
        done = write(where=numbers)
        check(done.returncode == 1 and "is not known" in done.stderr, "and write no text:" + done.stderr)

        done = run(TRAIN_BYTES, *flags, os.path.join(folder, "refused"))
        check(done.returncode == 1 and "has a vocabulary of 300 tokens, and the models of this program know 256" in done.stderr and
              "-DSIMPLX_VOCAB=300" in done.stderr, "a program for bytes says how to build one for tokens:" + done.stderr)
        done = write(of=GENERATE_BYTES)
        check(done.returncode == 1 and "vocab is 300, this program has 256" in done.stderr and
              "-DSIMPLX_VOCAB=300" in done.stderr, "as does the one that writes:" + done.stderr)

    print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
