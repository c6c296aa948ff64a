"""Which lines of a text no reader understood. Pure.

Each reader returns the lines that it understood. Any other line may report a fault, so it is missing evidence, unless it is known to
be harmless: a blank line, a comment, a shell's prompt with its command, or what a launcher prints about a job that goes well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator, Sequence

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# "0: " (srun -l), "[1,0]<stdout>:" (Open MPI), "[0] " and "[host:0] " (MPICH, Intel MPI, PRRTE), "[rank0]:" (torchrun), "algo-1 | "
# (SageMaker's local mode), a container's timestamp.
PREFIX = re.compile(
    r"^\s*(?:\[\d+(?:@\d+)?,\d+\]<std(?:out|err)>: ?|\[(?:rank|default)\d+\]:|\[(?:[\w.-]+:)?\d+\] (?!NCCL )|\d+:(?=\s|$)"
    r"|algo-\d+ *\| ?|\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-][\d:]+)(?:\s|$))"
)
# A command that a shell or a script printed: the program's name alone, or with an option.
_PROGRAMS = (
    r"dcgmi|fi_info|fi_pingpong|nvidia-smi|mpirun|mpiexec|srun|torchrun|docker|kubectl|singularity|apptainer|stress-ng|fio|nccom-test"
    r"|neuron-(?:ls|monitor|top)|ncclras|journalctl|dmesg|cat|time|timeout|tee|tail|head|ssh|\w+_perf"
)
_HARMLESS = re.compile(
    r"(?:#.*"  # a comment, or the prompt of root
    r"|[-=*_~]{3,}|\+[-=+]{2,}|```\w*"
    r"|(?:\([\w.-]+\) ?)?(?:\[?[\w.-]+@[\w.-]+(?:[: ][^\]$#%>]*)?\]?|(?:ba|z|da)?sh-[\d.]+|[\w.-]+:[~/][^\s$#]*)[$#%>](?: .*)?"
    r"|[$%+]+(?: .*)?"
    rf"|(?:sudo (?:-\w+ )*)?(?:time )?(?:[\w./-]*/)?(?:{_PROGRAMS})(?: [^:]* ?-{{1,2}}\w.*)?"
    r"|(?:srun|salloc|sbatch): (?:[jJ]ob \d+ (?:queued and waiting for resources|has been allocated resources)"
    r"|(?:Granted|Pending|Relinquishing) job allocation \d+|Nodes \S+ are ready for job|Waiting for resource configuration)"
    r"|Submitted batch job \d+(?: on cluster \S+)?"
    r"|pyxis: (?:(?:importing|imported) docker image.*|creating container filesystem.*|starting container.*)"
    r"|Warning: Permanently added .* to the list of known hosts\."
    r"|(?:real|user|sys)\s+(?:\d+m)?[\d.]+s?"
    r"|[A-Z][a-z]{2} [A-Z][a-z]{2} +\d+ [\d:]{8} (?:[AP]M )?[A-Z]{2,5} \d{4})"  # date
)


def bare(raw: str) -> str:
    """The line without the prefixes of launchers and without colours."""
    line = _COLOUR.sub("", raw)
    for _ in range(3):
        line, count = PREFIX.subn("", line)
        if not count:
            break
    return line.strip()


def lines_matching(text: str, form: re.Pattern[str]) -> frozenset[int]:
    """The numbers of the lines in which the form begins at the first letter."""
    return frozenset(number for number, line in enumerate(text.splitlines(), 1) if form.match(bare(line)))


def lines_between(text: str, begin: int, end: int) -> frozenset[int]:
    """The numbers of the lines from one position of the text to another."""
    first = len(f"{text[:begin]}x".splitlines())
    return frozenset(range(first, first + len(text[begin:end].splitlines())))


def lines_of_json(text: str) -> frozenset[int]:
    """The numbers of the lines of the JSON documents that begin a line."""
    numbers, at, decoder = frozenset[int](), 0, json.JSONDecoder()
    opening = re.compile(r"^\s*(?=[\[{])", re.MULTILINE)
    while start := opening.search(text, at):
        try:
            _, at = decoder.raw_decode(text, start.end())
        except (ValueError, RecursionError):
            at = start.end() + 1
            continue
        numbers |= lines_between(text, start.end(), at)
    return numbers


def unread_lines(text: str, understood: Container[int]) -> Iterator[tuple[int, str]]:
    """The lines that are neither understood nor harmless, with their numbers."""
    continued = False
    for number, raw in enumerate(text.splitlines(), 1):
        if number in understood:
            continued = False
            continue
        line = bare(raw)
        harmless = continued or not line or _HARMLESS.fullmatch(line) is not None
        continued = harmless and line.endswith("\\")  # the command continues in the next line
        if not harmless:
            yield number, line


def only(text: str, numbers: Container[int]) -> str:
    """The text with blank lines instead of all others, so that the numbers of the lines hold."""
    lines = text.splitlines(keepends=True)
    return "".join(line if number in numbers else "\n" for number, line in enumerate(lines, 1))


def sentence(unread: Sequence[tuple[int, str]]) -> str:
    """ "lines 3 to 14 and line 20 were not read, the first is: State: Down"."""
    ranges = list(_ranges([number for number, _ in unread]))
    listed_ranges = [*ranges[:4], f"{len(ranges) - 4} more places"] if len(ranges) > 5 else ranges
    listed = " and ".join(filter(None, [", ".join(listed_ranges[:-1]), listed_ranges[-1]]))
    were = "was" if len(unread) == 1 else "were"
    return f"{listed} {were} not read, and may report a fault ({unread[0][1][:100]!r}). Explain them by themselves, or remove them"


def _ranges(numbers: Iterable[int]) -> Iterator[str]:
    first = last = 0
    for number in [*numbers, 0]:
        if first and number != last + 1:
            yield f"line {first}" if first == last else f"lines {first} to {last}"
        first, last = (first if first and number == last + 1 else number), number
