"""Fake executables: they replay a recording, fail, hang, stop half-way or die, as told. They are fakes, and say so.

A check that runs one through checks.process.tool in this process gets the result that the program would have, without a process:
tests/checks/process/test_tool.py tests real ones.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from unittest import mock

from checks.process import tool
from tests.programs import executable, python_line

RUN = tool.run

_BODY = """{first_line}
# A fake {name} for Prelaunch's tests: it replays what {replies} says.
import json, os, re, signal, sys, time
asked = " ".join(sys.argv[1:])
for reply in json.load(open({replies!r})):
    if re.search(reply["asked"], asked):
        break
else:
    sys.exit("fake {name}: no reply for: " + asked)
data = reply["stdout"].encode()
cut = int(len(data) * reply["part"])
sys.stdout.buffer.write(data[:cut])
sys.stdout.flush()
sys.stderr.write(reply["stderr"])
sys.stderr.flush()
time.sleep(reply["seconds"])
if reply["signal"]:
    os.kill(os.getpid(), reply["signal"])
sys.exit(reply["code"])
"""


@dataclass(frozen=True)
class Reply:
    """What the fake does when its arguments match `asked` (a regular expression): print the first `part` of
    `stdout`, wait `seconds` (3600: it hangs), then exit with `code`, or die of `signal`.
    """

    stdout: str = ""
    asked: str = ""
    stderr: str = ""
    code: int = 0
    part: float = 1.0
    seconds: float = 0.0
    signal: int = 0


_INSTALLED: dict[str, Sequence[Reply]] = {}


def install(folder: Path, name: str, replies: Sequence[Reply]) -> Path:
    """Write the fake into the folder; the first reply whose `asked` matches is given."""
    folder.mkdir(parents=True, exist_ok=True)
    told = folder / f".{name}.json"
    told.write_text(json.dumps([asdict(reply) for reply in replies]))
    script = _BODY.format(first_line=python_line("-S"), name=name, replies=str(told))
    path = executable(folder / name, script)
    _INSTALLED[str(path)] = replies
    return path


def replayed(
    argv: Sequence[str], timeout_s: float, env: Mapping[str, str] | None = None, interrupt_s: float = 0.0
) -> tool.ToolResult:
    """What tool.run gives for a fake; other programs are run."""
    path = argv[0] if "/" in argv[0] else tool.find(argv[0])
    asked = " ".join(argv[1:])
    reply = next((reply for reply in _INSTALLED.get(path, ()) if re.search(reply.asked, asked)), None)
    if reply is None:
        return RUN(argv, timeout_s, env, interrupt_s)
    data = reply.stdout.encode()
    text = data[: int(len(data) * reply.part)].decode("utf-8", "replace")
    hangs = reply.seconds > timeout_s
    code = None if hangs else -reply.signal or reply.code
    return tool.ToolResult(
        tuple(argv), code, text, reply.stderr, min(reply.seconds, timeout_s), False, hangs and not interrupt_s
    )


@contextmanager
def on_path(folder: Path, alone: bool = False, processes: bool = False) -> Iterator[None]:
    """Put the folder first on PATH; `alone`: nothing else is found, as on a node that lacks every tool. `processes`: each fake is
    started as a program.
    """
    path = str(folder) if alone else f"{folder}{os.pathsep}{os.environ['PATH']}"
    with ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, PATH=path))
        for module in () if processes else _callers():
            stack.enter_context(mock.patch.object(module, "run", replayed))
        yield


def _callers() -> list[object]:
    """The modules of checks that name tool.run."""
    loaded = [module for name, module in sys.modules.items() if name.startswith("checks.")]
    return [module for module in loaded if getattr(module, "run", None) is RUN]
