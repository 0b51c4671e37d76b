#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""compare_blocks_test.py PROGRAM: what examples/compare_blocks promises, held on small runs."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

from little_text import write_text

PROGRAM = sys.argv[1]


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)


def log_of(folder, block):
    with open(os.path.join(folder, block, "log.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def main():
    failures = []

    def check(holds, what):
        print(("ok     " if holds else "FAILED ") + what)
        if not holds:
            failures.append(what)

    with tempfile.TemporaryDirectory() as folder:
        text, out = write_text(os.path.join(folder, "text")), os.path.join(folder, "compare")
        flags = ("--blocks", "sas_p", "pre_ln", "--steps", 12, "--text", text, "--out", out)
        program = subprocess.Popen([PROGRAM, *map(str, flags)], stdout=subprocess.PIPE, text=True)
        for line in program.stdout:
            if line.startswith("step "):
                break
        program.send_signal(signal.SIGINT)
        program.stdout.read()
        check(program.wait() == 130 and not os.path.exists(os.path.join(out, "compare.html")), "Ctrl-C stops it")
        done = run(*flags)
        check(done.returncode == 0, "the same command goes on to the end\n" + done.stderr)
        logs = {block: log_of(out, block) for block in ("sas_p", "pre_ln")}
        check(all(log[-1]["step"] == 12 and log[-1]["tokens"] == 12 * 256 for log in logs.values()),
              "each block has read the same number of tokens")
        table = done.stdout[done.stdout.rindex("block  "):].splitlines()
        rows = [line.split() for line in table[1:3]]
        check(table[0].split()[:2] == ["block", "parameters"] and [row[0] for row in rows] == ["sas_p", "pre_ln"],
              "the table has a row for each block, in the order of the command line")
        check("1 049 558" in table[1] and "1.00x" in rows[0] and "1 214 080" not in table[1], "with what is known of it")
        for row, block in zip(rows, ("sas_p", "pre_ln")):
            check(row[-1] == f"{min(line['val_loss'] for line in logs[block] if line['val_loss']):.3f}",
                  f"the loss of {block} is that of its log")
        page = xml.etree.ElementTree.parse(os.path.join(out, "compare.html"))
        words = "".join(page.getroot().itertext())
        check("sas_p" in words and "pre_ln" in words and "training state" in words, "the page lays both side by side")
        before = {block: log_of(out, block) for block in logs}
        done = run(*flags)
        check(done.returncode == 0 and done.stdout.count("is finished") == 2 and before == logs,
              "called again it only shows the result")

        some = os.path.join(folder, "some")
        done = run("--blocks", "sas_p_norm_free", "pre_ln", "--steps", 3, "--learning-rate", 1e3, "--text", text,
                   "--out", some)
        check(done.returncode == 1 and "sas_p_norm_free diverged: " in done.stderr and
              "not compared, because they diverged: sas_p_norm_free" in done.stderr and "--fresh" not in done.stderr,
              "a block that diverges is told\n" + done.stderr)
        table = done.stdout[done.stdout.rindex("block  "):].splitlines()
        check(table[1].split()[0] == "pre_ln" and os.path.exists(os.path.join(some, "compare.html")),
              "and the others are trained and laid side by side")

        done = run("--blocks", "sas_p", "sas_p", "--steps", 1, "--text", text, "--out", os.path.join(folder, "twice"))
        check(done.returncode == 1 and "twice" in done.stderr and not os.path.exists(os.path.join(folder, "twice")),
              "a block that is named twice is refused")
        done = run("--blocks", "sas_q")
        check(done.returncode == 1 and "sas_p_norm_free" in done.stderr, "an unknown block is refused with those on offer")
        done = run("--minutes", 1, "--steps", 3)
        check(done.returncode == 1 and "--steps" in done.stderr, "time and tokens at once are refused")
        done = run("--steps", 3, "--text", os.path.join(folder, "nothing"), "--out", os.path.join(folder, "none"))
        check(done.returncode == 1 and "nothing" in done.stderr, "text that is not there is named")

    print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
