"""The modules that read each kind of output. Each has `detect` (fast and certain) and `read`, and is imported on first use."""

from __future__ import annotations

import importlib
import re
from collections.abc import Mapping
from dataclasses import replace
from types import ModuleType

from checks.explain.reading import (
    Complete,
    ExplainError,
    Garbled,
    NotRecognised,
    OutputKind,
    Reading,
    ReadOptions,
)
from checks.explain.unread_lines import only, sentence, unread_lines
from checks.value_types import MeasurementError

# detect(text: str) -> bool; read(text: str, asked: ReadOptions) -> Reading of a text that was detected, which raises NotRecognised,
# Garbled, or the CheckError of the check's own parser.
# A report is not the output of a tool: `prelaunch judge` reads it.
MODULES: Mapping[str, tuple[OutputKind, ...]] = {
    "checks.probes.collectives.nccl_reading": (OutputKind.NCCL_TESTS, OutputKind.NCCL_LOG),
    "checks.probes.dcgm.dcgmi_reading": (OutputKind.DCGMI,),
    "checks.probes.kernel.kernel_log_reading": (OutputKind.KERNEL_LOG,),
    "checks.probes.gpu.nvidia_smi_reading": (OutputKind.NVIDIA_SMI,),
    "checks.explain.nvlink_states": (OutputKind.NVLINK,),
    "checks.probes.infiniband.ibstat_reading": (OutputKind.IBSTAT,),
    "checks.probes.efa.libfabric_reading": (OutputKind.FI_INFO, OutputKind.FI_PINGPONG),
    "checks.probes.neuron.neuron_ls_reading": (OutputKind.NEURON_LS,),
    "checks.explain.matrix": (OutputKind.MATRIX,),
}


# What people try as well (nvidia-smi without -x, fabricmanager.log, kubectl describe node) has its answer in one of these.
REMEDY = (
    "Give the output of one of these: journalctl -k -o short-iso (the node's kernel log), nvidia-smi -q -x, dcgmi diag -j, "
    "neuron-ls -j. Or test the node with prelaunch check"
)
_JSON = re.compile(r"\{|\[\s*(?:[{\[\"]|$)")
STUMBLED = "the reader failed:"
OURS = "This is an error in Prelaunch, and says nothing about the machine: read the output by hand, and report the error."


class Unrecognised(ExplainError):
    """No reader recognises the text, or several do. The message says what to do."""

    remedy = ""


class Ambiguous(Unrecognised):
    """Several readers recognise the text."""


def module_of(output_kind: OutputKind) -> str:
    """The module that reads this kind."""
    return next(name for name, kinds in MODULES.items() if output_kind in kinds)


def only_kind(name: str) -> OutputKind | None:
    """The kind that the module reads, if it reads only one."""
    return MODULES[name][0] if len(MODULES[name]) == 1 else None


def read(name: str, text: str, options: ReadOptions, output_kind: OutputKind | None = None) -> Reading:
    """The text as the module reads it, and what it holds beside as the modules read that which recognise it. It must be of the
    kind `output_kind`, if that is given. Raises NotRecognised, Garbled.
    """
    reading = _read(name, text, options)
    if output_kind is not None and reading.output_kind is not output_kind:
        raise NotRecognised(f"it is {reading.title} ({reading.output_kind.value})")
    unread = list(unread_lines(text, reading.understood))
    if not unread:
        return reading
    rest = only(text, {number for number, _ in unread})
    try:
        if rest == text:
            raise Unrecognised("the reader understood no line")
        return _together(reading, read(claimed_by(rest), rest, options))
    except ExplainError:
        doubt = ". ".join(filter(None, [sentence(unread), REMEDY]))
        return replace(reading, unread=(*reading.unread, Complete(doubt)))


def _together(first: Reading, other: Reading) -> Reading:
    """The reading of a text that holds two outputs."""
    return replace(
        first,
        title=f"{first.title}; {other.title}",
        checks=(*first.checks, *other.checks),
        unread=(*first.unread, *other.unread),
        tables=(*first.tables, *other.tables),
        left_out=(*first.left_out, *other.left_out),
        driver=first.driver or other.driver,
        unreported=(*first.unreported, *other.unreported),
    )


def _read(name: str, text: str, options: ReadOptions) -> Reading:
    """If a reader fails, only this input is lost: any exception is reported as Garbled. Raises NotRecognised, Garbled."""
    text = _bare_json(text)
    try:
        # Who calls a text a kernel log may have one whose form other programs print too: its reader decides.
        if OutputKind.KERNEL_LOG not in MODULES[name] and not _module(name).detect(text):
            raise NotRecognised("no line of the text has its form")
        reading = _module(name).read(text, options)
    except ExplainError:
        raise
    except MeasurementError as error:
        raise Garbled(str(error)) from error
    except Exception as error:
        raise Garbled(f"{STUMBLED} {type(error).__name__}: {error}", OURS) from error
    if not isinstance(reading, Reading):
        raise Garbled(f"{STUMBLED} it returned a {type(reading).__name__}", OURS)
    return reading


def claimed_by(text: str) -> str:
    """The only module that recognises the text. Raises Unrecognised."""
    if not text.strip():
        raise Unrecognised(
            "the input is empty: the program that should have written it wrote nothing",
            "Run the program again, and look at its exit code and at what it writes to stderr.",
        )
    text = _bare_json(text)
    claims = [name for name in MODULES if _module(name).detect(text)]
    if len(claims) == 1:
        return claims[0]
    kinds = ", ".join(output_kind.value for name in claims or MODULES for output_kind in MODULES[name])
    if claims:
        raise Ambiguous(f"it could be any of {kinds}. Name the kind with --kind.")
    raise Unrecognised(f"it is none of {kinds}, or its beginning was lost", f"{REMEDY}.")


def _bare_json(text: str) -> str:
    """A text of JSON with blank lines instead of the harmless lines around it; any other text as it is."""
    first = next(unread_lines(text, ()), (0, ""))[1]
    return only(text, {number for number, _ in unread_lines(text, ())}) if _JSON.match(first) else text


def claims(output_kind: OutputKind, text: str) -> bool:
    """Whether the reader of this kind recognises the text."""
    return any(output_kind in kinds and _module(name).detect(text) for name, kinds in MODULES.items())


def _module(name: str) -> ModuleType:
    return importlib.import_module(name)
