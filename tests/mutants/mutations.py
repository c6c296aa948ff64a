"""The single changes that are made to a file of the product, one at a time. Pure: source text in, mutants out.

Not changed, because no fast test could see it: how long something waits (constants named *_S, keywords such as `daemon`), where a
sentence is cut off, and whether a clock is compared with < or <= (there, the comparison is reversed).
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

# class name -> its members, in the order of the source
Enums = Mapping[str, Sequence[str]]

NEGATED = {
    ast.Lt: ">=", ast.LtE: ">", ast.Gt: "<=", ast.GtE: "<", ast.Eq: "!=", ast.NotEq: "==",
    ast.Is: "is not", ast.IsNot: "is", ast.In: "not in", ast.NotIn: "in",
}  # fmt: skip
BOUNDARY = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">"}
SIGNS = {
    ast.Lt: b"<", ast.LtE: b"<=", ast.Gt: b">", ast.GtE: b">=", ast.Eq: b"==", ast.NotEq: b"!=",
    ast.Is: b"is", ast.IsNot: b"is not", ast.In: b"in", ast.NotIn: b"not in",
}  # fmt: skip
CLOCKS = ("monotonic()", "perf_counter()", "time.time()")
# Keywords of the standard library on which no decision depends.
INDIFFERENT = {"daemon", "exc_info", "exist_ok", "flush", "frozen", "ignore_errors", "missing_ok", "strict"}
LONGEST_LIST = 32  # a larger bound of a slice cuts text


@dataclass(frozen=True)
class Mutant:
    """One change. `occurrence` counts equal changes of equal lines of the file, so that no line number identifies it."""

    module: str
    line: int
    original: str
    changed: str
    change: str
    occurrence: int
    source: bytes

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What identifies the mutant as long as its own line stays what it is."""
        return self.module, self.original, self.change, self.occurrence


@dataclass(frozen=True)
class _Edit:
    start: int
    end: int
    text: bytes


def mutants_of(
    module: str, source: bytes, enums: Enums, only: Collection[str] | None = None
) -> tuple[Mutant, ...]:
    """Every mutant of a file, or of these lines of it `only`, in the order of the source."""
    lines = _Lines(source)
    seen = Counter[tuple[str, str]]()
    made = []
    for edits, change in sorted(
        _Finder(lines, enums).found(ast.parse(source)), key=lambda one: one[0][0].start
    ):
        number = lines.number(edits[0].start)
        original = lines.text(number)
        if only is not None and original not in only:
            continue
        text = source
        for edit in sorted(edits, key=lambda one: -one.start):
            text = text[: edit.start] + edit.text + text[edit.end :]
        if not _parses(text):
            continue
        changed = _Lines(text).text(number)
        made.append(Mutant(module, number, original, changed, change, seen[original, change], text))
        seen[original, change] += 1
    return tuple(made)


def sample(mutants: Iterable[Mutant], count: int, seed: int) -> tuple[Mutant, ...]:
    """The same mutants for the same seed, in an order that mixes the modules. An edit of one line moves no other mutant in or out,
    but for the few at the end.
    """

    def draw(mutant: Mutant) -> str:
        return hashlib.sha256(repr((seed, *mutant.key)).encode()).hexdigest()

    return tuple(sorted(mutants, key=draw)[:count])


def enums_of(sources: Iterable[bytes]) -> Enums:
    """The enum classes of these files."""
    classes = (
        node
        for source in sources
        if b"Enum" in source  # to parse the others would take most of the time
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith("Enum") for base in node.bases)
    )
    return {
        node.name: [
            target.id
            for statement in node.body
            if isinstance(statement, ast.Assign)
            for target in statement.targets
            if isinstance(target, ast.Name)
        ]
        for node in classes
    }


class _Lines:
    """Positions of the syntax tree (line, column in bytes) as offsets into the source."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self._lines = source.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))

    def start(self, node: ast.expr | ast.stmt) -> int:
        return self._starts[node.lineno - 1] + node.col_offset

    def end(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self._starts[node.end_lineno - 1] + node.end_col_offset

    def of(self, node: ast.expr | ast.stmt) -> bytes:
        return self.source[self.start(node) : self.end(node)]

    def number(self, offset: int) -> int:
        return sum(start <= offset for start in self._starts[:-1])

    def text(self, number: int) -> str:
        return self._lines[number - 1].decode().strip()


class _Finder:
    """Finds what can be changed in a tree."""

    def __init__(self, lines: _Lines, enums: Enums) -> None:
        self._lines, self._enums = lines, enums

    def found(self, tree: ast.Module) -> Iterator[tuple[list[_Edit], str]]:
        for node in _deciding(tree):
            if isinstance(node, ast.Compare):
                yield from self._comparison(node)
            elif isinstance(node, ast.BoolOp):
                yield from self._junction(node)
            elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
                yield [self._put(self._lines.start(node), self._lines.start(node.operand), b"")], "drop not"
            elif isinstance(node, ast.Raise):
                yield self._raise(node), "drop raise"
            elif isinstance(node, ast.Constant):
                yield from self._constant(node)
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                yield from self._member(node, node.value.id)
            for test in _tests(node):
                if isinstance(test, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
                    at = self._lines.start(test)
                    yield (
                        [_Edit(at, at, b"not ")],
                        f"negate {' '.join(self._lines.of(test).decode().split())[:60]}",
                    )

    def _comparison(self, node: ast.Compare) -> Iterator[tuple[list[_Edit], str]]:
        clock = any(clock.encode() in self._lines.of(node) for clock in CLOCKS)
        operands = [node.left, *node.comparators]
        for left, op, right in zip(operands, node.ops, node.comparators, strict=False):
            between = (self._lines.end(left), self._lines.start(right))
            for table in (NEGATED,) if clock else (NEGATED, BOUNDARY):
                if (new := table.get(type(op))) is not None:
                    sign = SIGNS[type(op)]
                    yield [self._within(between, sign, new.encode())], f"{sign.decode()} -> {new}"

    def _junction(self, node: ast.BoolOp) -> Iterator[tuple[list[_Edit], str]]:
        old, new = (b"and", b"or") if isinstance(node.op, ast.And) else (b"or", b"and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            between = (self._lines.end(left), self._lines.start(right))
            yield [self._within(between, old, new)], f"{old.decode()} -> {new.decode()}"

    def _raise(self, node: ast.Raise) -> list[_Edit]:
        """The exception is made, and not raised."""
        if node.exc is None:
            return [self._put(self._lines.start(node), self._lines.end(node), b"pass")]
        edits = [self._put(self._lines.start(node), self._lines.start(node.exc), b"")]
        if node.cause is not None:
            edits.append(self._put(self._lines.end(node.exc), self._lines.end(node), b""))
        return edits

    def _constant(self, node: ast.Constant) -> Iterator[tuple[list[_Edit], str]]:
        value = node.value
        if isinstance(value, bool):
            new = str(not value)
        elif isinstance(value, int | float):
            new = str(value + 1)
        else:
            return
        old, edit = (
            self._lines.of(node),
            self._put(self._lines.start(node), self._lines.end(node), new.encode()),
        )
        yield [edit], f"{old.decode()} -> {new}"

    def _member(self, node: ast.Attribute, name: str) -> Iterator[tuple[list[_Edit], str]]:
        members = self._enums.get(name, ())
        if node.attr in members and len(members) > 1:
            other = members[(members.index(node.attr) + 1) % len(members)]
            end = self._lines.end(node)
            edit = self._put(end - len(node.attr), end, other.encode())
            yield [edit], f"{name}.{node.attr} -> {name}.{other}"

    def _within(self, between: tuple[int, int], old: bytes, new: bytes) -> _Edit:
        """The operator between two operands; comments there are none."""
        at = self._lines.source.index(old, *between)
        return _Edit(at, at + len(old), new)

    @staticmethod
    def _put(start: int, end: int, text: bytes) -> _Edit:
        return _Edit(start, end, text)


def _deciding(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that may be changed: not annotations, decorators, durations, cut texts, or what is indifferent."""
    yield node
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_comment"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _left_out(child):
                yield from _deciding(child)


def _left_out(node: ast.AST) -> bool:
    if isinstance(node, ast.keyword):
        return node.arg in INDIFFERENT
    if isinstance(node, ast.Slice):
        bounds = [bound.value for bound in (node.lower, node.upper) if isinstance(bound, ast.Constant)]
        return any(isinstance(bound, int) and bound > LONGEST_LIST for bound in bounds)
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [
            name.id
            for target in targets
            for name in (target.elts if isinstance(target, ast.Tuple) else [target])
            if isinstance(name, ast.Name)
        ]
        return bool(names) and all(name.isupper() and name.endswith("_S") for name in names)
    return False


def _tests(node: ast.AST) -> Sequence[ast.expr]:
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        return [node.test]
    return node.ifs if isinstance(node, ast.comprehension) else []


def _parses(source: bytes) -> bool:
    with suppress(SyntaxError):
        return bool(ast.parse(source))
    return False
