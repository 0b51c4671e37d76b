#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""make_runs.py DIR: directories of runs as train_lm leaves them, with invented numbers that look like real ones.

Each kind shows what a report must cope with: plain, plain2, deep (72 layers), long (a log of 60 000 lines), short (one
line), fresh (an empty log), broken_off (an unfinished last line), norm_former_resscale (a long name), hostile (markup
and bad bytes in names and values).
"""
import json
import math
import os
import random
import sys

SHAPED = {"attention.alpha": 1.0, "attention.beta": 1.0, "attention.gamma": 1.0, "mlp_gain": 0.1}
GAINS = {"sas_p": {**SHAPED, "attention_gain": 1.0}, "sas": SHAPED}
# As helper programs draw it: its own colours, light and dark, and a size of its own.
PICTURE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 240 320" width="240" height="320" role="img">
<title>The block</title><style>:root{--i:#222}@media (prefers-color-scheme:dark){:root{--i:#ddd}}
path,rect{fill:none;stroke:var(--i);stroke-width:1.5}text{fill:var(--i);font:14px sans-serif;text-anchor:middle}</style>
<path d="M120 310V10"/><rect x="60" y="220" width="120" height="36" rx="6"/><text x="120" y="243">RMSNorm</text>
<rect x="20" y="90" width="90" height="36" rx="6"/><text x="65" y="113">Attention</text>
<rect x="130" y="90" width="90" height="36" rx="6"/><text x="175" y="113">MLP</text></svg>
"""
SAMPLE = '''def report(self, name, value=None):
    """Return the value of the named option, or the default."""
    if value is None:
        value = self._options.get(name, self.default_of(name))
    return [x for x in value if x < self.limit and x & 1 and not isinstance(x, str)]
'''


def options(block, layers, steps, seed, batch=2, context=128, **others):
    parameters = 16384 * (2 + 11 * layers)
    return {"version": "0.1.0", "block": block, "parameters": parameters, "vocab": 256, "width": 128, "heads": 4,
            "layers": layers, "context": context, "bytes": 20 * parameters, "arena_bytes": 3000000,
            "positions": "learned", "seed": seed, "threads": 2, "batch": batch, "steps": steps,
            "minutes": None, "learning_rate": 2e-3, "warmup": steps // 20, "optimiser": "adamw", "weight_decay": 0.1,
            "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-8, "clip": 1.0, "build": "Release, vectors of 64 bytes",
            "peak_gflops": 230.5, "flops_per_token": 6.9e6, "out": "runs/x", "text": ["/usr/lib/python3.11"],
            "hyper": {"blocks.0.norm1.epsilon": 1e-6}, **others}


def log_lines(block, layers, steps, every, rng, floor=1.25, speed=12000.0, tokens_per_step=256, validations=10):
    seconds, lines = 0.0, []
    drift = {name: [rng.gauss(0, 0.3) for _ in range(layers)] for name in GAINS.get(block, {})}
    for step in sorted({1, *range(every, steps + 1, every), steps}):
        part, tokens = step / steps, step * tokens_per_step
        loss = floor + 4.3 * (1 + tokens / 6000) ** -0.45
        now = speed * rng.gauss(1, 0.02) * (0.55 if 0.4 < part < 0.45 else 1)
        seconds += every * tokens_per_step / now
        line = {"step": step, "tokens": tokens, "seconds": round(seconds, 6), "train_loss": loss * rng.gauss(1, 0.05),
                "val_loss": None, "learning_rate": 2e-3 * min(part / 0.05, (1 - part) / 0.95),
                "grad_norm": (0.5 + 3 * math.exp(-8 * part)) * math.exp(rng.gauss(0, 0.25)), "tokens_per_second": now}
        validates = step * validations // steps != (step - every) * validations // steps
        if validates:
            line["val_loss"] = loss * rng.gauss(1.02, 0.004)
            starts = GAINS.get(block, {})
            line["gains"] = {name: [starts[name] * (1 + move * math.sqrt(part) + 0.4 * part * i / layers)
                                    for i, move in enumerate(drift[name])] for name in starts}
            line["gradient_norms"] = [1e-4 * (1 + 2 * part) * math.exp(0.9 * (1 - part) * (layers - i) / layers +
                                                                       rng.gauss(0, 0.05)) for i in range(layers)]
        lines.append(line)
    return lines


def write_run(directory, record, lines, tail="", sample=SAMPLE, picture=PICTURE):
    os.makedirs(directory)
    log = "".join(json.dumps(line) + "\n" for line in lines) + tail
    for name, text in (("run.json", json.dumps(record, indent=2) + "\n"), ("log.jsonl", log), ("sample.txt", sample),
                       ("block.svg", picture)):
        if text is not None:
            path = os.path.join(os.fsencode(directory), name.encode())
            with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(text)


HOSTILE = b'<script>alert(1)& "\xff\xfe" ' + "ümlaut ".encode() + b"a-very-long-name-" * 5


def make(folder):
    """Writes every kind; returns {kind: directory}."""
    paths = {}

    def write(kind, record, lines, **others):
        paths[kind] = os.path.join(folder, kind)
        write_run(paths[kind], record, lines, **others)

    write("plain", options("sas_p", 6, 8000, 1), log_lines("sas_p", 6, 8000, 20, random.Random(1)))
    write("plain2", options("pre_ln", 6, 8000, 1),
          log_lines("pre_ln", 6, 8000, 20, random.Random(2), floor=1.31, speed=10500.0))
    write("deep", options("sas", 72, 2000, 3), log_lines("sas", 72, 2000, 10, random.Random(3), speed=1000.0),
          sample=None)
    long = log_lines("sas_p", 18, 3000000, 50, random.Random(4), tokens_per_step=4096, speed=150000.0, validations=200)
    write("long", options("sas_p", 18, 3000000, 4, batch=32), long, picture=None)
    write("short", options("sas_p", 1, 1, 5), log_lines("sas_p", 1, 1, 1, random.Random(5)))
    write("fresh", options("pre_ln", 6, 100, 6), [], sample=None, picture=None)
    write("broken_off", options("pre_ln", 6, 100, 7), log_lines("pre_ln", 6, 100, 10, random.Random(7)),
          tail='{"step": 110, "tok')
    write("norm_former_resscale", options("norm_former_resscale", 2, 200, 9),
          log_lines("norm_former_resscale", 2, 200, 5, random.Random(9)))
    lines = log_lines("sas_p", 2, 200, 5, random.Random(8))
    for line in lines[10:14]:
        line["train_loss"] = None  # as JSON writes what is not finite
    for line in lines:
        if "gains" in line:
            line["gains"]["</svg><script>alert(2)</script>"] = [None, 1.0]
    paths["hostile"] = os.path.join(folder.encode(), HOSTILE)
    odd = {"</dl><script>": "]]><!-- \x00\x1b \ufffd" + "x" * 300, "text": ["/long/path" * 20] * 9}
    write_run(paths["hostile"], options("<b>block</b>", 2, 200, 8, **odd), lines,
              sample="\x00\udc80</pre><script>" + "y" * 400,
              picture="<svg xmlns='http://www.w3.org/2000/svg' onload='alert(3)'>"
                      "<image href='http://127.0.0.1:9/x'/></svg>")
    return paths


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for path in make(sys.argv[1]).values():
        print(os.fsdecode(path).encode(errors="replace").decode())
