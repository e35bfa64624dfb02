#!/usr/bin/env python3
"""Writes every launch file, input and expected output of the corpus: `python3 make_inputs.py`.

Seeded and free of the machine's state: a second run changes nothing. Files of earlier runs that no launch names any more are removed.
"""

import importlib

from gen import common

MODULES = ["basic", "integers", "floats", "warps", "triton"]


def main():
    for m in MODULES:
        importlib.import_module("gen." + m).make()
    for pattern in ("cuda/*.toml", "triton/*.toml", "data/*.bin", "expected/*.bin"):
        for path in common.ROOT.glob(pattern):
            if path not in common.written:
                path.unlink()
    launches = [p for p in common.written if p.suffix == ".toml"]
    expected = [p for p in common.written if p.parent.name == "expected"]
    size = sum(p.stat().st_size for p in common.written)
    print(f"{len(launches)} launches, {len(expected)} expected outputs, {size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
