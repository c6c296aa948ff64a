"""efa.counters: what the hardware counters of the EFA devices counted while the checks and collectives ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from checks.check import CheckError, Context, Measurement
from checks.probes import growth
from checks.probes.efa import devices
from checks.probes.efa.devices import efa_check

# Counters of faults, by the names that the driver gives them; older drivers lack some.
ERRORS = (
    "rdma_read_wr_err",
    "rdma_write_wr_err",
    "unresponsive_remote_events",
    "impaired_remote_conn_events",
    "retrans_timeout_events",
)
DROPS, RETRANSMITTED, SENT, RECEIVED = "rx_drops", "retrans_pkts", "tx_bytes", "rx_bytes"
COUNTERS = (DROPS, *ERRORS, RETRANSMITTED)
EVENTS = ("rx_drops", "error_events", "retransmitted_packets")
NO_COUNTERS = ("lifespan",)  # a polling period


def first_look(context: Context) -> Mapping[str, object]:
    """Every device's counters at the start. Raises CheckError if there is no device."""
    return {"devices": _snapshot()}


@efa_check(
    "efa.counters",
    ("devices", *EVENTS, "uncounted", "sent_bytes", "received_bytes", "devices_gone"),
    timeout_s=20,
    events=(*EVENTS, "devices_gone"),
    needs="/sys/class/infiniband",
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
    return compared(growth.first_look(context.before, "devices"), _snapshot())


def compared(before: Mapping[str, object], after: Mapping[str, Mapping[str, int]]) -> Measurement:
    """The growth of every counter (pure)."""
    names = sorted(after)
    looks = [growth.Growth(before.get(name), after[name]) for name in names]
    gone = sorted(set(before) - set(after))
    return Measurement(
        {
            "devices": tuple(names),
            "rx_drops": tuple(delta.total((DROPS,)) for delta in looks),
            "error_events": tuple(delta.total(counted(delta, ERRORS)) for delta in looks),
            "retransmitted_packets": tuple(delta.total(counted(delta, (RETRANSMITTED,))) for delta in looks),
            "uncounted": tuple(len(COUNTERS) - len(counted(delta, COUNTERS)) for delta in looks),
            "sent_bytes": tuple(delta.total((SENT,)) for delta in looks),
            "received_bytes": tuple(delta.total((RECEIVED,)) for delta in looks),
            "devices_gone": len(gone),
        },
        growth.account(gone, names, looks, NO_COUNTERS),
    )


def counted(delta: growth.Growth, names: Sequence[str]) -> tuple[str, ...]:
    """The counters that the driver has."""
    return tuple(name for name in names if delta.has(name))


def _snapshot() -> dict[str, dict[str, int]]:
    present = devices.kernel_devices(devices.INFINIBAND)
    by_device = {device.name: devices.counters(devices.INFINIBAND, device.name) for device in present}
    if not by_device:
        raise CheckError(f"no EFA device under {devices.INFINIBAND}: its counters cannot be read")
    return by_device
