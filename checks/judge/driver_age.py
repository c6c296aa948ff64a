"""Values that a node's driver is too old to report: a WARN that names the driver that reports them, instead of missing evidence.
Pure.

A value is excused if all of this is true: the node's driver is known, it is older than the first driver that has the field
(checks/facts/drivers.json), and no GPU of the row has a value. The driver's version is evidence itself: it is the newest that NVML,
the kernel's module, the node's identity and DCGM report, and it is unknown if NVML does not report it or one of them reports
something that is not a version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from checks.documents.columns import CheckTable
from checks.facts.driver_fields import Field, FieldReader
from checks.facts.instances import Facts
from checks.model import Cause, Finding, FindingKind, Level, Report, node_of
from checks.policy import Policy
from checks.value_types import Version, version_of

NVML = "gpu.inventory"
SOURCES = (NVML, "system.identity", "dcgm.diag")
METRIC = "driver"
ORIGIN = "checks/facts/drivers.json"


@dataclass(frozen=True)
class Gap:
    """A metric of a check that the subject's driver does not report."""

    check: str
    subject: str
    field: Field


def of_nodes(report: Report, data: Mapping[str, CheckTable]) -> dict[str, str]:
    """Each node's driver, as the newest source prints it. Nodes whose driver is unknown are left out."""
    texts: dict[str, list[object]] = {node.name: [node.identity.get(METRIC, "")] for node in report.nodes}
    for check in SOURCES:
        if check in data:
            for subject, value in zip(data[check].columns.subjects, data[check].column(METRIC), strict=True):
                texts.setdefault(subject, []).extend(value if isinstance(value, tuple) else (value or "",))
    nodes = data[NVML].columns.subjects if NVML in data else ()
    drivers = {node: newest(texts[node]) for node in nodes}
    return {node: driver for node, driver in drivers.items() if driver}


def newest(texts: Iterable[object]) -> str:
    """The newest of the versions; "" if there is none, or one of the texts is not a version. An empty text is ignored."""
    filled = [text for text in texts if text != ""]
    versions = {text: version for text in filled if isinstance(text, str) and (version := version_of(text))}
    return (
        max(versions, key=lambda text: versions[text]) if filled and len(versions) == len(set(filled)) else ""
    )


def gaps(
    drivers: Mapping[str, str],
    records: Mapping[str, CheckTable],
    policy: Policy,
    facts: Facts,
    instance_type: str,
) -> tuple[Gap, ...]:
    """The metrics that the policy's rules use and the nodes' drivers are too old to report.

    `instance_type` is the declared one: a metric that its GPUs do not have at all is not a gap.
    """
    missing: list[Gap] = []
    for check, of_check in records.items():
        ruled = {rule.metric for rule in policy.checks[check].rules} if check in policy.checks else set()
        ruled -= facts.absent(instance_type, check)
        later = {
            driver: facts.drivers.unknown_to(version_of(driver), check, FieldReader.NVML)
            for driver in set(drivers.values())
        }
        for name in sorted(ruled & {field for fields in later.values() for field in fields}):
            for subject, value in zip(of_check.columns.subjects, of_check.column(name), strict=True):
                fields = later.get(drivers.get(node_of(subject), ""), {})
                if name in fields and isinstance(value, tuple) and set(value) == {None}:
                    missing.append(Gap(check, subject, fields[name]))
    return tuple(missing)


def by_subject(missing: Iterable[Gap], check: str) -> dict[str, frozenset[str]]:
    """The metrics of the check that each subject's driver does not report."""
    fields: dict[str, set[str]] = {}
    for gap in missing:
        if gap.check == check:
            fields.setdefault(gap.subject, set()).add(gap.field.field)
    return {subject: frozenset(names) for subject, names in fields.items()}


def findings(lacking: Iterable[Gap], drivers: Mapping[str, str]) -> Iterator[Finding]:
    """One WARN per node, with everything that its driver does not report."""
    by_node: dict[str, list[Gap]] = {}
    for gap in lacking:
        by_node.setdefault(node_of(gap.subject), []).append(gap)
    for node, missing in by_node.items():
        yield finding(node, drivers[node], {(gap.check, gap.field) for gap in missing})


def finding(subject: str, driver: str, missing: Iterable[tuple[str, Field]]) -> Finding:
    """The WARN: what the driver does not report, and which driver does."""
    needed: dict[Version, list[str]] = {}
    texts: dict[Version, str] = {}
    for check, field in sorted(missing, key=lambda pair: (pair[0], pair[1].field)):
        needed.setdefault(field.version, []).append(f"{check} {field.field}")
        texts[field.version] = field.driver
    clauses = [f"{', '.join(needed[each])} (needs driver {texts[each]} or newer)" for each in sorted(needed)]
    remedy = f"Install driver {texts[max(texts)]} or newer. To make the policy require it, add a rule with min_version."
    return Finding(
        Level.WARN,
        Cause.EVIDENCE,
        NVML,
        subject,
        f"not measured, because driver {driver} is too old: {', '.join(clauses)}",
        "",
        remedy,
        source=ORIGIN,
        kind=FindingKind.DRIVER_TOO_OLD,
    )
