"""The fault corpus: for every check, what it makes of a healthy, a faulty and an unmeasurable machine.

Each family has a file here, `tests/corpus/<family>_cases.py`, with CASES and, where it has recordings, RECORDINGS.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from checks.check import Check, Context, Measurement, RankPlace, fault_of
from checks.explain.reading import OutputKind
from checks.facts.builtin import builtin
from checks.model import Cause, Declared, Level, Observation, Profile
from checks.model_details import DeclaredMachine
from checks.process.observe import probe
from checks.roster import Member, Roster
from tests.checks import worlds

NDR = "hgx-h100"
# Machines that no table has, as a gate file describes them.
OWN = {
    NDR: DeclaredMachine("H100 80GB HBM3", nvlinks=18, network_gbit_s=3200, ib_ports=8, ib_rate_gbit_s=400)
}
RECORDINGS_FOLDER = Path(__file__).parents[1] / "recordings"


def recordings_of(folder: str) -> Callable[[str], str]:
    """Reads the recordings of a folder by their names."""
    return lambda name: (RECORDINGS_FOLDER / folder / name).read_text(encoding="utf-8")


Rows = Sequence[Observation]
Observe = Callable[[Path], Rows]
RecordProperty = Callable[[str, object], None]  # pytest's record_property
P = ParamSpec("P")


def observing(body: Callable[Concatenate[Path, P], Rows]) -> Callable[P, Observe]:
    """Of a function that observes in a folder: what makes an Observe of its other arguments."""

    def made(*given: P.args, **named: P.kwargs) -> Observe:
        return lambda tmp_path: body(tmp_path, *given, **named)

    return made


class Sort(StrEnum):
    """What the machine is like."""

    HEALTHY = "healthy"
    FAULTY = "faulty"
    UNMEASURABLE = "unmeasurable"


@dataclass(frozen=True)
class Case:
    """One machine. `observe(tmp_path)` makes the check's observations, through the check's own body wherever it can:
    with a fake module, fake executables on PATH, a tree of files, or a real process.

    Judged by the shipped policy that names `instance_type`: HEALTHY must be PASS; FAULTY must not be PASS and must hold
    a finding with the cause `cause` and the level `level`, whose message or evidence contains `names`; UNMEASURABLE
    must not be PASS, and every finding must have the cause EVIDENCE.
    """

    check: str
    sort: Sort
    name: str
    observe: Observe
    instance_type: str = "p5.48xlarge"
    nodes: int = 1
    profile: Profile = Profile.STANDARD
    level: Level = Level.FAIL
    cause: Cause = Cause.HARDWARE
    names: str = ""


def cases_of(check: str, **usual: Any) -> Callable[..., Case]:
    """Makes the cases of a check: the sort, the name, how it is observed, what the finding names, and what else is not usual."""
    return lambda sort, name, observe, names="", **of: Case(
        check, sort, name, observe, **{"names": names, **usual, **of}
    )


@dataclass(frozen=True)
class Recording:
    """A file under tests/recordings that `prelaunch explain` reads; the walker mutates it: each line deleted, cut at
    each tenth. No mutation may be PASS unless the deleted line matches one of `irrelevant` (regular expression -> why
    the line carries no evidence). `level` is that of the whole file, with `instance_type` declared unless "".
    """

    path: str
    kind: OutputKind
    level: Level
    instance_type: str = ""
    nodes: int = 1
    irrelevant: dict[str, str] = field(default_factory=dict)


def of_all_families(name: str) -> list[Any]:
    """The CASES or RECORDINGS of every family."""
    families = sorted(path.stem for path in Path(__file__).parent.glob("*_cases.py"))
    modules = [importlib.import_module(f"tests.corpus.{family}") for family in families]
    return [one for module in modules for one in getattr(module, name, ())]


def declared(instance_type: str, nodes: int = 1) -> Declared:
    """A declaration as the table implies it, or OWN: a rank a GPU, or one."""
    if instance_type in OWN:
        return Declared(instance_type, nodes, 8, 8, machine=OWN[instance_type])
    instance = builtin().instances[instance_type]
    return Declared(instance_type, nodes, instance.gpus, max(instance.gpus, 1))


def context(
    check: Check,
    tmp_path: Path,
    instance_type: str = "p5.48xlarge",
    nodes: int = 1,
    *,
    profile: Profile = Profile.STANDARD,
    place: RankPlace | None = None,
    options: dict[str, float] | None = None,
    before: dict[str, object] | None = None,
) -> Context:
    """A context as the runner would make it, without a gate."""
    from checks.facts.profile_options import options as of_profile

    members = tuple(Member(f"node-{index}", "127.0.0.1", 1) for index in range(nodes))
    return replace(
        worlds.context(tmp_path, of_profile(check.name, profile, options or {}), place),
        catalogue="",
        declared=declared(instance_type, nodes),
        profile=profile,
        roster=Roster(members, 1, "lo"),
        timeout_s=check.timeout_s,
        instance=builtin().merged(declared(instance_type)).instances.get(instance_type),
        before=before,
    )


def whole(check: Check, made: Context) -> Measurement:
    """What the check itself measures in this context: everything that it promises, in numbers that can be."""
    result = check.body(made)
    assert isinstance(result, Measurement)
    assert fault_of(check, result.metrics) == ""
    return result


def observed(check: Check, made: Context, subject: str = "node-0") -> tuple[Observation]:
    """The check's own observation of this context."""
    return (probe(check, made, subject),)
