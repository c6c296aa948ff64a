"""A process of remediation to which something happens at a chosen moment. Run by tests.

It is killed (as a program: mortal.py FOLDER MOMENT CLOCK), or the folder of its store is moved to FOLDER/away, and a file is in its
place.

The store is a real folder. The engine is a file (FOLDER/engine.json), which is a simulation: each request is appended to
FOLDER/requests when it takes effect, and a repair is done 60 s later. Moments are counted: before and after each change of the store,
and before and after each request takes effect. At moment 0 nothing happens.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tasks.machines.base import Holder, Machine, Mark, Retest, Rung, ServiceState, Settled
from tasks.remediation.drive import Rechecked, Remediation
from tasks.remediation.model import Case, Identity, Proof, RepairMode, RepairSettings
from tasks.remediation.records import Records, with_cases
from tasks.store.folder import FolderStore
from tests.tasks.remediation.simulated import SimulatedPeople, World

NODES = 4
ROUNDS, STEP_S = 12, 30.0


class Moments:
    """Counts, and lets it happen at the chosen one."""

    def __init__(self, chosen: int, happen: Callable[[], object]) -> None:
        self.chosen, self.now, self.happen = chosen, 0, happen

    def __call__(self) -> None:
        """One moment."""
        self.now += 1
        if self.now == self.chosen:
            self.happen()


def _moments(change: Callable[..., Any]) -> Callable[..., Any]:
    """The same change, with a moment before and one after it."""

    def made(store: MortalStore, *given: object) -> Any:
        store.moment()
        done = change(store, *given)
        store.moment()
        return done

    return made


class MortalStore(FolderStore):
    """A folder whose changes are moments."""

    moment: Moments
    put = _moments(FolderStore.put)
    put_if_absent = _moments(FolderStore.put_if_absent)
    replace_if = _moments(FolderStore.replace_if)


class FileEngine:
    """n0 to n3; n1 is sick until it was rebooted."""

    name = "file"
    rungs = frozenset((Rung.REBOOT, Rung.REPLACE))
    fence_is = Rung.FENCE

    def __init__(self, folder: Path, moment: Moments, clock: Callable[[], float]) -> None:
        self.file, self.log = folder / "engine.json", folder / "requests"
        self.moment, self.clock = moment, clock

    def state(self) -> dict[str, Any]:
        """The truth about n1."""
        if not self.file.exists():
            return {"mark": None, "testing": False, "due": None, "boot": 0, "booted_at": 0.0}
        kept: dict[str, Any] = json.loads(self.file.read_text())
        if kept["due"] is not None and kept["due"] <= self.clock():
            kept |= {"due": None, "boot": kept["boot"] + 1, "booted_at": kept["due"]}
        return kept

    def _change(self, request: str, **values: object) -> str:
        with (self.file.parent / "moments").open("a") as moments:
            moments.write(f"{request} {self.moment.now + 1}\n")
        self.moment()
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps(self.state() | values))
        with self.log.open("a") as log:
            log.write(f"{request}\n")
        new.rename(self.file)
        self.moment()
        return request

    def by_name(self) -> Mapping[str, Machine]:
        """The nodes."""
        found = {f"n{index}": Machine(f"n{index}", ServiceState.SERVING) for index in range(NODES)}
        kept = self.state()
        mark = Mark.read(kept["mark"] or "")
        service = ServiceState.OUT if mark else ServiceState.SERVING
        service = ServiceState.TESTING if kept["testing"] else service
        service = ServiceState.CHANGING if kept["due"] is not None else service
        holder = Holder.PRELAUNCH if mark else Holder.NOBODY
        found["n1"] = Machine("n1", service, holder, mark=mark, booted_at=kept["booted_at"])
        return found

    def fence(self, node: str, mark: Mark) -> str:
        """Fence."""
        return self._change("fence", mark=str(mark))

    def act(self, rung: Rung, node: str, mark: Mark, gpus: Sequence[int] = ()) -> str:
        """Reboot."""
        return self._change(rung.value, due=self.clock() + 60.0)

    def settled(self, rung: Rung, before: Machine, now: Machine) -> Settled:
        """By the boot time."""
        return Settled.DONE if now.booted_at != before.booted_at else Settled.PENDING

    def open_retest(self, node: str, partners: Sequence[str], mark: Mark) -> Retest:
        """Test it."""
        self._change("open", testing=True)
        return Retest((node,))

    def close_retest(self, node: str, mark: Mark) -> None:
        """End the test."""
        self._change("close", testing=False)

    def free(self, node: str, mark: Mark) -> str:
        """Return it."""
        return self._change("free", mark=None, testing=False)

    def command(self, rung: Rung, node: str, mark: Mark, gpus: Sequence[int] = ()) -> str:
        """What a person would type."""
        return f"{rung.value} {node}"

    def shell(self, machine: Machine) -> str:
        """None."""
        return ""


def kill() -> None:
    """This process dies."""
    os.kill(os.getpid(), signal.SIGKILL)


def take_away(folder: Path) -> None:
    """The store cannot be reached any more, nor made anew."""
    (folder / "store").rename(folder / "away")
    (folder / "store").touch()


def main(folder: Path, chosen: int, begin: float, happen: Callable[[], object]) -> int:
    """Take steps until no case is open; how many moments there were."""
    moment = Moments(chosen, happen)
    now = [begin]
    store = MortalStore(folder / "store")
    store.moment = moment
    engine = FileEngine(folder, moment, lambda: now[0])
    records = Records(store, "sim")
    (case,) = World(1, size=NODES).condemn("n1")
    records.change(lambda journal: with_cases(journal, (case,)), now[0])
    drive = drive_of(records, engine, now, f"process-{begin}")
    for _ in range(ROUNDS):
        drive.round()
        if not records.journal().cases:
            break
        now[0] += STEP_S
    return moment.now


def drive_of(records: Records, engine: FileEngine, now: list[float], writer: str) -> Remediation:
    """A process that carries on with whatever is in the journal; `now` is its clock."""

    def recheck(case: Case, place: Retest) -> Rechecked:
        boot = engine.state()["boot"]
        proof = Proof.PASSED if boot else Proof.FAILED
        return Rechecked(proof, Identity(f"boot-n1-{boot}"), "g2", "", now[0])

    people, settings = SimulatedPeople(World(1, hostile=False)), RepairSettings(RepairMode.ACT)
    return Remediation(records, engine, settings, recheck, people, writer, lambda: now[0])


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), kill)
