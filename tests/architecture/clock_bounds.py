"""Finds what in a test depends on its machine: upper bounds on the wall clock, deadlines that a busy machine reaches, and moments
before the machine was started.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

CLOCKS = {"monotonic", "perf_counter", "time", "monotonic_ns", "perf_counter_ns", "time_ns"}
LEAST_S = 60  # only what hangs takes longer, also on a busy machine
# What ends a command. A few seconds are a test's own: whether something still runs.
COMMANDS = {"call", "check_call", "check_output", "communicate", "run", "wait"}
SHORT_S, PYTEST_S = 20, 300


def machine_bounds(nodes: Iterable[ast.AST]) -> list[int]:
    """The lines of a file's functions in which an assertion bounds an elapsed time from above, a command has a deadline that is
    shorter than pytest's, or seconds since the boot are reduced, unless the file makes the clock of the boot itself.
    """
    nodes = tuple(nodes)
    lines = {node.lineno for node in nodes if isinstance(node, ast.Call) and _has_deadline(node)}
    own_boot = any(isinstance(node, ast.Constant) and node.value == "boot_s" for node in nodes)
    differences = [node for node in nodes if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)]
    if not own_boot:
        lines |= {node.lineno for node in differences if _is_difference(node, {"boot_s"})}
    if not any(_is_difference(node, CLOCKS) for node in differences):
        return sorted(lines)
    for function in (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
        inside = tuple(ast.walk(function))
        if any(_is_difference(node, CLOCKS) for node in inside):
            names = _elapsed_names(inside)
            asserts = (node for node in inside if isinstance(node, ast.Assert))
            lines |= {node.lineno for node in asserts if _has_bound(node.test, names)}
    return sorted(lines)


def _has_deadline(call: ast.Call) -> bool:
    """Whether a command is given so many seconds that only a busy machine, or what hangs, exceeds them."""
    values = [word.value for word in call.keywords if word.arg == "timeout"]
    if not values or ast.unparse(call.func).rpartition(".")[2] not in COMMANDS:
        return False
    seconds = [
        node.value
        for node in values
        if isinstance(node, ast.Constant) and isinstance(node.value, int | float)
    ]
    return any(SHORT_S <= value < PYTEST_S for value in seconds)


def _elapsed_names(nodes: tuple[ast.AST, ...]) -> set[str]:
    """The variables of a function that hold an elapsed time, or something that was computed from one."""
    given, names, before = [pair for node in nodes for pair in _given(node)], set[str](), -1
    while before < len(names):
        before = len(names)
        for target, value in given:
            if _is_elapsed(value, names):
                names |= {name.id for name in ast.walk(target) if isinstance(name, ast.Name)}
    return names


def _given(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What gets a value in this node, and the value."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                yield from zip(target.elts, node.value.elts, strict=False)
            else:
                yield target, node.value
    elif isinstance(node, ast.AnnAssign | ast.NamedExpr | ast.AugAssign) and node.value is not None:
        yield node.target, node.value
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append":
        yield from ((node.func.value, value) for value in node.args)


def _has_bound(test: ast.expr, names: set[str]) -> bool:
    """Whether one of its comparisons says that an elapsed time is less than something that may be below a minute."""
    negated = {inner for node in ast.walk(test) if isinstance(node, ast.UnaryOp) for inner in ast.walk(node)}
    for node in ast.walk(test):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
                turned = isinstance(operator, ast.Gt | ast.GtE) is not (node in negated)
                less, more = (right, left) if turned else (left, right)
                ordered = isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE)
                if ordered and _is_elapsed(less, names) and not _is_wide(more):
                    return True
    return False


def _is_elapsed(node: ast.AST, names: set[str]) -> bool:
    return any(
        _is_difference(one, CLOCKS) or (isinstance(one, ast.Name) and one.id in names)
        for one in ast.walk(node)
    )


def _is_difference(node: ast.AST, clocks: set[str]) -> bool:
    """Whether something is subtracted from what a clock says now."""
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Sub)
        and isinstance(node.left, ast.Call)
        and not node.left.args
        and ast.unparse(node.left.func).rpartition(".")[2] in clocks
    )


def _is_wide(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value >= LEAST_S
