"""Reads output of `fi_info` and `fi_pingpong` from another machine, in the same way as the checks do."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from checks.explain.reading import CheckData, Complete, OutputKind, Reading, ReadOptions
from checks.explain.unread_lines import lines_matching
from checks.model import Value
from checks.probes.efa import fi_info
from checks.probes.efa.libfabric import HEADER, SIZE_LINE, PingpongTable, parse

_BLOCK = re.compile(r"^\s*provider: \S+\s*$|^\s*(fabric|domain): \S|^\s*protocol: FI_PROTO_", re.M)
_ENDPOINT = re.compile(r"^\s*(type: FI_EP_|protocol: FI_PROTO_)", re.M)
_FAILED = re.compile(r"^\s*fi_getinfo(\(\))?: -\d+", re.M)
_PINGPONG_LINE = re.compile(r"^\s*(\[[^\]]*\]\s*)*\d+[kmg]?\s+\d+\s+=?\d+\s+\S+\s+\d+\.\d+s\s", re.M)
_FIELD = re.compile(rf"(?:{'|'.join(fi_info.FIELDS)}): |fi_getinfo\b")
# What efa_test.sh of the EFA installer prints around the tables.
_SCRIPT = re.compile(
    r"Starting (?:server|client)\.\.\.$|(?:Server|Client) Log:$|Localhost fi_pingpong test: Attempt \d"
)
_LOCALHOST = re.compile(r"localhost fi_pingpong test|fi_pingpong .*\b(127\.0\.0\.1|localhost)\b", re.I)
UNNAMED = Complete("the provider is unknown: tcp prints the same table. Include the command line with -p efa")
_PROVIDER = re.compile(r"fi_(?:info|pingpong)\b[^\n]*?\s(?:-p\s*|--provider[= ])([\w;]+)")


def detect(text: str) -> bool:
    """Whether it is fi_pingpong's or fi_info's output."""
    is_info = _BLOCK.search(text) is not None and _ENDPOINT.search(text) is not None
    return _is_pingpong(text) or _FAILED.search(text) is not None or is_info


def read(text: str, options: ReadOptions) -> Reading:
    """Read output of either tool. It tells nothing about EFA if other providers alone were asked for, or perhaps were, which is so
    where no command line and no declaration says what must be there. Raises CheckError.
    """
    reading = read_pingpong(text, options) if _is_pingpong(text) else read_info(text, options)
    listed = "" if options.declared else reading.checks[0].metrics.get("provider", "")
    names = "+".join(dict.fromkeys(_PROVIDER.findall(text))) or str(listed)
    if not names or "efa" in re.split(r"[;+]", names):
        return reading
    title = f"output about the provider {names} only"
    unread = Complete(f"this is {title}, which tells nothing about EFA. Run the command with -p efa")
    return replace(reading, title=title, checks=(), unread=(unread,), brief=title, doubt="EFA is unknown")


def _is_pingpong(text: str) -> bool:
    return any(HEADER.match(line) for line in text.splitlines()) or _PINGPONG_LINE.search(text) is not None


def read_info(text: str, options: ReadOptions) -> Reading:
    """The EFA devices in the output of fi_info, which without -p lists the endpoints of every provider."""
    number = fi_info.failure(text)
    if number is not None:
        return _failed(text, number)
    listed = fi_info.without_layers(fi_info.parse(text))
    endpoints = [endpoint for endpoint in listed if endpoint.provider == "efa"] or listed
    names = fi_info.domains(endpoints, "efa")
    metrics: dict[str, Value] = {
        "provider": "+".join(sorted({e.provider for e in endpoints})),
        "failure": "ok",
        "rdm_domains": len(names),
        "unlike_devices": len(fi_info.unlike(endpoints, "efa")),
    }
    rests = {
        "rdm_domains": _lines(text, (e.line for e in endpoints if e.domain in names), 3),
        "provider": _lines(text, (e.line for e in endpoints), 1),
    }
    result = CheckData("efa.devices", metrics, rests, "\n".join(text.splitlines()[:60]))
    brief = f"{len(names)} EFA device{'s' * (len(names) != 1)}"
    title = f"fi_info, {brief} in {len(endpoints)} endpoints, provider version {endpoints[0].version}"
    brief += "" if options.declared else " (number not judged)"
    return Reading(OutputKind.FI_INFO, title, (result,), understood=lines_matching(text, _FIELD), brief=brief)


def _failed(text: str, number: int) -> Reading:
    at = next(n for n, line in enumerate(text.splitlines(), 1) if fi_info.failure(line) is not None)
    metrics: dict[str, Value] = {"failure": fi_info.meaning(number, "efa")}
    result = CheckData("efa.devices", metrics, {"failure": _lines(text, (at,), 1)}, text[:2000])
    title = f"fi_getinfo failed with -{number}"
    return Reading(OutputKind.FI_INFO, title, (result,), understood=lines_matching(text, _FIELD), brief=title)


def read_pingpong(text: str, options: ReadOptions) -> Reading:
    """Every table of fi_pingpong; over which provider it ran is known only where its command line is there too."""
    tables = parse(text)
    names = tuple(f"table {index}" for index in range(1, len(tables) + 1))
    metrics: dict[str, Value] = {
        "pairs": names,
        "failures": ("ok",) * len(tables),
        "acks_missing": tuple(table.acks_missing for table in tables),
    }
    numbers = [record.line for table in tables for record in table.results]
    short = [record.line for table in tables for record in table.results if record.acked < record.sent]
    rests = {"failures": _lines(text, numbers, 1), "acks_missing": _lines(text, short or numbers, 1)}
    ran = [(n, m.group(1)) for n, line in enumerate(text.splitlines(), 1) if (m := _PROVIDER.search(line))]
    if ran:
        metrics["provider"] = "+".join(sorted({name for _, name in ran}))
        rests["provider"] = _lines(text, (n for n, _ in ran), 1)
    best = max(table.results[-1].rate_gbps for table in tables)
    over = f"over {metrics['provider']}" if ran else "over an unnamed provider"
    brief = f"fi_pingpong {over}, {best:.2f} GB/s"
    title = f"{brief} at most, {len(tables)} table{'s' * (len(tables) > 1)}"
    result = CheckData("efa.pingpong", metrics, rests, "\n".join(text.splitlines()[:60]))
    numbered = enumerate(text.splitlines(), 1)
    table = {number for number, line in numbered if HEADER.match(line) or SIZE_LINE.match(line)}
    understood = lines_matching(text, _SCRIPT) | table
    unread = (*(() if ran else (UNNAMED,)), *_doubts(text, tables, options))
    return Reading(OutputKind.FI_PINGPONG, title, (result,), unread, understood=understood, brief=brief)


def _doubts(text: str, tables: Iterable[PingpongTable], options: ReadOptions) -> Iterable[str]:
    """Why the table may be about something else than the device."""
    if _LOCALHOST.search(text) and "FI_EFA_ENABLE_SHM_TRANSFER=0" not in text:
        yield Complete(
            "a run on one host may go through shared memory instead of the device. Set FI_EFA_ENABLE_SHM_TRANSFER=0"
        )
    instance = options.instance
    if instance is None or not instance.network_gbit_s or not instance.efa_devices:
        return
    line_gbps = instance.network_gbit_s / instance.efa_devices / 8
    best = max(record.rate_gbps for table in tables for record in table.results)
    if best > line_gbps:
        yield f"{best:.1f} GB/s is more than the {line_gbps:g} GB/s that one device can carry: the data may not have used the device"


def _lines(text: str, numbers: Iterable[int], each: int) -> str:
    lines = text.splitlines()
    wanted = sorted({n + more for n in numbers for more in range(each) if n + more <= len(lines)})
    return "\n".join(f"{n}: {lines[n - 1]}" for n in wanted[:200])
