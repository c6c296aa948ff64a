"""Asks aws-parallelcluster's own schema about a configuration, in a process of its own, without a call to AWS."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from checks.check import CheckError
from checks.documents.decode import parse_json
from checks.process.tool import run
from checks.value_types import DecodeError

VALIDATION_S = 60.0
TESTED = "3.16.1"
PROGRAM = Path(__file__).with_name("schema_process.py")
MOST_TEXT = 1 << 20


@dataclass(frozen=True)
class Validation:
    """`package` is what validated, "" for nothing, and then `unknown` says why; `refused` is what the schema refuses."""

    package: str = ""
    refused: tuple[str, ...] = ()
    unknown: str = ""


def pcluster_python(environment: Mapping[str, str]) -> Path | None:
    """The Python beside the `pcluster` on PATH, as pip installs both; None if there is none."""
    script = shutil.which("pcluster", path=environment.get("PATH", os.defpath))
    python = Path(script).resolve().with_name("python") if script else None
    return python if python and python.is_file() else None


def validated(text: str, cluster_name: str, python: Path | None) -> Validation:
    """The schema's answer. Whatever is not an answer, also after the deadline, has validated nothing."""
    if python is None:
        return Validation(
            unknown=f"no Python is beside a `pcluster` on PATH. Install aws-parallelcluster (tested: {TESTED}) into an environment "
            "of its own, and add its folder to PATH."
        )
    with tempfile.TemporaryDirectory(prefix="prelaunch-cluster-") as folder:
        file = Path(folder) / "cluster.yaml"
        file.write_text(text, encoding="utf-8")
        try:
            argv = (str(python), str(PROGRAM), str(file), cluster_name)
            result = run(argv, VALIDATION_S, {"PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1"})
        except CheckError as error:
            return Validation(unknown=str(error))
    if result.code is None:
        return Validation(unknown=f"{python} did not answer within {VALIDATION_S:g} s")
    try:
        document = parse_json(result.stdout, MOST_TEXT) if result.whole and result.code == 0 else None
    except DecodeError:
        document = None
    table = document if isinstance(document, Mapping) else {}
    package, refused, unknown = (table.get(name) for name in ("package", "refused", "unknown"))
    if (
        isinstance(package, str)
        and isinstance(refused, list)
        and all(isinstance(one, str) for one in refused)
    ):
        return Validation(f"aws-parallelcluster {package}", tuple(refused))
    complaint = result.stderr.strip().rpartition("\n")[2]
    ending = f"{python} ended with exit code {result.code} and no answer: {complaint}"
    return Validation(unknown=unknown if isinstance(unknown, str) else ending)
