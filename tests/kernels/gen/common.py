"""Writes launch files, their inputs and expected outputs; and the arithmetic that the references share.

A launch file is described in README.md. Inputs of up to 32 bytes stand in the launch file itself, longer ones in data/.
"""

import math
import random
import struct
from fractions import Fraction
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
written = set()


def rng(name):
    """A generator of random numbers seeded by a name, the same on every machine."""
    return random.Random("sassafras " + name)


# --- packing -----------------------------------------------------------------------------------------------------------------

def pack(kind, values):
    """Little-endian bytes of a sequence; kind is a struct letter: b B h H i I q Q e f d. f32 and f16 values round to nearest even,
    integers wrap."""
    values = list(values)
    if kind in "efd":
        return b"".join(pack_float(kind, v) for v in values)
    bits = 8 * struct.calcsize("<" + kind)
    return b"".join((int(v) % (1 << bits)).to_bytes(bits // 8, "little") for v in values)


def pack_float(kind, v):
    if kind == "f" and math.isfinite(v):
        v = f32(v)
    return struct.pack("<" + kind, v)


def unpack(kind, data):
    return list(struct.unpack(f"<{len(data) // struct.calcsize(kind)}{kind}", data))


def f32(v):
    """v rounded to f32 (nearest even, overflow to infinity), as a Python float."""
    try:
        return struct.unpack("<f", struct.pack("<f", v))[0]
    except OverflowError:
        return math.copysign(math.inf, v)


def f32_bits(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def bits_f32(v):
    return struct.unpack("<I", struct.pack("<f", v))[0]


def fma32(a, b, c):
    """a*b + c rounded once to f32, for finite a, b and c."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return f32(a * b + c)
    return round_fraction(exact, 24, -149)


def fma64(a, b, c):
    """a*b + c rounded once to f64, for finite a, b and c."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    return float(exact) if exact else a * b + c


def round_fraction(x, precision, least):
    """x rounded to nearest even with `precision` significant bits and a least exponent; no overflow check above f32's range."""
    sign, x = (-1 if x < 0 else 1), abs(x)
    e = x.numerator.bit_length() - x.denominator.bit_length()
    if Fraction(2) ** e > x:
        e -= 1
    unit = Fraction(2) ** max(e - precision + 1, least)
    v = sign * float(round(x / unit) * unit)
    return f32(v) if precision == 24 else v


def s32(v):
    """v wrapped to a signed 32-bit integer."""
    v &= 0xFFFFFFFF
    return v - (1 << 32) if v >> 31 else v


def s64(v):
    """v wrapped to a signed 64-bit integer."""
    v &= (1 << 64) - 1
    return v - (1 << 64) if v >> 63 else v


# Single-precision values at the edges: zeros, the denormal range, one and its neighbours, large, infinite, not a number.
SPECIAL32 = [f32_bits(b) for b in (
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x807FFFFF, 0x00800000, 0x80800000, 0x3F800000, 0xBF800000,
    0x3F7FFFFF, 0x3F800001, 0x40000000, 0x3F000000, 0xC0490FDB, 0x4B7FFFFF, 0xCB800000, 0x4F000000, 0xCF000000, 0x5F000000,
    0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x3EAAAAAB, 0x42F60000, 0x1E3CE508)]
SPECIAL64 = [struct.unpack("<d", struct.pack("<Q", b))[0] for b in (
    0x0000000000000000, 0x8000000000000000, 0x0000000000000001, 0x800FFFFFFFFFFFFF, 0x0010000000000000, 0x3FF0000000000000,
    0xBFF0000000000000, 0x3FEFFFFFFFFFFFFF, 0x4000000000000000, 0xC00921FB54442D18, 0x41DFFFFFFFC00000, 0xC1E0000000000000,
    0x43E0000000000000, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0x47EFFFFFEFFFFFFF,
    0x36A0000000000000, 0x3FD5555555555555)]
SPECIAL_I32 = [0, 1, 2, 3, 7, 31, 32, 33, 127, 128, 255, 256, 32767, 32768, 65535, 65536, 0x7FFFFFFF, 0x80000000, 0x80000001,
               0xFFFFFFFF, 0xFFFFFFFE, 0xFFFF0000, 0xAAAAAAAA, 0x55555555]


# --- launch files --------------------------------------------------------------------------------------------------------------

class Arg:
    def __init__(self, kind, value, name=None, out=False, expect=None):
        self.kind, self.value, self.name, self.out, self.expect = kind, value, name, out, expect


def val(kind, value):
    """A scalar argument; kind is a type such as u32 or f32."""
    return Arg(kind, value)


def struct_arg(data):
    """An argument by value, as bytes."""
    return Arg("bytes", data)


def buf(name, data):
    """A read-only buffer."""
    return Arg("buffer", data, name)


def inout(name, data, expect=None):
    """A buffer that is filled with data and written out after the launch; expect is what it should hold then, where that is known."""
    return Arg("buffer", data, name, True, expect)


def out(name, size, expect=None, fill=0xCD):
    """An output buffer of size bytes, filled beforehand with a byte that a kernel must not leave where it should write."""
    return Arg("buffer", (size, fill), name, True, expect)


def toml_value(kind, v):
    if kind[0] in "us":
        return str(v)
    if math.isnan(v):
        return "nan"
    if math.isinf(v):
        return "inf" if v > 0 else "-inf"
    return repr(float(v))


def dims(d):
    d = (d,) if isinstance(d, int) else tuple(d)
    return d + (1,) * (3 - len(d))


def write(path, data):
    path = ROOT / path
    path.parent.mkdir(exist_ok=True)
    written.add(path)
    if not path.exists() or path.read_bytes() != data:
        path.write_bytes(data)


def launch(kernel, case, grid, block, *args, shared=0, cluster=None, folder="cuda", entry=None, note=None):
    """Writes folder/kernel.case.toml with its inputs and expected outputs."""
    lines = []
    if note:
        lines.append("# " + note)
    lines.append(f'kernel = "{entry or kernel}"')
    lines.append("grid = [{}, {}, {}]".format(*dims(grid)))
    lines.append("block = [{}, {}, {}]".format(*dims(block)))
    if cluster:
        lines.append("cluster = [{}, {}, {}]".format(*dims(cluster)))
    if shared:
        lines.append(f"shared = {shared}")
    for a in args:
        lines += ["", "[[arg]]"]
        if a.kind == "bytes":
            lines.append(f'bytes = "{a.value.hex()}"')
        elif a.kind != "buffer":
            lines.append(f"{a.kind} = {toml_value(a.kind, a.value)}")
        else:
            if isinstance(a.value, tuple):
                size, fill = a.value
                lines.append(f"buffer = {{ bytes = {size}, fill = {fill} }}")
            elif len(a.value) <= 32:
                lines.append(f'buffer = {{ hex = "{a.value.hex()}" }}')
            else:
                size = len(a.value)
                name = f"{kernel}.{case}.{a.name}.bin"
                write(f"data/{name}", a.value)
                lines.append(f'buffer = {{ file = "../data/{name}" }}')
            if a.out:
                lines.append(f'out = "{a.name}.bin"')
            if a.expect is not None:
                have = a.value[0] if isinstance(a.value, tuple) else len(a.value)
                assert len(a.expect) == have, f"{kernel}.{case}: {a.name} has {have} bytes, expected {len(a.expect)}"
                write(f"expected/{kernel}.{case}.{a.name}.bin", a.expect)
    write(f"{folder}/{kernel}.{case}.toml", ("\n".join(lines) + "\n").encode())


def padded(expect, size, fill=0xCD):
    """expect, then the fill of an output buffer of size bytes."""
    return expect + bytes([fill]) * (size - len(expect))


# --- exact rounding ------------------------------------------------------------------------------------------------------------

def directed(x, mode, precision=24, least=-149):
    """The fraction x rounded in direction n, z, d or u to `precision` bits, not below 2**least; the caller stays clear of overflow.
    The defaults are f32's; f64 is 53, -1074; bfloat16 is 8, -133."""
    x = Fraction(x)
    if x == 0:
        return 0.0
    a = abs(x)
    e = a.numerator.bit_length() - a.denominator.bit_length()
    if Fraction(2) ** e > a:
        e -= 1
    unit = Fraction(2) ** max(e - precision + 1, least)
    q = a / unit
    up = math.ceil(q) if (mode == "u") == (x > 0) and mode in "ud" else math.floor(q)
    return math.copysign(float((round(q) if mode == "n" else up) * unit), -1 if x < 0 else 1)


def sqrt_sticky(x):
    """A fraction that rounds as the square root of x > 0 does, to any precision below 100 bits."""
    x = Fraction(x)
    shift = 200 + 2 * x.denominator.bit_length()
    scaled = math.floor(x * (1 << shift))
    r = math.isqrt(scaled)
    return Fraction(2 * r + (r * r != scaled), 1 << (shift // 2 + 1))
