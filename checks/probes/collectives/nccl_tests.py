"""nccl.tests: NVIDIA's own nccl-tests programs on all GPUs of the node, where they are installed."""

from __future__ import annotations

from dataclasses import replace

from checks.check import Basis, CheckError, Context, Measurement, Resource, Skipped, check
from checks.model import Part, Profile, Scope, Skip
from checks.model_details import Contents
from checks.probes.collectives import nccl_tests_result, nccl_tests_text
from checks.probes.collectives.nccl_tests_result import Plan, Run
from checks.probes.collectives.operations import KINDS
from checks.process.tool import ToolMissing, ToolResult, find, run

# In this order: the first is the most important one for training, and if it is missing, none is installed.
PROGRAMS = tuple(f"{kind.name}_perf" for kind in KINDS)
METRICS = (
    "programs",
    "programs_missing",
    "wrong_elements",
    "out_of_bounds",
    "rows_unverified",
    "rows_missing",
    "below_own_minimum",
    "ranks",
    "ranks_missing",
    "busbw_out_of_place_gbps",
    "busbw_in_place_gbps",
    "points",
    "busbw_gbps",
)


def holds(basis: Basis) -> tuple[Contents, ...]:
    """Each program that is installed, and each size of its run."""
    least, most, wanted = (int(basis.options.get(name, 1)) for name in ("min_bytes", "max_bytes", "programs"))
    sizes, missing = Plan(least, most, 4, True, 1, 1, True).sizes(), "programs_missing"
    points = Contents("points", wanted * sizes, along=("busbw_gbps",), less=missing, each=sizes)
    return Contents("programs", len(PROGRAMS[:wanted]), less=missing), points


@check(
    "nccl.tests",
    Scope.NODE,
    timeout_s=300,
    metrics=METRICS,
    needs="nccl-tests",
    cost="minutes",
    profiles=(Profile.STANDARD, Profile.DEEP),
    min_ranks=2,
    part=Part.GPU,
    uses=(Resource.GPU,),
    holds=holds,
)
def tests(context: Context) -> Measurement | Skipped:
    """Runs nccl-tests on all GPUs of this node: every element compared, every size there, every GPU in use.

    Metrics have one value for each of `programs`. Bandwidths are the best size's, in 10^9 bytes/s, in place and out of
    place apart; but `busbw_gbps` is that of each row, the lesser of both, at `points`. What is not whole (no footer, a
    size without a row) is an error.
    """
    gpus = context.declared.gpus_per_node
    if gpus < 2:
        return Skipped(
            Skip.ONE_RANK_DECLARED, "there is one GPU per node, and a program with one rank exchanges nothing"
        )
    wanted = PROGRAMS[: int(context.options.get("programs", 1))]
    try:
        find(wanted[0])
    except ToolMissing as error:
        return Skipped(Skip.TOOL_MISSING, str(error))
    installed = [name for name in wanted if _is_installed(name)]
    share_s = 0.95 * context.timeout_s / len(installed)
    said = [run((name, *_arguments(context, gpus)), share_s) for name in installed]
    runs = [_read(name, one) for name, one in zip(installed, said, strict=True)]
    metrics = {**nccl_tests_result.metrics(runs, gpus), "programs_missing": len(wanted) - len(installed)}
    lacking = "".join(f"not installed: {name}\n" for name in wanted if name not in installed)
    return Measurement(metrics, lacking + "\n".join(one.account() for one in said))


def _is_installed(name: str) -> bool:
    try:
        find(name)
    except ToolMissing:
        return False
    return True


def _arguments(context: Context, gpus: int) -> tuple[str, ...]:
    least, most = int(context.options["min_bytes"]), int(context.options["max_bytes"])
    return ("-b", str(least), "-e", str(most), "-f", "4", "-g", str(gpus), "-c", "1")


def _read(name: str, said: ToolResult) -> Run:
    """The only run of the program. Raises CheckError if it is not complete."""
    if not said.whole:
        raise CheckError(
            f"{name} did not end by itself, or its output was truncated\n{said.account()[-2000:]}"
        )
    runs = nccl_tests_text.read(f"{said.stdout}\n{said.stderr}")
    if len(runs) != 1:
        raise CheckError(f"{name} printed {len(runs)} runs, not one\n{said.account()[-2000:]}")
    made = runs[0]
    made = replace(made, program=made.program or name)
    why = nccl_tests_result.faults(made)
    if not why and said.code != 0 and not (made.failed or (made.footer and made.footer.slow)):
        why = (f"exit code {said.code}, although its footer reports success",)
    if nccl_tests_result.lists_one_process(made):
        why = (*why, "it lists the ranks of one process only")
    if made.plan is None or made.program != name:
        why = (*why, f"the header is missing or belongs to {made.program}")
    if why and not (made.failed and made.rows):  # wrong results count, whatever else is missing
        raise CheckError(f"{name}: {'; '.join(why)}\n{said.account()[-2000:]}")
    return made
