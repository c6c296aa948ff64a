"""nccl.transport and nccl.tests: logs that prove a fallback, or nothing; outputs of nccl-tests that lie or end early.

Logs and outputs are tests/recordings/nccl, constructed by the project.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from unittest import mock

from checks.explain.reading import OutputKind
from checks.model import Cause, Level, Observation, Profile
from checks.probes.collectives import nccl_log
from checks.probes.collectives.nccl_tests import tests as perf
from checks.probes.collectives.transport import transport
from tests.corpus.case import Case, Observe, Recording, Sort, cases_of, context, observed, recordings_of
from tests.fakes.tools import Reply, install, on_path
from tests.public.inputs import all_reduce

recorded = recordings_of("nccl")


# ---------------------------------------------------------------------------------------------- the transport


def logging_to(path: str) -> AbstractContextManager[object]:
    """NCCL's variable, as the ranks' stage sets it."""
    return mock.patch.dict(os.environ, {"NCCL_DEBUG_FILE": path})


def log_as_own(name: str, process: str) -> str:
    """The recording's log with one of its processes as this one."""
    return recorded(name).replace(f"{process}:", f"{nccl_log.process()}:")


def logged(
    text: Callable[[], str], instance_type: str = "p5.4xlarge", nodes: int = 2, file: str = "nccl.%h.%p.log"
) -> Observe:
    """The check over this log of its process."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        host, pid = nccl_log.process().split(":")
        (tmp_path / f"nccl.{host}.{pid}.log").write_text(text(), encoding="utf-8")
        made = context(transport, tmp_path, instance_type, nodes)
        with logging_to(str(tmp_path / file)):
            return observed(transport, made, "node-0/rank-0")

    return observe


def efa(change: Callable[[str], str] = lambda text: text) -> Callable[[], str]:
    """The log of a healthy rank of two nodes, changed."""
    return lambda: change(log_as_own("log_efa.txt", "ip-10-1-8-3:2201"))


def without(pattern: str) -> Callable[[str], str]:
    """The text without the lines that match."""
    return lambda text: "".join(line for line in text.splitlines(True) if not re.search(pattern, line))


def other(name: str, process: str = "ip-10-1-8-3:2201") -> Callable[[], str]:
    """The log of another recording."""
    return lambda: log_as_own(name, process)


def after_another_run(text: Callable[[], str], earlier: Callable[[], str], instance_type: str) -> Observe:
    """The check in a folder where an earlier run of two nodes left its log."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        old = tmp_path / f"nccl.{nccl_log.process().split(':')[0]}.1.log"
        old.write_text(earlier(), encoding="utf-8")
        os.utime(old, (1e9, 1e9))
        return logged(text, instance_type, 2)(tmp_path)

    return observe


def drifted(tmp_path: Path) -> Sequence[Observation]:
    """Three nodes' ranks, of which one has another NCCL."""
    texts = [efa(), efa(), efa(lambda text: text.replace("2.27.5", "2.26.2"))]
    rows = [logged(text)(tmp_path)[0] for text in texts]
    return [replace(row, subject=f"node-{index}/rank-{index}") for index, row in enumerate(rows)]


def transported(
    sort: Sort, name: str, observe: Observe, names: str = "", kind: str = "p5.4xlarge", **of: object
) -> Case:
    """A case of the transport."""
    if sort is Sort.FAULTY:
        of = {"cause": Cause.CONFIGURATION, **of}
    nodes = of.pop("nodes", 1)
    return Case("nccl.transport", sort, name, observe, kind, nodes, names=names, **of)  # type: ignore[arg-type]


def of_transport() -> Iterator[Case]:
    """What the log proves."""
    case, nvlink = transported, other("log_nvlink.txt", "ip-10-1-8-9:703")
    shm = other("log_shm.txt", "ip-10-1-8-9:703")
    yield case(Sort.HEALTHY, "efa", logged(efa()))
    yield case(Sort.HEALTHY, "nvlink", logged(nvlink, "p5.48xlarge", 1), kind="p5.48xlarge")
    gb200 = "p6e-gb200.36xlarge"
    yield case(Sort.HEALTHY, "nvlink_between_nodes", logged(efa(mnnvl), gb200, 2), kind=gb200)
    socket = other("log_socket.txt")
    yield case(Sort.HEALTHY, "tcp_without_efa", logged(socket, "g5.xlarge", 2), kind="g5.xlarge")
    yield case(Sort.FAULTY, "socket_fallback", logged(socket), "carries 4 channels")
    yield case(Sort.FAULTY, "libfabric_over_tcp", logged(other("log_tcp_provider.txt")), "carries 4 channels")
    yield case(Sort.FAULTY, "no_gpudirect", logged(other("log_no_gpudirect.txt")), "GPUDirect switched off")
    some = efa(lambda text: text.replace("/GDRDMA", "", 1))
    yield case(Sort.FAULTY, "gpudirect_on_some", logged(some), "1 channel without GPUD", level=Level.WARN)
    yield case(Sort.FAULTY, "shared_memory", logged(shm, "p5.48xlarge", 1), "without NVLink", kind="p5.48xlarge")  # fmt: skip
    few = efa(lambda text: text.replace("found 1 nics", "found 15 nics"))
    yield case(Sort.FAULTY, "nics_missing", logged(few, "p5en.48xlarge", 2), "does not use 1 netw", kind="p5en.48xlarge")  # fmt: skip
    yield case(Sort.FAULTY, "versions_drift", drifted, "2.26.2")
    warned = efa(lambda text: text.replace("NCCL INFO Connected", "misc/socket.cc:9 NCCL WARN Connected", 1))
    yield case(Sort.FAULTY, "warned", logged(warned), "has 1 warning", level=Level.WARN)
    yield case(Sort.FAULTY, "sockets_on_a_t4", logged(socket, "g4dn.metal", 2), "carries 4 channels", kind="g4dn.metal")  # fmt: skip


def of_untold_transport() -> Iterator[Case]:
    """What the log does not prove."""
    case, nvlink = transported, other("log_nvlink.txt", "ip-10-1-8-9:703")
    yield case(Sort.UNMEASURABLE, "no_log", logged(efa(), file="elsewhere.%p.log"))
    yield case(Sort.UNMEASURABLE, "terminal", logged(efa(), file=""))
    yield case(Sort.UNMEASURABLE, "empty", logged(lambda: ""))
    yield case(Sort.UNMEASURABLE, "garbage", logged(lambda: "\x00\x01 NCCL \n" * 40))
    yield case(Sort.UNMEASURABLE, "another_process", logged(lambda: recorded("log_efa.txt")))
    yield case(Sort.UNMEASURABLE, "cut_in_init", logged(efa(without("Init COMPLETE|Destroy|Connected|via NET"))))  # fmt: skip
    yield case(Sort.UNMEASURABLE, "no_channels", logged(efa(without(" via "))))
    yield case(Sort.UNMEASURABLE, "level_warn", logged(efa(without("INFO"))))
    yield case(Sort.UNMEASURABLE, "no_way_out", logged(nvlink, "p5.48xlarge", 2), kind="p5.48xlarge")
    stale = after_another_run(nvlink, lambda: recorded("log_efa.txt"), "p5.48xlarge")
    yield case(Sort.UNMEASURABLE, "no_way_out_but_in_an_old_log", stale, kind="p5.48xlarge")
    yield case(Sort.UNMEASURABLE, "no_provider", logged(efa(without("Selected provider"))))


def mnnvl(text: str) -> str:
    """Between nodes over NVLink."""
    text = text.replace("found 1 nics", "found 4 nics")
    return re.sub(r"\[(?:send|receive)\] via NET/\S+ \S+", "via P2P/MNNVL", text)


# ---------------------------------------------------------------------------------------------- nccl-tests


def told(reply: Reply, timeout_s: float = 20.0, **options: float) -> Observe:
    """The check with a fake all_reduce_perf."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        install(tmp_path / "bin", "all_reduce_perf", [reply])
        made = context(perf, tmp_path, options={"programs": 1, **options})
        with on_path(tmp_path / "bin"):
            return observed(perf, replace(made, timeout_s=timeout_s))

    return observe


def printed(
    name: str, change: Callable[[str], str] = lambda text: text, code: int = 0, **of: object
) -> Observe:
    """The check, to which the program prints a recording."""
    return told(Reply(stdout=change(recorded(name)), code=code, **of))  # type: ignore[arg-type]


def at_rate(gbps: float) -> Observe:
    """The check, to which the program prints a run of eight GPUs whose algorithm bandwidth rises to this."""
    return told(Reply(all_reduce(rate_gbps=gbps)))


def installed(names: Sequence[str]) -> Observe:
    """The check in profile deep, with some of the programs."""
    outputs = {"sendrecv_perf": "sendrecv_2.17.txt", "alltoall_perf": "alltoall_2.11.txt"}

    def observe(tmp_path: Path) -> Sequence[Observation]:
        for name in names:
            install(tmp_path / "bin", name, [Reply(recorded(outputs.get(name, "all_reduce_2.11.txt")))])
        with on_path(tmp_path / "bin", alone=True):
            return observed(perf, context(perf, tmp_path, profile=Profile.DEEP, options={"programs": 5}))

    return observe


def in_one_gpu(tmp_path: Path) -> Sequence[Observation]:
    """The check where a node has one GPU."""
    return observed(perf, context(perf, tmp_path, "p5.4xlarge", 2))


def of_tests() -> Iterator[Case]:
    """What the programs print, and how they end."""

    case = cases_of("nccl.tests")
    a100 = "all_reduce_2.11.txt"
    yield case(Sort.HEALTHY, a100, printed(a100), instance_type="p4de.24xlarge")
    for name in ("all_reduce_2.16.txt", "all_reduce_2.17.txt"):
        yield case(Sort.HEALTHY, name, printed(name))
    known = {"cause": Cause.CONFIGURATION, "names": "value (441.6 GB/s)"}
    half_rate = {**known, "names": "50 % of the expected"}
    yield case(Sort.FAULTY, "an_a100_that_is_declared_as_a_p5", printed(a100), **half_rate)
    yield case(Sort.FAULTY, "half_of_the_known_rate", at_rate(125.0), **known)
    yield case(Sort.FAULTY, "a_sixth_below_the_known_rate", at_rate(217.0), **known, level=Level.WARN)
    above = {"cause": Cause.EVIDENCE, "names": "the measurement is wrong"}
    yield case(Sort.FAULTY, "faster_than_nvlink", at_rate(600.0), **above)
    yield case(Sort.UNMEASURABLE, "no_baseline", at_rate(250.0), instance_type="p6-b200.48xlarge")
    wrong = "wrong_2.16.txt"
    yield case(Sort.FAULTY, "wrong", printed(wrong, code=7), "wrong_elements computes wrong results (1,")
    yield case(Sort.FAULTY, "wrong_old_exit_0", printed(wrong), "results (3 rows out of bounds)")
    yield case(Sort.FAULTY, "wrong_without_footer", printed(wrong, without("Avg bus")), "(1,572,871")
    failed = r"values : 0 OK", "values : 2 FAILED"
    yield case(Sort.FAULTY, "footer_alone", printed("all_reduce_2.11.txt", lambda text: re.sub(*failed, text)),
        "results (2 rows out of bounds)")  # fmt: skip
    other = {"cause": Cause.CONFIGURATION}
    yield case(Sort.FAULTY, "crawls", printed("crawls_2.16.txt"), "busbw_in_place_gbps rea", **other)
    half = "half_2.16.txt"
    yield case(Sort.FAULTY, "half_of_the_gpus", printed(half), "all_reduce_perf ran with 4 ranks", **other)
    slow = r"(Avg bus bandwidth    : \S+) *", r"\1 FAILED"
    below = printed("all_reduce_2.17.txt", lambda text: re.sub(*slow, text), code=7)
    yield case(Sort.FAULTY, "below_its_own_minimum", below, "below_own_minimum", **other)
    few = installed(("all_reduce_perf", "alltoall_perf", "sendrecv_perf"))
    yield case(Sort.FAULTY, "two_programs_missing", few, "lacks 2 programs", level=Level.WARN, **other)
    yield from (case(Sort.UNMEASURABLE, name, observe) for name, observe in unmeasurable().items())


def unmeasurable() -> dict[str, Observe]:
    """Outputs that prove nothing."""
    sound = "all_reduce_2.17.txt"
    return {
        "not_installed": installed(()),
        "hangs": told(Reply(seconds=3600), timeout_s=0.4),
        "hangs_after_rows": told(Reply(recorded(sound), part=0.6, seconds=3600), timeout_s=0.4),
        "cut": told(Reply(recorded(sound), part=0.6)),
        "killed": told(Reply(recorded(sound), part=0.5, signal=9)),
        "silent": told(Reply()),
        "garbage": told(Reply("\x00\xff#\n" * 50)),
        "another_tool": told(Reply("all well\n")),
        "no_footer": printed(sound, without("Out of bounds")),
        "no_average": printed(sound, without("Avg bus")),
        "no_header": printed(sound, without("nThread")),
        "no_columns": printed(sound, without("size +count")),
        "row_deleted": printed(sound, without(r"^ +16777216 ")),
        "rank_deleted": printed(sound, without("Rank  7")),
        "not_concluded": printed(sound, without("concluded")),
        "nan": printed(sound, lambda text: re.sub(r"(-1 +\S+ +)\S+", r"\1nan", text, count=1)),
        "exit_3": printed(sound, code=3),
        "cuda_failure": told(
            Reply(stderr="node-a: Test CUDA failure common.cu:1304 'CUDA-capable device(s) is/are busy'\n", code=2)),
        "fewer_gpus_than_asked": told(Reply("Invalid number of GPUs: 8 requested but only 4 were found.\n", code=1)),
        "unverified": printed("unverified_2.16.txt"),
        "nccl_warned": printed(sound, lambda text: text + "node-a:1:1 [0] socket.c:4 NCCL WARN Accept failed\n"),
        "one_gpu_a_node": in_one_gpu,
    }  # fmt: skip


CASES: list[Case] = [*of_transport(), *of_untold_transport(), *of_tests()]

COMMON = {
    r"^(?:\S+:)?\s*#?\s*$": "an empty line",
    r"SOURCE": "the recording's own header",
    r"Using devices": "a heading",
    r"out-of-place": "a heading: the columns are told by their names",
    r"\(elements\)": "the columns' units, which never change",
    r"nThread": "without it the footer's average tells that every row is there, and the bandwidths how many ranks",
}  # fmt: skip
# The header of each rank, and what was asked for, is told by the rest: sizes by the rows, ranks by the bandwidths.
LOGGED = {
    r"SOURCE": "the recording's own header",
    r"cudaDriverVersion|NCCL version|Initializing aws-ofi-nccl|Using Libfabric": "versions, of which no rule speaks here",
    r"Using network": "what NCCL chose; the channels show what it used",
    r"Init START": "its completion is there",
    r"nNodes|Channel \d+/\d+ : +\d+ |coll channels|Connected all rings": "the communicator's shape, which the channels show",
    r"Destroy COMPLETE": "a job that goes on is healthy so far, which is said",
}  # fmt: skip
NVLINK = {
    r"SOURCE": "the recording's own header",
    r"NCCL version": "a version, of which no rule speaks here",
    r"Selected provider|Using network": "of the network, which one node does not use",
    r"Init START": "its completion is there",
    r"NVLS multicast|nNodes": "the communicator's shape, which the channels show",
    r"Destroy COMPLETE": "a job that goes on is healthy so far, which is said",
    r"via P2P": "one of the rank's two channels: NCCL announces no number, and the other goes the same way",
}
VERSION = {r"nccl-tests version": "the output begins and concludes by name, whatever its version"}


def printed_by(name: str, level: Level, **of: object) -> Recording:
    """An output of nccl-tests."""
    return Recording(f"nccl/{name}", OutputKind.NCCL_TESTS, level, **of)  # type: ignore[arg-type]


RECORDINGS = [
    printed_by("all_reduce_2.11.txt", Level.PASS, instance_type="p4de.24xlarge", irrelevant=COMMON),
    printed_by("alltoall_2.11.txt", Level.FAIL),
    printed_by("all_reduce_2.16.txt", Level.PASS, instance_type="p5.48xlarge", irrelevant=COMMON),
    printed_by("all_reduce_2.17.txt", Level.PASS, instance_type="p5e.48xlarge", irrelevant={**COMMON, **VERSION}),
    printed_by("sendrecv_2.17.txt", Level.FAIL),  # no instance type, so its rate is not judged
    printed_by("sendrecv_2.17.txt", Level.WARN, instance_type="p5e.48xlarge"),  # nothing is known of its rate
    printed_by("two_nodes_2.17.txt", Level.PASS, instance_type="p5en.48xlarge", nodes=2, irrelevant={**COMMON, **VERSION}),
    printed_by("two_nodes_2.17.txt", Level.FAIL),
    printed_by("socket_fallback_2.17.txt", Level.FAIL, instance_type="p6-b300.48xlarge", nodes=2),
    printed_by("slow_network_2.17.txt", Level.FAIL, instance_type="p6-b300.48xlarge", nodes=2),
    printed_by("wrong_2.16.txt", Level.FAIL),
    printed_by("unverified_2.16.txt", Level.FAIL),
    printed_by("one_rank_2.16.txt", Level.FAIL),
    printed_by("crawls_2.16.txt", Level.FAIL, instance_type="p5.48xlarge"),
    printed_by("half_2.16.txt", Level.FAIL, instance_type="p5.48xlarge"),
    Recording("nccl/log_efa.txt", OutputKind.NCCL_LOG, Level.PASS, "p5.4xlarge", 2, LOGGED),
    Recording("nccl/log_nvlink.txt", OutputKind.NCCL_LOG, Level.PASS, "p5.48xlarge", 1, NVLINK),
    Recording("nccl/log_socket.txt", OutputKind.NCCL_LOG, Level.FAIL, "p5.4xlarge", 2),
    Recording("nccl/log_tcp_provider.txt", OutputKind.NCCL_LOG, Level.FAIL, "p5.4xlarge", 2),
    Recording("nccl/log_no_gpudirect.txt", OutputKind.NCCL_LOG, Level.FAIL, "p5.4xlarge", 2),
    Recording("nccl/log_shm.txt", OutputKind.NCCL_LOG, Level.FAIL, "p5.48xlarge", 1),
]  # fmt: skip
