"""What the preflight makes of scontrol ping: a Slurm that is not there, or one that is silent now."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.launchers.base import EngineUnavailable, PreflightResult
from tasks.launchers.slurm import commands, preflight
from tasks.launchers.slurm.commands import MissingCommand, SlurmReply
from tasks.launchers.slurm.options import SlurmOptions
from tests.tasks.launchers.slurm.test_batch_script import JOB, plan

WRONG = PreflightResult.WRONG


@pytest.mark.parametrize(
    ("said", "result", "unreachable"),
    [
        (MissingCommand("there is no scontrol on this machine."), WRONG, False),
        (EngineUnavailable("scontrol did not answer within 30 s."), PreflightResult.UNSEEN, True),
        (
            EngineUnavailable(
                "scontrol did not answer within 30 s: scontrol: error: s_p_parse_file: cannot stat file /x/slurm.conf: No such file "
                "or directory, retrying in 1sec up to 60sec."
            ),
            WRONG,
            False,
        ),
        (
            SlurmReply(
                1,
                "",
                "scontrol: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\n"
                "scontrol: error: fetch_config: DNS SRV lookup failed\n"
                "scontrol: fatal: Could not establish a configuration source",
            ),
            WRONG,
            False,
        ),
        (SlurmReply(1, "", "scontrol: error: No SlurmctldHost defined.\nscontrol: fatal: Unable to process it"), WRONG, False),
        (SlurmReply(1, "", "scontrol: fatal: Unable to process configuration file"), WRONG, False),
        (SlurmReply(1, "Slurmctld(primary) at vm is DOWN\n", ""), PreflightResult.UNSEEN, True),
        (
            SlurmReply(1, "Slurmctld(primary) at n.invalid is DOWN", 'scontrol: error: slurm_set_addr: Unable to resolve "n.invalid"'),
            PreflightResult.UNSEEN,
            True,
        ),
        (SlurmReply(1, "", "slurm_ping: Socket timed out on send/recv operation"), PreflightResult.UNSEEN, True),
    ],
)  # fmt: skip
def test_a_slurm_that_is_not_there_is_wrong_and_one_that_is_silent_may_come_back(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    said: SlurmReply | Exception,
    result: PreflightResult,
    unreachable: bool,
) -> None:
    """What scontrol ping says, as Slurm 22.05 printed it. A hung slurmctld is no mistake of the gate file."""

    def run(*argv: str, timeout_s: float = 0.0) -> SlurmReply:
        if isinstance(said, Exception):
            raise said
        return said

    monkeypatch.setattr(commands, "run", run)
    (line,) = preflight.check((plan(JOB, SlurmOptions()),), SlurmOptions(), tmp_path)

    assert (result, unreachable) == (line.result, line.unreachable)
