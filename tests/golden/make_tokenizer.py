#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tokenizer.json and tokens.json with Hugging Face's tokenizers (0.23): a tokenizer that it learns from a text of
drawn words, as it saves it, and beside it that text, another one, and what it makes of both. Needs tokenizers.

    make_tokenizer.py                              writes the files
    make_tokenizer.py --check TOKENIZER TEXT IDS   a tokenizer.json of simplx has to give the text these tokens, a line each
"""
import json
import os
import random
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

HERE = os.path.dirname(os.path.abspath(__file__))
SIGNS = [".", ",", "!", "?!", "...", " (", ")", "-", "'s", "'ll", "'d", "'S", "\"", "/", "==", "😀", "👍🏽", "€"]
SPACES = [" "] * 12 + ["  ", "   ", "\n", "\n\n    ", "\t", "\r\n", "\u00a0", "\u2003", " \u3000"]
OTHERS = ["naïve", "Größe", "слово", "λόγος", "漢字", "e\u0301", "हिन्दी", "١٢٣", "½", "Ⅷ", "x1y2", "_name", "\u200b",
          "\x00", "\x1c", "\u2028", "\ufeff", "<|endoftext|>"]


def text(rng, size, others):
    syllables = [a + b for a in "bdfgklmnprst" for b in ["a", "e", "i", "o", "u", "an", "er", "ing"]]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 3))) for _ in range(150)]
    words = [word.capitalize() if rng.random() < 0.1 else word for word in words]
    likely = [1 / (i + 1) for i in range(len(words))]
    made = ""
    while len(made) < size:
        drawn = rng.random()
        if drawn < 0.75:
            made += rng.choices(words, likely)[0]
        elif drawn < 0.85:
            made += str(rng.randint(0, 2030))
        elif drawn < 0.85 + others:
            made += rng.choice(OTHERS)
        else:
            made += rng.choice(SIGNS)
        made += rng.choice(SPACES) if rng.random() < 0.8 else ""
    return made


def encoded(tokenizer, made):
    tokenizer.encode_special_tokens = True  # a special token's name in a text is text
    return tokenizer.encode(made, add_special_tokens=False).ids


def main():
    if sys.argv[1:2] == ["--check"]:
        with open(sys.argv[3], encoding="utf-8", newline="") as file:
            ids = encoded(Tokenizer.from_file(sys.argv[2]), file.read())
        with open(sys.argv[4], encoding="utf-8") as file:
            sys.exit(ids != [int(line) for line in file] and "other tokens")
    rng = random.Random(1)
    learnt, unseen = text(rng, 12000, 0.04), text(rng, 4000, 0.1)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=600, min_frequency=2, special_tokens=["<|endoftext|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator([learnt], trainer)
    tokenizer.save(os.path.join(HERE, "tokenizer.json"))
    pieces = [unseen[begin:end] for _, (begin, end) in tokenizer.pre_tokenizer.pre_tokenize_str(unseen)]
    assert "".join(pieces) == unseen
    tokens = {"learnt": learnt, "unseen": unseen, "pieces": pieces, "learnt_tokens": encoded(tokenizer, learnt),
              "unseen_tokens": encoded(tokenizer, unseen)}
    with open(os.path.join(HERE, "tokens.json"), "w", encoding="utf-8") as file:
        json.dump(tokens, file)
        file.write("\n")


if __name__ == "__main__":
    main()
