"""The pair tests of eight hosts whose network is really spoiled: `python tests/benchmarks/namespace_pairs.py`, as root.

Network namespaces, real TCP, and the ranks of one job. A first, healthy run says how fast the pairs are usually, and a slow host or
pair is held to a share of that. For each world it runs the pair tests so often, each time with another host, and judges them by the
local policy. A table of all answers goes to stdout. `--world NAME [NAME ...]` (all), `--runs N` (10), `--lines FILE` appends a JSON
line for each run, `--rows FILE` the rows of each run as well, for a recording.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from checks.documents.report import plain  # noqa: E402 - as a script, this file's own folder is known
from checks.facts.builtin import builtin  # noqa: E402
from checks.judge.verdict import decide  # noqa: E402
from checks.model import Answer, Cause, Finding, Level, Report, Verdict  # noqa: E402
from tasks.launchers.local import network as local_network  # noqa: E402
from tests.survival.faulty_network import heal, lose, shape, slow_link  # noqa: E402
from tests.survival.test_culprit import NODES, PAIRS, Job, job  # noqa: E402
from tests.survival.world import LOCAL  # noqa: E402

# The host of the process that congests another host's link; it has no rank.
SENDER = NODES
CONGESTED_AFTER_S, CONGESTED_S, STREAMS = 1.0, 5.0, 8
BURN = "while True: pass"
SINK = """
import socket, threading
def drain(one):
    while one.recv(1 << 16): pass
server = socket.create_server(("", 5001))
print("ready", flush=True)
while True: threading.Thread(target=drain, args=(server.accept()[0],), daemon=True).start()
"""
SEND = """
import socket, sys, threading
def send(address):
    with socket.create_connection((address, 5001)) as one:
        while True: one.sendall(bytes(1 << 16))
for _ in range(int(sys.argv[2])): threading.Thread(target=send, args=(sys.argv[1],)).start()
"""


# What is done to the network of this name, around this host, where pairs usually reach so many Mbit/s.
Spoil = Callable[[str, int, float], None]


@dataclass(frozen=True)
class Spoiled:
    """What a world does to host number `host`, which parts it makes bad, and what runs beside the ranks."""

    spoil: Spoil = lambda name, host, usual: None
    bad: Callable[[int], frozenset[str]] = lambda host: frozenset()
    burners: int = 0
    congested: bool = False


def _node(host: int) -> frozenset[str]:
    return frozenset({f"node-{host}"})


def _other(host: int, by: int = 1) -> int:
    return (host + by) % NODES


def _pair(host: int) -> frozenset[str]:
    return frozenset({"node-{}<->node-{}".format(*sorted((host, _other(host))))})


def _slow_host(share: float) -> Spoil:
    return lambda name, host, usual: shape(name, host, f"{usual * share:.0f}mbit")


def _slow_pair(share: float) -> Spoil:
    return lambda name, host, usual: slow_link(name, host, _other(host), f"{usual * share:.0f}mbit")


def _lossy(share: float) -> Spoil:
    return lambda name, host, usual: lose(name, host, share)


def _two(name: str, host: int, usual: float) -> None:
    _slow_pair(0.1)(name, host, usual)
    _slow_host(0.1)(name, _other(host, 4), usual)


WORLDS: Mapping[str, Spoiled] = {
    "healthy": Spoiled(),
    "healthy beside load 2": Spoiled(burners=2),
    "host at 80 %": Spoiled(_slow_host(0.8), _node),
    "host at 10 %": Spoiled(_slow_host(0.1), _node),
    "pair at 80 %": Spoiled(_slow_pair(0.8), _pair),
    "pair at 10 %": Spoiled(_slow_pair(0.1), _pair),
    "host loses 1 %": Spoiled(_lossy(0.01), _node),
    "host loses 3 %": Spoiled(_lossy(0.03), _node),
    "host loses 5 %": Spoiled(_lossy(0.05), _node),
    "congestion for 5 s": Spoiled(congested=True),
    "pair and host at 10 %": Spoiled(_two, lambda host: _pair(host) | _node(_other(host, 4))),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    asked = _parser().parse_args(argv)
    lines = []
    with tempfile.TemporaryDirectory() as folder, job(Path(folder), NODES, spare=1) as ranks:
        usual = _usual_mbit(ranks.tournament())
        for world in asked.world:
            for run in range(asked.runs):
                line, report = _run(ranks, world, run, usual)
                lines.append(line)
                if asked.lines:
                    _append(asked.lines, line)
                if asked.rows:
                    _append(asked.rows, {**line, "rows": [plain(row) for row in report.observations]})
    print("\n".join(_table(lines)))
    return 0


def _usual_mbit(report: Report) -> float:
    """The median of all tests of a healthy network, in Mbit/s."""
    found: list[float] = []
    for row in report.observations:
        values = row.metrics["bandwidth_gbps"]
        assert isinstance(values, tuple)
        found += [value for value in values if isinstance(value, float)]
    return median(found) * 8000


def _run(ranks: Job, world: str, run: int, usual: float) -> tuple[dict[str, object], Report]:
    how, host = WORLDS[world], (run + 1) % NODES
    with ExitStack() as stack:
        for each in range(NODES):
            stack.callback(heal, ranks.network, each)
        how.spoil(ranks.network, host, usual)
        for _ in range(how.burners):
            stack.enter_context(_started((sys.executable, "-c", BURN)))
        if how.congested:
            stack.enter_context(_congested(ranks.network, host))
        begun = time.monotonic()
        report = ranks.tournament(timeout_s=300.0)
        seconds = time.monotonic() - begun
    verdict = decide(report, replace(LOCAL, checks={PAIRS: LOCAL.checks[PAIRS]}), builtin())
    found = [one for one in verdict.findings if one.check == PAIRS]
    line: dict[str, object] = {
        "world": world,
        "run": run,
        "bad": sorted(how.bad(host)),
        "seconds": round(seconds, 1),
        "answer": _answer(found).value,
        "refused": sorted(_named(verdict, Level.FAIL)),
        "warned": sorted(_named(verdict, Level.WARN)),
        "found": [(one.level.value, one.cause.value, one.subject, one.message) for one in found],
    }
    print(json.dumps(line), file=sys.stderr, flush=True)
    return line, report


def _answer(found: Sequence[Finding]) -> Answer:
    """What a gate would answer if everything else were well."""
    fails = {one.cause for one in found if one.level is Level.FAIL}
    if not fails:
        return Answer.GO
    return Answer.CANNOT_TELL if fails == {Cause.EVIDENCE} else Answer.NO_GO


def _named(verdict: Verdict, level: Level) -> set[str]:
    return {one.subject for one in verdict.findings if (one.check, one.level) == (PAIRS, level)}


@contextmanager
def _started(argv: tuple[str, ...], ready: bool = False) -> Iterator[None]:
    process = subprocess.Popen(argv, stdout=subprocess.PIPE)
    try:
        if ready:
            assert process.stdout is not None
            process.stdout.readline()
        yield
    finally:
        process.kill()
        process.wait()


@contextmanager
def _congested(name: str, host: int) -> Iterator[None]:
    """From a second after the beginning on, another host's streams share this host's link for five seconds."""
    address = local_network.find(name, NODES + 1).addresses[host]
    within = ("ip", "netns", "exec")
    with _started((*within, f"{name}-{host}", sys.executable, "-c", SINK), ready=True):

        def congest() -> None:
            time.sleep(CONGESTED_AFTER_S)
            argv = (*within, f"{name}-{SENDER}", sys.executable, "-c", SEND, address, str(STREAMS))
            with _started(argv):
                time.sleep(CONGESTED_S)

        thread = threading.Thread(target=congest)
        thread.start()
        yield
        thread.join()


def _table(lines: Sequence[Mapping[str, object]]) -> Iterator[str]:
    """A row for each world: its answers, how often all that is bad is named, and how often something good is."""
    yield "| world | runs | answers | named | only in a warning | a good part refused | a good part in a warning | seconds |"
    yield "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |"
    for world in dict.fromkeys(str(line["world"]) for line in lines):
        mine = [line for line in lines if line["world"] == world]
        answers = Counter(str(line["answer"]) for line in mine)
        sets = [[_parts(line[key]) for key in ("bad", "refused", "warned")] for line in mine]
        named = sum(bool(bad) and bad <= refused for bad, refused, _ in sets)
        warned = sum(
            bool(bad) and not bad <= refused and bad <= refused | also for bad, refused, also in sets
        )
        wrong = sum(bool(refused - bad - {"cluster"}) for bad, refused, _ in sets)
        aside = sum(bool(also - bad - {"cluster"}) for bad, _, also in sets)
        has_bad = any(bad for bad, _, _ in sets)
        longest = max(float(str(line["seconds"])) for line in mine)
        cells = (
            world,
            str(len(mine)),
            ", ".join(f"{count} {answer}" for answer, count in answers.most_common()),
            *((str(named), str(warned)) if has_bad else ("-", "-")),
            str(wrong),
            str(aside),
            f"{longest:g}",
        )
        yield f"| {' | '.join(cells)} |"


def _parts(value: object) -> frozenset[str]:
    """Subjects without the ranks: these hosts have one rank each."""
    assert isinstance(value, list)
    return frozenset("<->".join(end.partition("/")[0] for end in str(one).split("<->")) for one in value)


def _append(path: Path, line: object) -> None:
    with path.open("a") as file:
        file.write(json.dumps(line) + "\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description="What the pair tests find in a network that is really spoiled."
    )
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--world", nargs="+", choices=tuple(WORLDS), default=tuple(WORLDS))
    parser.add_argument("--lines", type=Path)
    parser.add_argument("--rows", type=Path)
    return parser


if __name__ == "__main__":
    sys.exit(main())
