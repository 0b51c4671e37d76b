#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""prepare_test.py PROGRAM: token files hold the bytes of the text, as nanoGPT and llm.c would read them."""
import array
import json
import os
import struct
import subprocess
import sys
import tempfile

try:
    import numpy  # not needed: it reads nanoGPT's files as nanoGPT does
except ImportError:
    numpy = None

PROGRAM = sys.argv[1]
HERE = os.path.dirname(os.path.abspath(__file__))
TEXT = os.path.dirname(HERE)  # the tests' own sources


def run(*arguments):
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)


def content(path):
    with open(path, "rb") as file:
        return file.read()


def shorts(data):
    numbers = array.array("H", data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return list(numbers)


def main():
    failures = []

    def check(holds, what):
        print(("ok     " if holds else "FAILED ") + what)
        if not holds:
            failures.append(what)

    with tempfile.TemporaryDirectory() as folder:
        parts = {}
        for form in ["bytes", "nanogpt", "llmc"]:
            out = os.path.join(folder, "deep", form)
            done = run("--out", out, "--format", form, "--extension", ".cpp", TEXT)
            check(done.returncode == 0, f"{form}: prepares the tests' own sources\n{done.stderr}".rstrip())
            check(sorted(os.listdir(out)) == ["meta.json", "train.bin", "val.bin"], f"{form}: leaves three files")
            meta = json.loads(content(os.path.join(out, "meta.json")))
            said = (meta["format"], meta["tokenizer"], meta["vocab"])
            check(said == (form, "bytes", 256), f"{form}: meta.json says what it is")
            check(meta["sources"] == [TEXT], f"{form}: meta.json says of what it was made")
            for file in meta["files"]:
                data = content(os.path.join(out, file["name"]))
                if form == "llmc":
                    header = struct.unpack("<256i", data[:1024])
                    check(header == (20240520, 1, file["tokens"]) + (0,) * 253, f"{file['name']} has llm.c's header")
                    data = data[1024:]
                if form == "nanogpt" and numpy is not None:
                    mapped = numpy.memmap(os.path.join(out, file["name"]), dtype=numpy.uint16, mode="r")
                    check(mapped.tolist() == shorts(data), f"{file['name']} is what numpy.memmap reads")
                tokens = list(data) if form == "bytes" else shorts(data)
                check(len(tokens) == file["tokens"], f"{form}: {file['name']} has as many tokens as meta.json says")
                parts[form, file["name"]] = tokens
                text = b"".join(content(os.path.join(TEXT, path)) for path, _ in file["documents"])
                check(bytes(tokens) == text, f"{form}: {file['name']} is its documents, one after the other")
            paths = [path for file in meta["files"] for path, _ in file["documents"]]
            found = [os.path.relpath(os.path.join(where, name), TEXT)
                     for where, _, names in os.walk(TEXT) for name in names if name.endswith(".cpp")]
            check(sorted(paths) == sorted(found), f"{form}: every document is in one of the files")
            check(len(parts[form, "val.bin"]) > 0, f"{form}: something is held out")
        check(all(tokens == parts["bytes", name] for (_, name), tokens in parts.items()), "all formats hold the same tokens")

        # Tokens of several bytes: a tokenizer that is learnt, and the same given.
        learnt, given = (os.path.join(folder, name) for name in ["learnt", "given"])
        done = run("--out", learnt, "--vocab", 500, "--extension", ".cpp", TEXT)
        check(done.returncode == 0 and "500 tokens" in done.stdout, f"learns a tokenizer\n{done.stderr}".rstrip())
        with open(os.path.join(learnt, "tokenizer.json"), encoding="utf-8") as file:
            tokenizer = json.load(file)
        meta = json.loads(content(os.path.join(learnt, "meta.json")))
        check((meta["tokenizer"], meta["vocab"]) == ("tokenizer.json", 500), "meta.json names the tokenizer")
        names = {number: name for name, number in tokenizer["model"]["vocab"].items()}
        check(sorted(names) == list(range(500)), "500 tokens are numbered")
        others = iter(range(256, 512))
        bytes_of = {chr(b if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174 else next(others)): b for b in range(256)}
        for file in meta["files"]:
            tokens = shorts(content(os.path.join(learnt, file["name"]))[1024:])
            ends = [i for i, token in enumerate(tokens) if names[token] == "<|endoftext|>"]
            check(len(ends) == len(file["documents"]) and ends[-1] == len(tokens) - 1,
                  f"{file['name']}: each document ends with a token of its own")
            text = bytes(bytes_of[c] for token in tokens if names[token] != "<|endoftext|>" for c in names[token])
            check(text == b"".join(content(os.path.join(TEXT, path)) for path, _ in file["documents"]),
                  f"{file['name']}: the tokens are the text")
            check(len(tokens) < 0.6 * len(text), f"{file['name']}: {len(text) / len(tokens):.2f} bytes are a token")
        done = run("--out", given, "--tokenizer", os.path.join(learnt, "tokenizer.json"), "--extension", ".cpp", TEXT)
        same = all(content(os.path.join(learnt, name)) == content(os.path.join(given, name)) for name in os.listdir(learnt))
        check(done.returncode == 0 and same, "a tokenizer that is given makes the same files")

        # What it wrote is no text: into the directory that it reads, and beside what it wrote there.
        for places in [("text", "text"), ("text/one", "text/two")]:
            text = os.path.join(folder, places[0].replace("/", "_"), "text")
            os.makedirs(text)
            with open(os.path.join(text, "some.txt"), "wb") as file:
                file.write(b"some text " * 100)
            written = []
            for place in places:
                out = os.path.join(os.path.dirname(text), place)
                done = run("--out", out, "--format", "bytes", text)
                written.append([content(os.path.join(out, name)) for name in ("train.bin", "val.bin", "meta.json")]
                               if done.returncode == 0 else done.stderr)
            check(written[0] == written[1] and len(written[0][0]) == 900, f"its own files are no text: {places}")

        out = os.path.join(folder, "deep", "llmc")
        before = {name: content(os.path.join(out, name)) for name in os.listdir(out)}

        def refused(what, *arguments, says):
            done = run("--out", out, *arguments)
            after = {name: content(os.path.join(out, name)) for name in os.listdir(out)}
            check(done.returncode == 1 and says in done.stderr and after == before,
                  f"{what} is refused, and what was there stays" + ("" if says in done.stderr else "\n" + done.stderr))

        empty, tiny, hollow = (os.path.join(folder, name) for name in ["empty.txt", "tiny.txt", "hollow"])
        os.mkdir(hollow)
        with open(empty, "wb"), open(tiny, "wb") as file:
            file.write(b"tiny")
        refused("an empty file", empty, says="error: the file is empty: " + empty)
        refused("a directory without text", hollow, says="error: no text found in " + hollow)
        refused("text with nothing to hold out", tiny, says="of 4 tokens none are left to hold out")
        refused("a tokenizer and a vocabulary", "--vocab", 300, "--tokenizer", tiny, tiny, says="--vocab excludes --tokenizer")
        refused("a tokenizer without a name", "--tokenizer", "", tiny, says="cannot read ")
        refused("text as a tokenizer", "--tokenizer", tiny, tiny, says=f"cannot use the tokenizer {tiny}: it is no JSON object")
        refused("tokens that are no bytes as bytes", "--vocab", 500, "--format", "bytes", HERE, says="is more than 1 bytes hold")
        refused("a missing path", hollow + "/nothing", says="no such file or directory")
        refused("an unknown format", "--format", "gguf", tiny, says="--format")
        refused("a flag misspelt", "--ouch", says="the nearest flag is --out")
        done = run("--held-out", 4, "--out", out, *[os.path.join(HERE, "prepare_test.py")])
        check(done.returncode == 0, "files are replaced by good ones")
        sizes = {file["name"]: file["tokens"] for file in json.loads(content(os.path.join(out, "meta.json")))["files"]}
        size = os.path.getsize(os.path.join(HERE, "prepare_test.py"))
        check(sizes == {"train.bin": size - size // 4, "val.bin": size // 4}, "a single document gives its last part")

    print(f"{len(failures)} failures")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
