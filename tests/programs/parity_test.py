#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""parity_test.py PROGRAM: examples/parity against golden files, against itself, and against files that do not fit.

With PyTorch at hand every block is also held against the equations of tests/golden/make_golden.py.
"""
import glob
import json
import math
import os
import random
import struct
import subprocess
import sys
import tempfile

PROGRAM = sys.argv[1]
GOLDEN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "golden")
LETTERS = {"F64": "d", "I64": "q", "F32": "f", "I32": "i"}
WIDTH, HEADS, HIDDEN, LAYERS, VOCAB, CONTEXT = 32, 4, 128, 3, 61, 16  # as compiled

failures = []


def check(holds, what):
    print(("ok     " if holds else "FAILED ") + what)
    if not holds:
        failures.append(what)


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)


def read(path):
    """{name: (dtype, shape, values)}"""
    with open(path, "rb") as file:
        raw = file.read()
    (length,) = struct.unpack_from("<Q", raw)
    header, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = struct.unpack("<%d%s" % (math.prod(entry["shape"]), LETTERS[entry["dtype"]]), data[begin:end])
        tensors[name] = (entry["dtype"], entry["shape"], values)
    return tensors


def write(path, tensors):
    header, data = {}, b""
    for name, (dtype, shape, values) in sorted(tensors.items(), key=lambda t: t[1][0]):  # eight bytes first
        begin = len(data)
        data += struct.pack("<%d%s" % (len(values), LETTERS[dtype]), *values)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def distance(ours, theirs):
    """The measure of agreement: of logits and loss, and of gradients, whose scale is at least 1e-3 of the largest."""
    largest = max(abs(x) for name, t in theirs.items() if name.startswith("grad.") for x in t[2])
    worst = 0.0
    for name, (_, shape, values) in theirs.items():
        if list(ours[name][1]) != list(shape):
            return math.inf
        least = 1e-3 * largest if name.startswith("grad.") else 1e-12
        scale = max(1e-12, least, max(map(abs, values)))
        worst = max(worst, max(abs(a - b) for a, b in zip(ours[name][2], values)) / scale)
    return worst


def keys_of(block):
    shapes = {}
    for line in run("--block", block, "--keys").stdout.splitlines():
        name, shape = line.split(" ", 1)
        shapes[name] = json.loads(shape)
    return shapes


def random_inputs(block, rng, batch=2, length=CONTEXT):
    tensors = {}
    for name, shape in keys_of(block).items():
        mean, deviation = (0.0, 0.2) if len(shape) == 2 else (1.0, 0.3)
        tensors[name] = ("F64", shape, [rng.gauss(mean, deviation) for _ in range(math.prod(shape))])
    for name in ("tokens", "targets"):
        tensors[name] = ("I32", [batch, length], [rng.randrange(VOCAB) for _ in range(batch * length)])
    tensors["targets"][2][1] = -100
    return tensors


def cross_entropy(logits, targets):
    losses = []
    for row, target in enumerate(targets):
        if target == -100:
            continue
        line = logits[row * VOCAB : (row + 1) * VOCAB]
        top = max(line)
        losses.append(top + math.log(sum(math.exp(x - top) for x in line)) - line[target])
    return sum(losses) / len(losses)


def against_itself(block, folder):
    """The loss is that of the logits, and the gradient predicts how it changes along a random direction."""
    rng, path, out = random.Random(block), os.path.join(folder, "in"), os.path.join(folder, "out")
    inputs = random_inputs(block, rng)

    def evaluate(tensors):
        write(path, tensors)
        done = run("--block", block, "--weights", path, "--out", out)
        if done.returncode:
            raise RuntimeError(done.stderr)
        return read(out)

    results = evaluate(inputs)
    trained = [name for name in inputs if not name.endswith(".base") and name not in ("tokens", "targets")]
    if sorted(results) != sorted(["logits", "loss"] + ["grad." + name for name in trained]):
        return "OUT holds other tensors: " + " ".join(sorted(results))
    if any(results["grad." + name][1] != inputs[name][1] for name in trained) or results["loss"][1] != []:
        return "a result has another shape"
    if results["logits"][1] != [2, CONTEXT, VOCAB] or any(t[0] != "F64" for t in results.values()):
        return "logits are not (B, T, V) in F64"
    if abs(cross_entropy(results["logits"][2], inputs["targets"][2]) - results["loss"][2][0]) > 1e-12:
        return "the loss is not that of the logits"
    direction = {name: [rng.gauss(0, 1) for _ in inputs[name][2]] for name in trained}
    predicted = sum(a * b for name in trained for a, b in zip(direction[name], results["grad." + name][2]))
    errors = []
    for step in (1e-6, 1e-7, 1e-8):  # a kink of a ReLU may lie inside one of them
        losses = []
        for sign in (1, -1):
            moved = dict(inputs)
            for name in trained:
                values = [x + sign * step * v for x, v in zip(inputs[name][2], direction[name])]
                moved[name] = ("F64", inputs[name][1], values)
            losses.append(evaluate(moved)["loss"][2][0])
        slope = (losses[0] - losses[1]) / (2 * step)
        errors.append(abs(slope - predicted) / max(1, abs(predicted)))
        if errors[-1] < 1e-5:
            return ""
    return "along a random direction the gradient is wrong by %.1e of itself" % min(errors)


def against_torch(make_golden, block, folder, length):
    """Random parameters, tokens of any length up to the context, three sequences."""
    sizes = make_golden.Sizes(WIDTH, HEADS, HIDDEN, LAYERS, VOCAB, length, batch=3)
    model = make_golden.Model(block, sizes, make_golden.Parameters("parity of " + block))
    model.draw(random.Random(block))
    results = model.results()  # which makes the parameters
    path, expected, out = (os.path.join(folder, name) for name in ("in", "expected", "out"))
    for where, tensors in ((path, model.inputs()), (expected, results)):
        with open(where, "wb") as file:
            file.write(make_golden.encode(tensors, {}))
    done = run("--block", block, "--weights", path, "--out", out)
    if done.returncode:
        return math.inf, done.stderr
    ours, theirs = read(out), read(expected)
    if sorted(ours) != sorted(theirs):
        return math.inf, "other tensors"
    return distance(ours, theirs), ""


def refusals(folder):
    path, out = os.path.join(folder, "in"), os.path.join(folder, "refused")
    good = random_inputs("sas_p", random.Random(1))

    def refused(what, words, change, block="sas_p"):
        tensors = {name: (dtype, list(shape), list(values)) for name, (dtype, shape, values) in good.items()}
        change(tensors)
        write(path, tensors)
        done = run("--block", block, "--weights", path, "--out", out)
        said = all(word in done.stderr for word in words)
        check(done.returncode == 1 and said and not os.path.exists(out), "%s: %s" % (what, done.stderr.strip()[:300]))

    def bad_everywhere(t):
        del t["blocks.0.mlp_gain"], t["targets"]
        t["blocks.1.attention.value.delta"] = t["blocks.0.attention.value.delta"]
        t["final_norm.gain"] = ("F64", [1, WIDTH], t["final_norm.gain"][2])
        t["blocks.2.norm1.gain"] = ("F32", [WIDTH], t["blocks.2.norm1.gain"][2])
        t["tokens"] = ("F64", t["tokens"][1], t["tokens"][2])

    refused("everything wrong at once is named at once",
            ["missing: blocks.0.mlp_gain", "missing: targets", "extra: blocks.1.attention.value.delta",
             "mis-shaped: final_norm.gain", "mis-typed: blocks.2.norm1.gain", "mis-typed: tokens", "hint:"], bad_everywhere)
    refused("weights of another block", ["missing: blocks.0.norm2.gain", "extra: blocks.0.attention.alpha"],
            lambda t: None, "pre_ln")
    refused("a decoder's weights in an encoder", ["missing: position.scale", "missing: embedding_norm.gain",
            "missing: final_norm.bias", "mis-shaped: blocks.0.mlp.down.weight"], lambda t: None, "bert_sas_p")
    refused("wider tokens", ["mis-typed: tokens is I64, not I32", "mis-typed: targets is I64, not I32"],
            lambda t: t.update(tokens=("I64", [2, 16], t["tokens"][2]), targets=("I64", [2, 16], t["targets"][2])))
    refused("a number as a row of one", ["mis-shaped: blocks.0.mlp_gain"],
            lambda t: t.update({"blocks.0.mlp_gain": ("F64", [1], [1.0])}))
    refused("bases that nobody gave", ["missing: blocks.0.attention.value.base", "missing: blocks.2.attention.projection.base"],
            lambda t: None, "shaped_reparam")

    def longer(t):
        for name in ("tokens", "targets"):
            t[name] = ("I32", [1, CONTEXT + 1], t[name][2][: CONTEXT + 1])

    refused("more tokens than the context", ["mis-shaped: tokens", "mis-shaped: targets"], longer)
    refused("tokens in one row", ["mis-shaped: tokens"], lambda t: t.update(tokens=("I32", [32], t["tokens"][2])))
    refused("targets of another shape", ["mis-shaped: targets"], lambda t: t.update(targets=("I32", [1, 16], t["targets"][2][:16])))
    refused("no target at all", ["no label"], lambda t: t.update(targets=("I32", [2, 16], [-100] * 32)))
    refused("a token beyond the vocabulary", ["out of range: tokens holds 61"], lambda t: t["tokens"][2].__setitem__(3, VOCAB))
    refused("a negative token", ["out of range: tokens holds -100"], lambda t: t["tokens"][2].__setitem__(3, -100))
    refused("a target beyond the vocabulary", ["out of range: targets holds -1"], lambda t: t["targets"][2].__setitem__(3, -1))

    def fails(what, words, *arguments):
        done = run(*arguments)
        check(done.returncode == 1 and all(word in done.stderr for word in words), "%s: %s" % (what, done.stderr.strip()[:200]))

    write(path, good)
    fails("a block that does not exist", ["--block", "resnet", "sas_p"], "--block", "resnet", "--keys")
    fails("keys of no block", ["--block"], "--keys")
    fails("the list and weights", ["--list excludes --weights"], "--list", "--weights", "nope")
    fails("keys and weights", ["--keys excludes --weights"], "--block", "sas_p", "--keys", "--weights", "nope")
    fails("no weights", ["--weights"], "--block", "sas_p", "--out", out)
    fails("no place for results", ["--out"], "--block", "sas_p", "--weights", path)
    fails("a file that is missing", ["nowhere", "hint:"], "--block", "sas_p", "--weights", folder + "/nowhere", "--out", out)
    fails("a folder that is missing", ["nowhere", "hint:"], "--block", "sas_p", "--weights", path, "--out", folder + "/nowhere/out")
    with open(path, "rb") as file:
        raw = file.read()
    with open(path, "wb") as file:
        file.write(raw[:-8])
    fails("a file that was cut", [path, "hint:"], "--block", "sas_p", "--weights", path, "--out", out)
    check(not glob.glob(out + "*"), "nothing is written where something is wrong")


def main():
    blocks = run("--list").stdout.split()
    known = {"sas_p_norm_free", "post_ln", "norm_former_resscale_no_post_attention_norm", "bert_sas_p_no_norm"}
    check(len(blocks) == len(set(blocks)) >= 40 and known <= set(blocks), "--list prints %d names, one a line" % len(blocks))
    keys = run("--block", "sas_p", "--keys").stdout.splitlines()
    check("blocks.0.mlp.up.weight [32, 128]" in keys and "blocks.2.mlp_gain []" in keys and "blocks.1.attention.alpha [4]" in keys,
          "--keys prints names and shapes")
    check(not any("slopes" in k or "epsilon" in k or "position" in k for k in keys_of("sas_alibi")), "and no constants but bases")
    check("blocks.1.attention.projection.base" in keys_of("shaped_reparam"), "but those")
    both = keys_of("norm_former_resscale_both")
    check(both["blocks.0.mlp_residual_scale"] == both["blocks.0.attention_residual_scale"] == [WIDTH], "scales of skips")
    check(keys_of("norm_former_resscale_scalar")["blocks.2.mlp_residual_scale"] == [], "or of one number")
    check(both["blocks.1.mlp.norm.bias"] == [HIDDEN] and both["blocks.1.attention.head_scale"] == [HEADS], "norm and scale")
    check("final_norm.bias" in both and "final_norm.gain" not in keys_of("post_ln"), "a final norm, or none")
    bert = keys_of("bert_pre_ln")
    check(bert["blocks.0.mlp.down.weight"] == [HIDDEN // 2, WIDTH] and bert["position.scale"] == [], "gates and positions")
    check("embedding_norm.bias" in bert and not any(".attention." in k and "bias" in k for k in bert), "norms, no biases")

    with tempfile.TemporaryDirectory() as folder:
        for block in ("pre_ln", "sas_p"):
            golden = read(os.path.join(GOLDEN, block + ".safetensors"))
            results = {k: v for k, v in golden.items() if k.startswith("grad.") or k in ("logits", "loss")}
            path, out = os.path.join(folder, "in"), os.path.join(folder, "out")
            write(path, {k: v for k, v in golden.items() if k not in results})
            done = run("--block", block, "--weights", path, "--out", out)
            error = distance(read(out), results) if done.returncode == 0 else math.inf
            check(error <= 1e-10, "%s agrees with its golden file: %.1e %s" % (block, error, done.stderr))
        refusals(folder)
        for block in blocks:
            fault = against_itself(block, folder)
            check(not fault, "%s: loss and gradients belong together %s" % (block, fault))
        try:
            sys.path.insert(0, GOLDEN)
            import make_golden
        except ImportError:
            print("no PyTorch: blocks are not held against the equations here")
        else:
            for i, block in enumerate(blocks):
                length = 1 + (5 * i + 15) % CONTEXT
                error, text = against_torch(make_golden, block, folder, length)
                check(error <= 1e-10, "%s agrees with PyTorch, T = %d: %.1e %s" % (block, length, error, text))
    print("%d failures" % len(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
