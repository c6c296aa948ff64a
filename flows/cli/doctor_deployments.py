"""What `prelaunch doctor` looks at of deployments/prefect.yaml: whether each gate file that it names is one that the forms will offer.

`prefect deploy` refuses a name that they do not offer, in the middle of its work: what stands behind it is not deployed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from checks.documents.decode import nearest
from flows.cli.doctor_notifiers import missing, ok
from tasks.gate_file.folder import VARIABLE, folder_of, is_name, names_in
from tasks.launchers.base import PreflightCheck

if TYPE_CHECKING:
    from yaml.nodes import Node

PREFECT_FILE = Path("deployments/prefect.yaml")
SUBJECT = "deployments"
ONE, SEVERAL = "gate_file", "gate_files"
AGAIN = "Correct it before you run prefect deploy, which deploys nothing of what stands behind it."


def look_at_deployments(path: Path = PREFECT_FILE) -> Iterator[PreflightCheck]:
    """A line for each name that leads nowhere, with its line in the file; nothing where the current folder has no such file."""
    if not path.is_file():
        return
    import yaml  # 15 ms, where there is such a file

    folder = folder_of(os.environ)
    try:
        named = tuple(_names(yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader), set()))
    except (OSError, ValueError, yaml.YAMLError) as error:
        yield missing(SUBJECT, f"{path} cannot be read: {error}", AGAIN)
        return
    if folder is None:
        return  # any path is accepted
    known = names_in(folder)
    wrong = [(line, name) for line, name in named if name not in known]
    for line, name in wrong:
        meant = nearest(name, known) if is_name(name) else None
        remedy = f"Did you mean {meant}? {AGAIN}" if meant else f"{VARIABLE} names another folder. {AGAIN}"
        yield missing(SUBJECT, f"{path}, line {line}: {name} is no gate file in {folder}", remedy)
    if not wrong:
        yield ok(SUBJECT, f"each gate file that {path} names is in {folder}")


def _names(node: Node | None, seen: set[int]) -> Iterator[tuple[int, str]]:
    """The line and text of every value of `gate_file` and `gate_files`. Templates of automations name none."""
    from yaml.nodes import MappingNode, ScalarNode, SequenceNode

    if node is None or id(node) in seen:  # an anchor that is used again is one place of the file
        return
    seen.add(id(node))
    if isinstance(node, SequenceNode):
        for inner in node.value:
            yield from _names(inner, seen)
    elif isinstance(node, MappingNode):
        for key, value in node.value:
            named = value.value if key.value == SEVERAL and isinstance(value, SequenceNode) else [value]
            if key.value in (ONE, SEVERAL):
                yield from (
                    (one.start_mark.line + 1, one.value) for one in named if isinstance(one, ScalarNode)
                )
            yield from _names(value, seen)
