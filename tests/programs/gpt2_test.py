#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""gpt2_test.py PROGRAM: files as Hugging Face writes them, of the smallest GPT-2 there is, give the text that the
equations give, which are written here once more."""
import json
import math
import os
import random
import string
import struct
import subprocess
import sys
import tempfile

PROGRAM = sys.argv[1]
VOCAB, WIDTH, HEADS, LAYERS, CONTEXT = 50257, 8, 2, 2, 1024


def characters():
    """The characters that stand for bytes in a tokenizer's files."""
    others = iter(range(256, 512))
    printed = [33 <= b <= 126 or 161 <= b <= 172 or b >= 174 for b in range(256)]
    return [chr(b) if is_printed else chr(next(others)) for b, is_printed in zip(range(256), printed)]


def make_tokenizer():
    """Bytes, words of two, three and four letters, and the end of the text."""
    pairs = [a + b for a in string.ascii_lowercase for b in string.ascii_lowercase]
    merges = [tuple(pair) for pair in pairs] + [(a, b) for a in pairs for b in string.ascii_lowercase]
    merges = (merges + [(a, b) for a in pairs for b in pairs])[:VOCAB - 257]
    names = characters() + [a + b for a, b in merges] + ["<|endoftext|>"]
    return {name: number for number, name in enumerate(names)}, merges


def encode(text, vocabulary, merges):
    """Of one word."""
    ranks = {pair: rank for rank, pair in enumerate(merges)}
    symbols = [characters()[b] for b in text.encode()]
    while True:
        pairs = [(ranks.get(pair, math.inf), i) for i, pair in enumerate(zip(symbols, symbols[1:]))]
        if not pairs or min(pairs)[0] == math.inf:
            return [vocabulary[s] for s in symbols]
        i = min(pairs)[1]
        symbols[i:i + 2] = ["".join(symbols[i:i + 2])]


def decode(tokens, vocabulary):
    names = {number: name for name, number in vocabulary.items()}
    of = {c: b for b, c in enumerate(characters())}
    return bytes(of[c] for token in tokens for c in names[token])


def make_weights(rng):
    shapes = {"wte.weight": (VOCAB, WIDTH), "wpe.weight": (CONTEXT, WIDTH), "ln_f.weight": (WIDTH,), "ln_f.bias": (WIDTH,)}
    for layer in range(LAYERS):
        for name, shape in {"ln_1.weight": (WIDTH,), "ln_1.bias": (WIDTH,), "ln_2.weight": (WIDTH,), "ln_2.bias": (WIDTH,),
                            "attn.c_attn.weight": (WIDTH, 3 * WIDTH), "attn.c_attn.bias": (3 * WIDTH,),
                            "attn.c_proj.weight": (WIDTH, WIDTH), "attn.c_proj.bias": (WIDTH,),
                            "mlp.c_fc.weight": (WIDTH, 4 * WIDTH), "mlp.c_fc.bias": (4 * WIDTH,),
                            "mlp.c_proj.weight": (4 * WIDTH, WIDTH), "mlp.c_proj.bias": (WIDTH,)}.items():
            shapes[f"h.{layer}.{name}"] = shape
    return {name: (shape, [rng.randint(-4096, 4096) / 4096 for _ in range(math.prod(shape))])
            for name, shape in shapes.items()}


def safetensors(weights):
    header, body = {}, b""
    for name, (shape, values) in weights.items():
        data = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def logits(weights, tokens):
    """Of the last token."""
    def matrix(name):
        (rows, columns), values = weights[name]
        return [values[i * columns:(i + 1) * columns] for i in range(rows)]

    def linear(x, name):
        w, b = matrix(name + ".weight"), weights[name + ".bias"][1]
        return [[sum(v * w[i][j] for i, v in enumerate(row)) + b[j] for j in range(len(b))] for row in x]

    def norm(x, name):
        gain, bias = weights[name + ".weight"][1], weights[name + ".bias"][1]
        result = []
        for row in x:
            mean = sum(row) / WIDTH
            root = math.sqrt(sum((v - mean) ** 2 for v in row) / WIDTH + 1e-5)
            result.append([(v - mean) / root * g + b for v, g, b in zip(row, gain, bias)])
        return result

    def plus(x, y):
        return [[a + b for a, b in zip(*rows)] for rows in zip(x, y)]

    def gelu(v):
        return 0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v ** 3)))

    table, places = matrix("wte.weight"), matrix("wpe.weight")
    x = plus([table[t] for t in tokens], places)
    size = WIDTH // HEADS
    for layer in range(LAYERS):
        name = f"h.{layer}."
        rows = linear(norm(x, name + "ln_1"), name + "attn.c_attn")
        mixed = [[] for _ in rows]
        for head in range(HEADS):
            q, k, v = ([row[part * WIDTH + head * size:part * WIDTH + (head + 1) * size] for row in rows]
                       for part in range(3))
            for i, query in enumerate(q):
                scores = [sum(a * b for a, b in zip(query, k[j])) / math.sqrt(size) for j in range(i + 1)]
                likely = [math.exp(s - max(scores)) for s in scores]
                mixed[i] += [sum(p * v[j][c] for j, p in enumerate(likely)) / sum(likely) for c in range(size)]
        x = plus(x, linear(mixed, name + "attn.c_proj"))
        hidden = [[gelu(v) for v in row] for row in linear(norm(x, name + "ln_2"), name + "mlp.c_fc")]
        x = plus(x, linear(hidden, name + "mlp.c_proj"))
    last = norm(x[-1:], "ln_f")[0]
    return [sum(a * b for a, b in zip(last, row)) for row in table]


def main():
    failures = []

    def check(holds, what):
        print(("ok     " if holds else "FAILED ") + what)
        if not holds:
            failures.append(what)

    def write(path, content):
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else json.dumps(content).encode())

    def run(folder, *arguments):
        return subprocess.run([PROGRAM, "--model", folder, *map(str, arguments)], capture_output=True, check=False)

    vocabulary, merges = make_tokenizer()
    weights = make_weights(random.Random(1))
    tokens = encode("tea", vocabulary, merges)
    check(len(tokens) == 2, "two of three bytes are one token")
    count, gaps = 12, []
    for _ in range(count):
        values = logits(weights, tokens)
        best, second = sorted(values)[:-3:-1]
        gaps.append(best - second)
        tokens.append(values.index(best))
    check(min(gaps) > 1e-4, f"float can tell the best token from the next, which is {min(gaps):.1e} below")
    expected = decode(tokens, vocabulary)

    with tempfile.TemporaryDirectory() as folder:
        config = {"vocab_size": VOCAB, "n_positions": CONTEXT, "n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS,
                  "model_type": "gpt2", "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "n_inner": None}
        write(os.path.join(folder, "config.json"), config)
        write(os.path.join(folder, "vocab.json"), vocabulary)
        write(os.path.join(folder, "merges.txt"), "\n".join(["#version: 0.2", *map(" ".join, merges)]).encode())
        masks = {f"h.{layer}.attn.bias": ((1, 1, 2, 2), [1, 0, 1, 1]) for layer in range(LAYERS)}
        renamed = {"transformer." + name: tensor for name, tensor in weights.items()}
        for form, content in [("the names of the first checkpoints", weights | masks),
                              ("names with transformer. in front", renamed | {"lm_head.weight": weights["wte.weight"]})]:
            write(os.path.join(folder, "model.safetensors"), safetensors(content))
            done = run(folder, "--prompt", "tea", "--tokens", count, "--temperature", 0)
            # What is no text is shown as U+FFFD.
            shown, wanted = done.stdout.decode(), "".join(
                c if c in "\t\n" or c.isprintable() else "\ufffd" for c in expected.decode(errors="replace"))
            check(done.returncode == 0 and shown == wanted + "\n",
                  f"{form}: the text of the equations\n{shown!r}\n{wanted!r}\n{done.stderr.decode()}")
            # Of these widths vectors of 16 alone take pairs of bfloat16; bytes change no token of this text.
            for flags in [("--threads", 3), ("--bfloat16",), ("--int8",), ("--int8", "--threads", 3)]:
                other = run(folder, "--prompt", "tea", "--tokens", count, "--temperature", 0, *flags)
                check(other.returncode == 0 and other.stdout == done.stdout, f"{flags[0]} writes it, too")
        done = run(folder, "--int8", "--bfloat16")
        check(done.returncode == 1 and b"--bfloat16 excludes --int8" in done.stderr, f"one path alone\n{done.stderr!r}")
        done = run(folder, "--prompt", "tea", "--tokens", 5, "--seed", 3)
        check(done.returncode == 0 and done.stdout == run(folder, "--prompt", "tea", "--tokens", 5, "--seed", 3).stdout,
              "the same seed, the same text")
        alone = [run(folder, "--prompt", "tea", "--tokens", 5, "--seed", seed).stdout for seed in (3, 4, 5)]
        done = run(folder, "--prompt", "tea", "--tokens", 5, "--seed", 3, "--samples", 3)
        check(done.stdout == b"----\n".join(alone) and b"\n15 tokens in" in b"\n" + done.stderr,
              f"several texts at once are those of each seed\n{done.stdout!r}\n{alone!r}\n{done.stderr.decode()}")

        def refused(what, says):
            done = run(folder)
            check(done.returncode == 1 and says in done.stderr.decode(), f"{what} is refused\n{done.stderr.decode()}")

        write(os.path.join(folder, "config.json"), config | {"n_layer": 7})
        refused("another size", "n_layer 7 n_positions 1024\n  hint: this program was compiled for tiny distilgpt2 gpt2;")
        write(os.path.join(folder, "config.json"), config | {"activation_function": "gelu_pytorch_tanh"})
        check(run(folder, "--tokens", 1).returncode == 0, "the activation may have its other name")
        for key, value in {"model_type": "gpt_neo", "activation_function": "relu", "layer_norm_epsilon": 1e-6,
                           "scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True,
                           "add_cross_attention": True, "tie_word_embeddings": False}.items():
            write(os.path.join(folder, "config.json"), config | {key: value})
            refused("another function", f"is of another model: its {key} is {json.dumps(value)}\n  hint: this program")
        write(os.path.join(folder, "config.json"), config)
        write(os.path.join(folder, "model.safetensors"), safetensors(weights | {"extra": ((1,), [0])}))
        refused("a tensor too many", "unexpected  'extra'")
        os.remove(os.path.join(folder, "merges.txt"))
        refused("a missing file", "cannot read ")
        os.remove(os.path.join(folder, "model.safetensors"))
        refused("weights in another form", "there is no " + os.path.join(folder, "model.safetensors") + "\n  hint: of")

    print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
