"""The Xids of a kernel's log or a report, each as several makers and clouds answer it. The first named one judges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from checks.decode import nearest
from checks.explain.reading import Asked, Kind
from checks.kernel.overlay import CHECK, Answer, answer, whole
from checks.kernel.told import Told
from checks.model import Value
from checks.policy import Overlay, Policy
from tasks.explaining import Explained, explained
from tasks.inputs import InputError

OPTION = "--as"
Metrics = Mapping[str, Value]


@dataclass(frozen=True)
class Row:
    """One incident: whose ("input" for a log), and each overlay's own words, in the order in which they were named."""

    subject: str
    told: Told
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class Compared:
    """The verdict under the first overlay, and the rows. `unread` names the subjects whose incidents are not whole."""

    explained: Explained
    overlays: tuple[Overlay, ...]
    rows: tuple[Row, ...]
    unread: tuple[str, ...] = ()


def overlays_of(text: str) -> tuple[Overlay, ...]:
    """The overlays that a command line names ("nvidia,hyperpod"). Raises InputError."""
    names, known = text.split(","), [one.value for one in Overlay]
    for name in names:
        if name not in known:
            near = nearest(name, known)
            said = f"{name!r:.40} answers no Xid. Known: {', '.join(known)}."
            raise InputError(OPTION, said, "overlay", near)
    if len(set(names)) < len(names):
        raise InputError(OPTION, "a name stands there twice")
    return tuple(Overlay(name) for name in names)


def compared(
    file: str, kind: Kind | None, policy: Policy | None, asked: Asked, overlays: tuple[Overlay, ...]
) -> Compared:
    """Read and judge the input under the first overlay, and set the others beside it. Raises InputError.

    What cannot be read is "cannot tell", as without overlays; what has no Xids by its kind is refused.
    """
    found = explained(file, kind, policy, replace(asked, overlay=overlays[0]))
    if found.kind not in (None, Kind.KERNEL_LOG, Kind.REPORT):
        raise InputError(OPTION, f"{file} is {found.kind.value}: only a kernel's log or a report holds Xids")
    rows: list[Row] = []
    unread: list[str] = []
    for subject, metrics in _measured(found).items():
        told = whole(metrics)
        if told is None:
            unread.append(subject)
        for one in told or ():
            rows.append(Row(subject, one, tuple(answer(one, overlay) for overlay in overlays)))
    return Compared(found, overlays, tuple(rows), tuple(unread))


def _measured(found: Explained) -> dict[str, Metrics]:
    """Subject -> what was measured of its Xids; nothing at all for a node, or an input, that could not be read."""
    if found.report is not None:
        rows = {row.subject: row.metrics for row in found.report.observations if row.check == CHECK}
        return {**{node.name: {} for node in found.report.nodes}, **rows}
    return {"input": next((part.metrics for part in found.parts if part.check == CHECK), {})}
