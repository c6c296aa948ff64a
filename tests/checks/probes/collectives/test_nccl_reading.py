"""`prelaunch explain` on outputs of nccl-tests and NCCL: what is read, and what is left unread."""

from __future__ import annotations

import pytest

from checks.explain.reading import Complete, Garbled, OutputKind, ReadOptions
from checks.model import Answer
from checks.probes.collectives import nccl_reading
from tests.corpus.case import declared
from tests.corpus.judging import explained
from tests.corpus.nccl_cases import recorded, without
from tests.public.inputs import all_reduce

B300 = ReadOptions(declared("p6-b300.48xlarge", 2))
SMALL = without(r"^ +(268435456|536870912|1073741824|2147483648|134217728) ")(recorded("two_nodes_2.17.txt"))
SMALL_P5, TWO_P5 = ReadOptions(declared("p5.4xlarge", 2)), ReadOptions(declared("p5.48xlarge", 2))
P5, P5EN = ReadOptions(declared("p5.48xlarge", 1)), ReadOptions(declared("p5en.48xlarge", 2))


def test_wrong_results_rest_on_their_rows() -> None:
    """Each with its number."""
    part = nccl_reading.read(recorded("wrong_2.16.txt"), ReadOptions()).checks[0]

    assert [20, 22] == [int(line.partition(":")[0]) for line in part.lines["wrong_elements"].splitlines()]
    assert "FAILED" in part.lines["out_of_bounds"]


def test_a_slow_network_is_held_to_its_type() -> None:
    """Each node receives a whole message for each that is summed: 7.9 GB/s is 63 of 6400 Gbit/s."""
    parts = nccl_reading.read(recorded("slow_network_2.17.txt"), B300).checks
    network = next(part for part in parts if part.check == "nccl.inter_node")

    proven = network.metrics["proven_gbit_s"]
    assert isinstance(proven, float) and 60 < proven < 65


def test_nccls_lines_in_the_same_file_are_read() -> None:
    """They name the transport."""
    reading = nccl_reading.read(recorded("socket_fallback_2.17.txt"), B300)
    transport = next(part for part in reading.checks if part.check == "nccl.transport")

    assert OutputKind.NCCL_TESTS is reading.output_kind
    assert 2 == transport.metrics["fallback_channels"]
    assert "NET/Socket" in transport.lines["fallback_channels"]


@pytest.mark.parametrize(
    ("chosen", "fallback"),
    [
        ("NET/OFI Selected Provider is efa (found 32 nics)\nNCCL INFO Using network AWS Libfabric", None),
        ("NET/OFI Selected Provider is tcp;ofi_rxm (found 32 nics)\nNCCL INFO Using network Libfabric", 1),
        ("Using network Socket", 1),
    ],
)
def test_the_line_that_names_the_provider_is_judged_without_those_of_channels(
    chosen: str, fallback: int | None
) -> None:
    """Two lines of the log above the table, as `grep "Selected Provider is"` shows them; the title names the provider."""
    text = f"NCCL INFO {chosen}\n{recorded('two_nodes_2.17.txt')}"
    reading = nccl_reading.read(text, TWO_P5)
    (transport,) = (part for part in reading.checks if part.check == "nccl.transport")

    assert fallback == transport.metrics.get("fallback_channels")
    assert fallback is None or chosen.partition("\n")[0] in transport.lines["fallback_channels"]
    assert chosen.split(" (found")[0].rpartition(" ")[2] in reading.title


def test_too_few_devices_are_seen_without_the_lines_of_channels() -> None:
    """The provider's line says how many it found."""
    text = "NCCL INFO NET/OFI Selected Provider is efa (found 31 nics)\n" + recorded("two_nodes_2.17.txt")
    parts = nccl_reading.read(text, TWO_P5).checks

    assert 1 in [part.metrics.get("nics_missing") for part in parts]


@pytest.mark.parametrize(
    ("text", "asked", "whole"),
    [
        (recorded("slow_network_2.17.txt"), ReadOptions(), True),
        (SMALL, P5EN, True),
        (recorded("all_reduce_2.17.txt") + "n1: Test NCCL failure common.cu:958 'unhandled system error'\n", P5, True),
        (recorded("all_reduce_2.17.txt").partition("# Out of bounds")[0], P5, False),
        (recorded("log_efa.txt"), ReadOptions(declared("p5.4xlarge", 4)), True),
        (without("via")(recorded("log_efa.txt")), SMALL_P5, True),
        (without("Init COMPLETE")(recorded("log_efa.txt")), SMALL_P5, False),
    ],
)  # fmt: skip
def test_a_text_that_is_whole_is_not_asked_for_as_a_whole(text: str, asked: ReadOptions, whole: bool) -> None:
    """What is missing in a whole text is something else, and the sentence says what to do about it."""
    unread = nccl_reading.read(text, asked).unread

    assert unread and whole is all(isinstance(why, Complete) for why in unread), unread


def test_the_log_of_one_process_of_two_is_half_of_a_proof() -> None:
    """The other may have fallen back."""
    half = without("ip-10-1-8-40:")(recorded("log_efa.txt"))
    unread = nccl_reading.read(half, SMALL_P5).unread

    assert any(why.startswith("only 1 of 2 ranks are initialised") for why in unread)


def test_a_log_that_goes_on_is_healthy_so_far() -> None:
    """That later connections are unknown is said."""
    reading = nccl_reading.read(without("Destroy")(recorded("log_efa.txt")), SMALL_P5)

    assert () == reading.unread
    assert any("do not end in this log" in why for why in reading.left_out)


@pytest.mark.parametrize(
    ("line", "peer"),
    [
        ("NCCL INFO comm 0x55d8db250140 rank 0 nranks 2 cudaDev 0 busId 53000 - Abort COMPLETE", ""),
        ("NCCL WARN NET/OFI Request 0x7f completed with error. RC: 103. Error: 4126 (Unresponsive receiver (x) Peer EFA addr: "
         "fi_addr_efa://[fe80::1]:0:8 Peer host id: i-0aa). Completed length: 0", "i-0aa"),
        ("NCCL WARN NET/OFI Request 0x7f completed with error. RC: 107. Error: 4103 (Flushed). Completed length: 0", ""),
        ("NCCL WARN NET/IB : Got completion from peer 10.0.0.2<36987> with status=12 opcode=0 vendor err 129", "10.0.0.2<36987>"),
        ("NCCL WARN socketProgress: Connection closed by remote peer node-b.local<51234>", "node-b.local<51234>"),
        ("NCCL WARN Call to recv from 10.0.0.9<40001> failed : Connection reset by peer", "10.0.0.9<40001>"),
        ("NCCL WARN Cuda failure 719 'unspecified launch failure'", ""),
        ("NCCL WARN Call to ibv_reg_mr failed", ""),
    ],
)  # fmt: skip
def test_an_error_of_the_transport_is_no_go_and_names_the_peer(line: str, peer: str) -> None:
    """Whether the log ends as it should or not."""
    for text in (recorded("log_efa.txt"), without("Destroy")(recorded("log_efa.txt"))):
        verdict = explained(f"{text}ip-10-1-8-3:2201:2301 [0] {line}\n", declared("p5.4xlarge", 2))
        (said,) = [finding for finding in verdict.findings if finding.check == "nccl.job"]

        assert Answer.NO_GO is verdict.answer
        assert peer in said.message + said.evidence
        assert "ip-10-1-8-3:2201" in said.message + " ".join(said.elements)


@pytest.mark.parametrize(
    "line",
    [
        "ip-10-1-8-3:2201:2301 [0] NCCL INFO Call to bind failed: Address already in use",
        "ip-10-1-8-3:2201:2301 [0] NCCL INFO RAS failed to establish a listening socket at localhost<28028>",
        "ip-10-1-8-3:2201:2301 [0] NCCL INFO Channel 02/0 : 0[0] -> 1[0] via P2P/CUMEM",
        "step 100 loss 2.31",
        "[rank0]: epoch 3, iteration 250: lr 1e-4",
        "W1120 10:00:00.000000 7 torch/distributed/run.py:793] *****************************************",
    ],
)
def test_nccl_log_of_a_healthy_training_is_a_go(line: str) -> None:
    """Of a job that goes on and of one that ended."""
    for text in (recorded("log_efa.txt"), without("Destroy")(recorded("log_efa.txt"))):
        verdict = explained(f"{text}{line}\n", declared("p5.4xlarge", 2))

        assert Answer.GO is verdict.answer, [finding.message for finding in verdict.findings]


@pytest.mark.parametrize(
    "line", ["step 100 loss nan", "RuntimeError: CUDA error", "iteration 7 failed", "Killed"]
)
def test_another_line_of_a_training_is_not_read(line: str) -> None:
    """It may be why the training ends."""
    text = f"{recorded('log_efa.txt')}{line}\n"
    assert Answer.CANNOT_TELL is explained(text, declared("p5.4xlarge", 2)).answer


def test_a_timed_out_collective_names_its_victims() -> None:
    """Suspect are those that are silent."""
    line = (
        "[rank1]:[E810 ProcessGroupNCCL.cpp:683] [Rank 1] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=78, OpType=BROADCAST, NumelIn=80, NumelOut=80, Timeout(ms)=600000) ran for 600096 ms\n"
    )
    unread = nccl_reading.read(recorded("log_efa.txt") + line, SMALL_P5).unread

    reason = (
        "ranks 1 timed out waiting for other ranks in BROADCAST. Suspect the ranks that are not in this list"
    )
    assert (reason,) == unread


def test_a_number_that_is_no_version_of_nccl_is_broken() -> None:
    """Lines of NCCL that say nothing of a transport prove nothing."""
    with pytest.raises(Garbled, match="none that shows what carries the data"):
        nccl_reading.read("a:1:2 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.4<0>\n", ReadOptions())


def of_one_process(rank: int, rate: float = 233.0, ranks: int = 16) -> str:
    """What one of 16 processes writes that each list their own rank alone, as old builds and per-rank log files do."""
    sizes = {size * (1 << 20): rate for size in (128, 256, 512, 1024)}
    text = all_reduce(hosts=("node-a", "node-b")[: ranks // 8], rates=sizes)
    return "".join(
        line
        for line in text.splitlines(keepends=True)
        if "# " not in line[:2] or " Rank " not in line or f"Rank {rank:2d} " in line
    )


@pytest.mark.parametrize("rank", [0, 5])
def test_the_output_of_one_rank_of_many_is_read(rank: int) -> None:
    """Bus over algorithm bandwidth says how many took part; how they were placed the declaration says."""
    reading = nccl_reading.read(of_one_process(rank), TWO_P5)
    part = reading.checks[0]

    assert () == reading.unread
    assert ((16,), (0,)) == (part.metrics["ranks"], part.metrics["ranks_missing"])
    assert nccl_reading.read(of_one_process(rank), ReadOptions()).unread


def test_rank_count_below_the_declared_one_is_reported_missing() -> None:
    """Eight took part, sixteen are declared."""
    part = nccl_reading.read(of_one_process(0, 250.0, 8), TWO_P5).checks[0]

    assert (8,) == part.metrics["ranks_missing"]


@pytest.mark.parametrize(
    ("name", "options", "remedy"),
    [
        ("two_nodes_2.17.txt", P5, "Give --nodes 2"),
        ("log_socket.txt", P5, "Give the log of a run on all GPUs of each node"),
        ("log_efa.txt", ReadOptions(declared("p5.4xlarge", 1)), "Give --nodes 2"),
    ],
)
def test_output_of_another_number_of_nodes_is_not_judged_and_says_what_to_type(
    name: str, options: ReadOptions, remedy: str
) -> None:
    """Ranks that are too many are no ranks that are missing, and no number of nodes is asked for that there cannot be."""
    reading = nccl_reading.read(recorded(name), options)

    assert any(remedy == str(reason).partition(". ")[2] for reason in reading.unread)
    assert "ranks_missing" not in reading.checks[0].metrics


def test_a_listing_that_lost_a_rank_is_no_listing_of_one_process() -> None:
    """It was cut."""
    text = without("Rank  7")(all_reduce(rates={1 << 27: 250.0, 1 << 28: 250.0}))

    unread = nccl_reading.read(text, ReadOptions()).unread
    assert any("ranks are not" in why or "is not that of" in why for why in unread)


@pytest.mark.parametrize("name", ["all_reduce_2.11.txt", "all_reduce_2.16.txt", "all_reduce_2.17.txt"])
def test_rows_without_their_header_are_said_as_that(name: str) -> None:
    """The rows are there; without the names of their columns nobody knows what they say."""
    lines = recorded(name).splitlines()
    headless = [line for line in lines if not ("size" in line and "busbw" in line)]
    assert len(headless) < len(lines)

    with pytest.raises(Garbled, match="has rows of results, but the header") as caught:
        nccl_reading.read("\n".join(headless), ReadOptions())
    assert "from its header on" in caught.value.remedy


def test_a_program_that_ended_before_its_first_row_is_broken() -> None:
    """With its own word for why."""
    said = recorded("all_reduce_2.16.txt").partition("size         count")[0]
    with pytest.raises(Garbled, match="has no row of results"):
        nccl_reading.read(said + "\nnode-a: Test CUDA failure common.cu:1304 'busy'\n", ReadOptions())
