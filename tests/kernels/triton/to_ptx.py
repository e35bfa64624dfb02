"""Compiles Triton kernels to PTX for sm_90 without a GPU. Each kernel's script calls `ptx(...)` and so prints its PTX."""

import os

os.environ.setdefault("TRITON_ALWAYS_COMPILE", "1")

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


def ptx(fn, signature, constants=None, num_warps=4, divisible=(), line_info=False):
    """Prints the PTX of fn. signature gives each parameter's type in order ("*fp32", "i32", "constexpr"), constants the constexprs' values,
    divisible the names of parameters that are multiples of 16."""
    triton.knobs.compilation.disable_line_info = not line_info
    names = list(signature)
    attrs = {(names.index(n),): [["tt.divisibility", 16]] for n in divisible}
    source = ASTSource(fn, signature, constants or {}, attrs)
    options = {"num_warps": num_warps, "enable_fp_fusion": False, "ptx_version": 90}
    kernel = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    # Nothing in the text tells how large the array in dynamic shared memory is.
    print(f"// Launch with {kernel.metadata.shared} bytes of dynamic shared memory.")
    print(kernel.asm["ptx"], end="")
