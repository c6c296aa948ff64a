"""The SDK's questions, answered from the gate file."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tasks.launchers.sagemaker.model_trainer import child, offline_sdk
from tasks.launchers.sagemaker.model_trainer.offline_sdk import Refused, StagedUploads, role_of

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

    assert {name: (tmp_path / file).read_text() for name, file in found.files.items()} == {
        f"{url}a.py": "1\n",
        f"{url}more/b.py": "2\n",
    }


def test_a_single_file_is_named_whole(source: Path, tmp_path: Path) -> None:
    """As the SDK does: its prefix alone would take its neighbours."""
    assert kept(tmp_path).upload_data(None, str(source / "a.py"), key_prefix="w").endswith("/a.py")


def test_too_much_is_refused(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan is held in memory: data belong into S3."""
    monkeypatch.setattr(offline_sdk, "UPLOAD_BYTES", 3)

    with pytest.raises(Refused, match="name its s3:// address"):
        kept(tmp_path).upload_data(None, str(source), key_prefix="code")


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    """SageMaker would refuse the channel, an hour later."""
    with pytest.raises(Refused, match="is empty"):
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
    with pytest.raises(Refused, match=r"no Session.upload_data. It is sagemaker \d"):
        offline_sdk.swap(type("Session", (), {}), "upload_data", None)


def test_a_builder_of_another_shape_is_refused() -> None:
    """It is private, and may change without a word."""
    other = type("ModelTrainer", (), {"_create_training_job_args": lambda self, config: None})

    with pytest.raises(Refused, match=r"takes \('self', 'config'\)"):
        offline_sdk._known(other)


def test_train_is_no_way_past_the_gate() -> None:
    """A module may be a script."""
    with pytest.raises(Refused, match="__main__"):
        offline_sdk._train()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", r"found is not there, no sagemaker\.train\.ModelTrainer"),
        ("found = 3", r"is a builtins\.int"),
        ("found = lambda: 3", r"is a builtins\.int"),
        ("import not_there", "needs not_there, which is not here"),
    ],
)
def test_what_is_no_trainer_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    """By its name and its kind."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "teams_own", raising=False)
    (tmp_path / "teams_own.py").write_text(text)

    with pytest.raises(Refused, match=said):
        child._trainer("teams_own:found", dict)


def test_a_module_that_is_not_there_is_said() -> None:
    """With where it is looked for."""
    with pytest.raises(
        Refused, match=r"no module nowhere_at_all\. Put the folder that holds it on PYTHONPATH"
    ):
        child._trainer("nowhere_at_all.x:y", dict)


def test_a_function_may_make_the_trainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without arguments."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "teams_making.py").write_text("def make():\n    return {'a': 1}\n")

    assert child._trainer("teams_making:make", dict) == {"a": 1}


@pytest.mark.parametrize(
    ("mode", "session", "said"),
    [
        ("LOCAL", SimpleNamespace(boto_region_name="us-east-1"), "LOCAL_CONTAINER"),
        ("JOB", {}, "PipelineSession"),
        ("JOB", SimpleNamespace(boto_region_name="eu-west-1"), "for eu-west-1, the gate for us-east-1"),
    ],
)
def test_another_purpose_is_refused(mode: str, session: object, said: str) -> None:
    """Local mode, pipelines, and another region than the gate's."""
    sdk = offline_sdk.Sdk(object, SimpleNamespace(SAGEMAKER_TRAINING_JOB="JOB"), dict)

    with pytest.raises(Refused, match=said):
        child._fits(SimpleNamespace(training_mode=mode, sagemaker_session=session), sdk, "us-east-1")


def test_what_a_pipeline_fills_in_is_refused() -> None:
    """With its path."""
    with pytest.raises(Refused, match=r"^A\.B\[1\] is a builtins\.object"):
        child._plain({"A": {"B": [1, object()]}})


@pytest.mark.parametrize("event", sorted(child.REACHING))
def test_reaching_out_is_refused(event: str) -> None:
    """Every way that Python has."""
    arguments = (None, ("sts", 443)) if event.startswith(("socket.connect", "socket.send")) else ("sts", 443)

    with pytest.raises(Refused, match=r"wanted to reach .*sts"):
        child._offline(event, arguments)


def test_this_machine_may_talk_to_itself() -> None:
    """By sockets that are files."""
    child._offline("socket.connect", (socket.socket, "/run/x"))
