"""Answers from the gate file what the SDK would ask AWS while it builds a request. It is only used in a process of its own.

Read in sagemaker-train 1.27.0 and sagemaker-core 2.27.0 (sagemaker 3.27.0): if one of the names below no longer exists, nothing is
built, because the SDK would then call AWS by itself.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from tasks.launchers.sagemaker.request.locations import bucket_of

# More belongs into S3, where a channel can name it: the gate holds it in memory.
UPLOAD_BYTES = 256 << 20
DIGITS = 16
# They bear times, and would make another digest of the same code.
LEFT_OUT = frozenset(("__pycache__", ".git", ".ipynb_checkpoints"))
REMEDY = "Install sagemaker 3.27, or use command, image and request of [training] instead."


class TrainerRefused(Exception):
    """Why there is no request; the message ends with the remedy."""


@dataclass
class StagedUploads:
    """Files that the SDK would have uploaded, copied into `work`: its own are gone a moment later."""

    below: str  # the address below which they will lie
    work: Path
    files: dict[str, str] = field(default_factory=dict)  # address -> name in `work`
    held_files: int = 0
    held_bytes: int = 0

    def upload_data(
        self,
        session: object,
        path: str,
        bucket: str | None = None,
        key_prefix: str = "data",
        callback: object = None,
        extra_args: object = None,
    ) -> str:
        """Session.upload_data with an address of ours, which contains the digest of the data."""
        root = Path(path)
        staged = [(name, self._keep(file)) for name, file in _files(root)]
        if not staged:
            raise TrainerRefused(f"{path} is empty, and SageMaker refuses an input channel without files.")
        names = hashlib.sha256("".join(f"{name}\0{digest}\n" for name, (_, digest) in staged).encode())
        channel = key_prefix.rstrip("/").rpartition("/")[2]
        # With a slash at its end: an S3Prefix "code" would take "code-2" as well.
        url = f"{self.below}/{channel}-{names.hexdigest()[:DIGITS]}/"
        self.files.update({url + name: copy for name, (copy, _) in staged})
        return url if root.is_dir() else url + root.name

    def _keep(self, file: Path) -> tuple[str, str]:
        """Copy one file; returns its name in `work`, and its digest."""
        self.held_bytes += file.stat().st_size
        if self.held_bytes > UPLOAD_BYTES:
            raise TrainerRefused(
                f"it would upload more than {UPLOAD_BYTES >> 20} MiB from this machine ({file}). Put data into S3 and name its"
                " s3:// address, or leave it out with SourceCode(ignore_patterns=...)."
            )
        copy = self.work / f"file-{self.held_files}"
        self.held_files += 1
        shutil.copyfile(file, copy)
        return copy.name, hashlib.sha256(copy.read_bytes()).hexdigest()


def offline_trainer(question: Mapping[str, Any], uploads: StagedUploads) -> type:
    """Import the SDK, and replace its calls to AWS by our answers; returns its ModelTrainer."""
    model_trainer = importlib.import_module("sagemaker.train.model_trainer")
    defaults = importlib.import_module("sagemaker.train.defaults")
    session = importlib.import_module("sagemaker.core.helper.session_helper").Session
    telemetry = importlib.import_module("sagemaker.core.telemetry.telemetry_logging")
    trainer: type = model_trainer.ModelTrainer
    role, root, job = question["role_arn"], question["root"], question["job"]
    swap(telemetry, "_send_telemetry_request", lambda *_, **__: None)
    swap(trainer, "train", _train)
    swap(trainer, "_resolve_staging_bucket", lambda _: (bucket_of(root), None))
    swap(model_trainer, "_get_unique_name", lambda *_, **__: job)
    swap(model_trainer, "_default_s3_uri", _by_default(model_trainer._default_s3_uri, f"{root}/{job}"))
    swap(defaults, "_default_s3_uri", _by_default(defaults._default_s3_uri, question["output"], whole=True))
    swap(defaults, "resolve_and_validate_role", lambda provided_role=None, **_: role_of(provided_role, role))
    swap(session, "upload_data", lambda *arguments, **more: uploads.upload_data(*arguments, **more))
    swap(session, "default_bucket", lambda self: self._default_bucket_name_override or bucket_of(root))
    swap(session, "account_id", lambda _: role.split(":")[4])
    swap(session, "get_caller_identity_arn", lambda _: role)
    return trainer


def swap(owner: Any, name: str, mine: object) -> None:
    """Replace the SDK's own object, which must exist, by `mine`."""
    if not hasattr(owner, name):
        raise TrainerRefused(f"this SageMaker Python SDK has no {owner.__name__}.{name}. {REMEDY}")
    setattr(owner, name, mine)


def role_of(wanted: str | None, gates: str) -> str:
    """The trainer's role, or the gate's if it names none. A bare name is the gate's role or a role of its account without a path."""
    if not wanted or gates.endswith(f"/{wanted}"):
        return gates
    return wanted if wanted.startswith("arn:") else f"{gates.rpartition(':')[0]}:role/{wanted}"


def _train(*_: object, **__: object) -> NoReturn:
    raise TrainerRefused(
        "its module calls train() when it is imported, which would start a job past the gate. Put that behind"
        ' `if __name__ == "__main__":`.'
    )


def _by_default(asks: Any, address: str, whole: bool = False) -> Any:
    """The SDK's default address: below the bucket that the trainer's session names, else below an address of ours."""

    def uri(session: Any, additional_path: str = "") -> str:
        if session._default_bucket_name_override:
            return str(asks(session, additional_path))
        return address if whole else f"{address}/{additional_path.strip('/')}"

    return uri


def _files(root: Path) -> Iterator[tuple[str, Path]]:
    """Name below `root` and file, in a fixed order; links to files are followed, as the SDK does."""
    if not root.is_dir():
        yield root.name, root
        return
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(set(folders) - LEFT_OUT)
        for name in sorted(names):
            file = Path(folder) / name
            yield file.relative_to(root).as_posix(), file
