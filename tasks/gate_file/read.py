"""Reads a gate file and `--set` into a Gate, with errors in plain words.

GateFileError       which file, which key, what is wrong, and the nearest valid key or value
"""

from __future__ import annotations

import contextlib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from checks.command_line import InputError
from checks.documents.nearest import nearest
from checks.policy import Policy
from tasks.gate_file.folder import SUFFIX, names_in
from tasks.gate_file.model import CODE_FORM, LOCKED, LOCKED_OPTION_ENDS, NAME_FORM, Gate
from tasks.gate_file.references import A_GATE_FILE, document_kind

FILE_BYTES = 1 << 20
# Where somebody may have written the secret itself: what was found is not repeated.
REFERRING = ("notify", "approval", "app_token", "bot_token")
TOML_RULES = 'Text needs quotes (name = "x"), and each table and key may be there only once'
ALL_KEYS = "`prelaunch site schema gate` prints all keys"
GATE_FILE = "a gate file, a TOML file that `prelaunch init` writes"
MODES = "off does nothing, plan says what it would do, ask asks a person before each repair, act repairs without a question"
# Their name in the form, and on the command line.
OVERRIDES = "overrides (--set)"
EXPECTED = {
    "int_type": "a whole number", "int_from_float": "a whole number", "float_type": "a number",
    "string_type": "text", "bool_type": "true or false", "tuple_type": "a list", "list_type": "a list",
    "dict_type": "a table", "model_type": "a table", "finite_number": "a finite number",
}  # fmt: skip
# What a pattern says, in words.
FORMS = {
    NAME_FORM: "may have only lower-case letters, digits and dashes, with a letter or a digit at both ends",
    CODE_FORM: "must be module:function",
    r"^[A-Za-z0-9][A-Za-z0-9._-]*$": "may have only letters, digits, dots, dashes and underscores",
    r"^[A-Za-z_][A-Za-z0-9_]*$": "may have only letters, digits and underscores, and no digit at its beginning",
}


class GateFileError(InputError):
    """Rejected before anything started. `more` are the other keys that are wrong."""

    def __str__(self) -> str:
        others = [
            f"{item}".removeprefix(f"{self.file}: ").removeprefix(f"{self.file}, ") for item in self.more
        ]
        return "\n  ".join([super().__str__(), *(["Also wrong:", *others] if others else [])])

    def __init__(
        self, file: str, path: str, message: str, nearest: str | None = None, line: int | None = None
    ) -> None:
        super().__init__(file, message, path, nearest)
        self.line = line

    def find_line(self) -> None:
        """Look for the line of each key in the file, where it is not known yet; none if the file cannot be read, or is no file."""
        for error in (self, *self.more):
            if error.line is None and error.path:
                with contextlib.suppress(OSError, ValueError):
                    error.line = line_of(Path(error.file).read_text(encoding="utf-8"), error.path)
        self.more = tuple(sorted(self.more, key=lambda error: error.line or 0))


class OverrideError(GateFileError):
    """An override, which was typed, is not valid. `file` says so, and names no file."""


@contextlib.contextmanager
def with_lines() -> Iterator[None]:
    """A GateFileError of the block gets the line of its key."""
    try:
        yield
    except GateFileError as error:
        error.find_line()
        raise


def read_gate_file(path: Path, sets: Sequence[str] = ()) -> Gate:
    """The gate file with the overrides ("a.b=value") applied. Raises GateFileError."""
    table, text = read_toml(path)
    with with_lines():
        # The file must be right by itself: an override mends nothing silently.
        gate = _validated(str(path), table)
    for assignment in sets:
        _assign(table, assignment)
    if sets:
        gate = _validated(f"{path} with {OVERRIDES}", table, OverrideError)
    gate.remember(text)
    return gate


def places_of(name: str, model: type[BaseModel] = Gate) -> tuple[str, ...]:
    """The dotted keys that end in `name`: ("cluster.declared.nodes",) for "nodes"; without a launcher's own options."""
    paths: list[str] = []
    for key, field in model.model_fields.items():
        kinds = (field.annotation, *get_args(field.annotation))
        tables = [cls for cls in kinds if isinstance(cls, type) and issubclass(cls, BaseModel)]
        paths += [key] if key == name and not tables else []
        if get_origin(field.annotation) is not dict:
            paths += [f"{key}.{inner}" for table in tables for inner in places_of(name, table)]
    return tuple(paths)


def read_toml(path: Path, needed: str = GATE_FILE) -> tuple[dict[str, Any], str]:
    """The tables of a TOML file, and its text; `needed` says what it must be. Raises GateFileError."""
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_BYTES + 1)
        if len(data) > FILE_BYTES:
            raise GateFileError(str(path), "", f"larger than the {FILE_BYTES} bytes that are read")
        text = data.decode("utf-8")
        document = document_kind(data) or {"": "empty", "{": "JSON and not TOML"}.get(text.lstrip()[:1])
        if document not in (None, A_GATE_FILE):
            raise GateFileError(str(path), "", f"is {document}. This needs {needed}")
        return tomllib.loads(text), text
    except IsADirectoryError as error:
        raise GateFileError(str(path), "", f"is a folder. This needs {needed}") from error
    except FileNotFoundError as error:
        raise _absent(path) from error
    except OSError as error:
        raise GateFileError(str(path), "", f"cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise GateFileError(str(path), "", "is not UTF-8 text") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        # Python 3.14 has the line as an attribute.
        match = re.search(r"\(at line (\d+)", str(error))
        message, line = f"is not valid TOML: {error}. {TOML_RULES}", int(match[1]) if match else None
        raise GateFileError(str(path), "", message, line=line) from error


def _absent(path: Path) -> GateFileError:
    """With the gate files that lie where it was looked for."""
    if not path.parent.is_dir():
        text = f"there is no folder {path.parent}. `prelaunch init` writes a gate file"
        return GateFileError(str(path), "", text)
    names, folder = names_in(path.parent), path.parent.absolute()
    near = nearest(path.stem, names)
    text = f"there is no such file, and {folder} has no gate files. `prelaunch init` writes one"
    if names:
        files = ", ".join(name + SUFFIX for name in names)
        text = f"there is no such file. The gate files in {folder}: {files}"
    return GateFileError(str(path), "", text, str(path.with_name(f"{near}{SUFFIX}")) if near else None)


def line_of(text: str, path: str) -> int | None:
    """The line of a dotted key in a TOML text, else of the table that should have it; None if neither is there.

    It is for people: a line within a string of several lines that looks like a key is taken for one.
    """
    places: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[\[?([^\]]+)\]", line):
            table = f"{_bare(header[1])}."
            places.setdefault(table.rstrip("."), number)
        elif key := re.match(r"\s*([\w.\"' -]+?)\s*=", line):
            places.setdefault(f"{table}{_bare(key[1])}", number)
    keys = _bare(re.sub(r"\[\d+\]", "", path)).split(".") if path else []
    above = (".".join(keys[:length]) for length in range(len(keys), 0, -1))
    return next((places[prefix] for prefix in above if prefix in places), None)


def _bare(key: str) -> str:
    return re.sub(r"[\"'\s]", "", key)


def _assign(table: dict[str, Any], assignment: str) -> None:
    keys, value = _split(assignment)
    dotted = ".".join(keys)
    reason = _why_locked(keys, table, value)
    if reason:
        raise OverrideError(OVERRIDES, dotted, f"cannot be set here: {reason}. Change it in the gate file")
    for key in keys[:-1]:
        table = table.setdefault(key, {})
        if not isinstance(table, dict):
            raise OverrideError(OVERRIDES, dotted, f"{key} is no table")
    table[keys[-1]] = value


def _split(assignment: str) -> tuple[list[str], object]:
    """ "a.b=2" -> (["a", "b"], 2). The value is TOML; what is not valid TOML is text."""
    key, equals, text = assignment.partition("=")
    if not equals or not key.strip() or not assignment.isprintable():
        raise OverrideError(OVERRIDES, key.strip(), f"{assignment!r:.80} is not of the form a.b=value")
    try:
        table = tomllib.loads(f"{key} = {text}")
    except tomllib.TOMLDecodeError:
        try:
            table = tomllib.loads(f"{key} = {json.dumps(text, ensure_ascii=False)}")
        except tomllib.TOMLDecodeError as error:
            raise OverrideError(OVERRIDES, key.strip(), f"{key.strip()!r:.80} is no dotted key") from error
    keys: list[str] = []
    value: object = table
    while isinstance(value, dict) and len(value) == 1 and len(keys) < 8:
        keys.append(next(iter(value)))
        value = value[keys[-1]]
    if isinstance(value, dict):
        raise OverrideError(OVERRIDES, ".".join(keys), "is a table: set one of its keys")
    if keys[:2] == ["checks", "timeouts_s"] and len(keys) > 2:
        keys = [*keys[:2], ".".join(keys[2:])]  # the names of checks have dots of their own
    return keys, value


def _why_locked(keys: Sequence[str], table: Mapping[str, Any], value: object) -> str:
    dotted = ".".join(keys)
    for locked, reason in LOCKED.items():
        if dotted == locked or dotted.startswith(locked + ".") or locked.startswith(dotted + "."):
            return reason if not locked.startswith(dotted + ".") else f"{locked} is a part of it ({reason})"
    if keys[:2] == ["cluster", "options"]:
        now = table.get("cluster", {}).get("options", {}).get(keys[-1], "")
        if keys[-1].endswith(LOCKED_OPTION_ENDS) or any("/" in str(item) for item in (now, value)):
            return "it names a file or a program"
    return ""


def _validated(file: str, table: Mapping[str, Any], error_type: type[GateFileError] = GateFileError) -> Gate:
    try:
        # Strict JSON mode takes lists for tuples and text for enums, and still coerces nothing.
        return Gate.model_validate_json(json.dumps(table, default=str))
    except ValidationError as error:
        raise plain_error(file, error, Gate, error_type) from None


def plain_error(
    file: str, error: ValidationError, model: type[BaseModel], error_type: type[GateFileError] = GateFileError
) -> GateFileError:
    """What pydantic says of a file for `model`, as an operator needs it: every wrong key, and the nearest valid one."""
    # A misspelt key is both unknown and missing: the unknown one is what the operator typed.
    faults = sorted(error.errors(), key=lambda e: e["type"] != "extra_forbidden")
    by_path: dict[str, GateFileError] = {}
    for dotted, message, near in (_in_words(fault, model) for fault in faults):
        # A wrong item is missing in its list, too.
        path = re.sub(r"\.(\d+)(?=\.|$)", r"[\1]", dotted)
        if not any(path == key.nearest or key.path.startswith(f"{path}[") for key in by_path.values()):
            by_path.setdefault(path, error_type(file, path, message, near))
    return together(*by_path.values())


def together(first: GateFileError, *others: InputError) -> GateFileError:
    """One error that names all."""
    for other in others:
        first.more, other.more = (*first.more, other, *other.more), ()
    return first


def _unknown(loc: list[str], model: type[BaseModel]) -> tuple[str, str, str | None]:
    """An unknown key: it stands in the wrong table where only one other has it, else it is misspelt."""
    places = places_of(loc[-1], model)
    near = places[0] if len(places) == 1 else nearest(loc[-1], _keys(loc[:-1], model))
    all_keys = f"; {ALL_KEYS}" if near is None and model is Gate else ""
    if not places and model is Gate and loc[-1] in {field.name for field in fields(Policy)}:
        near, all_keys = None, ". It is a key of the policy file, which [policy] names"
    if near and near not in places and model is Gate:  # as --set takes it
        near = ".".join([*loc[:-1], near])
    return ".".join(loc), f"unknown key{all_keys}", near


def _in_words(error: ErrorDetails, model: type[BaseModel]) -> tuple[str, str, str | None]:
    error_type, value, ctx = error["type"], error["input"], error.get("ctx", {})
    loc = [str(key) for key in error["loc"]]
    if error_type == "extra_forbidden":
        return _unknown(loc, model)
    if error_type == "missing":
        return ".".join(loc), "missing key", None
    if loc[:2] == ["cluster", "options"] and error_type.endswith("_type"):
        return ".".join(loc[:3]), f"expected a value or a list of texts, found {_name(value)}", None
    loc = [key for key in loc if key not in ("bool", "int", "float", "str", "[key]") and "[" not in key]
    path = ".".join(loc)
    if path == "remediation.mode":
        return path, f"{value!r:.80} is none of its modes: {MODES}", None
    if error_type in ("enum", "literal_error"):
        expected = str(ctx["expected"]).replace(" or ", ", ")
        choices = [choice.strip("'") for choice in expected.split(", ")]
        return path, f"{value!r:.80} is none of {', '.join(choices)}", nearest(str(value), choices)
    if error_type in EXPECTED:
        # It may be a secret in a wrong place.
        hidden = isinstance(value, str) and loc[:1] and loc[0] in REFERRING
        return path, f"expected {EXPECTED[error_type]}, found {'text' if hidden else _name(value)}", None
    if error_type in ("too_short", "string_too_short"):
        return path, "must not be empty", None
    if loc[:1] and loc[0] in REFERRING and error_type in ("string_pattern_mismatch", "string_too_long"):
        return path, _form(loc, ctx.get("pattern", "env:")), None
    if error_type == "string_pattern_mismatch":
        pattern = ctx["pattern"]
        return path, f"{value!r:.80} {FORMS.get(pattern, f'is not of the form {pattern}')}", None
    if error_type == "value_error":
        return path, str(ctx["error"]), None
    if error_type == "greater_than_equal":
        return path, f"must be {ctx['ge']} or more, and is {value!r:.80}", None
    return path, f"{value!r:.80}: {error['msg'][:1].lower()}{error['msg'][1:]}", None


def _form(loc: list[str], pattern: str) -> str:
    """What a value of these tables looks like. It is never repeated: it may be a secret."""
    if "env:" in pattern:
        return "is not of the form env:NAME or block:secret/NAME. Never write a secret itself into this file"
    key = next((key_part for key_part in reversed(loc) if not key_part.isdigit()), "")
    if key in ("approvers", "overriders", "users"):
        return "is not the id of a Slack user, such as U012AB3CD (in Slack: profile, Copy member ID)"
    if key in ("mention", "owner_mention"):
        return "is not the id of a Slack user (U012AB3CD) or user group (S012AB3CD)"
    return f"is not of the form {pattern}"


def _name(value: object) -> str:
    if isinstance(value, bool):
        return f"{value}".lower()
    if isinstance(value, str):
        return f"text {value!r:.60}"
    kinds = {dict: "a table", list: "a list", int: "the number", float: "the number"}
    type_name = next((name for cls, name in kinds.items() if isinstance(value, cls)), "nothing")
    return f"{type_name} {value!r:.60}" if type_name == "the number" else type_name


def _keys(loc: Sequence[str], model: type[BaseModel]) -> list[str]:
    """The keys of the table at `loc`: of a table, of one that may be left out, or of one in a table of tables."""
    owner: Any = model
    for key in loc:
        fields = getattr(owner, "model_fields", {})
        field = fields[key].annotation if key in fields else owner
        inner = [arg for arg in get_args(field) if isinstance(arg, type) and issubclass(arg, BaseModel)]
        owner = field if key in fields and get_origin(field) is dict else next(iter(inner), field)
    return list(owner.model_fields) if isinstance(owner, type) and issubclass(owner, BaseModel) else []
