#!/usr/bin/env python3
"""Rebuilds the corpus's PTX from its sources, and OPCODES.txt from the PTX.

    python3 build.py --nvcc PATH [--triton-python PATH] [NAME ...]

--nvcc names nvcc of CUDA 13.0 or later with the headers of CCCL beside it; --triton-python a Python that can import Triton 3.9.
With names, only these kernels are rebuilt. With neither tool only OPCODES.txt is made.

A CUDA source may have a line `// nvcc: OPTION ...` with options of its own. All are compiled with -fmad=false, so that every fused
multiply-add in the PTX stands in the source.
"""

import argparse
import collections
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent


def build_cuda(nvcc, source):
    options = re.findall(r"^// nvcc: (.*)$", source.read_text(), re.M)
    command = [nvcc, "-ptx", "-arch=compute_90", "-O3", "-fmad=false", *" ".join(options).split(), source.name, "-o", "-"]
    done = subprocess.run(command, cwd=source.parent, capture_output=True, text=True)
    if done.returncode:
        return f"{source.name}: {done.stderr}"
    source.with_suffix(".ptx").write_text(relative(done.stdout, source.parent, Path(nvcc).resolve().parent.parent))
    return done.stderr


def build_triton(python, source):
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", TRITON_CACHE_DIR=str(ROOT / "triton" / "__pycache__"), TRITON_ALWAYS_COMPILE="1")
    done = subprocess.run([python, source.name], cwd=source.parent, capture_output=True, text=True, env=env)
    if done.returncode:
        return f"{source.name}: {done.stderr}"
    source.with_suffix(".ptx").write_text(relative(done.stdout, source.parent, None))
    return ""


def relative(ptx, folder, toolkit):
    """Takes the machine's paths out of file names: in .file, and in strings of debug sections (bytes that end the line's comment)."""
    if toolkit:
        ptx = ptx.replace(str(toolkit), "cuda")
    ptx = re.sub(r'"[^"]*/site-packages/', '"', ptx)
    ptx = ptx.replace(str(folder) + "/", "").replace(str(folder), ".")
    # The folder as bytes of .debug_info: it becomes "." and the unit's length follows.
    path = "".join(f".b8 {b}\\s*(?://[^\n]*)?\n" for b in str(folder).encode() + b"\0")
    ptx, cut = re.subn(path, ".b8 46                                  // DW_AT_comp_dir\n.b8 0\n", ptx)
    if cut:
        shorter = len(str(folder)) - 1
        ptx = re.sub(r"\.b32 (\d+)(\s*// Length of Unit)", lambda m: f".b32 {int(m[1]) - shorter}{m[2]}", ptx)
        ptx = re.sub(r"(// Abbrev \[1\] 0x\w+:)0x(\w+)", lambda m: f"{m[1]}0x{int(m[2], 16) - shorter:x}", ptx)
        # All other entries lie behind the path: they move, and so do references to them.
        ptx = re.sub(r"(// Abbrev \[(?!1\])\d+\] )0x(\w+)(?=:)", lambda m: f"{m[1]}0x{int(m[2], 16) - shorter:x}", ptx)
        ptx = re.sub(r"\.b32 (\d+)(\s*// DW_AT_abstract_origin)", lambda m: f".b32 {int(m[1]) - shorter}{m[2]}", ptx)
    # Names of internal linkage carry a hash of the source's path, in text and as bytes of .debug_str.
    ptx = re.sub(r"(_INTERNAL_|GLOBAL__N__)[0-9a-f]{8}_", r"\g<1>00000000_", ptx)
    ptx = re.sub(r"(73,78,84,69,82,78,65,76,95,)(?:\d+,){8}(?=95,)", r"\g<1>48,48,48,48,48,48,48,48,", ptx)
    # File sizes and times tell nothing and change with every checkout.
    ptx = re.sub(r'(\.file\s+\d+ "[^"]*"), \d+, \d+', r"\1", ptx)
    lines = [line.rstrip() for line in ptx.splitlines()]
    return "\n".join(lines).rstrip("\n") + "\n"


# --- OPCODES.txt ---------------------------------------------------------------------------------------------------------------

def statements(ptx):
    """Statements of PTX text: comments gone, split at ; { } and labels."""
    ptx = re.sub(r"/\*.*?\*/|//[^\n]*", " ", ptx, flags=re.S)
    return re.split(r"[;{}]|^\s*[\w$]+:(?!:)", ptx, flags=re.M)


def opcodes():
    count = collections.Counter()
    for path in sorted(ROOT.glob("*/*.ptx")):
        for s in statements(path.read_text()):
            m = re.match(r"\s*(?:@!?%?\w+\s+)?([a-z][a-z0-9_]*(?:(?:\.|::)[a-z0-9_]+)*)(?=\s|$)", s)
            if m and m.group(1) != "call_seq":
                count[m.group(1)] += 1
    (ROOT / "OPCODES.txt").write_text(
        "# Every PTX instruction of the corpus with its modifiers, and how often it stands there. Written by build.py.\n"
        + "".join(f"{op} {n}\n" for op, n in sorted(count.items())))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nvcc")
    parser.add_argument("--triton-python")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()

    jobs = []
    if args.nvcc:
        jobs += [(build_cuda, args.nvcc, s) for s in sorted(ROOT.glob("cuda/*.cu"))]
    if args.triton_python:
        jobs += [(build_triton, args.triton_python, s) for s in sorted(ROOT.glob("triton/*.py")) if s.stem != "to_ptx"]
    jobs = [j for j in jobs if not args.names or j[2].stem in args.names]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        said = list(pool.map(lambda j: j[0](j[1], j[2]), jobs))
    for text in filter(None, said):
        print(text.rstrip(), file=sys.stderr)
    opcodes()
    return any(not j[2].with_suffix(".ptx").exists() for j in jobs) or any("error" in s for s in said if s)


if __name__ == "__main__":
    sys.exit(main())
