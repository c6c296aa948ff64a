"""A ModelTrainer's request, from the real SDK: whole, the same each time, and nobody was asked for it."""

from __future__ import annotations

import importlib.metadata
import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tasks.launchers.base import LaunchRejected
from tasks.launchers.sagemaker.job_request import make_plan
from tasks.launchers.sagemaker.model_trainer import request
from tasks.launchers.sagemaker.model_trainer.request import TrainerRequest, request_of, words_of
from tasks.launchers.sagemaker.options import SageMakerOptions
from tasks.launchers.sagemaker.request.locations import places_of
from tests.tasks.launchers.golden import GOLDEN, golden_text
from tests.tasks.launchers.sagemaker.model_trainer.trainers import EXAMPLES, GATED, IN_JOB, ROLE
from tests.tasks.launchers.sagemaker.model_trainer.warm_child import WarmChildren

# What a team may leave to the SDK, or ask it for; a folder of its own data, and a print besides.
SPARSE = """
from pathlib import Path
from sagemaker.core.helper.session_helper import get_execution_role
from sagemaker.core.training.configs import CheckpointConfig, InputData, SourceCode
from sagemaker.train import ModelTrainer

HERE = Path(__file__).parent
print("to stdout")

def make():
    return ModelTrainer(
        training_image="123456789012.dkr.ecr.us-east-1.amazonaws.com/training:1",
        role=get_execution_role(),
        source_code=SourceCode(source_dir=str(HERE / "code"), command="python train.py"),
        input_data_config=[InputData(channel_name="words", data_source=str(HERE / "words.txt"))],
        checkpoint_config=CheckpointConfig(),
    )
"""
HEAD = """
import boto3
from sagemaker.core.training.configs import SourceCode
from sagemaker.train import ModelTrainer

def trainer(**more):
    return ModelTrainer(training_image="1.dkr.ecr.us-east-1.amazonaws.com/x:1", **more)
"""


def asked(reference: str, options: SageMakerOptions = IN_JOB) -> TrainerRequest:
    """The request of a reference, for the job of the tests."""
    return request_of(reference, places_of(options, GATED.name), options)


@pytest.fixture(scope="module")
def children(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmChildren]:
    """The process that children are forks of."""
    made = WarmChildren(request._environment(tmp_path_factory.mktemp("sdk"), IN_JOB.region))
    yield made
    made.end()


@pytest.fixture
def warm(children: WarmChildren, monkeypatch: pytest.MonkeyPatch) -> None:
    """The children of this test are forks of one process that has imported the SDK."""
    names = {**vars(subprocess), "Popen": children.popen}
    monkeypatch.setattr(request, "subprocess", SimpleNamespace(**names))


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder where modules are found."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def test_a_child_of_its_own_imports_the_sdk(module: Path) -> None:
    """From nothing, and with the gate's path: here one that breaks off."""
    (module / "sagemaker.py").write_text("raise ImportError('no SDK here')")

    with pytest.raises(LaunchRejected, match="asks:a: ImportError: no SDK here"):
        asked("asks:a")


@pytest.mark.usefixtures("warm")
def test_the_request_is_what_the_golden_file_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trainer's image, channels and hyperparameters; the gate's name, machines, tags, channel and entrypoint."""
    monkeypatch.syspath_prepend(EXAMPLES)
    (call,) = make_plan(GATED, IN_JOB).calls
    # The digests follow the SDK's own drivers and the example's place on this machine.
    text = re.sub(r"-[0-9a-f]{16}/", "-{digest}/", json.dumps(call.body, indent=2)) + "\n"

    assert text == golden_text(GOLDEN / "sagemaker" / "model_trainer.json", text)


@pytest.mark.usefixtures("warm")
def test_trainer_request_takes_open_values_from_the_gate(
    module: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Role, output and checkpoints; local data lie below the job's own prefix; nothing is said on stdout."""
    (module / "code").mkdir()
    (module / "code" / "train.py").write_text("print(1)\n")
    (module / "words.txt").write_text("one two\n")
    (module / "sparse.py").write_text(SPARSE)
    first, second = asked("sparse:make"), asked("sparse:make")
    stage = f"s3://reports/gates/{GATED.name}/"
    ours = {url.removeprefix(stage): data for url, data in first.uploads.items() if "/sm_drivers-" not in url}
    said = first.body

    assert first == second
    output = {"S3OutputPath": "s3://reports/gates/output", "CompressionType": "GZIP"}
    assert (said["RoleArn"], said["OutputDataConfig"]) == (ROLE, output)
    assert str(said["CheckpointConfig"]).count(stage) == 1
    names = sorted(re.sub(r"-[0-9a-f]{16}/", "/", name) for name in ours)
    assert names == ["code/code/train.py", "code/words/words.txt"]
    assert words_of(said)[:2] == ("/bin/bash", "-c")
    assert capfd.readouterr().out == ""


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a = boto3.client('sts').get_caller_identity()", "tried to reach .*sts.*Write the value"),
        ("a = trainer(source_code=SourceCode(command='x')); a.train()", "calls train.. when it is imported"),
        ("a = trainer()", "no source_code"),
        ("a = trainer(role='other', source_code=3)", "ValidationError.*`python -c .import asks.` shows"),
    ],
)
def test_trainer_that_cannot_be_used_is_rejected_with_the_reason(module: Path, line: str, said: str) -> None:
    """With the object, the reason and the remedy; a module that asks others is refused at once."""
    (module / "asks.py").write_text(f"{HEAD}\n{line}\n")

    with pytest.raises(LaunchRejected, match=f"(?s)^model_trainer asks:a: .*{said}"):
        asked("asks:a")


@pytest.mark.parametrize(
    ("version", "said"), [("3.26.2", "here is 3.26.2"), ("4.0.0", "here is 4.0.0"), (None, "here is none")]
)
def test_only_a_known_sdk_is_used(monkeypatch: pytest.MonkeyPatch, version: str | None, said: str) -> None:
    """Its builder is private: one that nobody read could ask whom it likes. The version is in the message."""

    def found(_: str) -> str:
        if version is None:
            raise importlib.metadata.PackageNotFoundError
        return version

    monkeypatch.setattr(importlib.metadata, "version", found)

    with pytest.raises(LaunchRejected, match=rf"{said}.*pip install 'prelaunch\[sagemaker\]'"):
        asked("model_trainer:trainer")


OWN = """
from sagemaker.core.training.configs import SourceCode
from sagemaker.train import ModelTrainer
import checks, tasks, tasks.words

def make():
    import container, flows.later
    assert "ours" == checks.WHOSE == container.WHOSE == flows.later.WHOSE
    return ModelTrainer(
        training_image="1.dkr.ecr.us-east-1.amazonaws.com/x:1",
        source_code=SourceCode(command=tasks.words.COMMAND),
    )
"""


@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("place", ["the current folder", "a folder on the path"])
def test_a_trainer_gets_the_packages_of_its_own_team(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """It imports `tasks`, `checks`, `container` and `flows`, at its start or later, and finds those of its folder."""
    for name in ("checks", "container", "flows", "tasks"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("WHOSE = 'ours'\n")
    (tmp_path / "flows" / "later.py").write_text("WHOSE = 'ours'\n")
    (tmp_path / "tasks" / "words.py").write_text("COMMAND = 'python of-the-team.py'\n")
    (tmp_path / "own.py").write_text(OWN)
    if place == "the current folder":
        monkeypatch.chdir(tmp_path)
    else:
        monkeypatch.syspath_prepend(tmp_path)
    taken = asked("own:make")

    assert any(b"python of-the-team.py" in data for data in taken.uploads.values()), taken.uploads.keys()
