"""Expressions over extents in exported PyTorch programs, parsed as arithmetic before PyTorch evaluates them as Python.

PyTorch writes them as SymPy does, such as ``Mul(Integer(2), Symbol('s77', positive=True, integer=True))``, and reads
them with ``sympy.sympify``, which is ``eval``.
"""

from __future__ import annotations

import ast
import math
import re
import warnings

MAX_LENGTH = 8_000
"""Characters of one expression."""
MAX_EXPONENT = 64
MAX_TERMS = 10_000
"""Terms of an expression whose products and powers are multiplied out, as SymPy does."""
MAX_NUMBER = 2**64
SYMBOL = re.compile(r"(?:s|u|ps|zf|zuf|i|f)[0-9]{1,9}")
"""What PyTorch calls extents that it does not know."""
DIGITS = re.compile(r"-?[0-9]{1,40}(?:\.[0-9]{0,60})?(?:e[+-]?[0-9]{1,3})?")
FUNCTIONS = frozenset(
    {
        "Add",
        "Mul",
        "Pow",
        "Max",
        "Min",
        "Abs",
        "Mod",
        "Rational",
        "floor",
        "ceiling",
        "Eq",
        "Ne",
        "Lt",
        "Le",
        "Gt",
        "Ge",
        "Equality",
        "Unequality",
        "StrictLessThan",
        "LessThan",
        "StrictGreaterThan",
        "GreaterThan",
        "And",
        "Or",
        "Not",
        "FloorDiv",
        "ModularIndexing",
        "Where",
        "PythonMod",
        "CleanDiv",
        "CeilToInt",
        "FloorToInt",
        "CeilDiv",
        "LShift",
        "RShift",
        "PowByNatural",
        "FloatPow",
        "FloatTrueDiv",
        "IntTrueDiv",
        "IsNonOverlappingAndDenseIndicator",
        "TruncToFloat",
        "TruncToInt",
        "RoundToInt",
        "RoundDecimal",
        "ToFloat",
        "Identity",
    }
)
POWERS = frozenset({"Pow", "PowByNatural", "FloatPow", "LShift", "RShift"})
PRODUCTS = frozenset({"Mul", "Mult", "Div", "IntTrueDiv", "FloatTrueDiv"})
NAMES = frozenset({"true", "false"})
ASSUMPTIONS = frozenset(
    {
        "positive",
        "negative",
        "nonnegative",
        "nonpositive",
        "nonzero",
        "integer",
        "real",
        "finite",
        "zero",
        "commutative",
    }
)
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.BitAnd, ast.BitOr)
COMPARISONS = (ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def problem_of(text: str) -> str | None:
    """Why a text is no arithmetic on extents; None for one that is."""
    if len(text) > MAX_LENGTH:
        return f"it has {len(text)} characters, and up to {MAX_LENGTH} are accepted"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            body = ast.parse(text.strip(), mode="eval").body
            return _problem(body, False) or _of_size(body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "it does not parse"


def _problem(node: ast.expr, powered: bool) -> str | None:
    """Why an expression is none; ``powered``: it is raised to a power."""
    if isinstance(node, ast.Constant):
        return _of_number(node.value)
    if isinstance(node, ast.Name):
        known = node.id in NAMES or SYMBOL.fullmatch(node.id)
        return None if known else f"it has the name {node.id[:60]!r}"
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd | ast.Invert):
        return _problem(node.operand, powered)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return _of_power([node.left, node.right], powered)
    if isinstance(node, ast.BinOp) and isinstance(node.op, OPERATORS):
        return _first([node.left, node.right], powered)
    if isinstance(node, ast.Compare) and all(isinstance(each, COMPARISONS) for each in node.ops):
        return _first([node.left, *node.comparators], powered)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _of_call(node.func.id, node, powered)
    return f"it has a {type(node).__name__}"


def _of_size(body: ast.expr) -> str | None:
    return f"it has over {MAX_TERMS} terms once multiplied out" if _terms(body) > MAX_TERMS else None


def _terms(node: ast.expr) -> int:
    """At most how many terms an expression has once it is multiplied out, up to one more than are accepted."""
    if isinstance(node, ast.BinOp):
        name, nodes = type(node.op).__name__, [node.left, node.right]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        name, nodes = node.func.id, node.args
    else:
        name, nodes = "Add", [each for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr)]
    counts = [_terms(each) for each in nodes]
    if name in {"Pow", *POWERS} and counts:
        exponent = _number(nodes[-1])
        found = math.comb(counts[0] + (power := min(abs(int(exponent or 1)), MAX_EXPONENT)) - 1, power)
    else:
        found = math.prod(counts) if name in PRODUCTS else sum(counts)
    return min(max(found, 1), MAX_TERMS + 1)


def _first(nodes: list[ast.expr], powered: bool) -> str | None:
    return next(filter(None, (_problem(each, powered) for each in nodes)), None)


def _of_number(value: object) -> str | None:
    fits = isinstance(value, bool | int | float) and abs(value) <= MAX_NUMBER
    return None if fits else f"it has the constant {str(value)[:60]!r}"


def _of_call(name: str, node: ast.Call, powered: bool) -> str | None:
    if name in ("Symbol", "Integer", "Float"):
        return _of_atom(name, node)
    if name not in FUNCTIONS or node.keywords:
        return f"it calls {name[:60]!r}"
    return _of_power(node.args, powered) if name in POWERS else _first(node.args, powered)


def _of_power(nodes: list[ast.expr], powered: bool) -> str | None:
    """Numbers are raised once, by a small number: SymPy computes them."""
    if powered or len(nodes) != 2:
        return "it has a power of a power"
    base, exponent = nodes
    number = _number(exponent)
    if number is not None and abs(number) > MAX_EXPONENT:
        return f"it has the exponent {number}"
    if number is None and _is_constant(base):
        return "it has an exponent that is no number"
    return _problem(base, True) or _problem(exponent, True)


def _number(node: ast.expr) -> float | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        found = _number(node.operand)
        return None if found is None else -found
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Integer" and node.args:
        return _number(node.args[0])
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int | float) else None


def _is_constant(node: ast.expr) -> bool:
    names = (each.id for each in ast.walk(node) if isinstance(each, ast.Name))
    return not any(name == "Symbol" or SYMBOL.fullmatch(name) for name in names)


def _of_atom(name: str, node: ast.Call) -> str | None:
    """``Symbol('s0', integer=True)``, ``Integer(3)`` or ``Float('0.5', precision=53)``."""
    value = _literal(node.args[0]) if len(node.args) == 1 else None
    options = {each.arg: _literal(each.value) for each in node.keywords}
    if name == "Symbol":
        right = isinstance(value, str) and SYMBOL.fullmatch(value) and set(options) <= ASSUMPTIONS
        right = right and all(isinstance(each, bool) for each in options.values())
    elif name == "Integer":
        right = type(value) is int and abs(value) <= MAX_NUMBER and not options
    else:
        right = isinstance(value, str) and DIGITS.fullmatch(value) and set(options) <= {"precision"}
        right = right and all(type(each) is int and 1 <= each <= 128 for each in options.values())
    return None if right else f"it has the {name} {str(value)[:60]!r}"


def _literal(node: ast.expr) -> object:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        value = _literal(node.operand)
        return -value if isinstance(value, int | float) else None
    return node.value if isinstance(node, ast.Constant) else None
