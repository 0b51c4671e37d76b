#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""train_lm_test.py PROGRAM: what examples/train_lm promises, held on small runs."""
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

from little_text import write_text

PROGRAM = sys.argv[1]
HERE = os.path.dirname(os.path.abspath(__file__))


def run(*arguments, **options):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False, **options)


def small_disk(size):
    """What a process calls before it runs, so that none of its files may have more bytes. It dies of one unless it
    ignores SIGXFSZ."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def stop(number, after, *arguments):
    """Sends a signal once the output has that many lines that begin with 'step'; the status and the rest of the output."""
    with subprocess.Popen([PROGRAM, *map(str, arguments)], stdout=subprocess.PIPE, text=True) as program:
        for line in program.stdout:
            after -= line.startswith("step ")
            if after == 0:
                break
        program.send_signal(number)
        rest = program.stdout.read()
        return program.wait(), rest


def content(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


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
        text, out = write_text(os.path.join(folder, "text")), os.path.join(folder, "deep", "run")
        done = run("--steps", 30, "--text", text, "--out", out, "--threads", 2)
        check(done.returncode == 0, "a run of 30 steps ends well\n" + done.stderr if done.returncode else "a run of 30 steps ends well")
        check(sorted(os.listdir(out)) == ["block.svg", "checkpoints", "log.jsonl", "model.safetensors", "report.html",
                                          "run.json", "sample.txt"], "it leaves the files of a run")
        page = xml.etree.ElementTree.fromstring(content(out, "report.html"))
        words = "".join(page.itertext())
        check("mlp_gain" in words and "1 049 558" in words, "the page tells of the gains and the parameters")
        picture = "".join(xml.etree.ElementTree.fromstring(content(out, "block.svg")).itertext())
        check("Shaped attention" in picture and "ReLU" in picture, "the picture shows the block")
        for word in ("sas_p", "1 049 558", "FLOPs", "threads", "build", "held out", "% of peak", "left", "steps"):
            check(word in done.stdout, f"it says '{word}'")
        check("\r" not in done.stdout, "piped output has plain lines")
        with open(os.path.join(out, "log.jsonl"), encoding="utf-8") as file:
            log = [json.loads(line) for line in file]
        keys = ["step", "tokens", "seconds", "train_loss", "val_loss", "learning_rate", "grad_norm", "tokens_per_second"]
        more = [*keys, "gains", "gradient_norms"]
        check(all(list(line) == (keys if line["val_loss"] is None else more) for line in log), "every line of the log has its keys")
        check(log[-1]["step"] == 30 and log[-1]["tokens"] == 30 * 256 and log[-1]["val_loss"] is not None, "the last line is complete")
        check(len([line for line in log if line["val_loss"] is not None]) == 10 and log[0]["val_loss"] is None, "ten lines are validations")
        gains = log[-1]["gains"]
        check(all(len(values) == 6 for values in gains.values()) and len(log[-1]["gradient_norms"]) == 6, "layers have a number each")
        check({"attention.alpha", "attention.beta", "attention.gamma", "attention_gain", "mlp_gain"} <= gains.keys()
              and gains["attention.value.alpha"][1:] == [None] * 5, "the gains of the blocks are there, where there are any")
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
        sample = content(out, "sample.txt")  # of each byte at least one
        check(len(sample) >= 405 and sample.decode().startswith("def "), "the sample is text")
        trained = struct.unpack_from("<f", data, header["blocks.2.mlp_gain"]["data_offsets"][0])[0]
        check(abs(trained - gains["mlp_gain"][2]) < 1e-7, "the gains of the log are those of the model")
        with open(os.path.join(out, "checkpoints", "index.json"), encoding="utf-8") as file:
            index = json.load(file)
        losses = {line["step"]: line["val_loss"] for line in log if line["val_loss"] is not None}
        best = min(losses, key=losses.get)
        check(index == {"latest": "step-00000030", "best": f"step-{best:08}", "best_val_loss": losses[best]},
              "the index names the latest and the best checkpoint")
        check(set(os.listdir(os.path.join(out, "checkpoints"))) >= {"index.json", index["latest"], index["best"]}, "which are there")
        check(content(out, "checkpoints", index["latest"], "model.safetensors") == content(out, "model.safetensors"),
              "the last checkpoint has the final weights")

        again, other = os.path.join(folder, "again"), os.path.join(folder, "other")
        flags = ("--steps", 30, "--text", text, "--out", again)
        for number, status, threads in ((signal.SIGTERM, 143, 1), (signal.SIGINT, 130, 2)):
            ended, rest = stop(number, 4, *flags, "--threads", threads)
            check(ended == status and "the same command goes on" in rest, f"signal {number} ends it with status {status}: {ended}")
            check(not os.path.exists(os.path.join(again, "model.safetensors")), "before its end there is no final model")
            check(len(content(again, "sample.txt")) > 400 and os.path.exists(os.path.join(again, "report.html")),
                  "but a sample and a page")
        done = run("--block", "sas_p", "--seed", 2, "--batch", 3, *flags)
        check(done.returncode == 1 and all(word in done.stderr for word in ("seed", "batch", "--fresh")) and '"sas_p"' not in done.stderr,
              "an unfinished run refuses other options, and says which:" + done.stderr)
        record = json.loads(content(again, "run.json"))
        with open(os.path.join(again, "run.json"), "w", encoding="utf-8") as file:  # as with vectors of another width
            json.dump({**record, **{key: record[key] + 64 for key in ("bytes", "arena_bytes")}, "build": "other"}, file)
        done = run(*flags, "--threads", 1)
        check(done.returncode == 0 and "goes on" in done.stdout and "another build" in done.stdout,
              "the same command goes on, on another number of threads, in a build for another processor:" + done.stderr)
        check(content(again, "model.safetensors") == content(out, "model.safetensors"), "and gives the same bits")
        check(content(again, "sample.txt") == content(out, "sample.txt"), "and the same sample")
        with open(os.path.join(again, "log.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        check({line["step"]: line["val_loss"] for line in lines if line["val_loss"] is not None} == losses
              and all(a["step"] < b["step"] and a["seconds"] <= b["seconds"] for a, b in zip(lines, lines[1:])),
              "its log is that of one run")
        before = sorted(os.listdir(again))
        done = run(*flags)
        check(done.returncode == 0 and "is finished" in done.stdout and "--fresh" in done.stdout and sorted(os.listdir(again)) == before,
              "a finished run says so")
        done = run("--steps", 40, "--text", text, "--out", again)
        check(done.returncode == 1 and "the learning rate falls to zero" in done.stderr, "and is not made longer:" + done.stderr)
        done = run("--steps", 30, "--text", HERE, "--out", again)
        check(done.returncode == 1 and "text_fingerprint" in done.stderr, "other text is noticed")
        record = json.loads(content(again, "run.json"))
        with open(os.path.join(again, "run.json"), "w", encoding="utf-8") as file:
            json.dump({**record, "steps": "many"}, file)
        done = run(*flags)
        check(done.returncode == 1 and "many" in done.stderr and "json.exception" not in done.stderr,
              "so are steps that are none:" + done.stderr)
        done = run("--block", "pre_ln", "--steps", 3, "--text", text, "--out", again, "--fresh", "--seed", 2)
        check(done.returncode == 0 and "1 230 464" in done.stdout, "pre_ln trains too, in place of a run that is moved aside")
        check(content(again + "-1", "model.safetensors") == content(out, "model.safetensors"), "and not lost")
        run("--steps", 30, "--text", text, "--out", other, "--seed", 2)
        check(tensors(os.path.join(other, "model.safetensors"))[1] != data, "another seed gives other bits")
        for block in ("parallel", "v_skip_init_shaped", "sas", "sas_p_norm_free"):
            done = run("--block", block, "--steps", 1, "--text", text, "--out", os.path.join(folder, block))
            check(done.returncode == 0, f"{block} trains too")

        full = os.path.join(folder, "full")
        ended, rest = stop(signal.SIGTERM, 3, "--steps", 30, "--text", text, "--out", full)
        saved = os.listdir(os.path.join(full, "checkpoints"))
        done = run("--steps", 30, "--text", text, "--out", full, preexec_fn=small_disk(6_000_000))  # weights, no moments
        check(done.returncode == 0 and "no checkpoint at step" in done.stdout, "training goes on where no checkpoint can be written")
        check(os.listdir(os.path.join(full, "checkpoints")) == saved, "and earlier ones stay")
        os.remove(os.path.join(full, "model.safetensors"))
        for name, kind in (("report.html", os.mkdir), ("checkpoints", lambda path: open(path, "x", encoding="utf-8").close())):
            place, aside = os.path.join(full, name), os.path.join(full, "aside")
            os.rename(place, aside)
            kind(place)  # a directory for a file and the other way: not even root can write there
            done = run("--steps", 30, "--text", text, "--out", full)
            check(done.returncode == 1 and place in done.stderr and "hint:" in done.stderr and "step " not in done.stdout,
                  f"a {name} that cannot be written is told before the first step:" + done.stderr)
            (os.rmdir if os.path.isdir(place) else os.remove)(place)
            os.rename(aside, place)

        done = run("--steps", 30, "--text", text, "--out", os.path.join(folder, "small_disk"), preexec_fn=small_disk(3000))
        check(done.stdout.count("no line of the log at step") == 1 and "step     30/30" in done.stdout,
              "training goes on where the log cannot be written, which it says once")
        check(done.returncode == 1 and "File too large" in done.stderr, "and what cannot be written in the end is an error")
        check(not os.path.exists(os.path.join(folder, "small_disk", "report.html")), "the first of which are the weights")
        with open(os.path.join(folder, "small_disk", "log.jsonl"), encoding="utf-8") as file:
            check(all(json.loads(line) for line in file), "the log has whole lines alone")

        late = os.path.join(folder, "late")
        with subprocess.Popen([PROGRAM, "--steps", "30", "--text", text, "--out", late], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
            for line in program.stdout:
                if line.startswith("step "):
                    break
            os.mkdir(os.path.join(late, "block.svg"))  # too late for the first look at the paths
            rest, said = program.communicate()
        check(program.returncode == 1 and "block.svg" in said and "tools/report" in rest,
              "a picture that cannot be written in the end is told:" + said)
        check(content(late, "model.safetensors") == content(out, "model.safetensors") and
              content(late, "sample.txt") == content(out, "sample.txt") and os.path.exists(os.path.join(late, "report.html")),
              "and the weights and the other pages are there")

        stopped = os.path.join(folder, "stopped")
        with subprocess.Popen([PROGRAM, "--steps", "3000", "--text", text, "--out", stopped], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=small_disk(3_000_000)) as program:
            for line in program.stdout:
                if line.startswith("step "):
                    break
            program.send_signal(signal.SIGINT)
            rest, said = program.communicate()
        check(program.returncode == 1 and "no checkpoint at step" in rest and "stopped by a signal after step" in rest,
              "Ctrl-C with a full disk says both:" + said)

        first, second = os.path.join(text, "runs", "first"), os.path.join(text, "runs", "second")
        prints = []
        for place in (first, second):
            done = run("--steps", 1, "--text", text, "--out", place)
            prints.append(json.loads(content(place, "run.json"))["text_fingerprint"])
        check(prints[0] == prints[1] == json.loads(content(out, "run.json"))["text_fingerprint"],
              "what other runs wrote within the text is no text")
        done = run("--steps", 1, "--text", text, "--out", first)
        check(done.returncode == 0 and "is finished" in done.stdout, "so that a run there goes on:" + done.stderr)
        for place in (text, os.path.join(text, "runs")):
            before = sorted(os.listdir(place))
            done = run("--steps", 1, "--text", text, os.path.join(text, "runs", "first"), "--out", place)
            check(done.returncode == 1 and place in done.stderr and "hint:" in done.stderr and sorted(os.listdir(place)) == before,
                  "results are not written where text is, or around it:" + done.stderr)

        damaged = os.path.join(folder, "damaged")
        run("--steps", 30, "--text", text, "--out", damaged, "--checkpoint-every", 10)
        os.remove(os.path.join(damaged, "model.safetensors"))
        latest = os.path.join(damaged, "checkpoints", "step-00000030")
        os.truncate(os.path.join(latest, "state.safetensors"), 100)
        done = run("--steps", 30, "--text", text, "--out", damaged)
        check(done.returncode == 1 and f"without the directory {latest} the same command goes on" in done.stderr,
              "a damaged checkpoint is told, with the way on:" + done.stderr)
        shutil.rmtree(latest)
        done = run("--steps", 30, "--text", text, "--out", damaged)
        check(done.returncode == 0 and content(damaged, "model.safetensors") == content(out, "model.safetensors"),
              "which is one:" + done.stderr)
        for number, broken in enumerate((b"", b'{"block": '), 1):
            with open(os.path.join(damaged, "run.json"), "wb") as file:
                file.write(broken)
            before = content(damaged, "model.safetensors")
            refusal = run("--steps", 1, "--text", text, "--out", damaged)
            done = run("--steps", 1, "--text", text, "--out", damaged, "--fresh")
            check(refusal.returncode == 1 and "is no JSON object" in refusal.stderr and done.returncode == 0 and
                  content(f"{damaged}-{number}", "model.safetensors") == before and
                  content(f"{damaged}-{number}", "run.json.damaged") == broken,
                  "a run whose record is damaged is refused, and moved aside by --fresh:" + done.stderr)

        def refused(what, words, *arguments):
            done = run(*arguments)
            said = done.stderr
            check(done.returncode == 1 and all(word in said for word in words), f"{what}: {said.strip() or done.stdout.strip()}")

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
        refused("a rate that is none", ["--learning-rate: -1 is not a number from 1e-12 to 1e+30"], "--learning-rate", "-1")
        refused("minutes that are none", ["--minutes: nan is not a number from 0.01 to 100000"], "--minutes", "nan")
        for seed in (-1, 1.5, 2**64):
            refused("a seed that is none", [f"--seed: {seed} is not a whole number from 0 to {2**64 - 1}"], "--seed", seed)
        refused("a precision that is none", ["--precision", "float64", "bfloat16,float32,tf32"], "--precision", "float64")
        refused("a precision of the CPU", ["--precision tf32 is a GPU's", "hint: give --device cuda"], "--precision", "tf32")
        refused("text that is missing", [os.path.join(folder, "nowhere"), "hint:"], "--text", os.path.join(folder, "nowhere"))
        refused("text that is empty", [empty, "hint:"], "--text", empty)
        refused("text that is too short", ["too short", "129 bytes", "hint:"], "--text", short)
        refused("text that is binary", [binary, "hint:"], "--text", binary)
        pipe = os.path.join(folder, "pipe")
        os.mkfifo(pipe)
        refused("text that is a pipe", [pipe, "hint:"], "--text", pipe)
        refused("an interval that is none", ["--checkpoint-every", "hint:"], "--checkpoint-every", "often")
        refused("a directory that cannot be written", ["/proc/nowhere", "hint:"], "--out", "/proc/nowhere", "--text", text)
        for precision in ("float32", "bfloat16"):
            done = run("--device", "cuda", "--precision", precision, "--steps", 3, "--text", text,
                       "--out", os.path.join(folder, precision))
            check((done.returncode == 0 and "cuda, " + precision in done.stdout) or
                  (done.returncode == 1 and "CUDA" in done.stderr and "hint:" in done.stderr),
                  f"a GPU trains too, in {precision}, or the program says what is missing:" + done.stderr)
        refused("a loss that explodes", ["no longer finite at step", "parameter concerned is", "checkpoint", "hint:"],
                "--steps", 60, "--learning-rate", 1e25, "--text", text, "--out", os.path.join(folder, "explodes"))
        check(not os.path.exists(os.path.join(folder, "explodes", "model.safetensors")), "and leaves no model behind")
        check(run("--help").returncode == 0, "--help ends well")
    print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
