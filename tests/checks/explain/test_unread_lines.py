"""Text beside an output never passes unread: another output is read, too, and what nobody reads is "cannot tell" with its lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from checks.explain.unread_lines import sentence, unread_lines
from checks.model import Answer
from tasks.reports.read import exit_code
from tests.corpus.case import declared
from tests.corpus.judging import explained

RECORDINGS = Path(__file__).parents[2] / "recordings"
JOINED = (
    ("dcgm/diag_33_r2.txt", "dcgm/diag_33_r2_partial_fail.txt"),
    ("dcgm/diag_4_r2.json", "dcgm/diag_44_r2_fail.txt"),
    ("dcgm/health_ok.json", "dcgm/diag_44_r2_fail.txt"),
    ("dcgm/policy_none.json", "dcgm/diag_33_r2_partial_fail.txt"),
    ("dcgm/diag_4_r2.json", "kernel/dmesg_off_bus.txt"),
    ("neuron/ls_trn1.json", "neuron/ls_trn1_busy.json"),
    ("neuron/ls_trn1.json", "kernel/journal_memory.txt"),
    ("nccl/all_reduce_2.17.txt", "nccl/wrong_2.16.txt"),
    ("kernel/dmesg_healthy.txt", "nccl/wrong_2.16.txt"),
    ("efa/fi_info_1_22_p5en.txt", "gpu/h100_reset_required.xml"),
    ("efa/fi_pingpong_efa_rdm.txt", "efa/fi_info_none_2_x.txt"),
)


@pytest.mark.parametrize(("healthy", "faulty"), JOINED, ids=[" + ".join(pair) for pair in JOINED])
def test_a_faulty_output_beside_a_healthy_one_is_no_go(healthy: str, faulty: str) -> None:
    """What the reader found broken stays broken; what it did not read is "cannot tell"."""
    texts = [(RECORDINGS / name).read_text().rstrip("\n") + "\n" for name in (healthy, faulty)]

    assert _code("".join(texts)) in (1, 3)
    assert _code("".join(reversed(texts))) in (1, 3)


def test_rows_after_a_tables_end_are_not_passed_over() -> None:
    """A second table whose header was lost."""
    healthy = (RECORDINGS / "dcgm/diag_33_r2.txt").read_text()
    faulty = (RECORDINGS / "dcgm/diag_33_r2_partial_fail.txt").read_text()
    rows = [line for line in faulty.splitlines() if line.startswith("|") and "Diagnostic" not in line]

    assert _code(healthy + "\n".join(rows) + "\n") == 3


def _code(text: str) -> int:
    return int(exit_code(explained(text)))


@pytest.mark.parametrize(
    "name", ["kernel/dmesg_off_bus.txt", "kernel/journal_memory.txt", "dcgm/diag_44_r2_fail.txt"]
)
def test_colours_hide_nothing(name: str) -> None:
    """journalctl shows errors in red, grep what it found: the escapes stand before the words that decide."""
    text = (RECORDINGS / name).read_text()
    for word in ("NVRM", "EDAC", "mce", "Fail"):
        text = text.replace(word, f"\x1b[0;1;31m{word}\x1b[0m\x1b[K")

    assert _code(text) == 1


# One healthy output of each reader and form.
HEALTHY = (
    "dcgm/diag_33_r2.txt",
    "dcgm/diag_44_r2.txt",
    "dcgm/diag_4_r2.json",
    "dcgm/health_ok.json",
    "dcgm/policy_none.json",
    "efa/fi_info_1_22_p5en.txt",
    "efa/fi_pingpong_efa_rdm.txt",
    "gpu/h100_healthy.xml",
    "kernel/dmesg_healthy.txt",
    "kernel/dmesg_iso_healthy.txt",
    "kernel/kmsg_healthy.txt",
    "nccl/all_reduce_2.17.txt",
    "neuron/ls_trn1.json",
)
# Without its instance type, nobody can tell whether the bandwidth is what it should be.
DECLARED = {"nccl/all_reduce_2.17.txt": declared("p5e.48xlarge")}
# What other tools print about a broken machine, and the reader of the healthy output does not read.
STRANGE = {
    "dcgmi nvlink -s": "+----------------------+\n|  NvLink Link Status  |\n+----------------------+\nGPUs:\n    gpuId 0:\n"
    "        D D D D D D D D D D D D D D D D D D\n    gpuId 1:\n        U U U U U U U U U U U U U U U U U U\n",
    "ibstat": "CA 'mlx5_0'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n\t\tState: Down\n\t\tPhysical state: Disabled\n",
    "slurm": "srun: error: Node failure on ip-10-1-4-9\n",
    "slurm's step": "slurmstepd: error: *** STEP 42.0 ON ip-10-1-4-9 CANCELLED AT 2026-11-02T10:00:00 DUE TO NODE FAILURE ***\n",
    "ethtool": "Settings for eth0:\n\tLink detected: no\n",
    "nvidia-smi": "GPU 0: NVIDIA H100 80GB HBM3\n\t Link 0: <inactive>\n",
    "lspci": "9b:00.0 3D controller: NVIDIA Corporation Device 2330 (rev ff)\n",
    "numbers": "0 0 0 1 0 0 0 0\n",
    "mpirun": "mpirun noticed that process rank 3 with PID 4711 on node b exited on signal 9 (Killed).\n",
}
ALSO_READ = ("dcgmi nvlink -s", "ibstat", "nvidia-smi")
HARMLESS = (
    "ubuntu@ip-172-31-35-99:~$ sudo dcgmi diag -r 2\n",
    "[root@node-1 ~]# date\nMon Nov  2 10:00:00 UTC 2026\n",
    "bash-5.1$ ls\n$ cd /tmp\n+ export NCCL_DEBUG=INFO\n",
    "srun: job 42 queued and waiting for resources\nsrun: job 42 has been allocated resources\n",
    "salloc: Granted job allocation 42\nSubmitted batch job 43\n",
    "mpirun -np 16 -N 8 --host a:8,b:8 \\\n    -x LD_LIBRARY_PATH \\\n    /opt/run.sh\n",
    "# taken on 2 November\n\n\n0: \n[1,0]<stdout>:\n[rank0]:\n",
    "real\t0m12.3s\nuser\t0m1.0s\nsys\t0m0.1s\n",
    "Warning: Permanently added '10.0.0.7' (ED25519) to the list of known hosts.\n",
)


def _healthy(name: str) -> str:
    return (RECORDINGS / name).read_text(encoding="utf-8").rstrip("\n") + "\n"


@pytest.mark.parametrize("name", HEALTHY)
def test_text_that_nobody_reads_is_named_by_its_lines(name: str) -> None:
    """Above and below each healthy output; whatever does not stand in the form of the output."""
    text = _healthy(name)
    assert Answer.GO is explained(text, DECLARED.get(name)).answer

    for what, strange in STRANGE.items() if name == HEALTHY[0] else [*STRANGE.items()][:3]:
        first, last = len(text.splitlines()) + 1, len((text + strange).splitlines())
        below, above = explained(text + strange), explained(strange + text)

        assert Answer.CANNOT_TELL is below.answer, what
        assert Answer.CANNOT_TELL is above.answer, what
        said = " ".join(finding.message for finding in below.findings)
        if what in ALSO_READ:
            continue  # another reader knows them, and the kind must be named
        assert {int(found) for found in re.findall(r"\d+", said)} & set(range(first, last + 1)), (what, said)


@pytest.mark.parametrize("name", HEALTHY)
def test_harmless_text_beside_an_output_changes_no_answer(name: str) -> None:
    """Prompts, commands, and the notes of launchers."""
    for beside in HARMLESS if name == HEALTHY[0] else HARMLESS[:2]:
        for text in (beside + _healthy(name), _healthy(name) + beside):
            verdict = explained(text, DECLARED.get(name))
            assert Answer.GO is verdict.answer, (beside, [f.message for f in verdict.findings])


@pytest.mark.parametrize(
    ("line", "harmless"),
    [
        ("srun: job 42 has been allocated resources", True),
        ("srun: Job step aborted: Waiting up to 32 seconds for job step to finish.", False),
        ("salloc: Relinquishing job allocation 7", True),
        ("salloc: Job allocation 7 has been revoked.", False),
        ("dcgmi nvlink -s", True),
        ("dcgmi: command not found", False),
        ("(base) user@host:/data$ ./all_reduce_perf -b 8 -e 8G -f 2 -g 8", True),
        ("host: link down", False),
        ("[0] # nThread 1", True),
        ("pyxis: importing docker image: nvcr.io/x", True),
        ("pyxis: container start error", False),
        ("+-----+-----+", True),
        ("| x |", False),
    ],
)
def test_a_line_is_harmless_only_in_its_whole_form(line: str, harmless: bool) -> None:
    """The program's name does not make an error harmless."""
    assert harmless == (not list(unread_lines(line, ())))


def test_the_sentence_names_the_lines() -> None:
    """A range, and single lines; of many places the first."""
    lines = [(number, "x") for number in (3, 4, 5, 9, 12)]
    many = [(number, "x") for number in range(1, 40, 2)]

    assert sentence(lines).startswith("lines 3 to 5, line 9 and line 12 were not read")
    assert sentence(lines[:1]).startswith("line 3 was not read")
    assert "and 16 more places were not read" in sentence(many)
