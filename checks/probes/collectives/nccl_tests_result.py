"""The results of a run of an nccl-tests program, and whether they are complete. Pure.

The output is complete if every size that the header announces has its row, the listed ranks are those that the numbers imply, and
the footer's average is that of the rows. That average is used for nothing else, because it depends on the chosen sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from checks.model import Value

# Rows have two decimals; the average (%g, six digits) is computed from the values before rounding.
ROUNDING = 0.006
# nccl-tests prints "none" if a collective has no operator.
OPERATORS = frozenset(("sum", "prod", "max", "min", "avg", "mulsum"))
LEAST_EXACT_GBPS = 1.0  # below this rate two decimals are not enough to compute the number of ranks


@dataclass(frozen=True)
class BufferPlacement:
    """One half of a row (in place or out of place), bandwidths in 10^9 bytes/s. `wrong` is None if results were not compared (N/A),
    as with -c 0, and as alltoall_perf and sendrecv_perf never compare those in place (src/alltoall.cu).
    """

    algbw_gbps: float
    busbw_gbps: float
    wrong: float | None


@dataclass(frozen=True)
class SizeResult:
    """One message size. `line` is its line in the text, "17: text"."""

    size_bytes: int
    redop: str
    out_of_place: BufferPlacement
    in_place: BufferPlacement
    line: str = ""

    @property
    def placements(self) -> tuple[BufferPlacement, BufferPlacement]:
        """Both halves."""
        return (self.out_of_place, self.in_place)


@dataclass(frozen=True)
class NcclTestsPlan:
    """The plan that the header announces; `step` is a factor, or bytes."""

    least_bytes: int
    most_bytes: int
    step: int
    by_factor: bool
    threads: int
    gpus: int

    def sizes(self) -> int:
        """How many rows must follow."""
        if self.step < (2 if self.by_factor else 1) or self.least_bytes < 1:
            return 1
        if not self.by_factor:
            return (self.most_bytes - self.least_bytes) // self.step + 1
        count, size = 0, self.least_bytes
        while size <= self.most_bytes:
            count, size = count + 1, size * self.step
        return count


@dataclass
class NcclTestsRun:
    """One run, as far as its lines were read. `errors` are lines in which the program or NCCL reports a failure; `odd` are lines that
    cannot be read. `commanded` is the program that a command line above it starts; the footer has
    `wrong_tests`, `average_gbps` and `slow`, which means below what the caller wanted. `ranks` have a number, and process and host.
    """

    program: str = ""
    commanded: str = ""
    version: str = ""
    plan: NcclTestsPlan | None = None
    columns: tuple[str, ...] = ()
    began: bool = False
    ended: bool = False
    wrong_tests: int | None = None
    average_gbps: float | None = None
    slow: bool = False
    ranks: list[tuple[int, tuple[int, str]]] = field(default_factory=list)
    results: list[SizeResult] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)
    lines: dict[str, str] = field(default_factory=dict)

    @property
    def full(self) -> bool:
        """Whether a line that begins a run now begins another one."""
        return bool(self.results or self.average_gbps is not None or self.ended)

    @property
    def closed(self) -> bool:
        """Whether both lines of the footer are there."""
        return self.wrong_tests is not None and self.average_gbps is not None

    @property
    def concluded(self) -> bool:
        """Whether the output is not known to stop early: from 2.17.0 on it marks its start and its end, from 2.17.4 on it names its
        version.
        """
        return (self.began and self.ended) or not (self.began or self.ended or self.version)

    @property
    def failed(self) -> bool:
        """Whether results were wrong, by the rows or by the program's own result."""
        return wrong_elements(self) > 0 or (self.closed and bool(self.wrong_tests))

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts of the listed ranks."""
        return tuple(dict.fromkeys(host for _, (_, host) in self.ranks))


def faults(run: NcclTestsRun) -> tuple[str, ...]:
    """Why the run is not complete and trustworthy; () if it is."""
    problems = list(run.odd)
    if not run.results:
        problems.append("there is no row of results")
    if not run.closed:
        problems.append("the footer is missing: the program ended early or the output was truncated")
    if not run.concluded:
        problems.append("the program reported its start but not its end")
    if not run.failed:  # with wrong results the program exits with a failure anyway
        problems += [f"it printed an error: {line}" for line in run.errors]
    if run.results:
        problems += _about_ranks(run)
    if run.results and run.closed and not rows_missing(run) and not _average_fits(run):
        problems.append(
            f"the average of the rows is not the footer's ({run.average_gbps:g} GB/s): rows are missing"
        )
    return tuple(problems)


def is_whole(run: NcclTestsRun) -> bool:
    """Whether nothing of the run's output is missing, whatever is wrong with the run."""
    return bool(run.results) and run.concluded and not rows_missing(run) and run.closed and _average_fits(run)


def metrics(runs: Sequence[NcclTestsRun], declared_ranks: int | None = None) -> dict[str, Value]:
    """One value per run, in the order of `programs`, for runs with rows and a footer.

    There are two exceptions: `points` names program, size and ranks of every row, and `busbw_gbps` has the smaller half of each row.
    """
    values: dict[str, Value] = {
        "programs": tuple(map(name_of, runs)),
        "wrong_elements": tuple(int(wrong_elements(run)) for run in runs),
        "out_of_bounds": tuple(run.wrong_tests or 0 if run.closed else 0 for run in runs),
        "rows_unverified": tuple(
            sum(record.out_of_place.wrong is None for record in run.results) for run in runs
        ),
        "rows_missing": tuple(rows_missing(run) for run in runs),
        "below_own_minimum": tuple(int(run.closed and run.slow) for run in runs),
        "ranks": tuple(ranks_of(run) for run in runs),
        "busbw_out_of_place_gbps": tuple(_best(run, "out_of_place") for run in runs),
        "busbw_in_place_gbps": tuple(_best(run, "in_place") for run in runs),
        "points": tuple(point_of(run, record) for run in runs for record in run.results),
        "busbw_gbps": tuple(_slower(run, record) for run in runs for record in run.results),
    }
    if declared_ranks is not None:
        values["ranks_missing"] = tuple(declared_ranks - ranks_of(run) for run in runs)
    return values


def wrong_elements(run: NcclTestsRun) -> float:
    """The sum of all #wrong. In an output with rounding errors instead, only the footer counts."""
    # As before 2.13.
    if "error" in run.columns:
        return 0
    return sum(half.wrong or 0 for record in run.results for half in record.placements)


def collective_of(run: NcclTestsRun) -> str:
    """The collective that ran, "all_gather": from the program's name, else the only one that its numbers allow; "" if they allow
    several.

    Bus over algorithm bandwidth is 2 (n - 1) / n for all_reduce, (n - 1) / n for all_gather, reduce_scatter and alltoall, 1 for
    sendrecv, broadcast and reduce (nccl-tests, PERFORMANCE.md). In the second group only reduce_scatter has an operator.
    """
    if run.program:
        return run.program.removesuffix("_perf")
    half = _fastest(run)
    if half.algbw_gbps < LEAST_EXACT_GBPS:
        return ""
    factor = half.busbw_gbps / half.algbw_gbps
    if factor > 1 + ROUNDING:
        return "all_reduce"
    summed = {record.redop for record in run.results} <= OPERATORS
    return "reduce_scatter" if summed and 0 < factor < 1 - ROUNDING else ""


def name_of(run: NcclTestsRun, unnamed: str = "an unnamed collective") -> str:
    """The program, or the collective if no line names the program."""
    return run.program or collective_of(run) or unnamed


def rows_missing(run: NcclTestsRun) -> int:
    """How many sizes have no row, or too many; 0 if no header says how many there should be."""
    return abs(run.plan.sizes() - len(run.results)) if run.plan else 0


def ranks_of(run: NcclTestsRun) -> int:
    """How many ranks took part: the listed ones, or else as the numbers imply; 0 if neither says so."""
    return _implied_ranks(run) if lists_one_process(run) else len(run.ranks) or _implied_ranks(run)


def lists_one_process(run: NcclTestsRun) -> bool:
    """Whether it is the output of a single process: it lists all its ranks, but the numbers are of more ranks.

    Such an output does not say on which hosts the other ranks ran.
    """
    listed = [number for number, _ in run.ranks]
    if not listed or not run.results or run.plan is None or len(listed) != run.plan.threads * run.plan.gpus:
        return False
    if len({process for _, process in run.ranks}) > 1 or len(set(listed)) < len(listed):
        return False
    ranks = _implied_ranks(run)
    return ranks > max(len(listed), *listed) and ranks % len(listed) == 0


def _best(run: NcclTestsRun, placement: str) -> float | None:
    """The bus bandwidth of the best size; None for one rank, whose bus bandwidth is 0 by definition."""
    halves: list[BufferPlacement] = [getattr(record, placement) for record in run.results]
    return max(half.busbw_gbps for half in halves) if ranks_of(run) > 1 else None


def point_of(run: NcclTestsRun, record: SizeResult) -> str:
    """How the row was measured: "all_reduce_perf 1048576 B, 8 ranks"."""
    return f"{name_of(run, 'collective')} {record.size_bytes} B, {ranks_of(run)} ranks"


def _slower(run: NcclTestsRun, record: SizeResult) -> float | None:
    """The bus bandwidth of the row: the smaller of in place and out of place, which have to be reported separately (nccl-tests)."""
    return min(half.busbw_gbps for half in record.placements) if ranks_of(run) > 1 else None


def _about_ranks(run: NcclTestsRun) -> list[str]:
    problems = []
    listed = 0 if lists_one_process(run) else len(run.ranks)
    if listed and sorted(number for number, _ in run.ranks) != list(range(listed)):
        problems.append(f"the {listed} listed ranks are not 0 to {listed - 1}")
    if listed and run.plan:
        of_process = run.plan.threads * run.plan.gpus
        processes = len({process for _, process in run.ranks})
        if processes * of_process != listed:
            problems.append(f"{listed} ranks are listed, but {processes} processes of {of_process} ran")
    if listed and not _factor_fits(run, listed):
        problems.append(f"the bus bandwidth is not that of {listed} ranks")
    if not listed and not _implied_ranks(run):
        problems.append("no rank is listed, and the number of ranks cannot be derived from the numbers")
    return problems


def _fastest(run: NcclTestsRun) -> BufferPlacement:
    return max(
        (half for record in run.results for half in record.placements), key=lambda half: half.algbw_gbps
    )


def _factor_fits(run: NcclTestsRun, ranks: int) -> bool:
    half = _fastest(run)
    if half.algbw_gbps < LEAST_EXACT_GBPS:
        return True
    share = (ranks - 1) / ranks
    within = 2 * ROUNDING * (1 + 2 * share)
    return any(abs(half.busbw_gbps - factor * half.algbw_gbps) <= within for factor in _factors(run, share))


def _factors(run: NcclTestsRun, share: float) -> tuple[float, ...]:
    """The factors that the program may have (nccl-tests, PERFORMANCE.md); all of them if the program is not named."""
    if run.program.startswith("all_reduce"):
        return (2 * share,)
    if run.program.startswith(("all_gather", "reduce_scatter", "alltoall", "gather", "scatter")):
        return (share,)
    if run.program.startswith(("sendrecv", "broadcast", "reduce_perf")):
        return (1.0,)
    return (2 * share, share, 1.0) if share else (0.0, 1.0)


def _implied_ranks(run: NcclTestsRun) -> int:
    half = _fastest(run)
    if half.algbw_gbps < LEAST_EXACT_GBPS:
        return 0
    factor = half.busbw_gbps / half.algbw_gbps
    if half.busbw_gbps == 0:
        return 1
    summed = run.program.startswith("all_reduce") or (not run.program and factor > 1 + ROUNDING)
    share = factor / 2 if summed else factor
    return round(1 / (1 - share)) if share < 1 - ROUNDING / 10 else 0


def _average_fits(run: NcclTestsRun) -> bool:
    values = [half.busbw_gbps for record in run.results for half in record.placements]
    average = sum(values) / len(values)
    return abs(average - (run.average_gbps or 0.0)) <= ROUNDING + 1e-5 * average
