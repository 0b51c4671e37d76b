# SPDX-License-Identifier: MIT
"""Text to train on in tests: little of it, so that programs begin and validate fast."""
import os


def write_text(folder):
    """Twenty files, 16 KB, in a new folder; its path."""
    os.makedirs(folder)
    for number in range(20):
        with open(os.path.join(folder, f"{number}.txt"), "w", encoding="utf-8") as file:
            file.write("".join(f"{number} times {i} is {number * i}\n" for i in range(40)))
    return folder
