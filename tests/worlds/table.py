"""Which worlds ran and what came of them, as a table at the end: tests record it, the controller adds up.

A row is a shipped gate file: whether its healthy machine was given its go by runner and verdict and through the whole flow, and
each of the planted faults.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

HEALTHY, FLOW, FAULT = "world_healthy", "world_flow", "world_fault"
GO, REFUSED, NAMED, MISSED = "go", "REFUSED", "named", "MISSED"
WIDTH = 22


def printed(reports: Iterable[pytest.TestReport]) -> list[str]:
    """The lines; none if no world ran."""
    healthy, flows = dict[str, str](), dict[str, str]()
    faults: dict[str, dict[str, str]] = {}
    for report in reports:
        for name, value in report.user_properties:
            if name in (HEALTHY, FLOW) and isinstance(value, (list, tuple)):
                (healthy if name == HEALTHY else flows)[str(value[0])] = str(value[1])
            elif name == FAULT and isinstance(value, (list, tuple)):
                gate, fault, came = map(str, value)
                faults.setdefault(gate, {})[fault] = came
    gates = sorted({*healthy, *flows, *faults})
    if not gates:
        return []
    refused = sum(came == REFUSED for came in (*healthy.values(), *flows.values()))
    passed = sum(came == MISSED for row in faults.values() for came in row.values())
    lines = [f"{'healthy worlds':{WIDTH}} runner  flow  planted faults named"]
    for gate in gates:
        row = faults.get(gate, {})
        named = sum(came == NAMED for came in row.values())
        wrong = [fault for fault, came in row.items() if came != NAMED]
        said = f"{named} of {len(row)}" if row else "-"
        said += f": not named: {', '.join(wrong)}" if wrong else ""
        lines.append(f"{gate:{WIDTH}} {healthy.get(gate, '-'):7} {flows.get(gate, '-'):5} {said}")
    total = sum(len(row) for row in faults.values())
    lines.append(
        f"worlds: {len(gates)} gate files, {total} planted faults; healthy worlds refused: {refused}, {passed} passed wrongly"
    )
    return lines
