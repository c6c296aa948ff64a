"""The facts about DCGM's versions: its errors, and the tests of each level (checks/facts/dcgm.json)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from checks.documents.decode import decode, parse_json
from checks.facts.provenance import Provenance, resolved, table_bytes

PATH = Path(__file__).parents[2] / "facts" / "dcgm.json"


@dataclass(frozen=True)
class DcgmFacts:
    """`errors` maps an id to (severity, category) in the numbers of 3.3 and later.

    `levels` holds the tests that each level adds. Before 4.0 the test "software" of level 1 was `deployment_before_4`, and
    `other_deployment_before_4` in versions that had these. `optional` tests come with packages of their own, and a Skip of one is no
    gap. Ids of errors: `settings` change how a GPU is used and not whether it is healthy; `not_run` say that a test was not run or
    that results were left out; with `blocking` no job can run, although DCGM gives them a lower severity.
    """

    newest_major: int
    severities: tuple[str, ...]
    levels: Mapping[str, tuple[str, ...]]
    optional: tuple[str, ...]
    deployment_before_4: tuple[str, ...]
    other_deployment_before_4: tuple[str, ...]
    aliases: Mapping[str, str]
    errors: Mapping[str, tuple[int, ...]]
    settings: tuple[int, ...]
    not_run: tuple[int, ...]
    blocking: tuple[int, ...]

    def expected(self, level: int, major: int) -> tuple[str, ...]:
        """The tests that a level runs, in the names of `canonical`."""
        names = [name for each in range(1, level + 1) for name in self.levels[str(each)]]
        if major >= 4:
            return tuple(names)
        return (*self.deployment_before_4, *(name for name in names if name != "software"))

    def is_deployment(self, test: str) -> bool:
        """Whether the test examines only software."""
        return test == "software" or test in self._titles

    def canonical(self, title: str) -> str:
        """One name for a test in all versions."""
        title = " ".join(title.split())
        title = self.aliases.get(title, title)
        return title if title in self._titles else title.lower().replace(" ", "_")

    @property
    def _titles(self) -> tuple[str, ...]:
        return (*self.deployment_before_4, *self.other_deployment_before_4)


@dataclass(frozen=True)
class _Entry:
    """A row of the file: it has what its table holds, and where that comes from."""

    provenance: Provenance
    value: int = 0
    names: tuple[str, ...] = ()
    name: str = ""
    severity: int = 0
    category: int = 0
    ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class _File:
    versions: Mapping[str, _Entry]
    names: Mapping[str, _Entry]
    levels: Mapping[str, _Entry]
    aliases: Mapping[str, _Entry]
    errors: Mapping[str, _Entry]
    error_groups: Mapping[str, _Entry]


@lru_cache(maxsize=1)
def dcgm_facts() -> DcgmFacts:
    """The facts of this version."""
    tables = (field.name for field in fields(_File))
    file = decode(_File, resolved(parse_json(table_bytes(PATH), 1 << 20), *tables))
    lists: dict[str, Any] = {name: entry.names for name, entry in file.names.items()}
    groups: dict[str, Any] = {name: entry.ids for name, entry in file.error_groups.items()}
    return DcgmFacts(
        newest_major=file.versions["newest_major"].value,
        levels={level: entry.names for level, entry in file.levels.items()},
        aliases={title: entry.name for title, entry in file.aliases.items()},
        errors={number: (entry.severity, entry.category) for number, entry in file.errors.items()},
        **lists,
        **groups,
    )
