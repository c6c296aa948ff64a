"""efa.counters: what the hardware counters of the EFA devices counted while the checks and collectives ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from checks.check import CheckError, Context, Measurement, check
from checks.model import Part, Scope
from checks.probes.efa import devices

# Counters of faults, by the names that the driver gives them; older drivers lack some.
ERRORS = (
    "rdma_read_wr_err",
    "rdma_write_wr_err",
    "unresponsive_remote_events",
    "impaired_remote_conn_events",
    "retrans_timeout_events",
)
DROPS, RETRANSMITTED, SENT, RECEIVED = "rx_drops", "retrans_pkts", "tx_bytes", "rx_bytes"
KNOWN = (DROPS, *ERRORS, RETRANSMITTED)


def first_look(context: Context) -> Mapping[str, object]:
    """Every device's counters at the start. Raises CheckError if there is no device."""
    return {"devices": {name: dict(values) for name, values in _look().items()}}


@check(
    "efa.counters",
    Scope.NODE,
    timeout_s=20,
    metrics=(
        "devices",
        "rx_drops",
        "error_events",
        "retransmitted_packets",
        "uncounted",
        "sent_bytes",
        "received_bytes",
        "devices_gone",
    ),
    needs="/sys/class/infiniband",
    part=Part.EFA,
    before=first_look,
    beside_job=True,
)
def counters(context: Context) -> Measurement:
    """Compares the EFA devices' hardware counters with those of the start of the run.

    One entry a device, the growth of: `rx_drops`; `error_events`, the sum of failed RDMA requests, unresponsive or
    impaired remotes and retransmission time-outs; `retransmitted_packets`; bytes sent and received. `uncounted` is how
    many of these faults the driver has no counter for: of them nothing is known. A counter that went backwards, or that
    only one of the two looks shows, makes its number null. `devices_gone` counts devices that were there at the start.
    """
    if context.before is None:
        raise CheckError(
            "the counters could not be read at the start of the run: there is nothing to compare with"
        )
    seen = context.before.get("devices")
    if not isinstance(seen, Mapping):
        raise CheckError(f"the record from the start of the run is not a list of devices: {seen!r:.200}")
    return compared(seen, _look())


def compared(before: Mapping[str, object], after: Mapping[str, Mapping[str, int]]) -> Measurement:
    """The growth of every counter (pure)."""
    names = sorted(after)
    looks = [_Pair(before.get(name), after[name]) for name in names]
    gone = sorted(set(before) - set(after))
    return Measurement(
        {
            "devices": tuple(names),
            "rx_drops": tuple(look.grown((DROPS,)) for look in looks),
            "error_events": tuple(look.grown(look.counted(ERRORS)) for look in looks),
            "retransmitted_packets": tuple(look.grown(look.counted((RETRANSMITTED,))) for look in looks),
            "uncounted": tuple(len(KNOWN) - len(look.counted(KNOWN)) for look in looks),
            "sent_bytes": tuple(look.grown((SENT,)) for look in looks),
            "received_bytes": tuple(look.grown((RECEIVED,)) for look in looks),
            "devices_gone": len(gone),
        },
        "\n".join(
            [f"{name}: gone since the start of the run" for name in gone]
            + [f"{name}: {look.changes()}" for name, look in zip(names, looks, strict=True)]
        ),
    )


class _Pair:
    """Two looks at one device."""

    def __init__(self, before: object, after: Mapping[str, int]) -> None:
        self.before: Mapping[str, object] = before if isinstance(before, Mapping) else {}
        self.after = after

    def counted(self, names: Sequence[str]) -> tuple[str, ...]:
        """The counters that the driver has, which are those that one of the two measurements shows."""
        return tuple(name for name in names if name in self.after or name in self.before)

    def grown(self, names: Sequence[str]) -> int | None:
        """How much the counters grew together; None if one of them cannot be compared."""
        total = 0
        for name in names:
            then, now = self.before.get(name), self.after.get(name)
            if type(then) is not int or now is None or now < then:
                return None
            total += now - then
        return total if self.before else None

    def changes(self) -> str:
        """Every counter that changed, for the evidence; `lifespan` is a polling period and no counter."""
        names = [
            name for name in self.after if self.before.get(name) != self.after[name] and name != "lifespan"
        ]
        return (
            ", ".join(f"{name} {self.before.get(name)} -> {self.after[name]}" for name in names)
            or "unchanged"
        )


def _look() -> dict[str, Mapping[str, int]]:
    found = devices.all_counters(devices.INFINIBAND)
    if not found:
        raise CheckError(f"no EFA device under {devices.INFINIBAND}: its counters cannot be read")
    return found
