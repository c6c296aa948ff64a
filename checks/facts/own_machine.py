"""A file that describes a machine of one's own on its node, where no gate file is: `prelaunch node machine GATE_FILE` writes it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

from checks.documents.decode import decode, parse_json
from checks.documents.report import dump_plain
from checks.facts.builtin import builtin
from checks.model import Declared
from checks.model_details import DeclaredMachine
from checks.value_types import DecodeError, Range, Text

SUFFIX = ".json"
MOST_BYTES = 1 << 16


@dataclass(frozen=True)
class OwnMachine:
    """What the file holds: the name of the type, the GPUs of a node, and what else is known of it."""

    instance_type: Annotated[str, Text(r"[A-Za-z0-9][A-Za-z0-9._-]*", 64)]
    gpus_per_node: Annotated[int, Range(0, 64)]
    machine: DeclaredMachine


def is_file(instance_type: str) -> bool:
    """Whether what was given as an instance type names such a file."""
    return instance_type.endswith(SUFFIX)


def read(path: Path, nodes: int = 1) -> Declared:
    """So many nodes of that machine, with a rank for each GPU, or one. Raises OSError and DecodeError."""
    with path.open("rb") as file:
        own = decode(OwnMachine, parse_json(file.read(MOST_BYTES + 1), MOST_BYTES))
    if own.instance_type in builtin().instances:
        raise DecodeError(
            f"{own.instance_type} is a known instance type, which needs no description", "instance_type"
        )
    if bool(own.gpus_per_node) != bool(own.machine.gpu):
        raise DecodeError(
            "the model of the GPUs is named where there are some, and only there", "machine.gpu"
        )
    return Declared(
        own.instance_type, nodes, own.gpus_per_node, max(own.gpus_per_node, 1), machine=own.machine
    )


def short_text(declared: Declared) -> str:
    """The text is the description of the machine in one line, without what is not known; empty for a type that the tables know."""
    if declared.machine is None:
        return ""
    stated = {
        column.name: value
        for column in fields(declared.machine)
        if (value := getattr(declared.machine, column.name)) != column.default
    }
    table = {
        "instance_type": declared.instance_type,
        "gpus_per_node": declared.gpus_per_node,
        "machine": stated,
    }
    return dump_plain(table).decode().strip()


def text_of(declared: Declared, machine: DeclaredMachine) -> bytes:
    """The file about the machines of this declaration."""
    return dump_plain(OwnMachine(declared.instance_type, declared.gpus_per_node, machine))
