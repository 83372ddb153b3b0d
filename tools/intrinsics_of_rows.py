"""Texts of the intrinsics that multiply words of pixels below one another, for two rows of a 3×3 depthwise convolution.

The first row of the result takes the weights as they lie. For the second one they are shifted by one row: to the left
in a word, and into the next word. What fills the last word of weights is never read: it need not be zero. In plain
maps the lanes are pixels of a row, and all of them take the same weights.
"""

from __future__ import annotations

from workers.tvm_backend.dot.bits import BITS
from workers.tvm_backend.dot.intrinsics import RowDot

HEAD = """
@T.prim_func(s_tir=True)
def main(a: T.handle, b: T.handle, c: T.handle) -> None:
    {strides}
    A = T.match_buffer(a, (2, {pixels}, 2), "{left}", strides=[{a}, {share}, 1], offset_factor=1)
    B = T.match_buffer(b, ({kernel}, {rows}), "{weights}", strides=[{all}, {share}, 1], offset_factor=1)
    C = T.match_buffer(c, (2, {result}), "float32", strides=[{c}, 1], offset_factor=1, scope="local")
    with T.sblock("root"):
        T.reads(C[0:2, {result_region}], A[0:2, {pixel_region}, 0:2], B[{kernel_region}, 0:{rows}])
        T.writes(C[0:2, {result_region}])
{body}
"""


def texts(dot: RowDot) -> tuple[str, str]:
    """TVM's script of what an intrinsic computes, and of how."""
    share, kernel = dot.group, 2 if dot.group == 2 else 3
    all_lanes, strides = (1, ["sa", "sc"]) if dot.plain else (16, ["sa", "sb", "sc", "sd"])
    columns = [str(15 + dot.columns)] if dot.plain else [str(dot.columns), "16"]
    result = ["16"] if dot.plain else ["1", "16"]
    words = {
        "strides": "\n    ".join(f"{name} = T.int32()" for name in strides),
        "share": share,
        "all": all_lanes * share,
        "rows": min(share, 3),
        "left": dot.left,
        "weights": dot.weights,
        "a": "sa" if dot.plain else f"sa, {16 * share}" if dot.columns > 1 else "sa, sb",
        "c": "sc" if dot.plain else "sc, sd",
        "pixels": ", ".join(columns),
        "pixel_region": _region(columns),
        "result": ", ".join(result),
        "result_region": _region(result),
        "kernel": f"{kernel}, {all_lanes}",
        "kernel_region": f"0:{kernel}, 0:{all_lanes}",
    }
    body = _pairs(dot) if share == 2 else _quads(dot)
    return HEAD.format(body=_computes(dot), **words), HEAD.format(body=body, **words)


def _region(extents: list[str]) -> str:
    return ", ".join(f"0:{extent}" for extent in extents)


def _computes(dot: RowDot) -> str:
    share, wide = dot.group, dot.columns > 1
    column, first = ("kx", "kx, ") if wide else ("0", "")
    column = f"lane + {column}" if dot.plain else f"{column}, lane"
    pixel = f"A[(row + ky) // 2, {column}, (row + ky) % 2]"
    lane, result = ("0", "row, lane") if dot.plain else ("lane", "row, 0, lane")
    weight = f"B[ky // 2, {lane}, ky % 2]" if share == 2 else f"B[{first}{lane}, ky]"
    loop = f"for x in T.serial(0, {dot.columns}):" if wide else "if True:"
    names, kinds, over = ("row, lane, ky, kx", "SSRR", "r, l, y, x") if wide else ("row, lane, ky", "SSR", "r, l, y")
    lines = [
        "for l in T.serial(0, 16):",
        "    for r in T.serial(0, 2):",
        "        for y in T.serial(0, 3):",
        *(["            " + loop] if wide else []),
    ]
    inner = "    " * (4 if wide else 3)
    lines += [
        f'{inner}with T.sblock("update"):',
        f'{inner}    {names} = T.axis.remap("{kinds}", [{over}])',
        f"{inner}    C[{result}] = C[{result}] + {_float(pixel, dot.left)} * {_float(weight, dot.weights)}",
    ]
    return "\n".join(" " * 8 + line for line in lines)


def _float(value: str, dtype: str) -> str:
    if dtype == BITS:
        return f'T.reinterpret("float32", T.shift_left(T.cast({value}, "uint32"), T.uint32(16)))'
    return f'T.cast({value}, "float32")'


def _pairs(dot: RowDot) -> str:
    unit = "" if dot.plain else "0, "
    pixels = [f'T.reinterpret("int32x16", A.vload([{at}, {unit}0, 0], "uint16x32"))' for at in range(2)]
    lanes = ("uint32", "uint16x2") if dot.plain else ("uint32x16", "uint16x32")
    first, second = (f'T.reinterpret("{lanes[0]}", B.vload([{at}, 0, 0], "{lanes[1]}"))' for at in range(2))
    by = _each(dot, "T.uint32(16)")
    kept = first, f"T.bitwise_and({second}, {_each(dot, 'T.uint32(65535)')})"
    moved = (
        f"T.shift_left({first}, {by})",
        f"T.bitwise_or(T.shift_right({first}, {by}), T.shift_left({second}, {by}))",
    )
    lines = []
    for row, weights in enumerate((kept, moved)):
        total = f'C.vload([{row}, {unit}0], "float32x16")'
        for pixel, weight in zip(pixels, weights, strict=True):
            signed = f'T.reinterpret("int32x16", {_in_lanes(dot, weight)})'
            total = f'T.call_pure_extern("float32x16", "ts_dpbf16ps", {total}, {pixel}, {signed})'
        lines.append(f"        C[{row}, {unit}T.ramp(0, 1, 16)] = {total}")
    return "\n".join(lines)


def _each(dot: RowDot, number: str) -> str:
    """A number for each lane of weights: for the only one, or for a register."""
    return number if dot.plain else f"T.broadcast({number}, 16)"


def _in_lanes(dot: RowDot, weights: str) -> str:
    """Weights for each lane of pixels."""
    return f"T.broadcast({weights}, 16)" if dot.plain else weights


def _quads(dot: RowDot) -> str:
    lines = []
    unit = "" if dot.plain else "0, "
    lanes = ("uint32", "int8x4") if dot.plain else ("uint32x16", "int8x64")
    for row in range(2):
        total = "T.broadcast(T.int32(0), 16)"
        for column in range(3):
            weight = f'T.reinterpret("{lanes[0]}", B.vload([{column}, 0, 0], "{lanes[1]}"))'
            kept = f"T.bitwise_and({weight}, {_each(dot, 'T.uint32(0xFFFFFF)')})"
            moved = f"T.shift_left({weight}, {_each(dot, 'T.uint32(8)')})"
            weight = f'T.reinterpret("int8x64", {_in_lanes(dot, moved if row else kept)})'
            total = (
                f'T.call_pure_extern("int32x16", "llvm.x86.avx512.vpdpbusd.512", {total}, '
                f'A.vload([0, {column}, {unit}0], "uint8x64"), {weight})'
            )
        place = f"C[{row}, {unit}T.ramp(0, 1, 16)]"
        lines.append(f'        {place} = C.vload([{row}, {unit}0], "float32x16") + T.cast({total}, "float32x16")')
    return "\n".join(lines)
