"""Reads which NVLinks are up, for gpu.nvlink: nvidia-smi nvlink -s and -e, dcgmi nvlink -s.

How many links a GPU has, and how many GPUs a node has, only a declaration says.
"""

from __future__ import annotations

import re
from collections import defaultdict

from checks.explain.reading import CheckData, Complete, Garbled, OutputKind, Reading, ReadOptions
from checks.explain.unread_lines import bare
from checks.model import Value

_GPU = re.compile(r"(?:GPU (\d+): .*\(UUID: \S+\)|gpuId (\d+):)$")
_LINK = re.compile(r"Link (\d+): (?:(<inactive>)|[\d.]+ GB/s|(?P<counter>[A-Za-z ]+): (?P<count>\d+))$")
_STATES = re.compile(r"[UDX_](?: [UDX_])*$")
_AROUND = re.compile(r"\|\s*NvLink Link Status\s*\||\+-+\+$|GPUs:$|Key: Up=U")
_HARMLESS = re.compile(r".*(?:BER|successful)")
SINCE_LOAD = (
    "these counters count since the driver was loaded, so they do not show when. Reset them with nvidia-smi nvlink -re and read them "
    "again after a load, or run prelaunch check"
)


def detect(text: str) -> bool:
    """Whether it lists the links of GPUs."""
    lines = [bare(line) for line in text.splitlines()] if "GPU" in text or "gpuId" in text else []
    return any(map(_GPU.match, lines)) and any(_LINK.match(line) or _STATES.match(line) for line in lines)


def read(text: str, options: ReadOptions) -> Reading:
    """What gpu.nvlink would have measured. Raises Garbled."""
    links, counted, understood, gpu = dict[str, dict[str, bool]](), list[str](), set[int](), ""
    counters = defaultdict[str, set[str]](set)  # "GPU 3 link 7" -> the names of its counters
    for number, line in enumerate(map(bare, text.splitlines()), 1):
        if match := _GPU.match(line):
            gpu = f"GPU {match[1] or match[2]}"
            links[gpu] = {}
        elif gpu and (match := _LINK.match(line)):
            links[gpu][match[1]] = not match[2]
            link = f"{gpu} link {match[1]}"
            if match["counter"]:
                counters[link].add(match["counter"])
            if match["count"] and int(match["count"]) and not _HARMLESS.match(match["counter"]):
                counted.append(f"{link}: {match['counter']} {match['count']}")
        elif gpu and _STATES.match(line):
            links[gpu] |= {str(at): state == "U" for at, state in enumerate(line.split()) if state != "_"}
        elif not _AROUND.match(line):
            gpu = ""
            continue
        understood.add(number)
    if not all(links.values()):
        raise Garbled("a GPU has no links in this text: it was truncated")
    names = set().union(*counters.values())
    if lacking := next(
        (f"{link} has no {min(names - own)}" for link, own in counters.items() if names - own), ""
    ):
        raise Garbled(f"{lacking} in this text, which other links have: it was truncated")
    active = [sum(up.values()) for up in links.values()]
    missing = max(options.declared.gpus_per_node - len(active), 0) if options.declared else 0
    metrics: dict[str, Value] = {
        "links_active": (*active, *[None] * missing),
        "gpus": (*links, *["not listed"] * missing),
    }
    down = {name: ", ".join(link for link, up in each.items() if not up) for name, each in links.items()}
    evidence = "\n".join(
        f"{name}: {f'links {links_down} are down' if links_down else 'all links are up'}"
        for name, links_down in down.items()
    )
    title = f"NVLinks of {len(links)} GPUs, {'/'.join(map(str, sorted(set(active))))} up"
    unread = (Complete(f"{'; '.join(counted[:4])}: {SINCE_LOAD}"),) if counted else ()
    explained = CheckData("gpu.nvlink", metrics, {"links_active": evidence}, evidence)
    return Reading(OutputKind.NVLINK, title, (explained,), unread, understood=frozenset(understood))
