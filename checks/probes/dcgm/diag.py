"""dcgm.diag: NVIDIA's own diagnostic, at the level of the profile.

The deadlines: level 1 takes seconds, level 2 was measured at 36 s to 10.5 min (8 GPUs), level 3 takes about 15 min,
level 4 was measured at 45 min to 2.25 h.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from checks.check import CheckError, Context, Measurement, Resource
from checks.model import Value
from checks.probes.dcgm import dcgmi, diag_json
from checks.probes.dcgm.dcgmi import NODE, by_gpu_and_node, dcgm_check, each_gpu_and_node
from checks.probes.dcgm.diagnosis import DcgmStatus, Diagnosis, Meaning, Result, problems_of
from checks.probes.dcgm.error_table import dcgm_facts
from checks.process.tool import ToolResult

LONGEST_S = 4 * 3600.0
MESSAGE_CHARACTERS = 300
A_TEST_FAILED = 226  # DCGM_ST_NVVS_ERROR (-30) as an exit code; DCGM also uses it for settings
METRICS = ("gpus_missing", "tests_missing", "not_passed", *(meaning.value for meaning in Meaning))


@dcgm_check(
    "dcgm.diag",
    METRICS,
    timeout_s=LONGEST_S + 60,
    cost="minutes",
    serial=True,
    uses=(Resource.GPU,),
    holds=each_gpu_and_node,
)
def diag(context: Context) -> Measurement:
    """Runs `dcgmi diag` on every GPU and reads each test's result for each GPU.

    Arrays hold a text a GPU and one for the node, "" where there is nothing to say: `hardware_failures` (DCGM's
    severity ISOLATE, RESET or TRIAGE of a part, or its test failed), `software_failures` (the same, of software),
    `test_errors` (the test itself broke or did not run), `hardware_warnings` (MONITOR, and no test failed),
    `config_warnings` (CONFIG, and no test failed, or it failed for a setting alone), `not_passed` (expected, and
    skipped, not run, or without a result). `gpus_missing` is declared minus seen; `tests_missing` names tests of the
    level that no GPU has a result of. An exit code that the results do not explain, output that is cut or of an
    unknown version is a CheckError.
    """
    level = int(context.options.get("level", 1))
    deadline_s = min(context.options.get("deadline_s", 60.0), max(context.timeout_s - 30.0, 1.0))
    result = dcgmi.run_to_deadline(("diag", "-r", str(level), "-j"), deadline_s)
    diagnosis = read(result)
    metrics = metrics_of(diagnosis, level, diagnosis.gpus, context.declared.gpus_per_node)
    return Measurement(metrics, f"{account(diagnosis)}\n{result.account()}")


def read(result: ToolResult) -> Diagnosis:
    """The diagnosis in the output of dcgmi. Raises CheckError."""
    diagnosis = result.parsed(diag_json.parse)
    if result.code and not _explains(diagnosis, result.code):
        message = f"dcgmi ended with exit code {result.code}, but no failed test explains it: {result.account()[:1500]}"
        raise CheckError(message)
    return diagnosis


def _explains(diagnosis: Diagnosis, code: int) -> bool:
    """Whether the results explain the exit code: 226 needs a failed test, any other code needs more than warnings."""
    meanings = {meaning for result in diagnosis.results for meaning, _ in problems_of(result)}
    if meanings - {Meaning.HINT, Meaning.CONFIGURATION}:
        return True
    return code == A_TEST_FAILED and any(result.status is DcgmStatus.FAIL for result in diagnosis.results)


def gpus_discovered(text: str) -> int:
    """How many GPUs `dcgmi discovery -l` found. Raises CheckError."""
    match = re.search(r"^\s*(\d+) GPUs? found", text, re.MULTILINE)
    if match is None:
        raise CheckError(f"the output of dcgmi discovery has no number of GPUs: {text[:300]!r}")
    return int(match[1])


def metrics_of(
    diagnosis: Diagnosis, level: int, gpus: tuple[int, ...], declared: int | None
) -> dict[str, Value]:
    """The check's metrics; without a declaration all except `gpus_missing`."""
    expected = dcgm_facts().expected(level, diagnosis.major)
    tested = {result.test for result in diagnosis.results}
    metrics: dict[str, Value] = {
        "tests_missing": ", ".join(test for test in expected if test not in tested),
        "version": diagnosis.version,
        "driver": diagnosis.driver,
        "level": level,
        **by_gpu_and_node(
            (*(m.value for m in Meaning), "not_passed"), _texts(diagnosis, expected, gpus), gpus
        ),
    }
    if declared is not None:
        metrics["gpus_missing"] = declared - len(gpus)
    return metrics


def owner_of(result: Result, text: str, gpus: tuple[int, ...]) -> int | None:
    """The GPU to which the problem belongs. A test of the node may still name a GPU."""
    if result.gpu is not None and not dcgm_facts().is_deployment(result.test):
        return result.gpu
    match = re.search(r"\bGPU (\d+)\b", text)
    return int(match[1]) if match and int(match[1]) in gpus else result.gpu


def _texts(
    diagnosis: Diagnosis, expected: tuple[str, ...], gpus: tuple[int, ...]
) -> Iterator[tuple[str, int | None, str]]:
    """Every problem, and every test that had to pass and did not: the metric, the GPU, and the words."""
    for result in diagnosis.results:
        for meaning, text in problems_of(result):
            yield meaning.value, owner_of(result, text, gpus), text[:MESSAGE_CHARACTERS]
    for owner, text in _not_passed(diagnosis, expected, gpus):
        yield "not_passed", owner, text


def _not_passed(
    diagnosis: Diagnosis, expected: tuple[str, ...], gpus: tuple[int, ...]
) -> Iterator[tuple[int | None, str]]:
    """Tests that had to pass and neither passed nor failed: their results are unknown."""
    optional = dcgm_facts().optional
    wanted = {test for test in expected if test not in optional}
    for result in diagnosis.results:
        quiet = result.status in (DcgmStatus.SKIP, DcgmStatus.NOT_RUN)
        if result.status is DcgmStatus.UNKNOWN or (quiet and result.test in wanted):
            reason = "; ".join(problem.message for problem in result.problems)
            yield (
                result.gpu,
                f"{result.test}: {result.printed}{f' ({reason})' if reason else ''}"[:MESSAGE_CHARACTERS],
            )
    for test in expected:
        if diagnosis.major < 4 and dcgm_facts().is_deployment(test):
            continue  # there is one result for the whole node
        of_test = {result.gpu for result in diagnosis.results if result.test == test}
        if of_test and None not in of_test:
            yield from ((gpu, f"{test}: no result") for gpu in gpus if gpu not in of_test)


def account(diagnosis: Diagnosis) -> str:
    """Every result that is not a plain pass, one line each."""
    lines = [
        f"{result.test}, {NODE if result.gpu is None else f'GPU {result.gpu}'}: {result.printed}"
        + "".join(f"\n    {text}" for _, text in problems_of(result))
        for result in diagnosis.results
        if result.status is not DcgmStatus.PASS or result.problems
    ]
    return "\n".join((f"DCGM {diagnosis.version}, driver {diagnosis.driver or 'not stated'}", *lines))
