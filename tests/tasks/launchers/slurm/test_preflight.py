"""What the preflight makes of the answers of Slurm's commands. The answers are written here, as Slurm 22.05 gave them.

The last ones are about what a node says: that the training script, or the interface, is not there.
"""

from __future__ import annotations

import errno
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from checks import bundle as bundles
from checks.facts.builtin import builtin
from checks.model import Declared, Profile
from tasks.gate.jobs import STARTERS
from tasks.launchers.base import EngineUnavailable, JobSpec, PreflightCheck, PreflightResult, Work
from tasks.launchers.slurm import commands, preflight
from tasks.launchers.slurm.commands import MissingCommand, SlurmReply
from tasks.launchers.slurm.options import SlurmOptions
from tasks.launchers.slurm.partition import minutes_of, partitions_of
from tests.checks.local_policy import local_policy
from tests.tasks.launchers.golden import GOLDEN, golden_text
from tests.tasks.launchers.slurm.answers import HOUR, PARTITIONS, SEEN, WILL_START, Look
from tests.tasks.launchers.slurm.test_batch_script import JOB, plan

OK, WRONG, NO_CAPACITY = PreflightResult.OK, PreflightResult.WRONG, PreflightResult.NO_CAPACITY
DAY = replace(JOB, max_runtime_s=86400.0)
TEXTS = GOLDEN / "slurm_preflight"


def results(found: Mapping[str, PreflightCheck]) -> set[PreflightResult]:
    """Every result that a line has."""
    return {check.result for check in found.values()}


def test_a_job_that_fits_is_all_right(look: Look, tmp_path: Path) -> None:
    """And the look leaves nothing behind, not even the folder that a gate would use."""
    root = tmp_path / "shared" / "prelaunch"

    found = look(root=root)

    assert results(found) == {OK}
    assert list(tmp_path.iterdir()) == []
    # What was seen is the folder that is there: one that was misspelt would pass as "the node sees it".
    sees = f"node n0 sees {tmp_path}; {root} is not there yet, and will be made"
    assert found["the shared folder"].message == sees


def test_the_time_limit_of_a_sites_own_line_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """sbatch takes the last one of a script."""
    answer = SlurmReply(0, PARTITIONS, f"{WILL_START} gpu")
    monkeypatch.setattr(commands, "run", lambda *argv, timeout_s=0.0: answer)
    told = plan(HOUR, None, ("--time=1-00:00:00",))
    found = {check.subject for check in preflight.check((told,), SlurmOptions(), tmp_path)}

    assert "time limit of gate-1-train-1" in found


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("90", 90.0), ("90:30", 90.5), ("02:00:00", 120.0), ("1-0", 1440.0), ("1-02:30", 1590.0),
        ("7-00:00:00", 10080.0), ("UNLIMITED", None), ("", None),
    ],
)  # fmt: skip
def test_times_are_read_as_sbatch_reads_them(text: str, minutes: float | None) -> None:
    """See sbatch(1), --time."""
    assert minutes_of(text) == minutes


@pytest.mark.parametrize(
    ("nodes", "lacks"),
    [
        ("n0 idle\nn1 drained\nn2 down*\n", "1 of 3 nodes are in service, 2 are needed"),
        ("n0 drained\nn1 draining@\n", "0 of 2 nodes are in service, 2 are needed"),
        # Neither would more time help here, nor is a drained node the reason.
        ("n0 idle\n", ""),
        ("n0 idle\nn1 mixed\nn2 drained\n", ""),
    ],
)
def test_nodes_that_somebody_drained_are_waited_for(look: Look, nodes: str, lacks: str) -> None:
    """sbatch --test-only refuses a job for whose nodes sbatch itself lets it wait. A request that can never run stays wrong."""
    found = look(replace(HOUR, nodes=2), refused=UNAVAILABLE, nodes=nodes)
    told = found.get("nodes in service")

    assert (told.result, told.message) == (NO_CAPACITY, lacks) if told else not lacks
    assert ("request gate-1-train-1" in found) is (not lacks)
    if told:
        assert UNAVAILABLE in told.remedy, "another reason of Slurm's must not be hidden by it"


@pytest.mark.parametrize(
    ("refusals", "result"), [(1, OK), (preflight.TRIES - 1, OK), (preflight.TRIES, WRONG)]
)
def test_nodes_that_are_just_coming_back_do_not_make_a_request_wrong(
    look: Look, refusals: int, result: PreflightResult
) -> None:
    """For seconds after a node was returned to service slurmctld of 24.11 refuses what sinfo shows enough nodes for."""

    assert look(refused=UNAVAILABLE, refusals=refusals)["request gate-1-train-1"].result is result


def test_a_folder_that_cannot_be_written_here_is_wrong(
    look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read-only mount on the login node; nothing is started on a node."""

    make = tempfile.NamedTemporaryFile

    def refuse(*words: Any, **options: Any) -> Any:
        if options.get("dir") == tmp_path:
            raise OSError(errno.EROFS, "Read-only file system")
        return make(*words, **options)

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", refuse)
    found = look(root=tmp_path / "shared")["the shared folder"]

    message = f"{tmp_path}/shared cannot be written: Read-only file system"
    assert (found.result, found.message) == (WRONG, message)


@pytest.mark.parametrize(
    ("pythons", "script", "interface", "says"),
    [
        (("/nowhere/python",), "", "", ["script True", "interface True"]),
        (("/nowhere/python",), "/nowhere/train.py", "eth77", ["script False", "interface False"]),
        (("/nowhere/python", sys.executable), __file__, "lo", ["script True", "interface True", f"python {sys.executable}"]),
    ],
)  # fmt: skip
def test_node_probe_script_reports_files_interface_and_python(
    tmp_path: Path, pythons: tuple[str, ...], script: str, interface: str, says: list[str]
) -> None:
    """The script runs here, without srun: the first interpreter that is there is asked, once."""
    words = ("look", str(tmp_path), script, interface, *pythons)
    said = commands.run("/bin/bash", "-c", preflight.ON_A_NODE, *words)
    version = "version {} {}".format(*sys.version_info[:2])
    lines = said.out.splitlines()

    assert lines[1:5] == ["seen True", "writes True", *says[:2]]
    assert lines[5 : 3 + len(says)] == says[2:]
    assert lines[3 + len(says) :][:1] == ([version] if says[2:] else [])


def test_a_partition_whose_nodes_register_later_has_no_count_yet() -> None:
    """Slurm counts dynamic nodes once they are there (slurm.conf(5), dynamic nodes); a limit of its own counts at once."""
    row = "PartitionName=cloud Default=YES MaxNodes={} State=UP TotalNodes=0\n"

    assert partitions_of(row.format("UNLIMITED"))["cloud"].most_nodes is None
    assert partitions_of(row.format("2"))["cloud"].most_nodes == 2


NO_FILE = (
    "scontrol did not answer within 30 s: scontrol: error: s_p_parse_file: cannot stat file /x/slurm.conf: No such file "
    "or directory, retrying in 1sec up to 60sec."
)
NO_SOURCE = (
    "scontrol: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\n"
    "scontrol: error: fetch_config: DNS SRV lookup failed\n"
    "scontrol: fatal: Could not establish a configuration source"
)


@pytest.mark.parametrize(
    ("said", "unreachable"),
    [
        (MissingCommand("there is no scontrol on this machine."), False),
        (EngineUnavailable("scontrol did not answer within 30 s."), True),
        (EngineUnavailable(NO_FILE), False),
        (SlurmReply(1, "", NO_SOURCE), False),
        (SlurmReply(1, "", "scontrol: error: No SlurmctldHost defined.\nscontrol: fatal: Unable to process it"), False),
        (SlurmReply(1, "", "scontrol: fatal: Unable to process configuration file"), False),
        (SlurmReply(1, "Slurmctld(primary) at vm is DOWN\n", ""), True),
        (SlurmReply(1, "Slurmctld(primary) at n.invalid is DOWN", 'scontrol: error: slurm_set_addr: Unable to resolve "n"'), True),
        (SlurmReply(1, "", "slurm_ping: Socket timed out on send/recv operation"), True),
        (SlurmReply(1, "", "Unable to contact slurm controller"), True),
    ],
)  # fmt: skip
def test_a_slurm_that_is_not_there_is_wrong_and_one_that_is_silent_may_come_back(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, said: SlurmReply | Exception, unreachable: bool
) -> None:
    """What scontrol ping says, as Slurm 22.05 printed it. A hung slurmctld is no mistake of the gate file: the line says what it
    answered, and where to run it instead.
    """
    monkeypatch.setattr(commands, "run", Mock(side_effect=repeat(said)))
    (line,) = preflight.check((plan(JOB, SlurmOptions()),), SlurmOptions(), tmp_path)

    words = str(said).rstrip(".") if isinstance(said, Exception) else said.text

    assert (PreflightResult.UNSEEN if unreachable else WRONG, unreachable) == (line.result, line.unreachable)
    assert not unreachable or "login node" in line.remedy
    assert words in line.message
    assert "nothing is known of the partition" in line.remedy


def rank_checks() -> JobSpec:
    """A job whose rank checks need PyTorch."""
    made = bundles.make("g-1", Declared("cpu", 1, 0, 2), Profile.QUICK, local_policy(), builtin())
    return replace(HOUR, files={"bundle.json": bundles.dump(made)})


BUSY = "srun: job 3 queued and waiting for resources\nsrun: error: Unable to allocate resources: Requested nodes are busy"
UNAVAILABLE = "allocation failure: Requested node configuration is not available"
NODES_BUSY = "allocation failure: Requested nodes are busy"
NO_TORCH, LONG = SEEN.replace("torch True", "torch False"), SlurmOptions(partition="long")
TRAINING = replace(HOUR, work=Work.CONFIRM, script="/opt/train.py")
LOOKS: Mapping[str, Mapping[str, Any]] = {
    # That of any partition that is asked for. Slurm takes a job above it, and never starts it.
    "time_limit": {"job": DAY},
    "time_limit_of_another": {"job": DAY, "options": LONG, "chosen": "long"},
    "time_limit_of_one_of_two": {"job": DAY, "options": SlurmOptions(partition="gpu,long")},
    "time_limit_and_a_partition_that_is_down": {"job": DAY, "options": SlurmOptions(partition="gpu,closed")},
    # A QOS may allow more than its partition does (sacctmgr(1), PartitionTimeLimit).
    "time_limit_of_a_qos": {"job": DAY, "options": SlurmOptions(qos="big")},
    # Slurm takes the job and lets it wait. What follows from that is not reported beside it.
    "partition_down": {"options": SlurmOptions(partition="closed"), "chosen": "closed"},
    # DRAIN and INACTIVE: here Slurm refuses the job itself.
    "partition_drained": {"refused": "allocation failure: Required partition not available (inactive or drain)"},
    # A partition that does not exist has no free nodes to count, and is not asked for again.
    "no_partition": {"refused": "sbatch: error: invalid partition specified: nope", "refusals": 1},
    # The line says that the job waits, and not "error"; what no node was asked stays unseen.
    "no_node_free": {"busy": BUSY},
    # Slurm's own "allocation failure" is none: the job will wait.
    "request_waits": {"refused": NODES_BUSY},
    # srun of Slurm 24.11 says "Requested nodes are busy" of nine nodes in a partition of four.
    "nine_of_four_nodes": {"job": replace(HOUR, nodes=9), "refused": NODES_BUSY},
    # Slurm lets such a job wait for ever (PartitionNodeLimit), unless a QOS allows more.
    "five_of_four_nodes": {"job": replace(HOUR, nodes=5)},
    "five_of_four_nodes_with_a_qos": {"job": replace(HOUR, nodes=5), "options": SlurmOptions(qos="big")},
    "no_interpreter": {"options": SlurmOptions(python="/nowhere/python"), "seen": "node n0\nseen True\nwrites True\n"},
    "folder_unseen": {"seen": SEEN.replace("seen True\nwrites True", "seen False\nwrites False")},
    "folder_read_only": {"seen": SEEN.replace("writes True", "writes False")},
    "rank_checks_without_torch": {"job": rank_checks(), "seen": NO_TORCH},
    "torchrun_without_torch": {"job": replace(HOUR, training=(*STARTERS["torchrun"], "train.py")), "seen": NO_TORCH},
    "no_torch_needed": {"seen": NO_TORCH},
    # The training of a job that only trains may be started by anything.
    "training_without_torch": {
        "job": replace(rank_checks(), work=Work.CONFIRM, files={**JOB.files, **rank_checks().files}), "seen": NO_TORCH,
    },
    # The node's answer counts, whatever this machine has. It cannot say what an image has.
    "no_script": {"job": TRAINING, "seen": f"{SEEN}script False\n"},
    "script": {"job": TRAINING, "seen": f"{SEEN}script True\n"},
    "script_of_an_image": {"job": TRAINING, "options": SlurmOptions(container_image="/images/a.sqsh"), "busy": BUSY},
    # Else each collective fails on it, and gloo's error names no setting.
    "no_interface": {"seen": SEEN.replace("writes True", "writes True\ninterface False"), "options": SlurmOptions(interface="eth77")},
}  # fmt: skip


@pytest.mark.parametrize("name", LOOKS)
def test_what_the_preflight_says_is_the_golden_text(look: Look, tmp_path: Path, name: str) -> None:
    """Every line with its result, its words and its remedy; UPDATE_GOLDEN=1 writes it."""
    lines = [f"{check.result.name} {check.text}\n" for check in look(**LOOKS[name]).values()]
    said = "".join(lines).replace(str(tmp_path), "/shared")

    assert said == golden_text(TEXTS / f"{name}.txt", said)


def test_every_golden_text_is_of_a_look() -> None:
    """A file that nobody compares says nothing."""
    assert set(LOOKS) == {path.stem for path in TEXTS.iterdir()}
