"""A fact that several modules need is written in one of them: the keys of the store, the exit codes, the words of an answer."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator

import pytest

from checks.exit_codes import Exit
from checks.judge.verdict import ANSWER_EXITS
from checks.model import ANSWER_WORDS, unreachable
from tasks.store import layout
from tests.architecture.tree import ROOT, Source, sources

PRODUCT = ("flows", "tasks", "checks", "container")
LAYOUT = layout.report_key.__code__.co_filename
WORDS = unreachable.__code__.co_filename
CODES = Exit.__str__.__code__.co_filename
ENDS = {"Refusal", "Ended"}  # an exit code and its reason
FOLDERS = {
    *(layout.GATES, layout.RECORDS, layout.FLEET, layout.PAGES, layout.LEASES, layout.PASSES),
    *(layout.BASELINES, layout.INCIDENTS, layout.RUNS),
}
# Files of a gate that have the same name nowhere else: a key that ends so is one of a store.
FILES = {
    *(layout.VERDICT_FILE, "report.html", "summary.md", "outcome.json", "request.json"),
    *("preflight.json", "slack.json", "disagreement.json"),
}
STORE_METHODS = {"location", "put", "put_if_absent", "replace_if", "delete_if", "get", "list", "delete"}
KEY = re.compile(rf"({'|'.join(sorted(FOLDERS))})/\S*|\S*/({'|'.join(map(re.escape, sorted(FILES)))})")


def _but(path: str) -> Iterator[Source]:
    yield from (source for source in sources(*PRODUCT) if str(ROOT / source.name) != path)


def _keys(source: Source) -> Iterator[str]:
    for line, text in _texts(source):
        if KEY.fullmatch(text):
            yield f"{source.name}:{line}: {text}"
    for node in source.nodes:
        if isinstance(node, ast.Call) and _is_of_a_store(node.func) and node.args:
            first = node.args[0]
            if isinstance(first, ast.Constant) and first.value in FOLDERS:
                yield f"{source.name}:{node.lineno}: {first.value}"


def _is_of_a_store(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and function.attr in STORE_METHODS
        and ast.unparse(function.value).endswith("store")
    )


def _texts(source: Source) -> Iterator[tuple[int, str]]:
    """Every text that is no docstring, "{}" for what is put into it."""
    inside = {id(part) for node in source.nodes if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    for node in source.nodes:
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, _joined(node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.lineno, node.value


def _joined(parts: Iterable[ast.expr]) -> str:
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)


def _words(source: Source) -> Iterator[str]:
    spoken = re.compile(
        rf"({'|'.join(word for word in ANSWER_WORDS.values() if word != 'ASK')})([ :].*)?", re.DOTALL
    )
    for line, text in _texts(source):
        if spoken.fullmatch(text):
            yield f"{source.name}:{line}: {text:.60}"
    for table in _tables_of_answers(source.nodes):
        values = [value.value for value in table.values if isinstance(value, ast.Constant)]
        if {str(value).upper() for value in values} & set(ANSWER_WORDS.values()):
            yield f"{source.name}:{table.lineno}: a table of words"


def _codes(source: Source) -> Iterator[str]:
    for node in source.nodes:
        if any(_is_code(value) for value in _code_places(node)):
            yield f"{source.name}:{getattr(node, 'lineno', 0)}: {ast.unparse(node):.60}"


def _code_places(node: ast.AST) -> Iterator[ast.AST]:
    """The expressions of a node where an exit code would stand."""
    if isinstance(node, ast.Assign) and any("EXIT" in ast.unparse(target) for target in node.targets):
        yield from ast.walk(node.value)
    elif isinstance(node, ast.Dict):
        named = (isinstance(key, ast.Constant) and key.value == "exit_code" for key in node.keys)
        yield from (value for is_code, value in zip(named, node.values, strict=True) if is_code)
        if any(_tables_of_answers([node])):
            own = {f"Answer.{key.name}": code for key, code in ANSWER_EXITS.items() if code > Exit.NO_GO}
            pairs = zip(node.keys, node.values, strict=True)
            yield from (v for k, v in pairs if k and own.get(ast.unparse(k)) == getattr(v, "value", None))
    elif isinstance(node, ast.FunctionDef) and node.name in ("code", "exit_code"):
        yield from (part.value for part in ast.walk(node) if isinstance(part, ast.Return) and part.value)
    elif isinstance(node, ast.ClassDef) and "Exit" in node.name:
        yield from (part.value for part in node.body if isinstance(part, ast.Assign))
    elif isinstance(node, ast.Compare) and ast.unparse(node.left) == "outcome.code":
        yield from (part for right in node.comparators for part in ast.walk(right))
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in ENDS:
        yield from node.args[:1]


def _is_code(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _tables_of_answers(nodes: Iterable[ast.AST]) -> Iterator[ast.Dict]:
    """The dictionaries whose keys are answers."""
    for node in nodes:
        if isinstance(node, ast.Dict) and node.keys and all(key and _is_answer(key) for key in node.keys):
            yield node


def _is_answer(key: ast.expr) -> bool:
    return ast.unparse(key).startswith("Answer.")


def test_store_keys_answer_words_and_exit_codes_are_written_in_one_module_each() -> None:
    """Whoever moves a file of the store, or changes a word or a code, edits one module; every page and message takes it from there."""
    tables = ((LAYOUT, _keys), (WORDS, _words), (CODES, _codes))
    found = [line for path, lines_of in tables for source in _but(path) for line in lines_of(source)]

    assert [] == found


@pytest.mark.parametrize(
    ("lines_of", "text"),
    [
        # Keys that are put together, plain ones, and the names of folders.
        (_keys, 'store.put(f"gates/{gate_id}/new.json", b"")'),
        (_keys, 'store.list("leases")'),
        (_keys, 'key = f"{folder}/verdict.json"'),
        (_keys, 'place = "pages/x.txt"'),
        # A second table of words, and a word within a text.
        (_words, 'MINE = {Answer.GO: "go", Answer.ASK: "ask"}'),
        (_words, 'said = f"NO-GO {name}"'),
        # Constants, tables, documents, returned numbers and comparisons.
        (_codes, "EXIT_REJECTED = 2"),
        (_codes, "EXIT_NO_GO, EXIT_REJECTED = 1, 2"),
        (_codes, "CODES = {Answer.GO: 0, Answer.CANNOT_TELL: 3}"),
        (_codes, 'said = {"exit_code": 2}'),
        (_codes, "def code(self) -> int:\n    return 4"),
        (_codes, "class Exit(IntEnum):\n    GO = 0\n    NO_GO = 1"),
        (_codes, "known = outcome.code in (2, 4)"),
        (_codes, "end = Refusal(3, why)"),
    ],
)
def test_an_entry_that_another_module_writes_is_found(
    lines_of: Callable[[Source], Iterator[str]], text: str
) -> None:
    """Each way to write one."""
    assert [] != list(lines_of(Source("tasks/x.py", text, ast.parse(text))))
