"""What the outputs that people paste are answered with: healthy, broken and cut; where one is not read, the command that helps."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from checks.explain.reading import ReadOptions
from checks.model import Answer, Declared, Verdict
from checks.model_details import DeclaredMachine
from tasks.reports import explained_input
from tasks.reports.explained_input import explain_text
from tests.corpus.case import RecordProperty
from tests.corpus.judging import explained
from tests.corpus.mutations import mutants

RECORDINGS = Path(__file__).parents[2] / "recordings"
P5 = Declared("p5.48xlarge", 1, 8, 8)

TABLE = (RECORDINGS / "dcgm/diag_33_r2.txt").read_text(encoding="utf-8")
BOOT = "[    0.000000] Linux version 6.8.0-1021-aws (buildd@lcy02)\n[    1.000000] usb 1-1: new high-speed USB device\n"


def _smi(links: int = 18, gpus: int = 8, down: tuple[int, ...] = (), form: str = "26.562 GB/s") -> str:
    lines = []
    for gpu in range(gpus):
        lines.append(f"GPU {gpu}: NVIDIA H100 80GB HBM3 (UUID: GPU-{gpu:08x}-1111-2222-3333-444444444444)")
        states = ["<inactive>" if gpu == 5 and link in down else form for link in range(links)]
        lines += [f"\t Link {link}: {state}" for link, state in enumerate(states)]
    return "\n".join(lines) + "\n"


COUNTERS = ("Replay Errors", "Recovery Errors", "CRC Errors")


def _counters(faulty: str = "", count: int = 0, names: tuple[str, ...] = COUNTERS) -> str:
    lines = []
    for gpu in range(8):
        lines.append(f"GPU {gpu}: NVIDIA H100 80GB HBM3 (UUID: GPU-{gpu:08x}-1111-2222-3333-444444444444)")
        for link in range(18):
            bad = faulty if (gpu, link) == (3, 7) else ""
            lines += [f"\t Link {link}: {name}: {count if name == bad else 0}" for name in names]
    return "\n".join(lines) + "\n"


def _dcgmi(states: str = "U " * 18, bad: str = "", switches: bool = False) -> str:
    head = "+----------------------+\n|  NvLink Link Status  |\n+----------------------+\nGPUs:\n"
    gpus = "".join(
        f"    gpuId {gpu}:\n        {(bad if bad and gpu == 2 else states).strip()}\n" for gpu in range(8)
    )
    more = "NvSwitches:\n    physicalId 8:\n        X X U U\n" if switches else ""
    return f"{head}{gpus}{more}\nKey: Up=U, Down=D, Disabled=X, Not Supported=_\n"


BLACKWELL = ("Malformed packet Errors", "Rx Errors", "Link recovery failed events", "Effective BER")
NVLINKS = {
    "nvidia-smi nvlink -s, healthy": (_smi(), Answer.GO, ""),
    "nvidia-smi nvlink -s, A100": (_smi(links=12, form="25 GB/s"), Answer.NO_GO, "GPU 0"),  # of a p5, which has 18
    "nvidia-smi nvlink -s, one link down": (_smi(down=(4,)), Answer.NO_GO, "GPU 5"),
    "nvidia-smi nvlink -s, all links down": (_smi(down=tuple(range(18))), Answer.NO_GO, "GPU 5"),
    "nvidia-smi nvlink -s, a GPU is missing": (_smi(gpus=7), Answer.CANNOT_TELL, ""),
    "nvidia-smi nvlink -e, healthy": (_counters(), Answer.GO, ""),
    "nvidia-smi nvlink -e, B200": (_counters(names=BLACKWELL), Answer.GO, ""),
    "nvidia-smi nvlink -e, one link inactive": (
        _counters().replace("".join(f"\t Link 4: {name}: 0\n" for name in COUNTERS), "\t Link 4: <inactive>\n", 1),
        Answer.NO_GO, "links 4",
    ),
    "nvidia-smi nvlink -e, CRC": (_counters("CRC Errors", 812), Answer.CANNOT_TELL, "GPU 3 link 7: CRC Errors 812"),
    "nvidia-smi nvlink -e, recovery": (_counters("Recovery Errors", 1), Answer.CANNOT_TELL, "GPU 3 link 7"),
    "nvidia-smi nvlink -e, failed events": (
        _counters("Link recovery failed events", 2, BLACKWELL), Answer.CANNOT_TELL, "Link recovery failed events 2",
    ),
    "dcgmi nvlink -s, healthy": (_dcgmi(), Answer.GO, ""),
    "dcgmi nvlink -s, down": (_dcgmi(bad="U U D" + " U" * 15), Answer.NO_GO, "links 2"),
    "dcgmi nvlink -s, all down": (_dcgmi("D " * 18), Answer.NO_GO, ""),
    "dcgmi nvlink -s, disabled": (_dcgmi(bad="X X" + " U" * 16), Answer.NO_GO, "links 0, 1"),
    "dcgmi nvlink -s, not supported": (_dcgmi(bad="_ _" + " U" * 16), Answer.NO_GO, "GPU 2"),
    "dcgmi nvlink -s, with switches": (_dcgmi(switches=True), Answer.CANNOT_TELL, "NvSwitches"),
}  # fmt: skip


@pytest.mark.parametrize("name", NVLINKS)
def test_states_of_nvlinks(name: str, record_property: RecordProperty) -> None:
    text, answer, names = NVLINKS[name]

    verdict = explained(text, P5)
    record_property("corpus", _case(name, answer, verdict))

    assert answer is verdict.answer, verdict.findings
    assert names in " ".join(f"{finding.message} {finding.evidence}" for finding in verdict.findings)


def _case(name: str, answer: Answer, verdict: Verdict) -> list[str]:
    """The format, whether it is of a healthy machine, and the level: for the line that counts the corpus."""
    return [name.partition(",")[0], "healthy" if answer is Answer.GO else "faulty", verdict.level.value]


@pytest.mark.parametrize("name", [name for name in NVLINKS if NVLINKS[name][1] is Answer.GO])
def test_a_healthy_list_of_nvlinks_without_a_declaration_is_no_go_of_any_kind(name: str) -> None:
    assert Answer.CANNOT_TELL is explained(NVLINKS[name][0]).answer


# An empty line, or one that says nothing about a link.
LOST_IN_VAIN = re.compile(
    r"$|\+-|\|  NvLink Link Status|GPUs:$|Key: |(CA type|(Firmware|Hardware) version|(Node|System image|Port) GUID|Base lid|LMC"
    r"|SM lid|Capability mask):"
)


@pytest.mark.parametrize("name", [*(name for name in NVLINKS if NVLINKS[name][1] is Answer.GO), "ibstat"])
def test_a_healthy_list_of_links_that_lost_something_never_passes(
    name: str, record_property: RecordProperty
) -> None:
    """Each line deleted, and the text cut at each tenth; but for lines that say nothing about a link."""
    text = _ibstat() if name == "ibstat" else NVLINKS[name][0]
    # ibstat does not say how many adapters there are.
    made = [one for one in mutants(text) if one.text != _ibstat(1)]
    passed = [mutant for mutant in made if Answer.GO is explained(mutant.text, P5).answer]
    wrong = [one.what for one in passed if not all(LOST_IN_VAIN.match(line) for line in one.lost)]
    record_property("mutations", [len(made), len(wrong), len(passed) - len(wrong)])

    assert [] == wrong


def _ibstat(count: int = 2, layer: str = "InfiniBand", **last: str) -> str:
    ports = []
    for at in range(count):
        port = {"state": "Active", "physical": "LinkUp", "rate": "400", **(last if at == count - 1 else {})}
        ports.append(
            f"CA 'mlx5_{at}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tFirmware version: 28.39.1002\n\tHardware version: 0\n"
            f"\tNode GUID: 0xb83fd20300aa0001\n\tSystem image GUID: 0xb83fd20300aa0001\n\tPort 1:\n\t\tState: {port['state']}\n"
            f"\t\tPhysical state: {port['physical']}\n\t\tRate: {port['rate']}\n\t\tBase lid: 12\n\t\tLMC: 0\n\t\tSM lid: 1\n"
            f"\t\tCapability mask: 0xa651e848\n\t\tPort GUID: 0xb83fd20300aa0001\n\t\tLink layer: {layer}\n"
        )
    return "".join(ports)


@pytest.mark.parametrize(
    ("text", "answer", "names"),
    [
        (_ibstat(), Answer.GO, ""),
        (_ibstat(8, layer="Ethernet"), Answer.GO, ""),
        (_ibstat(1), Answer.GO, ""),
        (_ibstat(state="Down", physical="Polling"), Answer.CANNOT_TELL, "mlx5_1:1 is Down, Polling"),
        (_ibstat(state="Down", physical="Disabled"), Answer.CANNOT_TELL, "mlx5_1:1 is Down"),
        (_ibstat(state="Initializing"), Answer.CANNOT_TELL, "Initializing"),
        (_ibstat(1, state="Down", physical="Polling"), Answer.CANNOT_TELL, "mlx5_0:1"),
        (_ibstat(rate="100"), Answer.CANNOT_TELL, "100, 400"),
        (_ibstat() + "CA 'mlx5_2'\n\tCA type: MT4129\n\tNumber of ports: 1\n", Answer.CANNOT_TELL, "trunc"),
    ],
)
def test_ports_of_ibstat(text: str, answer: Answer, names: str, record_property: RecordProperty) -> None:
    verdict = explained(text)
    record_property("corpus", _case("ibstat", answer, verdict))

    assert answer is verdict.answer, verdict.findings
    assert names in " ".join(finding.message for finding in verdict.findings)


_NEW = "[rank{0}]:[E1120 03:04:11.061727749 ProcessGroupNCCL.cpp:629] [Rank {0}] "
_PG = (
    "[rank{0}]:[E1120 03:04:11.061727749 ProcessGroupNCCL.cpp:629] [PG ID 0 PG GUID 0(default_pg) Rank {0}] "
)
_OLD = "[E ProcessGroupNCCL.cpp:475] [Rank {0}] "
_TIMEOUT = (
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum={1}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) "
    "ran for 600096 milliseconds before timing out.\n"
)


@pytest.mark.parametrize(
    ("head", "ranks"),
    [(_NEW, (1, 2, 3)), (_PG, (12,)), (_OLD, (12,)), ("2026-11-20T03:04:11Z " + _PG, (1, 2, 3))],
)
def test_torchs_watchdog_names_the_ranks_that_waited(head: str, ranks: tuple[int, ...]) -> None:
    text = "".join((head + _TIMEOUT).format(rank, 78) for rank in ranks)

    verdict = explained(text)

    assert Answer.CANNOT_TELL is verdict.answer
    assert f"ranks {', '.join(map(str, ranks))} timed out" in " ".join(f.message for f in verdict.findings)


UNREAD = (
    "\n==============NVSMI LOG==============\n\nDriver Version      : 570.133.20\nAttached GPUs     : 8\n",
    "[Nov 20 2026 03:14:05] [ERROR] [tid 4711] detected NVSwitch fatal error 20034 on fid 0\n",
    "Conditions:\n  Type              Status  LastHeartbeatTime         Reason        Message\n",
    "REASON               USER      TIMESTAMP           NODELIST\nGPU 3 fell off       root      2026-11-20T03:14:05 node-7\n",
    "RuntimeError: nrt_execute failed: NRT_EXEC_HW_ERR_NC_UE (status=1003)\n",
)


@pytest.mark.parametrize("text", UNREAD)
def test_a_format_that_is_not_read_names_the_commands_whose_output_is(text: str) -> None:
    """By itself, and below an output that is read."""
    for whole in (text, _ibstat() + text):
        verdict = explained(whole)
        assert Answer.CANNOT_TELL is verdict.answer
        assert any("journalctl -k" in f"{one.message} {one.remedy}" for one in verdict.findings)


PREFIXES = ("[0] ", "[host-1:0] ", "algo-1 | ", "algo-10  | ", "0: ", "[1,0]<stdout>:", "[rank0]:")
OTHERS = ("2026-11-20T03:14:05.123Z ", "[default0]:")


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        *(("two_nodes_2.17.txt", prefix) for prefix in PREFIXES + OTHERS),
        ("wrong_2.16.txt", "0: "),
        ("log_efa.txt", "algo-1 | "),
    ],
)
def test_a_launchers_prefix_changes_no_answer(name: str, prefix: str) -> None:
    text = (RECORDINGS / "nccl" / name).read_text(encoding="utf-8")

    prefixed = "".join(prefix + line for line in text.splitlines(keepends=True))

    assert explained(text, P5).answer is explained(prefixed, P5).answer


H100 = DeclaredMachine("H100 80GB HBM3", nvlinks=18, network_gbit_s=3200, ib_ports=8, ib_rate_gbit_s=400)


@pytest.mark.parametrize(
    ("name", "machine", "answer", "names"),
    [
        ("two_nodes_2.17.txt", H100, Answer.GO, ""),
        ("two_nodes_2.17.txt", replace(H100, ib_ports=0, ib_rate_gbit_s=None), Answer.GO, ""),
        ("two_nodes_2.17.txt", replace(H100, network_gbit_s=1600), Answer.CANNOT_TELL, ""),
        ("two_nodes_2.17.txt", replace(H100, network_gbit_s=64_000), Answer.NO_GO, "64,000"),
        ("two_nodes_2.17.txt", replace(H100, network_gbit_s=None), Answer.CANNOT_TELL, "network_gbit_s"),
        ("slow_network_2.17.txt", H100, Answer.NO_GO, "3,200"),
        ("socket_fallback_2.17.txt", H100, Answer.NO_GO, "another transport"),
    ],
)
def test_nccl_tests_on_two_nodes_of_a_type_that_no_table_has(
    name: str, machine: DeclaredMachine, answer: Answer, names: str
) -> None:
    """The numbers of the declared machine count as a table's do."""
    text = (RECORDINGS / "nccl" / name).read_text(encoding="utf-8")

    verdict = explained(text, Declared("hgx-of-ours", 2, 8, 8, machine=machine))

    assert answer is verdict.answer, verdict.findings
    assert names in " ".join(finding.message for finding in verdict.findings)


@pytest.mark.parametrize("name", ["host/fio_sequential.json", "host/stress_cpu.txt", "neuron/nccom_allr.txt"])
def test_the_output_of_tools_that_only_checks_run_is_no_go_of_any_kind(name: str) -> None:
    text = (RECORDINGS / name).read_text(encoding="utf-8")

    assert Answer.CANNOT_TELL is explained(text).answer
    assert Answer.CANNOT_TELL is explained(_ibstat() + text).answer


@pytest.mark.parametrize("begins", explained_input.PACKED)
def test_explain_cannot_tell_about_compressed_input_and_advises(begins: bytes) -> None:
    """Lines that are compressed hold no fault that anybody could find; what to do is said at once."""
    found = explain_text("-", "-", begins + b"x\n" * 50, None, None, ReadOptions()).verdict

    assert Answer.CANNOT_TELL is found.answer
    assert "explain what comes out" in found.findings[0].message


@pytest.mark.parametrize("line", ["[  1.0] all well\n", '{"MESSAGE": "x"}\n', "\n"])
def test_explain_cannot_tell_about_input_that_is_too_large(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stands in the part that was not read is unknown."""
    monkeypatch.setattr(explained_input, "INPUT_BYTES", 1 << 20)
    path = tmp_path / "log"
    path.write_text("[  0.0] Linux version 6.1\n" + line * (1 << 20), encoding="utf-8")

    found = explained_input.explain_input(str(path), None, None, ReadOptions()).verdict

    assert Answer.CANNOT_TELL is found.answer
    assert "more than the 1 MiB that are read" in found.findings[0].message


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("EDAC MC0: 1 UE memory read error on CPU_SrcID#1_MC#0_Chan#1_DIMM#1 (page:0x0)", "CPU_SrcID#1_MC#0_Chan#1_DIMM#1"),
        ("EDAC MC1: 1 UE memory scrubbing error on mc#1csrow#2channel#0 (csrow:2 channel:0 page:0x1)", "mc#1csrow#2channel#0"),
        ("EDAC MC3: 1 UE Multi-bit ECC on DIMM_P2_A1 error on DIMM_P2_A1 (node:1 card:0)", "DIMM_P2_A1"),
        ("EDAC MC2: 2 UE memory read error on Channel#2_DIMM#0", "Channel#2_DIMM#0"),
        ("EDAC MC0: 1 UE memory read error on DIMM_A1 or DIMM_A2 (channel:0 page:0x0)", "DIMM_A1 or DIMM_A2"),
        ("mlx5_core 0000:9f:00.0: mlx5_init_one failed with error code -110", "0000:9f:00.0"),
        ("ice 0000:31:00.1: HMC Error", "0000:31:00.1"),
    ],
)  # fmt: skip
def test_the_kernels_log(line: str, part: str) -> None:
    verdict = explained(f"{BOOT}[   44.000000] {line}\n")

    messages = [finding.message for finding in verdict.findings]
    assert any(message.endswith(f"in the kernel log: {part}") for message in messages), messages


@pytest.mark.parametrize("named", ["any memory", "unknown label"])
def test_no_part_is_named_where_the_driver_knows_none(named: str) -> None:
    verdict = explained(f"{BOOT}[   44.000000] EDAC MC0: 1 UE memory read error on {named} (page:0x0)\n")

    messages = [finding.message for finding in verdict.findings]
    assert "has 1 uncorrected memory error in the kernel log" in messages


@pytest.mark.parametrize(("gpu", "status"), [(0, "Fail - All"), (3, "Fail - GPUs: {0}")])
def test_a_link_that_is_down_belongs_to_its_gpu_alone(gpu: int, status: str) -> None:
    down = ("Warning", f"GPU {gpu}'s NvLink link 11 is currently down")
    rows = [("PCIe", "Pass - All"), ("PCIe", status.format(gpu)), down]
    well, *broken = (f"| {left:<25} | {right:<46} |" for left, right in rows)
    verdict = explained(TABLE.replace(well, "\n".join(broken)))
    assert Answer.NO_GO is verdict.answer
    message = " ".join(finding.message for finding in verdict.findings)
    assert message.count("link 11 is currently down") == 1
    assert f"GPU {gpu}: pcie: error 14: GPU {gpu}'s NvLink link 11" in message
