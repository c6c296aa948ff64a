"""One way for every check of a node's GPUs: look through NVML, and say what each declared GPU shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from checks.check import Context, Measurement, Skipped
from checks.gpu import nvml
from checks.gpu.state import Gpu, account, columns, padded
from checks.model import Skip, Value

Derive = Callable[[Sequence[Gpu]], dict[str, Value]]


def measured(
    context: Context, names: Sequence[str], read: Sequence[str] = (), derive: Derive | None = None
) -> Measurement | Skipped:
    """The fields `names` of each GPU as metrics; `derive` adds metrics made from these and from `read`.

    A declared GPU that NVML does not list is None throughout. Raises NvmlError.
    """
    fields = (*names, *read)
    try:
        with nvml.session() as module:
            found = nvml.look(module, fields)
    except nvml.NvmlMissing as error:
        return Skipped(Skip.TOOL_MISSING, str(error))
    gpus = padded(found, context.declared.gpus_per_node)
    extra = derive(gpus) if derive else {}
    return Measurement({**columns(gpus, names), **extra}, account(gpus, fields))
