"""What a job left, by whichever channel it came: over real HTTP, against moto's S3 and CloudWatch."""

from __future__ import annotations

import itertools
import tarfile
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from container.agent.files.log_lines import lines_of
from tasks.launchers.base import LaunchError
from tasks.launchers.sagemaker.api import Clients
from tasks.launchers.sagemaker.output import fetch, s3_objects
from tasks.launchers.sagemaker.output.fetch import ChannelFiles, SageMakerOutput
from tasks.launchers.sagemaker.output.s3_objects import ListedObject
from tasks.launchers.sagemaker.request.locations import Places
from tasks.store.aws import AwsTimeouts
from tests.fakes.serving import serving
from tests.tasks.launchers.sagemaker.left import A, Account, B, files_in, packed, record, report, told
from tests.tasks.launchers.sagemaker.stubbed import ALGORITHM, BEGAN, JOB, REGION, described
from tests.tasks.store.servers import Flaky, moto, named

ARCHIVE = f"output/{JOB}/output"
RESTARTED = ("Starting", "Training", "Restarting", "Starting", "Training", "Completed")
HOSTS = ("algo-1", "algo-2")
NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def clients() -> Iterator[tuple[Clients, Flaky]]:
    """One moto for all of them, behind a proxy."""
    with moto() as url, serving(Flaky(url)) as proxy, named(proxy.url):
        yield Clients(REGION, AwsTimeouts(deadline_s=0.7, pause_s=0.001, longest_pause_s=0.01)), proxy


@pytest.fixture
def aws(clients: tuple[Clients, Flaky]) -> Account:
    """A bucket of the test's own, nothing in the logs, and a good day."""
    made = Account(*clients, f"prelaunch-{next(NUMBERS)}")
    made.proxy.faults, made.proxy.always = [], "ok"
    made.clients.client("s3").create_bucket(Bucket=made.bucket)
    for group in made.clients.client("logs").describe_log_groups()["logGroups"]:
        made.clients.client("logs").delete_log_group(logGroupName=group["logGroupName"])
    made.proxy.seen.clear()
    return made


def test_whole_objects_come_as_they_grow(aws: Account, tmp_path: Path) -> None:
    """While the job runs, whatever is still missing."""
    files = {f"{A}/agent/algo-1.json": record(None), "algo-1": b"a command's own file"}
    aws.writes(files)
    aws.output().fetch(tmp_path, None)

    assert files == files_in(tmp_path)


def test_only_what_is_new_is_read(aws: Account, tmp_path: Path) -> None:
    """A version is read once; another one of the same length as well."""
    output = aws.output()
    aws.writes({f"{A}/failure/algo-1": b"one", f"{A}/failure/algo-2": b"two"})
    output.fetch(tmp_path, None)
    aws.writes({f"{A}/failure/algo-1": b"eno"})
    aws.reads()
    output.fetch(tmp_path, None)

    assert (aws.reads(), (tmp_path / A / "failure" / "algo-1").read_bytes()) == (2, b"eno")


def test_strange_keys_stay_in_s3(aws: Account, tmp_path: Path) -> None:
    """Whoever writes below the prefix writes nowhere else on this machine."""
    aws.writes({"../../x": b"x", f"{A}/nodes/.algo-1.json.tmp": b"x", "a//b": b"x", f"{A}/nodes/": b""})
    aws.output().fetch(tmp_path / "into", None)

    assert {} == files_in(tmp_path)


def test_an_object_that_always_comes_cut_is_not_there(aws: Account, tmp_path: Path) -> None:
    """Whatever the server says about its length."""
    aws.writes({f"{A}/nodes/algo-1.json": report("algo-1")})
    aws.proxy.faults, aws.proxy.always = ["ok"], "cut"
    with pytest.raises(LaunchError, match=r"\d+ bytes came of the \d+ that were listed"):
        aws.output().fetch(tmp_path, None)

    assert {} == files_in(tmp_path)


def test_an_object_that_is_replaced_after_it_was_listed_comes_in_its_new_version(
    aws: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent replaces its record while it runs, and a healthy gate was refused for it."""
    name, look = f"{A}/agent/algo-1.json", fetch.written
    aws.writes({name: record(None)})

    def replaced(clients: Clients, places: Places) -> Mapping[str, ListedObject]:
        found = look(clients, places)
        aws.writes({name: record(0)})
        return found

    monkeypatch.setattr(fetch, "written", replaced)
    aws.output().fetch(tmp_path, None)

    assert {name: record(0)} == files_in(tmp_path)


@pytest.mark.parametrize(
    ("becomes", "why"), [(b"x" * 11, "4 bytes came of the 3 that were listed"), (None, "NoSuchKey")]
)
def test_an_object_too_large_or_gone_is_not_there(aws: Account, becomes: bytes | None, why: str) -> None:
    """Its listing was of another one."""
    prefix = f"s3://{aws.bucket}/gates/{JOB}/reports/gate"
    aws.writes({f"{A}/failure/algo-1": b"one"})
    (item,) = s3_objects.listed(aws.clients, prefix)
    if becomes is None:
        aws.clients.client("s3").delete_object(Bucket=aws.bucket, Key=f"gates/{JOB}/reports/gate/{item.path}")
    else:
        aws.writes({item.path: becomes})
    ((_, said),) = s3_objects.read_all(aws.clients, prefix, [item], most=10)

    assert isinstance(said, str) and why in said


def test_an_s3_that_is_gone_is_an_error(aws: Account, tmp_path: Path) -> None:
    """Nothing came by another way either."""
    aws.proxy.always = "slow"
    with pytest.raises(LaunchError, match="SlowDown"):
        aws.output().fetch(tmp_path, aws.ended())


# Machines that were confirmed check nothing: there is no report to look for.
AGENTS = {f"{A}/agent/{name}.json": record(1) for name in HOSTS}
LET_IN = AGENTS | {f"{A}/started/{name}": b"" for name in HOSTS}


@pytest.mark.parametrize("files", [told(), LET_IN], ids=["checked", "confirmed"])
def test_a_job_that_told_all_is_read_by_objects_alone(
    aws: Account, tmp_path: Path, files: dict[str, bytes]
) -> None:
    """Its archive may hold a training's own results."""
    aws.writes(files)
    aws.writes({"output.tar.gz": packed({f"{A}/failure/algo-1": b"x"})}, ARCHIVE)
    aws.output().fetch(tmp_path, aws.ended())

    assert files_in(tmp_path) == files


@pytest.mark.parametrize("begun", [{}, told(A, "algo-2", code=None, complete=False)])
def test_output_fetch_takes_from_the_archive_what_was_not_copied_whole(
    aws: Account, tmp_path: Path, begun: dict[str, bytes]
) -> None:
    """The report of a host that reached no S3, or only at its beginning; a finished one is never replaced."""
    aws.writes(told(A, "algo-1") | begun)
    other = told(A, "algo-2") | {f"{A}/nodes/algo-1.json": report("somebody-else")}
    aws.writes({"output.tar.gz": packed(other)}, ARCHIVE)
    aws.output().fetch(tmp_path, aws.ended())

    assert told() == files_in(tmp_path)


def test_an_archive_gives_its_reports_and_nothing_else(aws: Account, tmp_path: Path) -> None:
    """No link, no device, no way out of the folder, nothing of the training's own."""
    special: list[tarfile.TarInfo] = []
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE):
        special.append(tarfile.TarInfo(f"{A}/nodes/algo-{len(special) + 3}.json"))
        special[-1].type, special[-1].linkname = kind, "/etc/passwd"
    strange = dict.fromkeys(("../x", "/etc/x", "weights.bin", f"{A}/nodes/../../y", f"{A}/other/z"), b"x")
    aws.writes({"output.tar.gz": packed(told() | strange, *special)}, ARCHIVE)
    aws.output().fetch(tmp_path / "into", aws.ended())

    assert told() == files_in(tmp_path / "into")
    assert ["into"] == [path.name for path in tmp_path.iterdir()]


def test_an_archive_that_is_cut_gives_what_it_has(aws: Account, tmp_path: Path) -> None:
    """Whatever that is."""
    aws.writes({"output.tar.gz": packed(told(), tarfile.TarInfo("x"))[:-60]}, ARCHIVE)
    aws.output().fetch(tmp_path, aws.ended())

    assert set(files_in(tmp_path)) <= set(told())


def test_the_log_is_the_last_way_out(aws: Account, tmp_path: Path) -> None:
    """Network isolation, and an output that was lost."""
    for number, host in enumerate(HOSTS):
        aws.prints(host, ["noise", *lines_of("gate", A, host, report(host))], 1700000000 + number)
    output = aws.output()
    output.fetch(tmp_path, aws.ended())

    assert {f"{A}/nodes/{host}.json": report(host) for host in HOSTS} == files_in(tmp_path)
    assert output.summary(aws.ended()).attempt == A


@pytest.mark.parametrize("index", [0, 9])
def test_a_report_is_read_at_both_ends_of_a_long_log(monkeypatch: pytest.MonkeyPatch, index: int) -> None:
    """In one job the checks print before the training does; what could not be copied is printed last."""
    pages = [["x" * 1000]] * 9
    pages.insert(index, list(lines_of("gate", A, "algo-1", report("algo-1"))))
    monkeypatch.setattr(fetch, "LOG_BYTES", 5000)

    def call(service: str, operation: str, missing: object, **request: Any) -> Any:
        if operation == "describe_log_streams":
            return {"logStreams": [{"logStreamName": f"{JOB}/algo-1-1"}]}
        page = int(request.get("nextToken", 0 if request["startFromHead"] else 9))
        tokens = {"nextForwardToken": str(min(page + 1, 9)), "nextBackwardToken": str(max(page - 1, 0))}
        return {"events": [{"message": line} for line in pages[page]], **tokens}

    fetch._lines(SimpleNamespace(call=call), JOB, ("algo-1",), brought := ChannelFiles())  # type: ignore[arg-type]

    assert [f"{A}/nodes/algo-1.json"] == list(brought.files)


def test_a_host_speaks_for_itself_alone_in_the_log(aws: Account, tmp_path: Path) -> None:
    """One container cannot vouch for another."""
    aws.prints("algo-1", list(lines_of("gate", A, "algo-2", report("algo-2"))))
    aws.output().fetch(tmp_path, aws.ended())

    assert {} == files_in(tmp_path)


def test_exit_codes_are_the_agents_own(aws: Account) -> None:
    """One that said nothing of its end is not there."""
    aws.writes(told(A, "algo-1", code=7) | told(A, "algo-2", code=None))

    assert {"algo-1": 7} == aws.output().summary(aws.ended("Failed", FailureReason=ALGORITHM)).exit_codes


def restarted(aws: Account) -> dict[str, Any]:
    """The end of a job whose last start begins half a minute from now."""
    job, later = aws.ended(steps=RESTARTED), datetime.now(UTC) - BEGAN - timedelta(minutes=2.5)
    for step in job["SecondaryStatusTransitions"]:
        step["StartTime"] += later
    return job


def test_hosts_clocks_do_not_bring_back_a_start_before_the_last(aws: Account) -> None:
    """The last start reached no S3, and its clock is decades behind: which one is current is not known."""
    aws.writes(told(A))
    aws.writes({"output.tar.gz": packed(told(B, code=1))}, ARCHIVE)
    seen = aws.output().summary(restarted(aws))

    assert ("", {A, B}, {}) == (seen.attempt, set(seen.earlier), seen.exit_codes)


def test_the_logs_own_time_tells_the_last_start(aws: Account) -> None:
    """CloudWatch's stream was made when the container began."""
    aws.writes(told(A))
    for host in HOSTS:
        aws.prints(host, list(lines_of("gate", B, host, report(host))), int(time.time()) + 60)
    seen = aws.output().summary(restarted(aws))

    assert (B, (A,)) == (seen.attempt, seen.earlier)


@pytest.mark.parametrize(("minute", "attempt", "earlier"), [(4.5, A, ()), (1.5, "", (A,))])
def test_the_last_start_may_be_the_only_one_that_left_files(
    monkeypatch: pytest.MonkeyPatch, minute: float, attempt: str, earlier: tuple[str, ...]
) -> None:
    """The first start died before its roll call ended, and the second one runs: it is current, unless its files are of the first."""
    item = ListedObject(f"{A}/agent/algo-1.json", "", 1, BEGAN + timedelta(minutes=minute))
    monkeypatch.setattr(fetch, "written", lambda clients, places: {item.path: item})
    output = SageMakerOutput(Clients(REGION), Places("s3://bucket", JOB))
    latest = output.summary(described(steps=RESTARTED[:5]))

    assert (attempt, earlier) == (latest.attempt, latest.earlier)


def test_a_running_job_reads_no_record(aws: Account) -> None:
    """One list a look."""
    aws.writes(told())
    aws.reads()

    assert (aws.output().summary(described()).attempt, aws.reads()) == (A, 1)


def test_a_disk_that_cannot_be_written_is_said(aws: Account, tmp_path: Path) -> None:
    """As an OSError, which the launcher explains."""
    aws.writes(told())
    (tmp_path / A).write_bytes(b"in the way")
    with pytest.raises(OSError, match=A):
        aws.output().fetch(tmp_path, None)
