"""disk.io: what fio's JSON says, and a real run."""

from __future__ import annotations

from pathlib import Path

import pytest

from checks.check import CheckError
from checks.probes.host.disk import disk_io, parse, size_to_write
from tests.corpus.case import context, recordings_of, whole

recorded = recordings_of("host")


def test_a_job_is_read() -> None:
    """Bytes, bytes/s, and the 99th percentile in seconds."""
    job = parse(recorded("fio_sequential.json"))

    assert (job.error, job.write.io_bytes, job.read.io_bytes) == (0, 32 << 20, 32 << 20)
    assert job.write.bw_bytes > 1e8
    assert job.read.p99_s is not None
    assert 1e-5 < job.read.p99_s < 1


def test_a_full_disk_is_not_filled(tmp_path: Path) -> None:
    """A twentieth of what is free at most; a folder that is not there is an error."""
    assert size_to_write(tmp_path, 8 << 20) <= 8 << 20
    with pytest.raises(CheckError):
        size_to_write(tmp_path / "none", 8 << 20)


@pytest.mark.needs("fio")
def test_a_real_run(tmp_path: Path) -> None:
    """fio itself over 8 MiB: right data, some speed, and nothing left in the folder."""
    result = whole(disk_io, context(disk_io, tmp_path, options={"size_bytes": 8 << 20, "seconds": 0.3}))

    assert (result.metrics["corrupt"], result.metrics["io_errors"]) == (0, 0)
    assert float(str(result.metrics["random_read_iops"])) > 0
    assert list(tmp_path.iterdir()) == []
