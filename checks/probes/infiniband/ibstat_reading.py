"""Reads ibstat's ports, for ib.ports. Which of them a training uses, and at which rate, only a gate file says."""

from __future__ import annotations

import re
from collections import Counter

from checks.explain.reading import CheckData, Complete, Garbled, OutputKind, Reading, ReadOptions
from checks.explain.unread_lines import bare
from checks.model import Value
from checks.probes.efa.devices import ACTIVE
from checks.probes.infiniband.ports import LINK_UP

_BEGINS = re.compile(r"(?:CA '(\S+)'|Port (\d+):)$")
_FIELD = re.compile(
    r"(State|Physical state|Rate|Link layer|CA type|Number of ports|(?:Firmware|Hardware) version|Base lid|LMC|SM lid|Capability mask"
    r"|(?:Node|System image|Port) GUID): *(.*)$"
)
UNDECLARED = "only a gate file says which ports are used ([cluster.machine] ib_ports, ib_rate_gbit_s): run prelaunch check with it"


def detect(text: str) -> bool:
    """Whether ibstat printed it."""
    return "CA '" in text and "Physical state: " in text


def read(text: str, options: ReadOptions) -> Reading:
    """What ib.ports would have measured of the ports that are up. Raises Garbled."""
    ports, device, fields, understood = dict[str, dict[str, str]](), "", dict[str, str](), set[int]()
    announced = dict[str, str]()
    for number, line in enumerate(map(bare, text.splitlines()), 1):
        begins, field = _BEGINS.match(line), _FIELD.match(line)
        if begins and begins[1]:
            device = begins[1]
            announced[device] = ""
        elif begins and device:
            name, fields = f"{device}:{begins[2]}", {}
            if name in ports:
                raise Garbled(f"port {name} is described twice: a line was lost between its descriptions")
            ports[name] = fields
        elif field and device:
            fields[field[1]] = field[2]
            if field[1] == "Number of ports":
                announced[device] = field[2]
        else:
            continue
        understood.add(number)
    described = Counter(name.rpartition(":")[0] for name in ports)
    whole = all("Link layer" in port for port in ports.values())
    if not whole or {name: str(count) for name, count in described.items()} != announced:
        raise Garbled("a port is not described to its end: the text was truncated")
    states = {name: f"{port.get('State')}, {port.get('Physical state')}" for name, port in ports.items()}
    up = [name for name, state in states.items() if state == "Active, LinkUp"]
    rates = sorted({port.get("Rate", "unknown") for port in ports.values()})
    other = [f"{name} is {state}" for name, state in states.items() if name not in up]
    doubts = [", ".join(other)] if other else []
    doubts += [f"the rates differ ({', '.join(rates)} Gbit/s)"] if len(rates) > 1 else []
    metrics: dict[str, Value] = {
        "ports": tuple(up),
        "states": (ACTIVE,) * len(up),
        "phys_states": (LINK_UP,) * len(up),
    }
    title = f"ibstat, {len(up)} of {len(ports)} ports active at {'/'.join(rates)} Gbit/s"
    explained = (CheckData("ib.ports", metrics),) if up else ()
    unread = tuple(Complete(f"{doubt}: {UNDECLARED}") for doubt in doubts)
    return Reading(OutputKind.IBSTAT, title, explained, unread, understood=frozenset(understood))
