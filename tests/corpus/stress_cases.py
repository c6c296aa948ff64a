"""cpu.stress, memory.stress, disk.io: nodes that are well, broken, and mute."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from checks.check import Check
from checks.model import Cause, Level, Observation, Profile
from checks.probes.host import disk, stress
from tests.corpus.case import Case, Observe, Rows, Sort, context, observed, observing, recordings_of
from tests.fakes.tools import Reply, install, on_path

text = recordings_of("host")
NODES = 4
BIT_ERRORS = "stress-ng: fail:  [9719] vm: detected 3 bit errors while stressing memory\n"
FEW: dict[str, float] = {"size_bytes": 32 << 20, "seconds": 1.0}
CONFIGURATION = Cause.CONFIGURATION


@observing
def stressed(tmp_path: Path, check: Check, replies: Sequence[Reply], deadline_s: float = 20.0) -> Rows:
    """The check on a node of two CPUs whose stress-ng does this; without replies it has none."""
    if replies:
        install(tmp_path / "bin", "stress-ng", replies)
    with pytest.MonkeyPatch.context() as patch, on_path(tmp_path / "bin", alone=True):
        patch.setattr(stress, "usable_cpus", lambda root: 2)
        return observed(check, replace(context(check, tmp_path, options=FEW), timeout_s=deadline_s))


def _slow_among_peers(tmp_path: Path) -> Sequence[Observation]:
    usual, slow = text("stress_cpu.txt"), text("stress_cpu.txt").replace("3500.79", "2100.79")
    replies = [Reply(slow if index == 2 else usual) for index in range(NODES)]
    rows = [stressed(stress.cpu_stress, [reply])(tmp_path / str(at))[0] for at, reply in enumerate(replies)]
    return [replace(row, subject=f"node-{index}") for index, row in enumerate(rows)]


def _stress_cases(check: Check, well: str, wrong: str, named: str) -> list[Case]:
    mute = {
        "stress-ng is missing": stressed(check, []),
        "stress-ng hangs": stressed(check, [Reply(text(well), seconds=3600)], 0.5),
        "stress-ng hangs half-way": stressed(check, [Reply(text(well), part=0.6, seconds=3600)], 0.5),
        "stress-ng stops half-way": stressed(check, [Reply(text(well), part=0.6)]),
        "stress-ng is killed": stressed(check, [Reply(text(well), part=0.3, signal=9)]),
        "too few resources": stressed(check, [Reply("stress-ng: info:  [1] skipped\n", code=3)]),
        "a stressor that is not built in": stressed(check, [Reply("not implemented\n", code=4)]),
        "an unknown option": stressed(check, [Reply(stderr="unknown option", code=1)]),
        "nothing is printed": stressed(check, [Reply()]),
        "garbage": stressed(check, [Reply("\x00\x01 nan nan\n" * 20)]),
        "nothing was done": stressed(check, [Reply(_nothing_done(text(well)))]),
    }
    return [
        Case(check.name, Sort.HEALTHY, "well", stressed(check, [Reply(text(well), asked="--verify")])),
        Case(check.name, Sort.HEALTHY, "on stderr, by an older version", stressed(check, [Reply(stderr=_older(text(well)))])),
        Case(check.name, Sort.HEALTHY, "well, deep", stressed(check, [Reply(text(well))]), profile=Profile.DEEP),
        Case(check.name, Sort.HEALTHY, "well, without GPUs", stressed(check, [Reply(text(well))]), instance_type="cpu"),
        Case(check.name, Sort.FAULTY, "wrong results", stressed(check, [Reply(text(wrong), code=2)]), names=named),
        *(Case(check.name, Sort.UNMEASURABLE, name, observe) for name, observe in mute.items()),
    ]  # fmt: skip


def _older(said: str) -> str:
    return said.replace("metrc:", "info: ")


def _nothing_done(said: str) -> str:
    return said.replace("7004", "   0").replace("163540", "     0")


def on_disk(
    sequential: Reply | None, random: Reply | None = None, deadline_s: float = 60.0, free_bytes: int = 1 << 40
) -> Observe:
    """disk.io on a node whose fio does this; None: it has none."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        if sequential is not None:
            replies = [replace(sequential, asked="--name=sequential")]
            install(tmp_path / "bin", "fio", [*replies, random or Reply(text("fio_random.json"))])
        with pytest.MonkeyPatch.context() as patch, on_path(tmp_path / "bin", alone=True):
            real = os.statvfs(tmp_path)
            blocks = free_bytes // real.f_frsize
            patch.setattr(os, "statvfs", lambda path: os.statvfs_result((*real[:4], blocks, *real[5:])))
            made = context(disk.disk_io, tmp_path, options=FEW)
            return observed(disk.disk_io, replace(made, timeout_s=deadline_s))

    return observe


def _with_error(number: int) -> Reply:
    value = json.loads(text("fio_sequential.json"))
    value["jobs"][0]["error"] = number
    return Reply(json.dumps(value), code=1)


def _changed(name: str, way: str, **fields: float) -> Reply:
    value = json.loads(text(name))
    value["jobs"][0][way].update(fields)
    return Reply(json.dumps(value))


WELL = Reply(text("fio_sequential.json"))
DISK_MUTE = {
    "fio is missing": on_disk(None),
    "fio hangs": on_disk(replace(WELL, seconds=3600), deadline_s=1.5),
    "fio hangs half-way": on_disk(replace(WELL, part=0.5, seconds=3600), deadline_s=1.5),
    "the JSON is cut": on_disk(replace(WELL, part=0.5)),
    "fio is killed": on_disk(replace(WELL, part=0.5, signal=9)),
    "garbage": on_disk(Reply("{\n\x00")),
    "nothing is printed": on_disk(Reply()),
    "no JSON": on_disk(Reply("fio: unrecognized option\n", code=1)),
    "another JSON": on_disk(Reply('{"jobs": []}')),
    "NaN": on_disk(Reply(text("fio_sequential.json").replace('"io_bytes" : ', '"io_bytes": ').replace("33554432", "NaN"))),
    "it fails without an error": on_disk(replace(WELL, code=1)),
    "the disk is full": on_disk(Reply(text("fio_full.txt"), code=1)),
    "not permitted": on_disk(_with_error(13)),
    "only half was verified": on_disk(_changed("fio_sequential.json", "read", io_bytes=1 << 24)),
    "only half was written": on_disk(_changed("fio_sequential.json", "write", io_bytes=1 << 24)),
    "nothing was read in random order": on_disk(WELL, _changed("fio_random.json", "read", io_bytes=0)),
    "the second run hangs": on_disk(WELL, Reply(seconds=3600), deadline_s=3.0),
    "no room": on_disk(WELL, free_bytes=1 << 20),
}  # fmt: skip

CPU, MEMORY, DISK = stress.cpu_stress.name, stress.memory_stress.name, disk.disk_io.name
CASES = [
    *_stress_cases(stress.cpu_stress, "stress_cpu.txt", "stress_cpu_wrong.txt", "matrix product error"),
    *_stress_cases(stress.memory_stress, "stress_vm.txt", "stress_vm_wrong.txt", "3 bit errors"),
    Case(CPU, Sort.FAULTY, "slower than its peers", _slow_among_peers, nodes=NODES, level=Level.WARN, names="node-2"),
    Case(CPU, Sort.FAULTY, "others use the CPUs",
        stressed(stress.cpu_stress, [Reply(text("stress_cpu.txt").replace("3.98", "1.10"))]), level=Level.WARN, cause=CONFIGURATION,
        names="cpu_share"),
    Case(CPU, Sort.UNMEASURABLE, "fewer workers than CPUs",
        stressed(stress.cpu_stress, [Reply(text("stress_cpu.txt").replace("hogs: 2 cpu", "hogs: 1 cpu"))])),
    *(
        Case(MEMORY, Sort.FAULTY, name, stressed(stress.memory_stress, [reply]), names="bit errors")
        for name, reply in (
            ("wrong, and metrics are printed", Reply(BIT_ERRORS + text("stress_vm.txt"), code=2)),
            ("wrong, on stderr, by an older version", Reply(stderr=_older(BIT_ERRORS + text("stress_vm.txt")), code=2)),
            ("wrong, and it ends well all the same", Reply(BIT_ERRORS + text("stress_vm.txt"))),
        )
    ),
    Case(DISK, Sort.HEALTHY, "well", on_disk(WELL)),
    Case(DISK, Sort.HEALTHY, "other lines before the JSON", on_disk(Reply(f"fio: notice\n{WELL.stdout}"))),
    Case(DISK, Sort.HEALTHY, "without GPUs", on_disk(WELL), instance_type="cpu"),
    Case(DISK, Sort.FAULTY, "wrong checksums", on_disk(Reply(text("fio_corrupt.txt"), stderr="crc32c: verify failed", code=1)),
        names="corrupt"),
    Case(DISK, Sort.FAULTY, "I/O errors", on_disk(_with_error(5)), names="io_errors"),
    Case(DISK, Sort.FAULTY, "I/O errors in random order", on_disk(WELL, _with_error(5)), names="io_errors"),
    Case(DISK, Sort.FAULTY, "slow writes", on_disk(_changed("fio_sequential.json", "write", bw_bytes=20e6)), cause=CONFIGURATION,
        names="write_gbps"),
    Case(DISK, Sort.FAULTY, "few random reads", on_disk(WELL, _changed("fio_random.json", "read", iops=40.0)), cause=CONFIGURATION,
        names="random_read_iops"),
    *(Case(DISK, Sort.UNMEASURABLE, name, observe) for name, observe in DISK_MUTE.items()),
]  # fmt: skip
