"""What a watch costs: CPU and memory of its rounds, alone and beside a job that keeps every CPU busy.

    .venv/bin/python -m tests.benchmarks.watch [ROUNDS]

Prints, for each, seconds of CPU a round with all child processes, the share of one core at a round a minute, the most memory of any of
its processes in MiB, and what it found.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
BURN = "while True: pass"
INTERVAL_S = 60.0


def measured(rounds: int) -> tuple[float, float, str]:
    """Seconds of CPU a round, MiB, and the list of findings, of a watch that makes so many rounds."""
    with tempfile.TemporaryDirectory() as state:
        environment = {**os.environ, "PRELAUNCH_STATE": state}
        words = ("-m", "checks", "watch", "--instance-type", "cpu", "--every", "1", "--listen", "")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            (sys.executable, *words, "--rounds", str(rounds)), cwd=ROOT, env=environment, check=True, stderr=subprocess.DEVNULL
        )  # fmt: skip
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        listed = subprocess.run(
            (sys.executable, "-m", "checks", "findings"), cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )  # fmt: skip
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent / rounds, after.ru_maxrss / 1024, listed.stdout.strip()


def main(rounds: int) -> None:
    """Measures and prints."""
    said = []
    for name, jobs in (("alone", 0), ("beside a busy job", os.cpu_count() or 1)):
        burning = [subprocess.Popen((sys.executable, "-c", BURN)) for _ in range(jobs)]
        try:
            cpu_s, memory, found = measured(rounds)
        finally:
            for process in burning:
                process.kill()
                process.wait()
        said.append(found)
        share = 100 * cpu_s / INTERVAL_S
        print(
            f"{name}: {rounds} rounds, {cpu_s:.2f} s of CPU a round ({share:.1f} % of a core), {memory:.0f} MiB"
        )
    print(f"findings alone: {said[0]}\nfindings beside the job: {said[1]}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 60)
