#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes gpt2_small.safetensors: a small GPT-2 of Hugging Face's transformers (5.24, PyTorch 2.15) in float64, with the
names that its checkpoints have, its logits, loss and gradients. Needs torch, transformers and safetensors."""
import os

import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

HERE = os.path.dirname(os.path.abspath(__file__))


def main():
    generator = torch.Generator().manual_seed(1)
    config = GPT2Config(vocab_size=31, n_positions=16, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config).double().eval()
    tensors = {}
    with torch.no_grad():
        for name, parameter in model.transformer.named_parameters():
            drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            around = 1 if "ln" in name and name.endswith("weight") else 0
            # Multiples of 1/4096, which float holds; large enough that the GELUs are bent.
            parameter.copy_(torch.round((around + 0.3 * drawn) * 4096) / 4096)
            tensors[name] = parameter.detach().clone()
    tokens = torch.randint(0, 31, (2, 16), generator=generator)
    targets = torch.randint(0, 31, (2, 16), generator=generator)
    targets[1, 3:5] = -100
    logits = model(tokens).logits
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, 31), targets.reshape(-1), ignore_index=-100)
    loss.backward()
    for name, parameter in model.transformer.named_parameters():
        tensors["grad." + name] = parameter.grad.clone()
    tensors |= {"tokens": tokens.int(), "targets": targets.int(), "logits": logits.detach().reshape(-1, 31),
                "loss": loss.detach().reshape(1)}
    save_file(tensors, os.path.join(HERE, "gpt2_small.safetensors"))
    print(f"loss {loss.item():.12f}")


if __name__ == "__main__":
    main()
