"""A job's folder on the file system that its nodes share (batch_script.py lists its files). A file is complete or absent."""

from __future__ import annotations

import json
import os
import re
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks.documents.report import dump_plain
from checks.exchange import secret_key
from checks.process.whole_file import write_whole
from tasks.launchers.attempt_folder import Attempts, attempts_in
from tasks.launchers.base import JobStatus, Plan
from tasks.launchers.job_files import parse_state, read_end
from tasks.launchers.slurm.batch_script import SCRIPT, START
from tasks.launchers.slurm.job_states import START_MARK

SUBMITTED, CLAIM, ENDED, FINAL = "submitted.json", "claim", "ended.json", "final.json"
NOBODY = "cancelled"  # a claim that no job has
NUMBER_BYTES = 64
SCRIPT_LOG_BYTES = 1 << 18
GRACE = re.compile(r"^failed_grace_s=(\d{1,9})$", re.MULTILINE)


@dataclass(frozen=True)
class ScriptEnd:
    """ended.json: the exit code of the step, and whether the script ended it at its max runtime; `failed` are the nodes because of
    which the script ended it.
    """

    job_id: int
    exit_code: int
    overdue: bool
    failed: tuple[str, ...] = ()


class SharedJobFolder:
    """root/jobs/<name>. Writers raise OSError; readers say None for what is absent or cannot be read."""

    def __init__(self, root: Path, name: str) -> None:
        self.path = root / "jobs" / name
        self._staging = root / "staging"
        self.out = self.path / "out"
        self.logs = self.path / "logs"
        self.script_log = self.path / "slurm.log"

    def exists(self) -> bool:
        """Whether somebody has begun to submit the job."""
        return (self.path / "in" / START).is_file()

    def stage(self, plan: Plan) -> bool:
        """Let the folder appear complete, with a new key. Returns False if it is there already: somebody else was first."""
        staged = self._staging / f"{self.path.name}.{uuid.uuid4().hex}"
        try:
            for folder in ("out", "logs", "nodes", "in"):
                (staged / folder).mkdir(parents=True, mode=0o700)
            staged.chmod(0o700)
            for address, data in plan.uploads.items():
                target = staged / Path(address).relative_to(self.path)
                target.write_bytes(data)
                target.chmod(0o600)
            secret_key.write(staged / "in" / secret_key.FILE, secret_key.make())
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # A folder is never renamed over one that holds files (rename(2), ENOTEMPTY).
            os.rename(staged, self.path)
        except OSError:
            if self.exists():
                return False
            raise
        finally:
            shutil.rmtree(staged, ignore_errors=True)
        return True

    def remove(self) -> None:
        """Take the folder back, after a submission that was refused."""
        shutil.rmtree(self.path, ignore_errors=True)

    def write_submitted(self, job_id: int) -> None:
        """Record the number of the job."""
        write_whole(self.path / SUBMITTED, json.dumps({"job_id": job_id}).encode())

    def job_id(self) -> int | None:
        """The number of the one job that runs or will run: the claim's, else what sbatch returned."""
        claim = self.claim()
        if claim.isdecimal():
            return int(claim)
        number = _table(self.path / SUBMITTED).get("job_id")
        return number if type(number) is int else None

    def claim(self) -> str:
        """The number of the job that has the folder, NOBODY if it was cancelled before, "" if none has started."""
        try:
            with open(self.path / CLAIM, "rb") as file:
                return file.read(NUMBER_BYTES).decode("ascii", "replace").strip()
        except OSError:
            return ""

    def close(self) -> None:
        """Keep a job that has not started from ever using the folder. Raises OSError."""
        try:
            with open(self.path / CLAIM, "x") as file:
                file.write(f"{NOBODY}\n")
        except FileExistsError:
            return

    def ended(self) -> ScriptEnd | None:
        """How the script ended."""
        table = _table(self.path / ENDED)
        try:
            failed = tuple(str(table.get("failed") or "").split())
            return ScriptEnd(int(table["job_id"]), int(table["exit_code"]), bool(table["overdue"]), failed)
        except (KeyError, TypeError, ValueError):
            return None

    def final(self) -> JobStatus | None:
        """The job's last state."""
        try:
            return parse_state((self.path / FINAL).read_bytes())
        except OSError:
            return None

    def write_final(self, final: JobStatus) -> None:
        """Record the last state, and remove the key: no start of this job will need it."""
        write_whole(self.path / FINAL, dump_plain(final))
        secret_key.remove(self.path / "in" / secret_key.FILE)

    def failed_grace_s(self) -> int:
        """How long the script lets the other nodes run once the training has failed on one; 0: for as long as they like."""
        try:
            match = GRACE.search((self.path / SCRIPT).read_text(errors="replace"))
        except OSError:
            return 0
        return int(match[1]) if match else 0

    def attempts(self) -> Attempts:
        """The starts of the job, from what the agents of its nodes wrote."""
        return attempts_in(self.out)

    def log(self, node: str, last_bytes: int) -> str:
        """The end of a node's log, "" if there is none. Raises OSError."""
        return read_end(self.logs / f"{node}.log", last_bytes)

    def last_words(self) -> str:
        """The last line of the batch script's own log, "" if there is none."""
        lines = [line.strip() for line in self.script_words().splitlines() if line.strip()]
        return lines[-1] if lines and START_MARK not in lines[-1] else ""

    def script_words(self) -> str:
        """The end of the batch script's own log, which has what srun says; "" if there is none."""
        try:
            return read_end(self.script_log, SCRIPT_LOG_BYTES)
        except OSError:
            return ""


def _table(path: Path) -> dict[str, Any]:
    """The JSON object in a file, {} for none."""
    try:
        table = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return table if isinstance(table, dict) else {}
