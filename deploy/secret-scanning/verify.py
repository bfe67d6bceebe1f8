#!/usr/bin/env python3
"""Finds sara's API keys in text, and drops what only looks like one.

    verify.py FILE...        or text on standard input

Prints FILE:LINE and both ends of each key, never all of it. The exit status is 1 if there are any.
"""
import re
import sys
import zlib

PATTERN = re.compile(r"\b[a-z0-9]{1,20}_live_[A-Z2-7]{52}(?:[A-Z2-7]{7})?\b")
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
CHECKSUM, SECRET = 7, 52


def is_key(text):
    """The last 7 of 59 characters are the CRC-32 of all before them, in base32. Keys of the first form have 52, and no checksum."""
    if len(text.rpartition("_")[2]) == SECRET:
        return True
    body, checksum = text[:-CHECKSUM], text[-CHECKSUM:]
    number = zlib.crc32(body.encode())
    return checksum == "".join(DIGITS[number >> 5 * place & 31] for place in reversed(range(CHECKSUM)))


def main(files):
    found = False
    for name in files or ["/dev/stdin"]:
        with open(name, encoding="utf-8", errors="replace") as text:
            for number, line in enumerate(text, 1):
                for key in filter(is_key, PATTERN.findall(line)):
                    print(f"{name}:{number}: {key[:-48]}...{key[-4:]}")
                    found = True
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
