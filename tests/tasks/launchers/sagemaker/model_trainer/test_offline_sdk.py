"""The SDK's questions, answered from the gate file."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from tasks.launchers.sagemaker.model_trainer import child, offline_sdk
from tasks.launchers.sagemaker.model_trainer.offline_sdk import StagedUploads, TrainerRefused, role_of

GATES = "arn:aws:iam::123456789012:role/service-role/train"


def kept(work: Path) -> StagedUploads:
    """Files below an address."""
    return StagedUploads("s3://b/job/code", work)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A folder of code."""
    path = tmp_path / "source"
    (path / "more").mkdir(parents=True)
    (path / "a.py").write_text("1\n")
    (path / "more" / "b.py").write_text("2\n")
    return path


def test_an_address_bears_its_content(source: Path, tmp_path: Path) -> None:
    """The same files have the same address, others another one; compiled files and .git are left out."""
    first = kept(tmp_path).upload_data(None, str(source), key_prefix="x/input/code")
    for name in ("__pycache__", ".git"):
        (source / name).mkdir()
        (source / name / "a.pyc").write_text("x")
    again = kept(tmp_path).upload_data(None, str(source), "other-bucket", "y/input/code")
    (source / "more" / "b.py").write_text("3\n")
    other = kept(tmp_path).upload_data(None, str(source), key_prefix="x/input/code")

    assert (first == again, first == other) == (True, False)
    assert first.startswith("s3://b/job/code/code-")


def test_every_file_lies_below_the_address(source: Path, tmp_path: Path) -> None:
    """With its bytes; what was there is kept, whatever happens to the folder."""
    found = kept(tmp_path)
    url = found.upload_data(None, str(source), key_prefix="code")
    (source / "a.py").unlink()

    texts = {name: (tmp_path / file).read_text() for name, file in found.files.items()}
    assert texts == {f"{url}a.py": "1\n", f"{url}more/b.py": "2\n"}


def test_a_single_file_is_named_whole(source: Path, tmp_path: Path) -> None:
    """As the SDK does: its prefix alone would take its neighbours."""
    assert kept(tmp_path).upload_data(None, str(source / "a.py"), key_prefix="w").endswith("/a.py")


def test_too_much_is_refused(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan is held in memory: data belong into S3."""
    monkeypatch.setattr(offline_sdk, "UPLOAD_BYTES", 3)

    with pytest.raises(TrainerRefused, match="name its s3:// address"):
        kept(tmp_path).upload_data(None, str(source), key_prefix="code")


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    """SageMaker would refuse the channel, an hour later."""
    with pytest.raises(TrainerRefused, match="is empty"):
        kept(tmp_path).upload_data(None, str(tmp_path), key_prefix="code")


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (None, GATES),
        ("train", GATES),
        ("other", "arn:aws:iam::123456789012:role/other"),
        ("arn:aws:iam::1:role/x", "arn:aws:iam::1:role/x"),
    ],
)
def test_a_role_needs_nobody_to_be_asked(wanted: str | None, expected: str) -> None:
    """None is the gate's, a name is in the gate's account; IAM would say the same of the gate's own."""
    assert role_of(wanted, GATES) == expected


def test_a_name_that_the_sdk_lost_is_said() -> None:
    """Where it cannot be answered, the SDK would ask whom it likes."""
    with pytest.raises(TrainerRefused, match=r"no Session\.upload_data\. Install sagemaker 3\.27"):
        offline_sdk.swap(type("Session", (), {}), "upload_data", None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"found is not there, no sagemaker\.train\.ModelTrainer"),
        ("found = 3", r"is a builtins\.int"),
        ("found = lambda: 3", r"is a builtins\.int"),
    ],
)
def test_trainer_of_another_kind_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    """By its name and its kind."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "teams_own", raising=False)
    (tmp_path / "teams_own.py").write_text(text)

    with pytest.raises(TrainerRefused, match=said):
        child._trainer("teams_own:found", dict)


def test_a_function_may_make_the_trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without arguments."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "teams_making.py").write_text("def make():\n    return {'a': 1}\n")

    assert child._trainer("teams_making:make", dict) == {"a": 1}


@pytest.mark.parametrize(
    ("mode", "region"), [("LOCAL_CONTAINER", "us-east-1"), ("SAGEMAKER_TRAINING_JOB", "eu-west-1")]
)
def test_another_purpose_is_refused(mode: str, region: str) -> None:
    """Local mode, and another region than the gate's."""
    refusal = f"for {mode} in {region}, and the gate for a training job in us-east-1"
    with pytest.raises(TrainerRefused, match=refusal):
        child._require_fit(mode, region, "us-east-1")


def test_trainer_request_with_a_pipeline_value_is_refused_with_its_path() -> None:
    """With its path."""
    with pytest.raises(TrainerRefused, match=r"^A\.B\[1\] is a builtins\.object"):
        child._plain({"A": {"B": [1, object()]}})


@pytest.mark.parametrize("event", sorted(child.REACHING))
def test_reaching_out_is_refused(event: str) -> None:
    """Every way that Python has."""
    arguments = (None, ("sts", 443)) if event.startswith(("socket.connect", "socket.send")) else ("sts", 443)

    with pytest.raises(TrainerRefused, match=r"tried to reach .*sts"):
        child._offline(event, arguments)


def test_this_machine_may_talk_to_itself() -> None:
    """By sockets that are files."""
    child._offline("socket.connect", (socket.socket, "/run/x"))
