"""The rules about a job that runs on a machine, which the watch of a node alone applies. Pure.

They are in no policy: a policy says what a gate requires, and no gate measures a job that is not there yet. What they find is about
the job and not about the machine: it is closed when the job goes on or has gone, and refuses no gate.
"""

from __future__ import annotations

from collections.abc import Mapping

from checks.model import Action, Cause
from checks.policy import CheckPolicy, Rule

_GUIDE = "NVIDIA, NCCL user guide, RAS"
# A rank that does not answer is no proof of broken hardware: it may have crashed, or was stopped. Hardware has its own checks.
ABOUT_JOBS: Mapping[str, CheckPolicy] = {
    "nccl.job": CheckPolicy(
        rules=(
            Rule(
                "silent",
                f"{_GUIDE}: a rank is unresponsive if RAS could not reach it, and dead if that lasted for 60 s",
                equals="",
                each="silent_ranks",
                cause=Cause.APPLICATION,
                remedy=(
                    "Look on its host whether the process of this rank still runs, and in its log why it does not. The others wait "
                    "for it: restart the job if it has gone. If its host does not answer either, look at the host."
                ),
            ),
            Rule(
                "failed",
                f"{_GUIDE}: async_error is what ncclCommGetAsyncError returns on the rank",
                equals="",
                each="failed_ranks",
                cause=Cause.APPLICATION,
                remedy=(
                    "Read the log of this rank: NCCL says there what failed. A remote process error names no culprit, another "
                    "rank does."
                ),
            ),
            Rule(
                "behind",
                f"{_GUIDE}: counts that differ and do not change between queries mean that a communicator may be stuck",
                equals="",
                each="behind_ranks",
                level="WARN",
                cause=Cause.APPLICATION,
                action=Action.NONE,
                remedy=(
                    "Look at what the process of this rank waits for (py-spy dump --pid, gdb): its data, a file, a lock. The others "
                    "wait for it, also while it writes a checkpoint. It ends by itself, or the job hangs."
                ),
            ),
        ),
    ),
}  # fmt: skip
