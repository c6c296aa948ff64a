"""efa.loopback: whether every device of this node can send messages to itself."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from checks.check import CheckError, Context, Measurement, Resource
from checks.probes.efa import devices, fi_info
from checks.probes.efa.devices import efa_check
from checks.probes.efa.libfabric import ClientResult, Server, client, domains, late, provider, rates_of
from checks.process.tool import ToolMissing

SIDE_BY_SIDE = 4
OUTLIVES_S = 5.0  # so that a client that waits in vain ends at its own deadline


@efa_check(
    "efa.loopback",
    (
        "provider",
        "devices",
        "device_faults",
        "node_fault",
        "acks_missing",
        "rate_gbps",
        "latency_us",
        "carried_bytes",
    ),
    timeout_s=120,
    needs="fi_pingpong",
    cost="seconds",
    uses=(Resource.NETWORK,),
)
def loopback(context: Context) -> Measurement:
    """Runs fi_pingpong on each device from this node to itself, with the data compared.

    One entry a device: `device_faults` is "ok" or the reason, and where every device failed that is the node's, in
    `node_fault`. `rate_gbps` (10^9 bytes/s one way, messages of 1 MiB) and `latency_us` (256 bytes, one way) are of host
    memory. Two processes of one host may talk through shared memory: it is turned off, and `carried_bytes`, what the
    device's own counter of sent bytes grew by, shows who carried the 22 MB; null where there is no such counter.
    """
    name = provider()
    ends = time.monotonic() + context.timeout_s * 0.85
    names = domains(name, context.timeout_s * 0.2)
    each_s = context.options.get("each_s", 10.0)
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        runs = list(pool.map(lambda domain: _run(name, domain, each_s, ends), names))
    return judged_apart(name, names, runs)


@dataclass(frozen=True)
class LoopbackRun:
    """One device's ping-pong, and what its counter of sent bytes grew by."""

    ended: ClientResult
    carried: int | None


def judged_apart(name: str, names: Sequence[str], runs: Sequence[LoopbackRun]) -> Measurement:
    """The measurement. A fault of some devices is blamed on them, a fault of all on the node. Raises CheckError (pure)."""
    rates, faults = rates_of([run.ended for run in runs]), [run.ended.failure for run in runs]
    together = all(run.ended.readable and run.ended.failure != "ok" for run in runs)
    evidence = [
        f"# {n}: {run.ended.failure}\n{run.ended.account}" for n, run in zip(names, runs, strict=True)
    ]
    first = sorted(range(len(runs)), key=lambda index: faults[index] == "ok")
    return Measurement(
        {
            "provider": name,
            "devices": tuple(fi_info.device_of(domain) for domain in names),
            "device_faults": tuple("ok" if together else fault for fault in faults),
            "node_fault": faults[0] if together else "ok",
            **rates,
            "carried_bytes": tuple(run.carried for run in runs),
        },
        "\n".join(evidence[index] for index in first),
    )


def _run(name: str, domain: str, each_s: float, ends: float) -> LoopbackRun:
    left = min(each_s, ends - time.monotonic())
    if left <= 0:
        return LoopbackRun(late(), None)
    device = fi_info.device_of(domain)
    before = sent_bytes(name, device)
    ended = _exchange(name, domain, left)
    after = sent_bytes(name, device)
    return LoopbackRun(ended, None if before is None or after is None or after < before else after - before)


def _exchange(name: str, domain: str, left: float) -> ClientResult:
    """One server and its client. Raises ToolMissing."""
    server = Server(name, domain, left + OUTLIVES_S)
    try:
        server.open()
        ended = client(name, domain, "127.0.0.1", server.port, left)
        if ended.failure == "ok":
            server.wait(1.0)
    except ToolMissing:
        raise
    except CheckError as error:
        ended = ClientResult(str(error), False, None, "")
    finally:
        output = server.close()
    number = fi_info.failure(output)
    if ended.failure != "ok" and number is not None:  # the client only saw the server go away
        return ClientResult(fi_info.meaning(number, name), True, None, f"{ended.account}\n{output}")
    return ended


def sent_bytes(name: str, device: str) -> int | None:
    """The device's counter of sent bytes: EFA's own, or for other providers that of the network interface."""
    if name == "efa":
        return devices.counters(devices.INFINIBAND, device).get("tx_bytes")
    for line in Path("/proc/net/dev").read_text(encoding="ascii").splitlines():
        interface, _, numbers = line.partition(":")
        if interface.strip() == device:
            return int(numbers.split()[8])
    return None
