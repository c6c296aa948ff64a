"""neuron.collectives: AWS's nccom-test over all cores of the node, with its own check of the results."""

from __future__ import annotations

from checks import tool
from checks.check import CheckError, Context, Measurement, Part, Resource, Skipped, check
from checks.model import Profile, Scope, Skip, Value
from checks.neuron import nccom
from checks.neuron.devices import ASK_S, read
from checks.neuron.nccom import Run, RunError
from checks.tool import Said, ToolMissing

OPERATIONS = ("allr", "allg", "redsct")
SIZES = ("1MB", "4MB", "16MB", "64MB")
GREATEST_BYTES = 64 << 20


@check(
    "neuron.collectives",
    Scope.NODE,
    timeout_s=1800,
    metrics=("cores_used", "rows_missing", "failures", "wrong_results", "busbw_gbps"),
    needs="nccom-test, neuron-ls",
    cost="minutes",
    profiles=(Profile.STANDARD, Profile.DEEP),
    part=Part.NEURON,
    serial=True,
    uses=(Resource.GPU,),
)
def collectives(context: Context) -> Measurement | Skipped:
    """Runs all-reduce, all-gather and reduce-scatter over all logical cores of the node, 1 MB to 64 MB, float32.

    An element an operation: `rows_missing` (sizes without a figure), `failures` and `wrong_results` (texts, "" where
    there is nothing), `busbw_gbps` (10^9 bytes/s at the greatest size, null if that one failed). `cores_used` is
    the number of ranks. Raises CheckError for output that is cut, or a failure that names no size.
    """
    deadline_s = min(context.options.get("deadline_s", 300.0), max(context.timeout_s - 60.0, 1.0))
    operations = OPERATIONS[: int(context.options.get("operations", len(OPERATIONS)))]
    try:
        heard = tool.run(("neuron-ls", "-j"), ASK_S)
        listing = read(heard.stdout, heard.code, heard.account())
        ranks = sum(device.logical_cores for device in listing.devices)
        said = [run(operation, ranks, deadline_s / len(operations)) for operation in operations]
    except ToolMissing as missing:
        return Skipped(Skip.TOOL_MISSING, str(missing))
    runs = [understood(one) for one in said]
    metrics: dict[str, Value] = {"cores_used": ranks, **metrics_of(operations, runs)}
    return Measurement(metrics, "\n\n".join(one.account() for one in said))


def run(operation: str, ranks: int, deadline_s: float) -> Said:
    """What nccom-test said. Raises ToolMissing."""
    sizes = ("--minbytes", SIZES[0], "--maxbytes", SIZES[-1], "--stepfactor", "4")
    return tool.run(
        ("nccom-test", "-r", str(ranks), *sizes, "--datatype", "fp32", "--check", operation), deadline_s
    )


def understood(said: Said) -> Run:
    """The run that was printed. Raises CheckError."""
    if said.code is None:
        raise CheckError(f"nccom-test did not end within its deadline: {said.account()[:1000]}")
    try:
        made = nccom.parse(said.stdout)
    except RunError as error:
        raise CheckError(f"{error}: {said.account()[:1000]}") from error
    if said.code and not made.failures and not made.wrong:
        raise CheckError(f"nccom-test failed, and named no size: {said.account()[:1000]}")
    return made


def metrics_of(operations: tuple[str, ...], runs: list[Run]) -> dict[str, Value]:
    """The metrics of the runs, an element an operation."""
    at_greatest = [
        next((row.busbw_gbps for row in run.rows if row.size_bytes >= GREATEST_BYTES), None) for run in runs
    ]
    return {
        "operations": operations,
        "rows_missing": tuple(len(SIZES) - len({row.size_bytes for row in run.rows}) for run in runs),
        "failures": tuple("; ".join(run.failures)[:300] for run in runs),
        "wrong_results": tuple("; ".join(run.wrong)[:300] for run in runs),
        "busbw_gbps": tuple(at_greatest),
    }
