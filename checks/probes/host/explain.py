"""Reads what fio wrote as JSON (disk.io) and what stress-ng printed (cpu.stress, memory.stress).

Neither output shows by itself that results were verified: fio's job options show it, and the command line above stress-ng's output.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from checks.check import CheckError
from checks.explain.reading import Broken, Kind, NotRecognised, Part, Reading, ReadOptions
from checks.explain.unread_lines import lines_matching, lines_of_json
from checks.model import Value
from checks.probes.host import disk, stress

_FIO = re.compile(r'^\s*"fio version"\s*:', re.MULTILINE)
_STRESS = re.compile(r"^\s*stress-ng: \w+: +\[\d+\] ", re.MULTILINE)
_STRESSOR = re.compile(r"dispatching hogs: (.*)$", re.MULTILINE)
_OF_FIO, _OF_STRESS = re.compile(r"fio: "), re.compile(r"stress-ng: \w+: +\[\d+\] ")
_VERIFY = re.compile(r"\bstress-ng\b.* --verify\b")
_PID = re.compile(r"^\s*stress-ng: \w+: +\[(\d+)\] setting to a", re.MULTILINE)
UNVERIFIED = (
    "it is unknown whether the results were verified: include the command line with --verify above the output"
)


def detect(text: str) -> bool:
    """Whether fio or stress-ng wrote it."""
    return bool(_FIO.search(text) or _STRESS.search(text))


def read(text: str, asked: ReadOptions) -> Reading:
    """The reading. Raises NotRecognised, Broken."""
    if not detect(text):
        raise NotRecognised("the text is neither fio's JSON nor the output of stress-ng")
    if _FIO.search(text) and _STRESS.search(text):
        raise Broken("the text has the output of fio and of stress-ng. Explain them one at a time.", "")
    try:
        return _fio(text) if _FIO.search(text) else _stress(text)
    except CheckError as error:
        raise Broken(str(error)) from error


def _fio(text: str) -> Reading:
    if len(_FIO.findall(text)) > 1:
        raise Broken("the text has several outputs of fio. Explain them one at a time.", "")
    job, options = disk.parse(text), _options(text)
    if job.error in disk.NOT_THE_DISK:
        raise Broken(f"fio could not measure the disk: error {job.error}")
    way, verified = options.get("rw", ""), options.get("verify", "0") not in ("0", "null")
    unread = [] if options else ["the text does not show which job fio ran"]
    if verified and way == "write" and options.get("size", "").isdigit():
        disk.whole_file(job, int(options["size"]))
    metrics: dict[str, Value] = {"io_errors": int(job.error not in (0, disk.CORRUPT))}
    if verified or job.error == disk.CORRUPT:
        metrics["corrupt"] = int(job.error == disk.CORRUPT)
    if not job.error:
        metrics |= _rates(job, way)
        if not set(metrics) - {"io_errors", "corrupt"}:
            unread.append(f"fio read and wrote nothing that can be judged (rw={way or 'unknown'})")
    title = f"fio, {way or 'a job'}{', verified' if verified else ''}"
    numbered = enumerate(text.splitlines(), 1)
    lines = "\n".join(f"{n}: {line.strip()}" for n, line in numbered if re.search(r'"error"|err=\d', line))
    part = Part("disk.io", metrics, {"corrupt": lines, "io_errors": lines}, str(job))
    understood = lines_of_json(text) | lines_matching(text, _OF_FIO)
    return Reading(Kind.FIO, title, (part,), tuple(unread), understood=understood)


def _rates(job: disk.Job, way: str) -> dict[str, Value]:
    """Those that disk.io knows, of jobs like its own."""
    rates: dict[str, Value] = {}
    if way == "write" and job.write.bytes_done > 0:
        rates["write_gbps"] = job.write.bandwidth / 1e9
    if way in ("write", "read") and job.read.bytes_done > 0:
        rates["read_gbps"] = job.read.bandwidth / 1e9
    if way == "randread" and job.read.bytes_done > 0:
        rates["random_read_iops"] = job.read.iops
    return rates


def _options(text: str) -> dict[str, str]:
    """What the one job was asked for; disk.parse has read the text before."""
    value, _ = json.JSONDecoder().raw_decode(
        text, text.find("{") if text.startswith("{") else text.find("\n{") + 1
    )
    found: dict[str, str] = {}
    for options in (value.get("global options"), value["jobs"][0].get("job options")):
        if isinstance(options, Mapping):
            found |= {str(name): str(said) for name, said in options.items()}
    return found


def _stress(text: str) -> Reading:
    hogs = _STRESSOR.findall(text)
    if len(hogs) != 1 or len(_PID.findall(text)) > 1:
        said = (
            "does not show which stressor it ran"
            if not hogs
            else "ran several times. Explain the outputs one at a time"
        )
        raise Broken(f"stress-ng {said}.")
    stressor = hogs[0].split()[-1] if "," not in hogs[0] else ""
    if stressor not in ("cpu", "vm"):
        raise Broken(f"stress-ng ran {hogs[0].strip()}, but only cpu or vm by itself can be judged")
    failed = "stress-ng: fail:" in text or "unsuccessful run" in text
    ran = stress.parse(text, stressor, stress.STRESSOR_FAILED if failed else 0)
    if stressor == "cpu":
        measured, check = dict(stress.cpu_measurement(ran, ran.workers, "").metrics), "cpu.stress"
        del measured["workers_missing"]  # how many the node has is not said
    else:
        measured, check = dict(stress.memory_measurement(ran, 0, "").metrics), "memory.stress"
        del measured["tested_bytes"]
    numbered = enumerate(text.splitlines(), 1)
    lines = "\n".join(f"{n}: {line.strip()}" for n, line in numbered if "stress-ng: fail:" in line)
    unread = () if ran.failures or _VERIFY.search(text) else (UNVERIFIED,)
    title = f"stress-ng, {ran.workers} workers of {stressor}, {ran.wall_s:.0f} s"
    part = Part(check, measured, {"failures": lines})
    return Reading(Kind.STRESS_NG, title, (part,), unread, understood=lines_matching(text, _OF_STRESS))
