"""Reads the records of a node's GPUs through NVML. The module of nvidia-ml-py is called `pynvml`.

NvmlMissing         neither pynvml nor the driver's library is installed: the observation is SKIPPED with TOOL_MISSING
NvmlError           NVML is installed and gives no answer; `fault` says what is broken if the error code identifies it

An error about one field leaves that field unread; an error about one GPU leaves that GPU unread. Every check of a node's GPUs
uses `measured`, which reads each declared GPU through NVML.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from checks import image_requirements
from checks.check import Body, Check, CheckError, Context, Measurement, NotInstalled, check, lists_gpus
from checks.model import MachinePart, Scope, Value
from checks.probes.gpu import fabric_health, fields
from checks.probes.gpu.fields import NotPlausible
from checks.probes.gpu.record import Gpu, Number, columns, padded, usable_value, values_as_text
from checks.probes.sysfs import pci_id

LIBRARY_NOT_FOUND = 12
READERS = {**fields.READERS, **fabric_health.READERS}
IDENTITY_FIELDS = ("pci",)
# nvmlReturn_t codes of nvmlInit that say what is broken, not merely that nobody could look.
FAULTS = {
    8: "a GPU lacks external power",
    9: "the driver is not loaded",
    11: "a GPU's interrupts do not work",
    15: "a GPU is lost",
    18: "the driver was changed without a reboot: library and kernel module differ",
}
Derive = Callable[[Sequence[Gpu]], dict[str, Value]]


def nvml_check(name: str, metrics: Iterable[str], **more: Any) -> Callable[[Body], Check]:
    """Makes a function a check of all GPUs of a node through NVML: a list of each metric, and `gpus`, the labels."""
    usual: dict[str, Any] = {"timeout_s": 20, "needs": "NVML", "part": MachinePart.GPU, "holds": lists_gpus}
    return check(name, Scope.NODE, metrics=(*metrics, "gpus"), **{**usual, **more})


class NvmlMissing(NotInstalled):
    """There is no NVML on this node."""


class NvmlError(CheckError):
    """NVML gave no answer."""

    def __init__(self, message: str, fault: str = "") -> None:
        super().__init__(message)
        self.fault = fault


@contextmanager
def session() -> Iterator[Any]:
    """The module pynvml, initialised, and let go at the end. Raises NvmlMissing, NvmlError."""
    try:
        nvml: Any = image_requirements.load("pynvml")
    except ImportError as error:
        raise NvmlMissing(f"pynvml: {error}. Install nvidia-ml-py.") from error
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        if code_of(error) == LIBRARY_NOT_FOUND:
            message = f"nvmlInit: {error}. Install the driver, or mount its libraries into the container."
            raise NvmlMissing(message) from error
        raise NvmlError(f"nvmlInit: {error}", FAULTS.get(code_of(error), "")) from error
    try:
        yield nvml
    except nvml.NVMLError as error:
        raise NvmlError(f"NVML: {error}") from error
    finally:
        with contextlib.suppress(nvml.NVMLError):  # a failure to let go changes nothing that was read
            nvml.nvmlShutdown()


def gpu_records(nvml: ModuleType | Any, names: Iterable[str]) -> tuple[Gpu, ...]:
    """A record of each GPU that NVML lists, with the fields asked for; of one that does not answer, every field is unread.

    Raises NvmlError if it lists none.
    """
    wanted = tuple(names)
    count = nvml.nvmlDeviceGetCount()
    if not isinstance(count, int) or count < 1:
        raise NvmlError("NVML lists no GPU")
    gpus = []
    for index in range(count):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError as error:
            gpus.append(Gpu(index, "", {}, dict.fromkeys(wanted, message_of(error))))
        else:
            gpus.append(of_handle(nvml, handle, index, wanted))
    return tuple(gpus)


def of_handle(nvml: ModuleType | Any, handle: object, index: int, names: Iterable[str]) -> Gpu:
    """The record of the GPU with this handle."""
    values: dict[str, Number | str] = {}
    unread: dict[str, str] = {}
    for name in dict.fromkeys((*IDENTITY_FIELDS, *names)):
        try:
            value = usable_value(READERS[name](nvml, handle))
        except nvml.NVMLError as error:
            unread[name] = message_of(error)
        except (AttributeError, NotPlausible) as error:
            unread[name] = str(error)  # a pynvml that lacks the call, or a figure that cannot be
        else:
            if value is None:
                unread[name] = "no value"
            else:
                values[name] = value
    return Gpu(index, pci_id(str(values.pop("pci", ""))), values, unread)


def code_of(error: object) -> int:
    """The nvmlReturn_t that the error stands for; 999 (unknown) for one without."""
    value = getattr(error, "value", 999)
    return value if isinstance(value, int) else 999


def message_of(error: object) -> str:
    """NVML's words and code: "GPU is lost (15)"."""
    return f"{error} ({code_of(error)})"


def measured(
    context: Context, names: Sequence[str], read: Sequence[str] = (), derive: Derive | None = None
) -> Measurement:
    """The fields `names` of each GPU as metrics; `derive` adds metrics made from these and from `read`.

    A declared GPU that NVML does not list is None throughout. Raises NvmlMissing, NvmlError.
    """
    fields = (*names, *read)
    with session() as module:
        gpus_listed = gpu_records(module, fields)
    gpus = padded(gpus_listed, context.declared.gpus_per_node)
    extra = derive(gpus) if derive else {}
    return Measurement({**columns(gpus, names), **extra}, values_as_text(gpus, fields))
