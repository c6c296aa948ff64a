"""What the SDK's own driver does to a run: settings that break it, and notes for a person. Pure.

Read in sagemaker-train 1.27.0: container_drivers/scripts/environment.py writes `export NAME='value'` lines without escaping,
sm_train.sh sources them under `set -e`; distributed_drivers/torchrun_driver.py, mpi_utils.py and common/utils.py set NCCL and EFA.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from checks.facts.builtin import builtin
from tasks.launchers.base import Plan
from tasks.launchers.sagemaker.request.validate import at

Body = Mapping[str, object]
QUOTE = "'"
# SM_EFA_NCCL_INSTANCES of common/utils.py.
EFA_TYPES = frozenset(
    f"ml.{kind}"
    for kind in (
        "g4dn.8xlarge", "g4dn.12xlarge", "g5.48xlarge", "p3dn.24xlarge", "p4d.24xlarge", "p4de.24xlarge",
        "p5.48xlarge", "p5e.48xlarge", "trn1.32xlarge",
    )
)  # fmt: skip
IDENTIFIER_REST = re.compile(r"\w*", re.ASCII)
DRIVERS = "sm_drivers-"
DRIVER = re.compile(rb"^\$SM_PYTHON_CMD \S*/distributed_drivers/(torchrun|mpi)_driver\.py$", re.MULTILINE)


def broken_exports(body: Body, uploads: Mapping[str, bytes]) -> list[str]:
    """Values that would break the driver's shell before the training starts, or be run by it; each with its remedy."""
    return [*_broken_names(body), *_broken_values(body, uploads)]


def warnings(plan: Plan) -> tuple[str, ...]:
    """What a person should know before a ModelTrainer's job runs; () for every other plan."""
    found = [said for call in plan.calls if plan.job.trainer for said in _driver(call.body, plan.uploads)]
    return tuple(dict.fromkeys(found))


def _broken_names(body: Body) -> Iterator[str]:
    for key in _table(body, "HyperParameters"):
        if not IDENTIFIER_REST.fullmatch(key.replace("-", "_")):
            yield (
                f"The hyperparameter {key!r:.80} becomes a shell variable in the SDK's driver, and cannot be one by its name: the"
                " job would end before the training starts. Use letters, digits, _ and -."
            )
    for row in _channels(body):
        name = str(row.get("ChannelName"))
        if not IDENTIFIER_REST.fullmatch(name):
            yield (
                f"The input channel {name!r:.80} becomes a shell variable in the SDK's driver, and cannot be one by its name: the"
                f" job would end before the training starts. Name it {re.sub(r'[^A-Za-z0-9_]', '_', name)!r:.80}."
            )


def _broken_values(body: Body, uploads: Mapping[str, bytes]) -> Iterator[str]:
    texts: dict[str, object] = {
        f"hyperparameter {key!r:.80}": f"{key}{value}"
        for key, value in _table(body, "HyperParameters").items()
    }
    texts |= {f"input channel {row.get('ChannelName')!r:.80}": dict(row) for row in _channels(body)}
    source = _document(uploads, "sourcecode.json")
    texts["source_code.entry_script"] = source.get("entry_script")
    texts["distributed"] = _document(uploads, "distributed.json")
    for what, value in texts.items():
        if _has_quote(value):
            yield (
                f"The {what} has a single quote, which the SDK's driver writes into a shell script as it is: the job would break, or"
                " run what follows. Write it without, or pass a file."
            )


def _driver(body: Body, uploads: Mapping[str, bytes]) -> Iterator[str]:
    kind = str(at(body, "ResourceConfig.InstanceType"))
    machine = builtin().instances.get(kind.removeprefix("ml."))
    found = DRIVER.search(_file(uploads, "sm_train.sh"))
    driver = found[1].decode() if found else ""
    if driver and (driver == "torchrun" or kind in EFA_TYPES) and (machine is None or machine.gpus):
        yield (
            f"The SDK's {driver} driver sets NCCL_PROTO=simple, whatever your environment says: NCCL may be slower than the health"
            " check measured. SourceCode(command='torchrun ...') runs without that driver."
        )
    if driver and kind not in EFA_TYPES and (machine is None or machine.efa_devices):
        yield (
            f"The SDK's {driver} driver sets FI_PROVIDER=efa for {len(EFA_TYPES)} instance types alone, and {kind} is none of them:"
            " set it yourself, or see in NCCL's log (NCCL_DEBUG=INFO) that it found EFA."
        )
    source, distributed = _document(uploads, "sourcecode.json"), _document(uploads, "distributed.json")
    if source.get("command") and distributed:
        yield (
            "SourceCode has a command, so that `distributed` is not used at all: the command runs once on every host, without torchrun"
            " or mpirun."
        )
    if source.get("command") and _table(body, "HyperParameters"):
        yield "SourceCode has a command, so that hyperparameters are no arguments of it: they are in SM_HPS."


def _table(body: Body, key: str) -> dict[str, object]:
    found = body.get(key)
    return {str(name): value for name, value in found.items()} if isinstance(found, Mapping) else {}


def _channels(body: Body) -> list[Body]:
    found = body.get("InputDataConfig")
    return [row for row in found if isinstance(row, Mapping)] if isinstance(found, list | tuple) else []


def _has_quote(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(_has_quote(item) for pair in value.items() for item in pair)
    if isinstance(value, list | tuple):
        return any(map(_has_quote, value))
    return isinstance(value, str) and QUOTE in value


def _file(uploads: Mapping[str, bytes], name: str) -> bytes:
    """A file that the SDK made for the container, b"" if it made none."""
    for url, data in uploads.items():
        if f"/{DRIVERS}" in url and url.endswith(f"/{name}"):
            return data
    return b""


def _document(uploads: Mapping[str, bytes], name: str) -> dict[str, object]:
    data = _file(uploads, name)
    found = json.loads(data) if data else {}
    return found if isinstance(found, dict) else {}
