"""Follows a job from look to look: which ranks do not answer, and which stand still while others wait for them. Pure.

A look is plain JSON, so that the next round of a watch can compare with it. `at` is a time of the machine's monotonic clock; "since"
says when a rank was first seen as it still is.

One look proves nothing about progress: counts differ in every busy job, and RAS says OK in a job that hangs (NCCL issue 1730).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from checks.check import Measurement
from checks.model import Value
from checks.probes.collectives.ras.client import Reach
from checks.probes.collectives.ras.report import MOST_NAMED, Lag, RasReport, operations

# A job's processes end within seconds of each other, and a collective operation is launched within milliseconds by all ranks: who
# is still as it was after so long is not just a little later than the others. Judgement: a hang is found within two rounds of 15 s.
SILENT_S, STILL_S = 3.0, 8.0
NOBODY = "none"
METRICS = (
    "answered", "ranks", "communicators", "silent_ranks", "silent", "behind_ranks", "behind", "failed_ranks", "failed", "unchanged_s",
)  # fmt: skip

Look = Mapping[str, object]
Entries = Mapping[str, Mapping[str, object]]


def nobody(reach: Reach, at: float) -> dict[str, object]:
    """The look at a node on which no job was asked."""
    return {"at": at, "reach": reach.value, "silent": {}, "lags": {}}


def followed(before: Look | None, found: RasReport, at: float) -> dict[str, object]:
    """This look, with what the look before already had as it is now."""
    was = before or {}
    still_launched = was.get("launched") == found.launched
    return {
        "at": at,
        "reach": Reach.ANSWERED.value,
        "version": found.version,
        "ranks": found.ranks,
        "communicators": found.communicators,
        "passing": found.passing,
        "launched": found.launched,
        "launched_since": _number(was, "launched_since", at) if still_launched else at,
        "silent": {
            one.place.label: {"dead": one.dead, "since": _since(_entries(was, "silent"), one.place.label, at)}
            for one in found.silent
        },
        "lags": {
            key: {
                **_said_of(lag),
                "since": _since(_entries(was, "lags"), key, at),
                "again": key in _entries(was, "lags"),
            }
            for key, lag in ((_key(lag), lag) for lag in found.lags)
        },
        "failed": {one.place.label: one.error for one in found.failed},
    }


def unconfirmed(look: Look) -> bool:
    """Whether a rank is silent of which it is not known yet whether it stays so."""
    at = _number(look, "at", 0.0)
    return any(not _is_lost(one, at) for one in _entries(look, "silent").values())


def measured(look: Look) -> Measurement:
    """What the look shows. The lists hold one text "none" and one empty text where no rank is to be named."""
    at = _number(look, "at", 0.0)
    silent = {
        label: f"does not answer{' and is considered dead' if one.get('dead') else ''}"
        for label, one in _entries(look, "silent").items()
        if _is_lost(one, at)
    }
    behind = dict(_behind(look, at))
    failed = {label: f"reports NCCL's error {error!r}" for label, error in _texts(look, "failed").items()}
    answered = look.get("reach") == Reach.ANSWERED.value
    metrics: dict[str, Value] = {
        "answered": int(answered),
        "ranks": int(_number(look, "ranks", 0)),
        "communicators": int(_number(look, "communicators", 0)),
        "unchanged_s": round(at - _number(look, "launched_since", at), 1),
        **_listed("silent", silent),
        **_listed("behind", behind),
        **_listed("failed", failed),
    }
    return Measurement(metrics, "\n".join(_evidence(look, at)))


def _behind(look: Look, at: float) -> Iterator[tuple[str, str]]:
    """Each rank that stands still, by its label, with the operation in which it is farthest from the others."""
    lags = sorted(_entries(look, "lags").values(), key=lambda one: -_number(one, "by", 0))
    seen = set()
    for one in lags:
        still_s, label = at - _number(one, "since", at), str(one.get("label"))
        if label in seen or not one.get("again") or still_s < STILL_S:
            continue
        seen.add(label)
        by = operations(int(_number(one, "by", 0)), str(one.get("operation")))
        if one.get("ahead"):
            yield (
                label,
                f"is ahead of the other ranks by {by}, and none of them has moved for {still_s:.0f} s",
            )
        else:
            yield label, f"is behind the other ranks by {by} and has not moved for {still_s:.0f} s"


def _evidence(look: Look, at: float) -> Iterator[str]:
    reach = look.get("reach")
    if reach == Reach.NOBODY.value:
        yield "no job on this node offers NCCL's RAS (nothing listens at its address)"
    elif reach == Reach.OFF.value:
        yield "PRELAUNCH_NCCL_RAS is never: no job is asked"
    elif reach == Reach.OTHER.value:
        yield "another program uses the port of NCCL's RAS: nothing is known of a job"
    elif reach == Reach.OLD.value:
        yield "a job offers the RAS of NCCL before 2.29.2, which is not asked, because asking it has ended jobs (NCCL issue 1762)"
    else:
        yield (
            f"NCCL {look.get('version')}: {look.get('ranks')} ranks, {look.get('communicators')} communicators, of which "
            f"{look.get('passing')} are made or taken down at the moment"
        )
        unchanged_s = at - _number(look, "launched_since", at)
        if unchanged_s > 0:
            yield (
                f"no rank has launched anything for {unchanged_s:.0f} s: the job is idle, or it hangs. RAS does not show whether "
                "launched operations end (NCCL issue 1730)"
            )
        for one in _entries(look, "lags").values():
            place = "ahead" if one.get("ahead") else "behind"
            by = operations(int(_number(one, "by", 0)), str(one.get("operation")))
            yield f"{one.get('label')}: {place} by {by} in communicator {one.get('communicator')}"


def _said_of(lag: Lag) -> dict[str, object]:
    return {
        "label": lag.place.label,
        "communicator": lag.communicator,
        "operation": lag.operation,
        "by": lag.by,
        "ahead": lag.ahead,
    }


def _key(lag: Lag) -> str:
    """Equal in two looks if the rank stands apart in the same operation and has launched nothing since, or if it is ahead, none of
    those that it is compared with.
    """
    return f"{lag.communicator}|{lag.operation}|{lag.place.label}|{lag.ahead:d}|{lag.launched}|{lag.others if lag.ahead else ''}"


def _since(before: Entries, key: str, at: float) -> float:
    return _number(before[key], "since", at) if key in before else at


def _is_lost(one: Mapping[str, object], at: float) -> bool:
    return bool(one.get("dead")) or at - _number(one, "since", at) >= SILENT_S


def _listed(name: str, found: Mapping[str, str]) -> dict[str, Value]:
    if not found:
        return {f"{name}_ranks": (NOBODY,), name: ("",)}
    labels, said = [*found][:MOST_NAMED], [*found.values()][:MOST_NAMED]
    if len(found) > MOST_NAMED:
        more = len(found) - MOST_NAMED
        labels.append("other ranks")
        said.append(f"are like these: {more:,} more")
    return {f"{name}_ranks": tuple(labels), name: tuple(said)}


def _entries(look: Look, name: str) -> Entries:
    found = look.get(name)
    if not isinstance(found, Mapping):
        return {}
    return {str(key): one for key, one in found.items() if isinstance(one, Mapping)}


def _texts(look: Look, name: str) -> Mapping[str, str]:
    found = look.get(name)
    return {str(key): str(one) for key, one in found.items()} if isinstance(found, Mapping) else {}


def _number(values: Mapping[str, object], name: str, otherwise: float) -> float:
    found = values.get(name)
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else otherwise
