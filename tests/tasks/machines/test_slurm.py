"""The back end `slurm` over a fake: its commands, in their order, and what it makes of Slurm's refusals."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable

import pytest

from tasks.launchers.base import EngineUnavailable
from tasks.launchers.slurm.commands import MissingCommand, SlurmReply
from tasks.machines.base import ActAmbiguous, ActRefused, EngineSilent, Holder, Mark, Rung, ServiceState
from tests.tasks.machines.slurm_answers import MARK, NAME, RESUME, FakeNode, SlurmAnswers, fenced, machines
from tests.tasks.parameters import spread

ME = pwd.getpwuid(os.geteuid()).pw_name
DRAIN = ("scontrol", "update", "nodename=n1", "state=drain", "reason=prelaunch: gate-7f3a gpu.ecc")
CREATE = (
    "scontrol", "create", "reservation", f"ReservationName={NAME}", "StartTime=now", "Duration=UNLIMITED", f"Users={ME}", "Nodes=n1",
    "Flags=MAINT,IGNORE_JOBS",
)  # fmt: skip
DELETE = ("scontrol", "delete", f"ReservationName={NAME}")
REBOOT = ("scontrol", "reboot", "ASAP", "nextstate=DOWN", "reason=prelaunch: gate-7f3a gpu.ecc", "n1")
CLEAR = ("scontrol", "update", "nodename=n1", "reason=none")
TIMED_OUT = SlurmReply(1, "", "slurm_update error: Socket timed out on send/recv operation")
NOT_REACHED = SlurmReply(1, "", "slurm_update error: Unable to contact slurm controller (connect failure)")
REFUSED = SlurmReply(1, "", "slurm_update error: Invalid user id")


def in_retest() -> SlurmAnswers:
    """A fenced node whose re-test has begun."""
    answers = fenced()
    machines(answers).open_retest("n1", (), MARK)
    return answers


def test_a_fence_is_one_command_and_a_second_one_is_none() -> None:
    """The mark is the reason."""
    answers = SlurmAnswers()

    assert machines(answers).fence("n1", MARK) == "IDLE+DRAIN prelaunch: gate-7f3a gpu.ecc [root]"
    machines(answers).fence("n1", MARK)
    assert answers.argvs == [DRAIN]


def test_the_reservation_is_there_before_the_node_is_resumed() -> None:
    """And the node is drained before the reservation is deleted."""
    answers = fenced()
    retest = machines(answers).open_retest("n1", (), MARK)
    machines(answers).close_retest("n1", MARK)

    assert (retest.nodes, dict(retest.options)) == (("n1",), {"reservation": NAME})
    assert answers.argvs == [CREATE, RESUME, DRAIN, DELETE]
    assert answers.state("n1") == "IDLE+DRAIN prelaunch: gate-7f3a gpu.ecc"


@pytest.mark.parametrize(("left", "more"), [("", []), (f"{MARK}", [CLEAR]), ("Action:Replace", [CLEAR])])
def test_a_node_is_freed_inside_its_reservation(left: str, more: list[tuple[str, ...]]) -> None:
    """24.11 leaves the reason on a node that was resumed, also the one for HyperPod. It is written over while no job can start."""
    answers = in_retest()
    answers.nodes["n1"].reason = left
    machines(answers).free("n1", MARK)

    assert answers.argvs == [CREATE, RESUME, *more, DELETE]
    assert machines(answers).by_name()["n1"].service is ServiceState.SERVING


def test_a_reboot_happens_in_a_reservation() -> None:
    """Because Slurm may give the node back by itself when it has booted."""
    answers = fenced()
    words = machines(answers).act(Rung.REBOOT, "n1", MARK)

    assert answers.argvs == [CREATE, REBOOT]
    assert words == "IDLE+DRAIN+REBOOT_REQUESTED prelaunch: gate-7f3a gpu.ecc [root]"


def test_a_node_that_came_back_by_itself_is_still_ours() -> None:
    """With ReturnToService=2, in both versions; a further reboot drains it first."""
    for reason in ("", "prelaunch: gate-7f3a gpu.ecc : reboot issued : reboot complete"):
        answers = fenced()
        machines(answers).act(Rung.REBOOT, "n1", MARK)
        answers.nodes["n1"] = FakeNode(["IDLE"], reason, "14:00:00")
        seen = machines(answers).by_name()["n1"]
        machines(answers).act(Rung.REBOOT, "n1", MARK)

        assert (seen.service, seen.holder) == (ServiceState.TESTING, Holder.PRELAUNCH)
        assert seen.mark and seen.mark.gate_id == "gate-7f3a"
        assert answers.argvs == [CREATE, REBOOT, DRAIN, REBOOT]


def test_gpus_are_reset_by_a_job_in_the_reservation() -> None:
    """Only where the user of re-tests may do that."""
    answers = fenced()

    assert Rung.RESET not in machines(answers).rungs
    with pytest.raises(ActRefused, match="no reset"):
        machines(answers).act(Rung.RESET, "n1", MARK, (3,))
    with pytest.raises(ActRefused, match="which GPU"):
        machines(answers, reset=True).act(Rung.RESET, "n1", MARK)
    machines(answers, reset=True).act(Rung.RESET, "n1", MARK, (3, 5))
    assert answers.argvs[2:] == [
        (
            "srun", f"--reservation={NAME}", "--nodelist=n1", "--nodes=1", "--ntasks=1", "--exclusive", "--immediate=60", "--time=5",
            "--export=PATH", "nvidia-smi", "--gpu-reset", "-i", "3,5",
        )
    ]  # fmt: skip


def test_without_a_reboot_program_nothing_is_requested() -> None:
    """Slurm would only wait for the time-out."""
    answers = fenced(program="(null)")

    with pytest.raises(ActRefused, match="RebootProgram"):
        machines(answers).act(Rung.REBOOT, "n1", MARK)
    assert answers.argvs == []


@pytest.mark.parametrize("busy", ["job", "unseen"])
def test_a_node_with_a_job_is_not_rebooted(busy: str) -> None:
    """Also if Slurm hides other users' jobs (slurm.conf, PrivateData)."""
    answers = fenced()
    if busy == "job":
        answers.jobs["41"] = "n[0-1]"
    else:
        answers.nodes["n1"].flags = ["MIXED", "DRAIN"]

    with pytest.raises(ActRefused, match=r"still runs (41|a job that this user may not see)"):
        machines(answers).act(Rung.REBOOT, "n1", MARK)
    assert answers.argvs == []


@pytest.mark.parametrize(
    ("flags", "reason"),
    spread(
        ("IDLE DRAIN", ("jdoe: fan", "k8s: cordon", "NVSentinel: Xid", "Prolog error")),
        ("IDLE DRAIN", ("prelaunchx: gate-7f3a gpu.ecc", "prelaunch: gate-0001 gpu.ecc")),
        ("DOWN NOT_RESPONDING", ("Not responding",)),
        ("IDLE FAIL", ("Action:Reboot", "")),
        ("IDLE DRAIN REBOOT_ISSUED", ("Reboot ASAP : reboot issued",)),
        ("IDLE BROKEN", ("",)),
        ("UNKNOWN", ("",)),
        ("IDLE MAINTENANCE", ("",)),
    ),
)
def test_a_node_that_is_not_ours_is_never_changed(flags: str, reason: str) -> None:
    """Nor one whose state is unknown, nor one of another gate."""
    answers = SlurmAnswers()
    answers.nodes["n1"] = FakeNode(flags.split(), reason)
    made = machines(answers, reset=True)
    changes: tuple[Callable[[], object], ...] = (
        lambda: made.fence("n1", MARK),
        lambda: made.act(Rung.REBOOT, "n1", MARK),
        lambda: made.act(Rung.RESET, "n1", MARK, (0,)),
        lambda: made.open_retest("n1", (), MARK),
        lambda: made.free("n1", MARK),
        lambda: machines(answers, hyperpod=True).act(Rung.REPLACE, "n1", MARK),
    )

    for change in changes:
        with pytest.raises(ActRefused):
            change()
    assert answers.argvs == []


BAD_MARKS = (Mark("gate 1", "x"), Mark("gate-1", "a b"), Mark("gate-1", "x state=resume"), Mark("", "x"))


@pytest.mark.parametrize(
    ("node", "mark", "said"),
    [
        *((node, MARK, "The engine has no node") for node in ("n9", "n[0-1]", "ALL", "n0,n1", "")),
        *(("n1", mark, "cannot be a reason") for mark in BAD_MARKS),
    ],
)
def test_words_that_scontrol_could_read_otherwise_are_refused(node: str, mark: Mark, said: str) -> None:
    """Before anything is changed: a list of nodes never reaches it."""
    answers = SlurmAnswers()

    with pytest.raises(ActRefused, match=said):
        machines(answers).fence(node, mark)
    assert answers.argvs == []


def test_a_partner_must_serve() -> None:
    """Nothing is reserved otherwise."""
    answers = fenced()
    answers.nodes["n2"] = FakeNode(["IDLE", "DRAIN"], "jdoe: fan")

    with pytest.raises(ActRefused, match="n2 cannot help to test n1"):
        machines(answers).open_retest("n1", ("n2",), MARK)
    assert answers.argvs == []


def test_other_partners_need_another_reservation() -> None:
    """The node is drained while there is none."""
    answers = in_retest()
    machines(answers).open_retest("n1", ("n2",), MARK)

    assert [argv[1] for argv in answers.argvs] == ["create", "update", "update", "delete", "create", "update"]
    assert answers.argvs[2:4] == [DRAIN, DELETE] and "Nodes=n1,n2" in answers.argvs[4]


@pytest.mark.parametrize(
    ("old", "new"),
    [("Users=", "Users=jdoe,"), ("MAINT,", ""), ("Nodes=n1", "Nodes=n2"), ("State=ACTIVE", "State=INACTIVE")],
)
def test_a_node_whose_reservation_was_changed_is_not_freed(old: str, new: str) -> None:
    """Neither by deleting it, nor by resuming the node."""
    answers = in_retest()
    answers.reservations[NAME] = answers.reservations[NAME].replace(old, new)

    with pytest.raises(ActRefused):
        machines(answers).free("n1", MARK)
    assert answers.argvs == [CREATE, RESUME]


def test_a_re_test_whose_reservation_was_changed_ends_with_the_node_drained() -> None:
    """Whoever changed it may delete it, and then nothing else would keep jobs off the node."""
    answers = in_retest()
    answers.reservations[NAME] = answers.reservations[NAME].replace("Users=", "Users=jdoe,")

    with pytest.raises(ActRefused, match="Somebody changed reservation"):
        machines(answers).close_retest("n1", MARK)
    assert answers.argvs == [CREATE, RESUME, DRAIN]


def test_a_reason_that_another_wrote_during_the_re_test_is_respected() -> None:
    """The node stays in its reservation."""
    answers = in_retest()
    answers.nodes["n1"].reason = "jdoe: do not use"

    with pytest.raises(ActRefused, match="jdoe: do not use"):
        machines(answers).free("n1", MARK)
    assert DELETE not in answers.argvs


@pytest.mark.parametrize(
    ("error", "answer"),
    spread(
        (ActAmbiguous, (TIMED_OUT, SlurmReply(-9, "", ""))),
        (ActAmbiguous, (EngineUnavailable("scontrol did not answer within 60 s."),)),
        (EngineSilent, (NOT_REACHED, MissingCommand("there is no scontrol on this machine."))),
        (ActRefused, (REFUSED,)),
    ),
)
def test_slurm_command_that_failed_raises_its_error_and_is_sent_once(
    answer: SlurmReply | Exception, error: type[Exception]
) -> None:
    """Whatever may have reached slurmctld is ambiguous; in each case the command was sent once."""
    answers = SlurmAnswers(refuse={("scontrol", "update"): answer})

    with pytest.raises(error):
        machines(answers).fence("n1", MARK)
    assert answers.argvs == [DRAIN]


@pytest.mark.parametrize(
    "answer",
    [TIMED_OUT, SlurmReply(0, "NodeName=n1", ""), EngineUnavailable("no answer"), MissingCommand("none")],
)
@pytest.mark.parametrize(
    "question", [("scontrol", "show", "node"), ("scontrol", "show", "reservation"), ("squeue",)]
)
def test_a_question_without_an_answer_changes_nothing(
    answer: SlurmReply | Exception, question: tuple[str, ...]
) -> None:
    """It is silence, whatever the reason."""
    answers = fenced(refuse={question: answer})

    with pytest.raises(EngineSilent):
        machines(answers).act(Rung.REBOOT, "n1", MARK)
    assert {argv[: len(question)] for argv in answers.argvs} == {question}


def test_a_user_with_sudo_changes_nodes_as_another_and_asks_as_itself() -> None:
    """The commands that a person would type are the same."""
    answers = SlurmAnswers(refuse={("sudo",): REFUSED})
    made = machines(answers, sudo_user="slurm")

    with pytest.raises(ActRefused, match="Invalid user id"):
        made.fence("n1", MARK)
    sudo = ("sudo", "--non-interactive", "--user=slurm")
    assert answers.argvs == [(*sudo, *DRAIN)]
    assert made.command(Rung.FENCE, "n1", MARK).startswith(f"{' '.join(sudo)} scontrol update")


@pytest.mark.parametrize(
    ("version", "loops"),
    [("3.7.2", False), ("3.8.0", True), ("3.15.1", True), ("3.15.2", False), ("3.16.0", False)],
)
def test_parallelcluster_with_the_loop_gets_no_reservation(version: str, loops: bool) -> None:
    """aws/aws-parallelcluster issue 7465; a node can be freed there all the same, because nobody tests it again."""
    answers = fenced()
    made = machines(answers, parallelcluster=version)
    if loops:
        for change in (lambda: made.open_retest("n1", (), MARK), lambda: made.act(Rung.REBOOT, "n1", MARK)):
            with pytest.raises(ActRefused, match="ParallelCluster"):
                change()
        made.free("n1", MARK)
        assert answers.argvs == [RESUME]
    else:
        made.open_retest("n1", (), MARK)
        assert answers.argvs == [CREATE, RESUME]
    assert made.fence_is is Rung.REPLACE


@pytest.mark.parametrize(
    "reason", ["jdoe: fan", "prelaunch: HARDWARE: gpu.ecc: 3 errors", "prelaunch: gate-0001 gpu.ecc"]
)
def test_a_re_test_of_a_node_that_another_drained_frees_its_partner(reason: str) -> None:
    """Whether a person, our own health check or another gate did it: its drain stays, and only the reservation is removed."""
    answers = fenced()
    made = machines(answers)
    made.open_retest("n1", ("n2",), MARK)
    answers.nodes["n1"] = FakeNode(["IDLE", "DRAIN"], reason)
    made.close_retest("n1", MARK)

    assert [argv[1] for argv in answers.argvs] == ["create", "update", "delete"]
    assert answers.state("n1") == f"IDLE+DRAIN {reason}"
    assert made.by_name()["n2"].service is ServiceState.SERVING


def test_a_re_test_ends_once_its_last_job_has_completed() -> None:
    """Slurm refuses to delete the reservation before; the node is drained at once."""
    answers = in_retest()
    busy = SlurmReply(1, "", f"delete_reservation ReservationName={NAME}: Requested reservation is in use")
    answers.refuse[("scontrol", "delete")] = busy
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            answers.refuse.clear()

    machines(answers, pause=pause).close_retest("n1", MARK)
    assert answers.argvs == [CREATE, RESUME, DRAIN, DELETE, DELETE, DELETE, DELETE]
    assert (pauses, answers.reservations) == ([1.0, 1.0, 1.0], {})


def test_a_job_that_does_not_end_keeps_the_reservation() -> None:
    """The message names it, and the node stays drained."""
    answers = in_retest()
    answers.refuse[("scontrol", "delete")] = SlurmReply(1, "", "Requested reservation is in use")

    with pytest.raises(ActRefused, match="in use"):
        machines(answers).close_retest("n1", MARK)
    assert answers.state("n1") == "IDLE+DRAIN prelaunch: gate-7f3a gpu.ecc"


def test_a_node_that_slurm_forgets_meanwhile_is_no_error_of_ours() -> None:
    """It is then refused in words."""
    answers = in_retest()
    del answers.nodes["n1"]

    with pytest.raises(ActRefused, match="The engine has no node 'n1'"):
        machines(answers).free("n1", MARK)
    machines(answers).close_retest("n1", MARK)
    assert answers.reservations == {}


def test_slurm_command_is_empty_for_ambiguous_names() -> None:
    """A person is not told to type it."""
    assert machines(SlurmAnswers()).command(Rung.REBOOT, "ALL", MARK) == ""
    assert machines(SlurmAnswers()).command(Rung.FENCE, "n1", Mark("a b", "x y z")) == ""
