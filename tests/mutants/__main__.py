"""`make mutants`: changes single lines of the code that decides, and reports which changes no fast test notices.

A survivor that is listed in survivors.toml is known, with the reason why no test can or needs to notice it. The exit status is 1 if
another one survives, or if fewer than 90 % die.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.architecture.graph import graph
from tests.architecture.tree import PACKAGES, ROOT
from tests.mutants.choice import fast_tests
from tests.mutants.mutations import Mutant, enums_of, mutants_of, sample
from tests.mutants.survivors import KNOWN, Survivor, load
from tests.mutants.trial import Copy, Fate, Trial

# What decides: the verdict, the rules, the lock, who ends what, the gate inside a job, and what is merged.
MODULES = (
    "checks.check",
    "checks.documents.decode",
    "checks.documents.report",
    "checks.judge.certificates.decision",
    "checks.judge.certificates.issue",
    "checks.judge.certificates.record",
    "checks.judge.completeness",
    "checks.judge.evidence",
    "checks.judge.machine_identity",
    "checks.judge.reachability",
    "checks.judge.rules.apply",
    "checks.judge.rules.combined",
    "checks.judge.rules.expected",
    "checks.judge.rules.expected_values",
    "checks.judge.rules.noise",
    "checks.judge.rules.relative",
    "checks.judge.rules.tails",
    "checks.judge.rules.values",
    "checks.judge.verdict",
    "checks.merge",
    "checks.runner.in_job.confirm",
    "checks.runner.in_job.hold",
    "checks.runner.in_job.job_gate",
    "checks.runner.in_job.judges",
    "tasks.finish",
    "tasks.gate.approval.answers",
    "tasks.gate.lease.lease",
    "tasks.gate.lease.owner",
    "tasks.gate.question",
    "tasks.gate.session",
    "tasks.launch",
    "tasks.launchers.attempts",
    "tasks.remediation.ladder",
    "tasks.remediation.proof",
    "tasks.remediation.steps",
)
COUNT, SEED, LEAST = 200, 20261123, 0.9


def all_mutants(
    root: Path, modules: Sequence[str], only: Collection[str] | None = None
) -> tuple[Mutant, ...]:
    """Every mutant of these modules, or of these lines of theirs `only`."""
    enums = enums_of(path.read_bytes() for package in PACKAGES for path in (root / package).rglob("*.py"))
    return tuple(
        mutant
        for module in modules
        for mutant in mutants_of(module, (root / f"{module.replace('.', '/')}.py").read_bytes(), enums, only)
    )


class Bench:
    """Copies of the tree, and for each module its tests and the time they take."""

    def __init__(self, folder: Path, workers: int, modules: Sequence[str]) -> None:
        imports = graph(ROOT, *PACKAGES, "container", "tests")
        self.tests = {module: fast_tests(module, imports, ROOT) for module in modules}
        self._copies = SimpleQueue[Copy]()
        for number in range(workers):
            self._copies.put(Copy(ROOT, folder / str(number)))
        self._limits: dict[str, float] = {}
        self._locks = {module: threading.Lock() for module in modules}

    def judge(self, mutant: Mutant) -> Trial:
        """What the tests of its module say of a mutant."""
        tests = self.tests[mutant.module]
        if not tests:
            return Trial(Fate.SURVIVED, 0.0, "no fast test imports the module")
        copy = self._copies.get()
        try:
            with self._locks[mutant.module]:
                if mutant.module not in self._limits:
                    self._limits[mutant.module] = self._limit_s(copy, tests)
            return copy.try_on(mutant.module, mutant.source, tests, self._limits[mutant.module])
        finally:
            self._copies.put(copy)

    @staticmethod
    def _limit_s(copy: Copy, tests: Sequence[str]) -> float:
        whole = copy.run(tests, 600)
        if whole.fate is not Fate.SURVIVED:
            sys.exit(f"mutants: these tests fail without a mutant: {' '.join(tests)}\n{whole.said}")
        return 20 + 5 * whole.seconds


def main(argv: Sequence[str]) -> int:
    """Try a sample, and return the exit status."""
    parser = argparse.ArgumentParser(prog="make mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=COUNT)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--module", action="append", help="of these modules only")
    asked = parser.parse_args(argv)
    modules = asked.module or MODULES
    chosen = sample(all_mutants(ROOT, modules), asked.count, asked.seed)
    begun, known = time.monotonic(), load(KNOWN)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(asked.workers) as pool:
        bench = Bench(Path(folder), asked.workers, sorted({mutant.module for mutant in chosen}))
        trials = list(pool.map(_reported(bench.judge, known), chosen))
    return summed_up(list(zip(chosen, trials, strict=True)), known, time.monotonic() - begun)


def _reported(judge: Callable[[Mutant], Trial], known: Sequence[Survivor]) -> Callable[[Mutant], Trial]:
    def judged(mutant: Mutant) -> Trial:
        trial = judge(mutant)
        if trial.fate is Fate.SURVIVED:
            reason = next((one.reason for one in known if one.key == mutant.key), "NOT LISTED")
            print(
                f"{mutant.module}:{mutant.line}: survived ({mutant.change}, occurrence {mutant.occurrence}): {reason}\n"
                f"  - {mutant.original}\n  + {mutant.changed}",
                flush=True,
            )
        return trial

    return judged


def summed_up(tried: Sequence[tuple[Mutant, Trial]], known: Sequence[Survivor], seconds: float) -> int:
    """Print the count by module and in all; the exit status."""
    listed = {one.key for one in known}
    survived = [mutant for mutant, trial in tried if trial.fate is Fate.SURVIVED]
    unlisted = [mutant for mutant in survived if mutant.key not in listed]
    dead = [mutant for mutant, trial in tried if trial.fate is not Fate.SURVIVED]
    for module in sorted({mutant.module for mutant, _ in tried}):
        here = [trial for mutant, trial in tried if mutant.module == module]
        killed = sum(trial.fate is not Fate.SURVIVED for trial in here)
        print(f"{killed:4d} of {len(here):3d} killed in {module} ({sum(one.seconds for one in here):.0f} s)")
    for mutant in (mutant for mutant in dead if mutant.key in listed):
        print(f"{mutant.module}: {mutant.original!r} ({mutant.change}) is killed now: take it off the list")
    late = sum(trial.fate is Fate.TIMED_OUT for _, trial in tried)
    share = len(dead) / len(tried) if tried else 0.0
    print(
        f"{len(tried)} mutants: {len(dead)} killed ({late} of them by a time limit), {len(survived)} survived, "
        f"{len(unlisted)} of these not listed; {share:.1%} killed (at least {LEAST:.0%} required); "
        f"{seconds / 60:.1f} minutes"
    )
    return int(bool(unlisted) or share < LEAST)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
