"""The form of the JSON document in which `prelaunch gate`, `trigger` and `watch` say how a gate ended; its schema is made from it.

Every key is always there; None and () stand for what there is not. tasks/gate/outcome.py writes it.
`python -m tasks.orchestration.result_document` writes the committed schema; a test compares it.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

from pydantic import TypeAdapter

from checks.exit_codes import RejectionKind
from checks.facts.failures import Fault
from checks.model import Answer, Cause, Count, Digests, Finding, Level
from tasks.gate.outcome import Decision, PlacementProof
from tasks.gate.question import ApprovalAnswer
from tasks.launchers.base import JobState
from tasks.reports.schema import DEFINED, ROOT, Json, schema_text, walk

PATH = ROOT / "deployments" / "schemas" / "result.schema.json"
# Keys that are there only where they say something.
SOMETIMES = ("certified", "named_nodes", "follows")


@dataclass(frozen=True)
class DeclaredCount:
    """How many were observed, of how many that the gate file declares."""

    observed: int
    declared: int


@dataclass(frozen=True)
class CoverageDocument:
    """How much was observed; `checks` counts pairs of a check and a subject. `certified` of them were observed by an earlier gate and
    not by this one; the key is absent if there are none.
    """

    nodes: DeclaredCount
    gpus: DeclaredCount
    ranks: DeclaredCount
    checks: Count
    certified: int = 0


@dataclass(frozen=True)
class VerdictDocument:
    """The verdict, as `prelaunch judge --format json` prints it; the most serious finding is first."""

    answer: Answer
    level: Level
    coverage: CoverageDocument
    findings: tuple[Finding, ...]
    condemned: tuple[str, ...]
    suspect_policy: bool
    digests: Digests


@dataclass(frozen=True)
class TrainingDocument:
    """The training job as it was last seen; null if none was started."""

    job_id: str | None
    state: JobState | None


@dataclass(frozen=True)
class SpanDocument:
    """Two ends of an estimate."""

    low: float
    high: float


@dataclass(frozen=True)
class UnitHours:
    """Node-hours or GPU-hours, and their price in US dollars, null where no price is known."""

    low: float
    high: float
    low_usd: float | None
    high_usd: float | None


@dataclass(frozen=True)
class LossDocument:
    """What launching with one finding would lose: `probability` that the fault is met, and unit-hours, from low to high."""

    level: Level
    cause: Cause
    check: str
    fault: Fault
    places: int
    probability: tuple[float, float]
    lost: tuple[float, float]


@dataclass(frozen=True)
class CostDocument:
    """What a launch and what a wait would cost (docs/performance.md); `unit` is what `units` counts."""

    unit: str
    units: int
    horizon_hours: float
    length_known: bool
    usd_per_unit_hour: float | None
    price_source: str | None
    launching: UnitHours
    waiting: UnitHours
    checking: float | None
    worth_waiting_hours: SpanDocument
    losses: tuple[LossDocument, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True)
class ImageDocument:
    """A container image as the gate file names it; `digest` is null where the name has none."""

    image: str
    digest: str | None


@dataclass(frozen=True)
class ImagesDocument:
    """In which image the checks ran, and in which the training runs; null where it is in none, or nobody says in which one."""

    checks: ImageDocument | None
    training: ImageDocument | None


@dataclass(frozen=True)
class ResultDocument:
    """How a gate ended. `answer` is null if nothing was judged. `culprits` are the nodes to blame, or "cluster" for the policy.

    `first_line` is the sentence that every channel begins with, `reason` the same without the gate's name. `rejected` says why nothing
    was started (exit code 2): only `busy`, another gate holds the cluster's lock, is worth another try. `report` and `html` are
    places in the store.
    """

    answer: Answer | None
    decision: Decision | None
    first_line: str
    culprits: tuple[str, ...]
    reason: str
    rejected: RejectionKind | None
    gate_id: str
    verdict: VerdictDocument | None
    training: TrainingDocument
    placement: PlacementProof | None
    approval: ApprovalAnswer | None
    report: str | None
    html: str | None
    cost: CostDocument | None
    images: ImagesDocument | None


@dataclass(frozen=True)
class RejectionDetail:
    """What was wrong: the file, the dotted key, its line, and the nearest valid key or value, null where there is no such thing."""

    kind: RejectionKind
    file: str | None
    path: str | None
    line: int | None
    message: str
    nearest: str | None


@dataclass(frozen=True)
class RejectionDocument:
    """What `prelaunch gate` prints of a request that was rejected before it began (exit code 2)."""

    error: RejectionDetail


def result_schema() -> str:
    """The schema of what `prelaunch gate --format json` prints: how the gate ended, or why it was rejected."""
    documents = TypeAdapter(ResultDocument | RejectionDocument).json_schema(ref_template=DEFINED)
    walk(documents, _complete)
    return schema_text(documents, "The result of a gate of Prelaunch")


def _complete(table: dict[str, Json]) -> None:
    """A key that has a default in the code is always written, too, except those of SOMETIMES."""
    properties = table.get("properties")
    if table.get("type") == "object" and isinstance(properties, dict):
        table["required"] = [name for name in properties if name not in SOMETIMES]
        for field in properties.values():
            if isinstance(field, dict):
                field.pop("default", None)


def main() -> int:
    """Write the file."""
    PATH.write_text(result_schema(), encoding="utf-8")
    print(PATH)
    return 0


if __name__ == "__main__":
    sys.exit(main())
