"""Inputs that public tools answer wrongly, written by this project in the tools' formats: see test_defects.py."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from checks.probes.collectives.operations import FACTORS

RECORDINGS = Path(__file__).parents[1] / "recordings"
SIZES = tuple(1 << step for step in range(20, 31))
_BEGIN = """# nThread 1 nGpus 1 minBytes {least} maxBytes {most} step: 2(factor) warmup iters: 5 iters: 20 {more}
#
# Using devices
{ranks}#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""
_MORE = "agg iters: 1 validation: 1 graph: 0"
_RANK = (
    "#  Rank {rank:2d} Group  0 Pid {pid} on {host} device {device:2d} [0x{bus:02x}] NVIDIA H100 80GB HBM3\n"
)


def all_reduce(
    wrong: Mapping[int, str] | None = None,
    *,
    hosts: tuple[str, ...] = ("node-a",),
    rate_gbps: float = 250.0,
    prefix: str = "",
    end: bool = True,
    sizes: tuple[int, ...] = SIZES,
    rates: Mapping[int, float] | None = None,
    collective: str = "all_reduce",
) -> str:
    """What all_reduce_perf (nccl-tests 2.13) prints: `wrong` maps a size to its #wrong column, as it is printed.

    A healthy run with a rate that rises to `rate_gbps` (10^9 bytes/s of algorithm bandwidth); or, of each size that
    `rates` has, that rate: the sizes are then those, each twice the one before. Another `collective` differs in its factor
    of bus bandwidth and its operator; no output of this version names it.
    """
    sizes = tuple(rates) if rates else sizes
    ranks = 8 * len(hosts)
    factor = FACTORS.get(collective, FACTORS["sendrecv"])(ranks)
    redop = " sum" if collective in ("all_reduce", "reduce_scatter", "reduce") else "none"
    lines = [
        _RANK.format(rank=rank, pid=40_000 + rank, host=hosts[rank // 8], device=rank % 8, bus=16 + rank % 8)
        for rank in range(ranks)
    ]
    text, averaged = _BEGIN.format(least=sizes[0], most=sizes[-1], ranks="".join(lines), more=_MORE), []
    for size in sizes:
        took_us = size / rates[size] / 1e3 if rates else 30.0 + size / rate_gbps / 1e3
        algbw = size / took_us / 1e3
        busbw = algbw * factor
        half = f" {took_us:8.1f} {algbw:7.2f} {busbw:7.2f}"
        said = (wrong or {}).get(size, "0")
        text += f"{size:12d}{size // 4:14d}     float    {redop}      -1{half} {said:>6}{half} {said:>6}\n"
        averaged.append(float(f"{busbw:.2f}"))
    bad = 2 * len(wrong or {})
    if end:
        text += f"# Out of bounds values : {bad} {'FAILED' if bad else 'OK'}\n"
        text += f"# Avg bus bandwidth    : {sum(averaged) / len(averaged):.6g}\n#\n"
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


def recording(path: str) -> str:
    """One of the project's recordings."""
    return (RECORDINGS / path).read_text()


def replaced(path: str, pattern: str, by: str, times: int = 1) -> str:
    """A recording in which `pattern` was replaced, exactly `times` times."""
    text, done = re.subn(pattern, by, recording(path), count=times)
    if done != times:
        raise ValueError(f"{path} holds {pattern!r} {done} times, not {times}")
    return text
