"""The process in which the SDK builds a ModelTrainer's request: `python -m tasks.launchers.sagemaker.model_trainer.child FOLDER`.

It cannot reach the network (an audit hook refuses every connection and name resolution), holds no credentials, and answers the
SDK's own questions from the gate file: the role, the bucket, the job's name. It reads FOLDER/asked.json, and leaves
FOLDER/answer.json and the files that the SDK would have uploaded.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checks.process import own_packages
from tasks.launchers.sagemaker.model_trainer.offline_sdk import StagedUploads, TrainerRefused, offline_trainer

REACHING = frozenset(
    ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto", "socket.sendmsg")
)
OFFLINE = (
    "tried to reach {where} while it was being built, which is not allowed. Write the value into the"
    " ModelTrainer instead of asking for it."
)


def main(folder: str) -> int:
    """Leave the request, or the reason why there is none. Never raises: an error becomes the answer."""
    work = Path(folder)
    question = json.loads((work / "asked.json").read_text())
    signal.alarm(question["seconds"])
    sys.addaudithook(_offline)
    try:
        answer: dict[str, object] = _build(question, work)
    except TrainerRefused as error:
        answer = {"refused": str(error)}
    except BaseException as error:  # noqa: BLE001 - a module that is a script may even exit
        answer = {"refused": _because(error, question["reference"])}
    (work / "answer.json").write_text(json.dumps(answer))
    return 0


def _offline(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse every connection except sockets of this machine whose address is a path."""
    if event in REACHING:
        where = arguments[1] if event.startswith(("socket.connect", "socket.send")) else arguments[0]
        if not (event == "socket.connect" and isinstance(where, (str, bytes))):
            raise TrainerRefused(OFFLINE.format(where=where))


def _because(error: BaseException, reference: str) -> str:
    """An error of other code as a sentence; an error of ours that was wrapped keeps its own message."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, TrainerRefused):
            return str(cause)
        cause = cause.__cause__ or cause.__context__
    text = " ".join(str(error).split())
    module = reference.partition(":")[0]
    return f"{type(error).__name__}: {text:.500}. Fix its module; `python -c 'import {module}'` shows where."


def _build(question: Mapping[str, Any], work: Path) -> dict[str, object]:
    """The request, and which file is to lie at which address."""
    uploads = StagedUploads(f"{question['root']}/{question['job']}/code", work)
    trainer_type = offline_trainer(question, uploads)
    # From here on a module is looked for as a person's own Python does it: on PYTHONPATH, in the current folder, then among what is
    # installed. A team may have packages called tasks or checks, so ours are no longer known by these names. What this module uses
    # of them it has imported above.
    for name in [key for key in sys.modules if key.partition(".")[0] in own_packages.PACKAGES]:
        del sys.modules[name]
    ours, library = str(Path(__file__).parents[4]), os.path.dirname(os.__file__)
    position = sys.path.index(library) if library in sys.path else len(sys.path)
    first = [path for path in sys.path[:position] if path != ours]
    sys.path[:] = [*first, os.getcwd(), *sys.path[position:], ours]
    trainer = _trainer(question["reference"], trainer_type)
    _require_fit(trainer.training_mode.name, trainer.sagemaker_session.boto_region_name, question["region"])
    body = trainer._create_training_job_args(boto3=True)
    if "ContainerEntrypoint" not in body["AlgorithmSpecification"]:
        raise TrainerRefused(
            "it has no source_code, so that its image's own ENTRYPOINT runs and the gate cannot stand in front of it. Give it"
            " SourceCode(command=...), or use command and image of [training] instead."
        )
    return {"body": _plain(body), "files": uploads.files}


def _trainer(reference: str, trainer_type: type) -> Any:
    """The object that "package.module:object" names, or what the function of that name returns."""
    module, _, name = reference.partition(":")
    trainer = getattr(importlib.import_module(module), name, None)
    if not isinstance(trainer, trainer_type) and callable(trainer):
        trainer = trainer()
    if not isinstance(trainer, trainer_type):
        raise TrainerRefused(
            f"{name} is {_type_text(trainer)}, no sagemaker.train.ModelTrainer. Name an object of that class, or a function without"
            " arguments that returns one."
        )
    return trainer


def _type_text(value: object) -> str:
    return "not there" if value is None else f"a {type(value).__module__}.{type(value).__name__}"


def _require_fit(mode: str, session_region: str, region: str) -> None:
    """Raise TrainerRefused if the trainer is for something other than a training job in the gate's region."""
    if mode != "SAGEMAKER_TRAINING_JOB" or session_region != region:
        raise TrainerRefused(
            f"it is for {mode} in {session_region}, and the gate for a training job in {region}. Leave training_mode out, and correct"
            " its session or region in [cluster.options]."
        )


def _plain(value: Any, path: str = "") -> Any:
    """The value in JSON's own types; a value that is only known while a pipeline runs is refused."""
    if isinstance(value, Mapping):
        return {
            str(key): _plain(item, f"{path}.{key}".lstrip("."))
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, (bool, int, float, str)):
        return value
    raise TrainerRefused(f"{path} is {_type_text(value)}. Give it a plain value.")


if __name__ == "__main__":
    gc.disable()  # this process ends in seconds, and looking for garbage took a fifth of the SDK's import
    code = main(sys.argv[1])
    sys.stdout.flush()
    os._exit(code)  # without waiting for what the module may have started
