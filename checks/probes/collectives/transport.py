"""nccl.transport: shows by NCCL's own log what carried the data of the collectives."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence

from checks.check import CheckError, Context, Measurement, Turn, check
from checks.facts.instances import Instance
from checks.model import MachinePart, Scope, Value
from checks.probes.collectives import nccl_log
from checks.probes.collectives.nccl_log import Channel, NcclLine, NcclLog, read

EFA = "efa"
# The networks with RDMA that use InfiniBand or RoCE ports: NCCL's own, HPC-X's plugin (IBext), UCX; libfabric with verbs.
OVER_PORTS = ("IB", "UCX")
VERBS = "verbs"
# EFA accesses the memory of these GPUs directly (AWS: GPUDirect RDMA from p4d on), and so do ports of InfiniBand.
GPUDIRECT = ("A100", "H100", "H200", "B200", "B300", "GB200", "GB300")
# From A100 on an NVSwitch connects all GPUs of a node; V100 GPUs are only partly connected, so that some pairs use other paths.
NVSWITCH_LINKS = 12
MOST_LINES = 12
METRICS = (
    "nccl_version",
    "channels",
    "fallback_channels",
    "unproven_channels",
    "unjudged_channels",
    "gpudirect_off",
    "without_gpudirect",
    "without_nvlink",
    "nics_missing",
    "warnings",
)


@check(
    "nccl.transport",
    Scope.RANK,
    timeout_s=30,
    metrics=METRICS,
    needs="torch with NCCL",
    min_ranks=2,
    part=MachinePart.GPU,
    group=True,
    turn=Turn.LAST,
)
def transport(context: Context) -> Measurement:
    """Reads in NCCL's log what carried the collectives: NVLink, EFA, InfiniBand, GPUDirect, or a fallback to TCP.

    Counts are of this rank's channels. `fallback_channels`: over TCP (or another libfabric provider) though the type
    has EFA, or InfiniBand. `unproven_channels`: the log does not say whether this is one; `unjudged_channels`: over TCP, and
    it is unknown whether the type has EFA. `without_gpudirect`: through the host's
    memory though the network reaches this GPU's; `gpudirect_off`: all of them. `without_nvlink`: between GPUs of a
    node through shared memory though an NVSwitch joins them. `nics_missing`: EFA devices or InfiniBand ports that NCCL did not find.
    `warnings`: lines that NCCL itself marks WARN. It must follow the collectives.
    """
    text = nccl_log.texts(os.environ)
    own = read(text, nccl_log.process())
    if not own.begun:
        raise CheckError("NCCL's log has no line about the communicators of this rank")
    if own.unfinished:
        raise CheckError(
            f"NCCL's log is truncated: the initialisation of {own.unfinished} communicators did not complete"
        )
    if not own.channels:
        raise CheckError("NCCL's log shows no channel of this rank, so it is unknown what carried its data")
    if context.declared.nodes > 1 and not crosses(read(text).channels):
        message = f"{context.declared.nodes} nodes are declared, but no NCCL channel of this node's ranks goes to another node"
        raise CheckError(message)
    metrics = measured(own, context.instance, context.declared.nodes)
    return Measurement({**metrics, "nccl_version": _version(own)}, evidence(own))


def measured(log: NcclLog, instance: Instance | None, nodes: int) -> dict[str, Value]:
    """All metrics except the version; `instance` is the declared type's row."""
    network = [channel for channel in log.channels if channel.network == "NET"]
    efa = instance.efa_devices if instance else None
    fallback, unproven = _fallback(log, network, instance)
    tcp = [channel for channel in network if channel.carrier == "Socket"]
    ports = instance.ib_ports if instance else 0
    direct = instance is not None and bool(efa or ports) and instance.gpu.startswith(GPUDIRECT)
    over_rdma = [channel for channel in network if channel not in fallback] if direct else []
    plain = [channel for channel in over_rdma if not channel.gpudirect]
    switched = instance is not None and (instance.nvlinks or 0) >= NVSWITCH_LINKS
    shared = [channel for channel in log.channels if channel.network == "SHM"] if switched else []
    return {
        "channels": len(log.channels),
        "fallback_channels": len(fallback),
        "unproven_channels": len(unproven),
        "unjudged_channels": len(tcp) if efa is None else 0,
        "gpudirect_off": bool(plain) and len(plain) == len(over_rdma),
        "without_gpudirect": len(plain),
        "without_nvlink": len(shared),
        "nics_missing": max(0, (efa or ports) - max(log.nics)) if log.nics and nodes > 1 else 0,
        "warnings": len(log.warnings),
    }


def crosses(channels: Sequence[Channel]) -> bool:
    """Whether a channel leads to another node: over the network, or over NVLink between nodes."""
    return any(channel.network == "NET" or channel.carrier == "MNNVL" for channel in channels)


def _fallback(
    log: NcclLog, network: Sequence[Channel], instance: Instance | None
) -> tuple[list[Channel], list[Channel]]:
    """The channels that fell back to TCP, and those for which the log does not say so."""
    if instance is None or not (instance.efa_devices or instance.ib_ports):
        return [], []
    carriers = [(channel, _carrier_of(channel, log)) for channel in network]
    wrong = [channel for channel, name in carriers if name is not None and not _may_be_rdma(name, instance)]
    return wrong, [channel for channel, name in carriers if name is None]


def _carrier_of(channel: Channel, log: NcclLog) -> str | None:
    """The network that carries the channel; for libfabric its provider, None if the log does not name it."""
    over_libfabric = "Libfabric" in channel.carrier or channel.carrier == "OFI"
    return log.providers.get(channel.line.process) if over_libfabric else channel.carrier


def other_networks(log: NcclLog, instance: Instance | None) -> list[NcclLine]:
    """The lines in which NCCL chose something else than the EFA or the InfiniBand that the type has."""
    if instance is None or not (instance.efa_devices or instance.ib_ports):
        return []
    return [line for line in log.chosen if not _may_be_rdma(nccl_log.chosen_by(line), instance)]


def _may_be_rdma(name: str, instance: Instance) -> bool:
    """Whether a provider of libfabric, or a network, is that of the type, or may use it."""
    own = name == EFA if instance.efa_devices else name.startswith((*OVER_PORTS, VERBS))
    return own or name == "OFI" or "Libfabric" in name


def evidence(log: NcclLog) -> str:
    """The lines in which NCCL chose its transport, then how many channels use which, then one example of each."""
    ways = Counter(_carrier_text(channel) for channel in log.channels)
    first: dict[str, NcclLine] = {}
    for channel in log.channels:
        first.setdefault(_carrier_text(channel), channel.line)
    return "\n".join(
        [
            f"{count} channels via {carrier}, such as {first[carrier].numbered}"
            for carrier, count in ways.most_common(MOST_LINES)
        ]
        + list(dict.fromkeys(line.text for line in log.chosen))[:MOST_LINES]
        + [f"WARN {line.numbered}" for line in log.warnings[:MOST_LINES]]
    )


def _carrier_text(channel: Channel) -> str:
    return f"{channel.network}/{channel.carrier}{'/GDRDMA' if channel.gpudirect else ''}"


def _version(own: NcclLog) -> str:
    if own.versions:
        return own.versions[0]
    try:
        import torch

        return ".".join(map(str, torch.cuda.nccl.version()))  # type: ignore[no-untyped-call]
    except Exception as error:
        raise CheckError(f"NCCL's version cannot be read: {error}") from error
