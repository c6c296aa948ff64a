"""`prelaunch explain` for the text that nccl-tests print, of every generation, and for NCCL's own log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from checks.explain.reading import (
    CheckData,
    Complete,
    Garbled,
    NotRecognised,
    OutputKind,
    Reading,
    ReadOptions,
)
from checks.explain.unread_lines import lines_matching
from checks.facts.instances import Instance
from checks.model import Declared, Value
from checks.probes.collectives import nccl_log, nccl_tests, nccl_tests_result
from checks.probes.collectives.nccl_log import NcclLine, NcclLog
from checks.probes.collectives.nccl_tests_result import NcclTestsRun, faults, name_of
from checks.probes.collectives.transport import crosses, evidence, measured, other_networks

# From this size on a message shows a network's rate and not its latency: 64 MiB ran at 28% of the network's rate on 2 x p5,
# 128 MiB at 39% (AWS's nccl-tests README), against the 1% of a Socket fallback.
LEAST_NETWORK_BYTES = 128 << 20
MOST_LINES = 8
ONE_PROCESS = Complete(
    "the output lists the ranks of one process only, but the numbers are of more. Give --instance-type and --nodes"
)
UNNAMED = Complete(
    "the output does not name its collective, and its numbers fit several, so the rate cannot be judged. Include the command "
    "line that started it (such as './all_gather_perf -b 8 -e 4G -g 8') above the output"
)
SMALL_MESSAGES = Complete(
    f"no message of {LEAST_NETWORK_BYTES >> 20} MiB or more, of a kind that tells the network's rate. Run all_reduce_perf with -e 1G"
)
UNDECLARED = Complete(
    "no instance type is declared, so it is unknown what should have carried the data. Give --instance-type"
)
UNRATED = Complete(
    "the bandwidth was not judged, because no instance type is declared. Give --instance-type, and --nodes if there are several"
)
UNPROVEN = Complete(
    "several hosts took part: only NCCL's log (NCCL_DEBUG=INFO), or the network of the machines shows what carried the data. Give "
    "--instance-type with a known type, or with the file of a machine of your own that has network_gbit_s"
)
_WATCHDOG = re.compile(
    r"\[(?:PG [^]]*)?Rank (\d+)\] Watchdog caught collective operation timeout: Work\w+\(SeqNum=\d+, OpType=(\w+)"
)

# What a training prints beside the log: its progress in numbers, torchrun's banner, and the lines of the watchdog that are read.
_TRAINING = re.compile(
    r"(?!.*(?i:err|fail|exce|abort|fatal|kill|timeout|warn|\b(?:nan|inf)\b))"
    r".*\b(?:step|iter|iteration|epoch|loss|lr|grad_norm)\b[^A-Za-z\d]{0,4}\d"
    r"|.*torch/distributed/run\.py:\d+\] *(?:\*+|Setting OMP_NUM_THREADS.*)?$|.*Watchdog caught collective operation timeout: "
)


def detect(text_: str) -> bool:
    """Whether this is the output of nccl-tests, or a log of NCCL."""
    return (
        nccl_tests.recognised(text_)
        or any(True for _ in nccl_log.lines_of(text_))
        or _WATCHDOG.search(text_) is not None
    )


# Size, count and type, which begin each row (nccl-tests, src/common.cu), behind whatever a launcher puts before a line.
SIZE_LINE = re.compile(
    r"^.*?\b\d+\s+\d+\s+(?:float|half|double|bfloat16|u?int\d+|fp8\w*|f8\w*)\s", re.MULTILINE
)
HEADER = "Give the output from its header on: the lines that begin with # and name size, count, type, time and busbw."


def read(text_: str, options: ReadOptions) -> Reading:
    """What nccl.tests, nccl.inter_node and nccl.transport would have measured. Raises NotRecognised, Garbled."""
    log = nccl_log.read(text_)
    if nccl_tests.recognised(text_):
        runs = nccl_tests.read(text_)
        if not any(run.results for run in runs) and SIZE_LINE.search(text_):
            raise Garbled(
                "the output of nccl-tests has rows of results, but the header that names their columns is missing",
                HEADER,
            )
        if not any(run.results for run in runs):
            reason = next(
                (error for run in runs for error in run.errors),
                "the program ended early or the output was truncated",
            )
            raise Garbled(f"the output of nccl-tests has no row of results: {reason}")
        reading = _of_runs(tuple(run for run in runs if run.results), log, options)
        return replace(reading, understood=nccl_tests.understood(text_) | nccl_log.understood(text_))
    shows_log = (log.begun, log.channels, log.networks, log.warnings, log.versions, log.errors)
    if any(shows_log) or _WATCHDOG.search(text_):
        reading = _of_log(log, text_, options)
        return replace(reading, understood=nccl_log.understood(text_) | lines_matching(text_, _TRAINING))
    if any(True for _ in nccl_log.lines_of(text_)):
        raise Garbled("the text has lines of NCCL, but none that shows what carries the data")
    raise NotRecognised("the text is neither output of nccl-tests nor a log of NCCL")


def _of_runs(runs: Sequence[NcclTestsRun], log: NcclLog, options: ReadOptions) -> Reading:
    unread = [_fault(run, reason) for run in runs for reason in faults(run)]
    if options.declared and any(not nccl_tests_result.collective_of(run) for run in runs):
        unread.append(UNNAMED)
    declared = options.declared
    expected = declared.ranks if declared else None
    if declared is None:
        unread.append(ONE_PROCESS if any(map(nccl_tests_result.lists_one_process, runs)) else UNRATED)
    elif (ran_on := max(_nodes_of(run, declared) for run in runs)) > declared.nodes:
        more = f"the output is of {ran_on} nodes, and --nodes says {declared.nodes}. Give --nodes {ran_on}"
        unread.append(Complete(more))
        expected = None  # whether ranks are missing cannot be told
    metrics = nccl_tests_result.metrics(runs, expected)
    results = [CheckData("nccl.tests", metrics, _lines(runs), _citations(runs))]
    instance, nodes = options.instance, _nodes(runs, options)
    logged = bool(log.channels)
    if logged or (log.chosen and nodes > 1):
        results.append(_transport(log, instance, nodes))
    results += _errors(log)
    if nodes > 1:
        carried, reason = _network(runs, instance, nodes)
        results += carried
        if options.declared and not carried and not (logged and crosses(log.channels)):
            unread.append(reason)
    ranks = {nccl_tests_result.ranks_of(run) for run in runs}
    version = f"nccl-tests {runs[0].version}".strip()
    names = ", ".join(dict.fromkeys(name_of(run) for run in runs))
    hosts = tuple(dict.fromkeys(host for run in runs for host in run.hosts))
    halves = [half for run in runs for record in run.results for half in record.placements]
    on_nodes = f" on {len(hosts)} nodes" if len(hosts) > 1 else ""
    ranks_text = f"{'/'.join(map(str, sorted(ranks)))} rank{'s' * (ranks != {1})}{on_nodes}"
    brief = f"{names}, {ranks_text}, {max(half.busbw_gbps for half in halves):.4g} GB/s"
    title = f"{version}: {brief} at most, {sum(len(run.results) for run in runs)} sizes{_carrier(log)}"
    reading = Reading(OutputKind.NCCL_TESTS, title, tuple(results), tuple(dict.fromkeys(unread)), hosts=hosts)
    return replace(reading, brief=brief, doubt=reading.doubt if options.declared else "no --instance-type")


def _fault(run: NcclTestsRun, reason: str) -> str:
    """A fault of the run; where its output is whole, that is not asked for."""
    message = f"{name_of(run)}: {reason}"
    return Complete(f"{message}. Run it again") if nccl_tests_result.is_whole(run) else message


def _of_log(log: NcclLog, text_: str, options: ReadOptions) -> Reading:
    instance = options.instance
    nodes = max(log.nodes, options.declared.nodes if options.declared else 1)
    unread = list(_about_log(log, nodes))
    if text_ and not text_.endswith("\n"):
        unread.append("the last line is not complete: the log was truncated")
    if (declared := options.declared) and log.ranks not in (0, declared.ranks):
        number, left = divmod(log.ranks, declared.ranks_per_node)
        remedy = "Give the log of a run on all GPUs of each node" if left else f"Give --nodes {number}"
        unread.append(
            Complete(f"the log is of {log.ranks} ranks, but should be of {declared.ranks}. {remedy}")
        )
    if instance is None:
        unread.append(UNDECLARED)
    results = [_transport(log, instance, nodes)] if log.channels else []
    version = f" {log.versions[0]}" if log.versions else ""
    title = f"log of NCCL{version}: {log.processes} processes, {len(log.channels)} channels{_carrier(log)}"
    unread += _victims(text_)
    results += _errors(log)
    up = log.begun - log.unfinished
    goes_on = f"{up - log.ended} of {up} communicators do not end in this log, so the job goes on or the log ends early"
    left_out = (f"nccl.transport later channels: {goes_on}",) if log.ended < up else ()
    return Reading(OutputKind.NCCL_LOG, title, tuple(results), tuple(unread), left_out=left_out)


def _errors(log: NcclLog) -> list[CheckData]:
    """What NCCL or its plugin says went wrong, each with the process that says so and the peer that it names."""
    if not log.errors:
        return []
    by_process: dict[str, list[NcclLine]] = {}
    for line in log.errors:
        by_process.setdefault(line.process or "a process", []).append(line)
    messages = tuple(_message(lines) for lines in by_process.values())
    cited = {"failed": "\n".join(lines[0].numbered for lines in by_process.values())}
    return [
        CheckData(
            "nccl.job", {"failed_ranks": tuple(by_process), "failed": messages}, cited, _each(log.errors)
        )
    ]


def _message(lines: Sequence[NcclLine]) -> str:
    peers = dict.fromkeys(filter(None, map(nccl_log.peer_of, lines)))
    peers_text = f"; peer {', '.join(peers)}" if peers else ""
    return f"{lines[0].text[:200]}{peers_text}"


def _victims(text_: str) -> list[str]:
    """What torch's watchdog reports about a collective that never ended: the ranks that report waited, and the silent ones are
    suspects.
    """
    waits = [(match[1], match[2]) for match in _WATCHDOG.finditer(text_)]
    if not waits:
        return []
    ranks = ", ".join(dict.fromkeys(rank for rank, _ in waits))
    message = f"ranks {ranks} timed out waiting for other ranks in {waits[0][1]}. Suspect the ranks that are not in this list"
    return [Complete(message)]


def _about_log(log: NcclLog, nodes: int) -> Iterator[str]:
    if not log.begun:
        yield "no communicator is initialised in this log, so it is only a part of one"
    if not log.channels:
        yield Complete("no line shows the transport of a channel. Give the log of a run with NCCL_DEBUG=INFO")
    if log.unfinished:
        yield f"the initialisation of {log.unfinished} communicators did not complete: the log was truncated, or NCCL failed"
    if log.up < log.ranks:
        doubt = f"only {log.up} of {log.ranks} ranks are initialised in this log: give the logs of all processes together"
        yield Complete(doubt)
    ends = {(c.ends, c.end) for c in log.channels if c.end}
    halves = sum((ends_of, "receive" if end == "send" else "send") not in ends for ends_of, end in ends)
    if halves:
        yield f"{halves} channels over the network have only one of their two ends in this log"
    if nodes > 1 and log.channels and not crosses(log.channels):
        yield f"{nodes} nodes took part, but no channel connects one node with another"


def _transport(log: NcclLog, instance: Instance | None, nodes: int) -> CheckData:
    """What the lines of channels say; where the log has none, what those say in which NCCL chose its network."""
    metrics = measured(log, instance, nodes)
    if log.channels and len(log.versions) == 1:
        metrics["nccl_version"] = log.versions[0]
    cited = _each([channel.line for channel in log.channels])
    over_network = [channel for channel in log.channels if channel.network == "NET"]
    network = _each([channel.line for channel in over_network])
    lines = {
        "channels": cited,
        **dict.fromkeys(("fallback_channels", "unproven_channels", "unjudged_channels"), network or cited),
        "gpudirect_off": network,
        "without_gpudirect": _each([channel.line for channel in over_network if not channel.gpudirect]),
        "without_nvlink": _each([channel.line for channel in log.channels if channel.network == "SHM"]),
        "nics_missing": _each(log.chosen),
        "warnings": _each(log.warnings),
    }
    if not log.channels:
        other = other_networks(log, instance)
        fallback: dict[str, Value] = {"fallback_channels": len(other)} if other else {}
        metrics = {**{name: metrics[name] for name in ("nics_missing", "warnings")}, **fallback}
        lines["fallback_channels"] = _each(other)
    return CheckData("nccl.transport", metrics, lines, evidence(log))


def _carrier(log: NcclLog) -> str:
    """What NCCL's log names as the network, with libfabric's provider and how many devices it found."""
    providers = [f"libfabric's provider {name}" for name in dict.fromkeys(log.providers.values())]
    devices = [f"{'/'.join(map(str, log.nics))} device{'s' * (set(log.nics) != {1})}"] if log.nics else []
    networks = [*(f"network {name}" for name in log.networks), *providers, *devices]
    return f"; NCCL chose {', '.join(networks)}" if networks else ""


def _network(
    runs: Sequence[NcclTestsRun], instance: Instance | None, nodes: int
) -> tuple[list[CheckData], str]:
    """The least data that crossed the network, or why that is unknown.

    For a sum or a gather, each node must receive the others' part of every message, whatever the algorithm.
    """
    if instance is None or instance.network_gbit_s is None:
        return [], UNPROVEN
    run_records = [(run, record) for run in runs if _part_received(run, nodes) for record in run.results]
    largest = max((record.size_bytes for _, record in run_records), default=0)
    if largest < LEAST_NETWORK_BYTES:
        return [], SMALL_MESSAGES
    rates = [
        (8 * _part_received(run, nodes) * min(half.algbw_gbps for half in record.placements), record.line)
        for run, record in run_records
        if record.size_bytes == largest
    ]
    slowest, line = min(rates)
    proven: Value = min(slowest, float(instance.network_gbit_s))
    return [CheckData("nccl.inter_node", {"proven_gbit_s": proven}, {"proven_gbit_s": line}, line)], ""


def _part_received(run: NcclTestsRun, nodes: int) -> float:
    """The part of a message that each node must receive; 0 if the program does not determine it."""
    collective = nccl_tests_result.collective_of(run)
    if collective == "all_reduce":
        return 1.0
    return (nodes - 1) / nodes if collective in ("all_gather", "reduce_scatter") else 0.0


def _lines(runs: Sequence[NcclTestsRun]) -> dict[str, str]:
    records = [record for run in runs for record in run.results]
    wrong = [record.line for record in records if any(half.wrong for half in record.placements)]
    unverified = [record.line for record in records if record.out_of_place.wrong is None]
    out = max(records, key=lambda record: record.out_of_place.busbw_gbps).line
    inside = max(records, key=lambda record: record.in_place.busbw_gbps).line
    feet = "\n".join(run.lines["footer"] for run in runs if run.closed)
    plans = "\n".join(run.lines["plan"] for run in runs if "plan" in run.lines)
    ranks = "\n".join(run.lines["ranks"] for run in runs if "ranks" in run.lines) or out
    return {
        "wrong_elements": "\n".join(wrong[:MOST_LINES]) or feet,
        "out_of_bounds": feet,
        "rows_unverified": "\n".join(unverified[:MOST_LINES]) or out,
        "rows_missing": plans or feet,
        "below_own_minimum": feet,
        "ranks": ranks,
        "ranks_missing": ranks,
        "busbw_out_of_place_gbps": out,
        "busbw_in_place_gbps": inside,
        "busbw_gbps": "\n".join(record.line for record in records),
    }


def _citations(runs: Sequence[NcclTestsRun]) -> str:
    # These come from every row, which would be too much text.
    lines = {name: text for name, text in _lines(runs).items() if name != "busbw_gbps"}
    return "\n".join(line for text in lines.values() for line in text.splitlines()[:MOST_LINES])


def _nodes(runs: Sequence[NcclTestsRun], options: ReadOptions) -> int:
    return max(max(len(run.hosts) for run in runs), options.declared.nodes if options.declared else 1)


def _nodes_of(run: NcclTestsRun, declared: Declared) -> int:
    """On how many nodes it ran: the hosts that it lists; where it does not list all ranks, as many as the ranks need."""
    ranks = nccl_tests_result.ranks_of(run)
    return len(run.hosts) if len(run.ranks) == ranks else -(-ranks // declared.ranks_per_node)


def _each(lines: Sequence[NcclLine]) -> str:
    """The first line of each text, as "17: text"."""
    first: dict[str, str] = {}
    for line in lines:
        first.setdefault(line.text, line.numbered)
    return "\n".join(list(first.values())[:MOST_LINES])
