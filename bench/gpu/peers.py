#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""PyTorch training the models of training.cu on the same GPU, a line of JSON for each way.

  bench/gpu/peers.py --shape gpt2 --block sas_p [--precision tf32]

Ways: eager and torch.compile. Softmax attention is scaled_dot_product_attention; shaped attention has "authors", their
formulation, alpha I + beta A - gamma C as matrices, and "fused", which gives A V to scaled_dot_product_attention and
adds the values and their running mean. AdamW is fused; the norm is clipped to 1.
"""
import argparse
import gc
import json
import statistics
import sys

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError:
    sys.exit("error: PyTorch is not installed\n  hint: pip install torch")

# The vocabulary of GPT-2 is 50257; training codes pad it to a multiple that tensor cores like, and so does training.cu.
SHAPES = {"gpt2": dict(vocab=50304, width=768, heads=12, layers=12, context=1024, batch=16),
          "paper": dict(vocab=50304, width=768, heads=12, layers=18, context=128, batch=128),
          "bert": dict(vocab=32768, width=768, heads=12, layers=16, context=128, batch=128, encoder=True, hidden=3072),
          "tiny": dict(vocab=256, width=128, heads=4, layers=6, context=128, batch=8)}
BLOCKS = ["pre_ln", "parallel", "v_skip_init_shaped", "sas", "sas_p", "sas_p_norm_free", "sas_p_no_norm"]
UNLABELLED = -100


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.gain * x / (x.pow(2).mean(-1, keepdim=True).sqrt() + 1e-8)


def norm_of(shape):
    return nn.LayerNorm(shape["width"], eps=1e-12) if shape.get("encoder") else RmsNorm(shape["width"])


def sinusoids(context, width):
    angles = torch.arange(context)[:, None] / 10000 ** (torch.arange(0, width, 2) / width)
    return torch.stack([angles.sin(), angles.cos()], -1).flatten(1)


def is_shaped(kind):
    return kind not in ("pre_ln", "parallel")


class FirstValue(nn.Module):
    """x (alpha I + beta D), of the first layer of SAS."""

    def __init__(self, width):
        super().__init__()
        self.alpha, self.beta = (nn.Parameter(torch.ones(())) for _ in range(2))
        self.delta = nn.Linear(width, width, bias=False)

    def forward(self, x):
        return self.alpha * x + self.beta * self.delta(x)


class Attention(nn.Module):
    """Softmax or shaped attention; that of SAS has no projection, and a value in the first layer only."""

    def __init__(self, shape, kind, first, fused):
        super().__init__()
        width, self.heads, self.shaped, self.fused = shape["width"], shape["heads"], is_shaped(kind), fused
        self.causal = not shape.get("encoder")
        self.query_key = nn.Linear(width, 2 * width, bias=False)
        if kind.startswith("sas"):
            self.value, self.out = FirstValue(width) if first else nn.Identity(), nn.Identity()
        else:
            self.value, self.out = (nn.Linear(width, width, bias=False) for _ in range(2))
        if self.shaped:
            self.gains = nn.Parameter(torch.ones(3, self.heads, 1, 1))
            length = shape["context"]
            mean = torch.ones(length, length) / length
            if self.causal:
                mean = torch.tril(torch.ones(length, length)) / torch.arange(1, length + 1)[:, None]
            self.register_buffer("centre", mean, persistent=False)
            self.register_buffer("eye", torch.eye(length), persistent=False)

    def forward(self, x):
        rows, length, width = x.shape
        heads = lambda t: t.view(rows, length, self.heads, -1).transpose(1, 2)
        query, key = map(heads, self.query_key(x).chunk(2, -1))
        value = heads(self.value(x))
        if not self.shaped:
            mixed = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        else:
            alpha, beta, gamma = self.gains
            if self.fused:
                mean = value.mean(2, keepdim=True)
                if self.causal:
                    mean = value.cumsum(2) / torch.arange(1, length + 1, device=x.device)[:, None]
                mixed = alpha * value - gamma * mean
                mixed = mixed + beta * F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
            else:
                scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
                if self.causal:
                    scores = scores.masked_fill(self.centre == 0, float("-inf"))
                matrix = alpha * self.eye + beta * scores.softmax(-1) - gamma * self.centre
                mixed = matrix.to(value.dtype) @ value
        return self.out(mixed.transpose(1, 2).reshape(rows, length, width))


class Block(nn.Module):
    def __init__(self, shape, kind, first, fused):
        super().__init__()
        width, self.kind = shape["width"], kind
        self.gated = shape.get("encoder", False)
        hidden = shape.get("hidden", 4 * width)
        bare = kind == "sas_p_norm_free" or (kind == "sas_p_no_norm" and not first)
        kept = kind == "sas_p_no_norm" and not self.gated  # the one norm is a LayerNorm in decoders, too
        self.norm1 = nn.Identity() if bare else nn.LayerNorm(width, eps=1e-5) if kept else norm_of(shape)
        self.norm2 = norm_of(shape) if kind in ("pre_ln", "v_skip_init_shaped", "sas") else nn.Identity()
        self.attention = Attention(shape, kind, first, fused)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden // 2 if self.gated else hidden, width, bias=False)
        if is_shaped(kind):
            self.attention_gain = nn.Parameter(torch.ones(()))
            self.mlp_gain = nn.Parameter(torch.tensor(0.05 if self.gated else 0.1))
        if kind in ("v_skip_init_shaped", "sas"):
            self.mlp_skip = nn.Parameter(torch.ones(()))

    def mlp(self, x):
        if self.gated:
            value, gate = self.up(x).chunk(2, -1)
            return self.down(value * F.gelu(gate))
        return self.down(F.relu(self.up(x)))

    def forward(self, x):
        if self.kind == "pre_ln":
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))
        n = self.norm1(x)
        if self.kind == "parallel":
            return x + self.attention(n) + self.mlp(n)
        if self.kind in ("v_skip_init_shaped", "sas"):
            a = self.attention_gain * self.attention(n)
            return self.mlp_skip * a + self.mlp_gain * self.mlp(self.norm2(a))
        return self.attention_gain * self.attention(n) + self.mlp_gain * self.mlp(n)


class Model(nn.Module):
    """A decoder, or the encoder of the crammed BERT: learned positions or scaled sinusoids, which a norm follows."""

    def __init__(self, shape, kind, fused):
        super().__init__()
        self.encoder = shape.get("encoder", False)
        self.embedding = nn.Embedding(shape["vocab"], shape["width"])
        if self.encoder:
            self.register_buffer("sinusoids", sinusoids(shape["context"], shape["width"]), persistent=False)
            self.scale = nn.Parameter(torch.tensor(shape["width"] ** -0.5))
            self.embedding_norm = norm_of(shape)
        else:
            self.positions = nn.Parameter(torch.zeros(shape["context"], shape["width"]))
        self.blocks = nn.Sequential(*(Block(shape, kind, i == 0, fused) for i in range(shape["layers"])))
        self.norm = norm_of(shape)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)

    def forward(self, tokens, labels):
        """The mean loss; of an encoder a quarter of the labels are given, and only those rows meet the head. They are
        taken as the crammed BERT's code takes them, by sorting, so that their number is known to the compiler."""
        x = self.embedding(tokens)
        x = self.embedding_norm(x + self.scale * self.sinusoids) if self.encoder else x + self.positions
        x, labels = self.norm(self.blocks(x)).flatten(0, 1), labels.flatten()
        if self.encoder:
            rows = torch.argsort((labels != UNLABELLED).int())[-(labels.numel() // 4):]
            x, labels = x[rows], labels[rows]
        return F.cross_entropy((x @ self.embedding.weight.T).float(), labels)


def batch_of(shape, device):
    """Random tokens and labels, of an encoder a quarter."""
    tokens = torch.randint(shape["vocab"], (shape["batch"], shape["context"]), device=device)
    labels = torch.randint(shape["vocab"], tokens.shape, device=device)
    if shape.get("encoder"):
        without = torch.randperm(labels.numel(), device=device)[labels.numel() // 4:]
        labels.view(-1)[without] = UNLABELLED
    return tokens, labels


def forget_ways():
    """Frees the models of ways before: the compiler keeps them, cycles do, and the next would be told to need more."""
    torch.compiler.reset()
    gc.collect()
    torch.cuda.empty_cache()


def measure(shape, kind, precision, way, fused):
    torch.manual_seed(1)
    forget_ways()
    torch.cuda.reset_peak_memory_stats()
    model = Model(shape, kind, fused).cuda()
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    run = {"eager": lambda: model, "compile": lambda: torch.compile(model),
           "compile graphs": lambda: torch.compile(model, mode="reduce-overhead")}[way]()
    tokens, labels = batch_of(shape, "cuda")
    times = []
    for step in range(23):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bfloat16"):
            loss = run(tokens, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        end.record()
        torch.cuda.synchronize()
        if step >= 3:
            times.append(begin.elapsed_time(end))
    ms = statistics.median(times)
    return {"ms": ms, "tokens_per_s": tokens.numel() / ms * 1e3, "gb": torch.cuda.max_memory_allocated() * 1e-9,
            "loss": loss.item()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="gpt2", choices=SHAPES)
    parser.add_argument("--block", default="sas_p", choices=BLOCKS)
    parser.add_argument("--precision", default="tf32", choices=["float32", "tf32", "bfloat16"])
    args = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("error: PyTorch sees no GPU")
    torch.set_float32_matmul_precision("highest" if args.precision == "float32" else "high")
    # Where launches take the time, as ours, so the rival's are recorded.
    for way in ("eager", "compile", *["compile graphs"] * (args.shape == "tiny")):
        for formulation in ((" authors", " fused") if is_shaped(args.block) else ("",)):
            row = {"peer": "torch " + torch.__version__, "way": way + formulation, "shape": args.shape,
                   "block": args.block, "precision": args.precision}
            try:
                fused = formulation == " fused"
                row.update(measure(SHAPES[args.shape], args.block, args.precision, way, fused))
            except (RuntimeError, torch.cuda.OutOfMemoryError) as error:
                row["failed"] = str(error).splitlines()[0]
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
