"""ib.counters: what the counters of the InfiniBand or RoCE ports counted while the checks and collectives ran.

Sources: linux Documentation/ABI/stable/sysfs-class-infiniband; the widths of the counters are those of InfiniBand's PortCounters
attribute (InfiniBand Architecture Specification, volume 1, 16.1.3.5), which stop at their highest value and do not begin again.
"""

from __future__ import annotations

from collections.abc import Mapping

from checks.check import CheckError, Context, Measurement
from checks.model_details import Contents
from checks.probes import growth
from checks.probes.infiniband.ports import Port, declared_ports, here, port_check
from checks.probes.sysfs import text_of

# The metric, the kernel's counter and its highest value; 0: a counter of the driver, of 64 bits.
ERRORS: tuple[tuple[str, str, int], ...] = (
    ("symbol_errors", "symbol_error", 0xFFFF),
    ("link_recoveries", "link_error_recovery", 0xFF),
    ("link_downs", "link_downed", 0xFF),
    ("receive_errors", "port_rcv_errors", 0xFFFF),
    ("remote_errors", "port_rcv_remote_physical_errors", 0xFFFF),
    ("discards", "port_xmit_discards", 0xFFFF),
    ("integrity_errors", "local_link_integrity_errors", 0xF),
    ("buffer_overruns", "excessive_buffer_overrun_errors", 0xF),
    ("timeouts", "local_ack_timeout_err", 0),
    ("out_of_sequence", "out_of_sequence", 0),
)
EVENTS = tuple(metric for metric, _, _ in ERRORS)
# The kernel counts data in units of four bytes.
SENT, RECEIVED, UNIT_BYTES = "port_xmit_data", "port_rcv_data", 4
FOLDERS = ("counters", "hw_counters")
# More is no counter of ours, and the record of the first look has a limit.
DIGITS = 20


def first_look(context: Context) -> Mapping[str, object]:
    """The counters of the declared ports at the start. Raises CheckError."""
    return {"ports": {port.name: dict(values_of(port)) for port in declared_ports(context)}}


@port_check(
    "ib.counters",
    ("ports", *EVENTS, "uncounted", "sent_bytes", "received_bytes", "ports_gone"),
    events=(*EVENTS, "ports_gone"),
    before=first_look,
    holds=lambda basis: (Contents("ports", basis.instance.ib_ports if basis.instance else 1),),
)
def counters(context: Context) -> Measurement:
    """Compares the declared ports' error and data counters with those of the start of the run.

    One entry a port, the growth of each. Where the driver has no such counter, or it stood at its highest value already, the growth is
    0, and `uncounted` says of how many counters that is so: of these faults nothing is known. A counter that went backwards, or that
    only one of the two looks shows, makes its number null. `timeouts` are requests without an answer, `out_of_sequence` packets that
    arrived in the wrong order or after one was lost. `ports_gone` counts ports that were there at the start.
    """
    first = growth.first_look(context.before, "ports")
    return compared(first, {port.name: values_of(port) for port in here() if port.name in first})


def compared(before: Mapping[str, object], after: Mapping[str, Mapping[str, int]]) -> Measurement:
    """The growth of every counter (pure)."""
    names = list(after)
    if not names:
        message = f"none of the ports of the start of the run is there any more: {sorted(before)!r:.200}"
        raise CheckError(message)
    looks = [growth.Growth(before.get(name), after[name]) for name in names]
    gone = sorted(set(before) - set(after))
    return Measurement(
        {
            "ports": tuple(names),
            **{
                metric: tuple(delta.total((key,)) if counts(delta, key, most) else 0 for delta in looks)
                for metric, key, most in ERRORS
            },
            "uncounted": tuple(
                sum(not counts(delta, key, most) for _, key, most in ERRORS) for delta in looks
            ),
            "sent_bytes": tuple(bytes_of(delta, SENT) for delta in looks),
            "received_bytes": tuple(bytes_of(delta, RECEIVED) for delta in looks),
            "ports_gone": len(gone),
        },
        growth.account(gone, names, looks),
    )


def values_of(port: Port) -> dict[str, int]:
    """The port's counters by the kernel's names; what cannot be read is left out."""
    wanted = (*(key for _, key, _ in ERRORS), SENT, RECEIVED)
    values: dict[str, int] = {}
    for path in (port.folder / folder / name for folder in FOLDERS for name in wanted):
        text = text_of(path)
        if text.isdigit() and len(text) <= DIGITS:
            values[path.name] = int(text)
    return values


def counts(delta: growth.Growth, key: str, most: int) -> bool:
    """Whether the driver has the counter, and it could still grow at the start."""
    return delta.has(key) and not (most and delta.before.get(key) == most == delta.after.get(key))


def bytes_of(delta: growth.Growth, key: str) -> int | None:
    """How many bytes were counted."""
    units = delta.total((key,))
    return None if units is None else units * UNIT_BYTES
