"""dcgm.diag's parsers: four forms of one diagnosis, and what no form may hide."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from checks.check import CheckError
from checks.probes.dcgm import diag_json, diag_text, diagnosis
from checks.probes.dcgm.diag import gpus_discovered, metrics_of, read
from checks.probes.dcgm.diagnosis import DcgmStatus, Meaning, Problem, Result, meaning_of, problems_of
from checks.process.tool import ToolResult
from tests.corpus.case import recordings_of

Change = Callable[[Any, Any], None]

text_of = recordings_of("dcgm")


def parsed(name: str) -> diagnosis.Diagnosis:
    return diag_text.parse(text_of(name)) if name.endswith(".txt") else diag_json.parse(text_of(name))


def found(name: str, meaning: Meaning) -> list[int | None]:
    """Whose problems of that meaning there are."""
    return [r.gpu for r in parsed(name).results for mine, _ in problems_of(r) if mine is meaning]


def words_of(document: diagnosis.Diagnosis, name: str) -> dict[int, str]:
    """What a metric says of each of the eight GPUs, and of the node (8), where it says something."""
    words = metrics_of(document, 2, tuple(range(8)), 8)[name]
    assert isinstance(words, tuple) and len(words) == 9
    return {place: str(said) for place, said in enumerate(words) if said}


def said(stdout: str, code: int | None = 0) -> ToolResult:
    return ToolResult(("dcgmi", "diag"), code, stdout, "", 1.0, False)


def test_each_form_says_its_version() -> None:
    """It stands in evidence and decides nothing."""
    names = ("diag_33_r2.json", "diag_4_r2.json", "diag_33_r2.txt", "diag_44_r2.txt")

    assert ["3.3.7", "4.2.3", "3.3.7", "4.4.1"] == [parsed(name).version for name in names]


def test_a_failed_gpu_on_a_row_with_an_empty_first_cell_is_failed() -> None:
    """Parsers that drop such rows report the test as passed."""
    rows = {r.gpu: r.status for r in parsed("diag_33_r2_partial_fail.txt").results if r.test == "memory"}

    assert {gpu: DcgmStatus.FAIL if gpu == 4 else DcgmStatus.PASS for gpu in range(8)} == rows


def test_a_message_broken_at_the_cells_width_is_one() -> None:
    """Words that the table breaks are whole again."""
    (problem,) = [p for r in parsed("diag_33_r2_thermal.txt").results for p in r.problems]

    assert "totaling 8.1 seconds started at 12.2 seconds into the test for GPU 0 Verify" in problem.message


def test_a_failed_test_whose_gpus_all_passed_is_the_nodes() -> None:
    """From 4.0 a test may say Fail over eight rows of Pass."""
    assert [None] == found("diag_44_r2_internal.txt", Meaning.INTERNAL)
    assert [None] == found("diag_4_r2_internal.json", Meaning.INTERNAL)


def test_message_of_dcgm_4_belongs_to_the_entity_in_its_first_cell() -> None:
    """Also if its text names no GPU; what `-v` prints of a GPU is no result."""
    table = text_of("diag_44_r2_fail.txt").replace("n GPU 6. Drain", "n a GPU. Drain")
    table = table.replace("| Warning: GPU6", f"{table_row('Info: GPU6', 'GPU 5 has 2 links')}| Warning: GPU6")
    results = diag_text.parse(table).results

    assert [(6, Meaning.HARDWARE)] == [(r.gpu, mine) for r in results for mine, _ in problems_of(r)]
    assert {DcgmStatus.PASS, DcgmStatus.FAIL} == {r.status for r in results}


@pytest.mark.parametrize("status", ["Pass", "Skip", "Fail"])
def test_dcgm_result_of_each_cpu_is_read(status: str) -> None:
    """A Grace node has two CPUs. Where the package with their test is not installed, both are skipped, which is no gap."""
    of_cpus = [{"entity_group": "CPU", "entity_id": cpu, "status": status} for cpu in (0, 1)]
    test = {"name": "cpu_eud", "results": of_cpus, "test_summary": {"status": status}}
    head, end, _ = text_of("diag_44_r2.txt").rpartition("+---------------------------+")
    head = head.replace(
        "|-----  Deployment", f"{table_row('Number of CPUs Detected', '2')}|-----  Deployment"
    )
    rows = [table_row("cpu_eud", status), table_row("", f"CPU0: {status}"), table_row("", f"CPU1: {status}")]
    table = diag_text.parse("".join([head, *rows, end, "-" * 48, "+\n"]))
    for found_in in (
        table,
        diag_json.parse(changed(lambda categories, _: categories[1]["tests"].append(test))),
    ):
        metrics = metrics_of(found_in, 2, found_in.gpus, 8)
        failed = [r.test for r in found_in.results if r.status is DcgmStatus.FAIL]

        assert ("",) * 9 == metrics["not_passed"]
        assert failed == ([] if status != "Fail" else ["cpu_eud (CPU 0)", "cpu_eud (CPU 1)"])


def table_row(left: str, right: str) -> str:
    return f"| {left:<26}| {right:<47}|\n"


def test_text_before_and_after_the_document_is_left_out() -> None:
    """Programs that wrap dcgmi add lines."""
    whole = f"Running in pod x\n{text_of('diag_4_r2.json')}\nSuccessfully ran diagnostic for group.\n"

    around = [(r.test, r.gpu, r.line - 1) for r in diag_json.parse(whole).results]
    assert [(r.test, r.gpu, r.line) for r in parsed("diag_4_r2.json").results] == around


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["metadata"].pop("version"),
        lambda d: d["metadata"].update(version="3.3.5"),
        lambda d: d.update({"DCGM Diagnostic": []}),
        lambda d: d["DCGM Diagnostic"].update(test_categories=[]),
        lambda d: _rows(d).append(dict(_rows(d)[0])),
        lambda d: _rows(d)[3].pop("status"),
        lambda d: _rows(d)[3].pop("entity_id"),
        lambda d: _rows(d)[3].update(entity_id=9223372036854775794),
        lambda d: d["DCGM Diagnostic"]["test_categories"][0]["tests"][0].pop("test_summary"),
        lambda d: d["entity_groups"].clear(),
    ],
)
def test_a_document_that_lacks_what_every_version_writes_gives_no_answer(change: Any) -> None:
    """A guess at what is missing could be a pass."""
    document = json.loads(text_of("diag_4_r2.json"))
    change(document)

    with pytest.raises(CheckError):
        diag_json.parse(json.dumps(document))


def _rows(document: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = document["DCGM Diagnostic"]["test_categories"][0]["tests"][0]["results"]
    return rows


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("Pass", DcgmStatus.PASS),
        ("NOT_RUN", DcgmStatus.NOT_RUN),
        ("Warning", DcgmStatus.WARN),
        ("Skip", DcgmStatus.SKIP),
        ("Passed", DcgmStatus.UNKNOWN),
        ("", DcgmStatus.UNKNOWN),
    ],
)
def test_only_dcgms_own_words_are_known(word: str, status: DcgmStatus) -> None:
    """Any other word is no pass."""
    assert status is diagnosis.status_of(word)


@pytest.mark.parametrize(
    ("problem", "test", "meaning"),
    [
        (Problem("x", 4, "monitor", 2), "memory", Meaning.HARDWARE),  # the table's severity is the graver one
        (Problem("x", 46, "isolate", 13), "pcie", Meaning.HARDWARE),  # the document's is
        (Problem("x", 123, "isolate", 11), "software", Meaning.HARDWARE),
        (Problem("x", 29), "software", Meaning.CONFIGURATION),
        (Problem("x", 29, "config", 8), "software", Meaning.CONFIGURATION),
        (Problem("x", 29, "isolate", 8), "software", Meaning.SOFTWARE),
        (Problem("x", 29, "config", 10), "software", Meaning.SOFTWARE),  # DCGM puts it among memory faults
        (Problem("x", 29), "memory", Meaning.SOFTWARE),  # a test of hardware does not fail for a setting
        (Problem("Persistence mode for GPU 0 is disabled."), "Persistence Mode", Meaning.CONFIGURATION),
        (Problem("x", 46), "pcie", Meaning.SOFTWARE),
        (Problem("x", 41), "memory", Meaning.HARDWARE),
        (Problem("x", 44), "pcie", Meaning.INTERNAL),
        (Problem("x", 47, "isolate", 10), "memory", Meaning.INTERNAL),  # aborted, whatever DCGM calls it
        (Problem("x", 55), "memory", Meaning.INTERNAL),
        (Problem("x", 81), "memory", Meaning.HARDWARE),
        (Problem("x", 95), "eud", Meaning.HARDWARE),
        (Problem("x", 101), "software", Meaning.SOFTWARE),
        (Problem("x", 112), "software", Meaning.SOFTWARE),
        (Problem("x", 122), "software", Meaning.SOFTWARE),
        (Problem("x", 999, "isolate", 10), "memory", Meaning.HARDWARE),
        (Problem("x", 999, "config", 8), "software", Meaning.SOFTWARE),
        (Problem("x", 999, "unknown", None), "memory", Meaning.HARDWARE),
        (Problem("who knows"), "memory", Meaning.HARDWARE),
        (Problem("who knows"), "Persistence Mode", Meaning.SOFTWARE),
        (Problem("GPU 0 has memory errors and row remappings are pending"), "software", Meaning.HARDWARE),
    ],
)
def test_dcgm_problem_of_a_failed_test_is_classified(problem: Problem, test: str, meaning: Meaning) -> None:
    """By the graver of both severities, else by its words, else by its test."""
    assert meaning is meaning_of(problem, Result(test, 0, DcgmStatus.FAIL, "Fail", (problem,)))


@pytest.mark.parametrize(
    ("problem", "meaning"),
    [
        (Problem("x", 46), Meaning.CONFIGURATION),
        (Problem("x", 41), Meaning.HINT),
        (Problem("who knows"), Meaning.HINT),
        (Problem("x", 41, "isolate", 9), Meaning.HARDWARE),
        (Problem("x", 47), Meaning.INTERNAL),
        (Problem("x", 69), Meaning.INTERNAL),  # more errors than DCGM could list
        (Problem("x", 112), Meaning.SOFTWARE),
    ],
)
@pytest.mark.parametrize("status", [DcgmStatus.PASS, DcgmStatus.WARN])
def test_dcgm_problem_of_another_test_is_classified_by_severity_and_status(
    problem: Problem, status: DcgmStatus, meaning: Meaning
) -> None:
    """CONFIG and MONITOR are warnings where DCGM itself did not fail the test."""
    assert meaning is meaning_of(problem, Result("memory", 0, status, status.value, (problem,)))


@pytest.mark.parametrize("code", [205, 245])
def test_a_setting_does_not_explain_any_exit_code_but_that_of_a_failed_test(code: int) -> None:
    """226 is what dcgmi exits with; a diagnostic that was killed or timed out shows one test of many."""
    text = text_of("diag_4_r1_persistence.json")

    assert read(said(text, 226)).results
    with pytest.raises(CheckError, match=f"exit code {code}"):
        read(said(text, code))


def test_a_summary_that_fails_over_rows_that_did_not_is_the_nodes() -> None:
    """DCGM's own fold is graver than what it lists."""
    document = json.loads(text_of("diag_4_r2.json"))
    test = document["DCGM Diagnostic"]["test_categories"][1]["tests"][0]
    test["results"][2]["status"] = "Warn"
    test["test_summary"]["status"] = "Fail"
    results = diag_json.parse(json.dumps(document)).results

    bad = [(r.gpu, r.status) for r in results if r.status is not DcgmStatus.PASS]
    assert [(2, DcgmStatus.WARN), (None, DcgmStatus.FAIL)] == bad


def test_a_deployment_test_that_names_a_gpu_blames_it() -> None:
    """Before 4.0 these tests have no GPU of their own."""
    document = parsed("diag_33_r2_row_remap.json")

    assert {} == words_of(document, "not_passed"), "it is no missing result of the others"
    assert [2] == [*words_of(document, "hardware_failures")]


def test_a_gpu_without_a_result_of_a_test_is_not_passed() -> None:
    """Seven results of eight GPUs."""
    document = json.loads(text_of("diag_4_r2.json"))
    del document["DCGM Diagnostic"]["test_categories"][1]["tests"][0]["results"][5]

    assert {5: "memory: no result"} == words_of(diag_json.parse(json.dumps(document)), "not_passed")


def test_a_table_without_its_last_line_is_broken() -> None:
    """What was read is kept, with the reason."""
    cut = text_of("diag_44_r2_fail.txt").splitlines()[:-6]

    assert "its last line is missing" in diag_text.parse("\n".join(cut)).broken


def test_a_table_with_two_results_for_one_gpu_gives_no_answer() -> None:
    """As when a test's own row was lost and its GPUs fall to the test above."""
    lines = [line for line in text_of("diag_44_r2.txt").splitlines() if "| memory " not in line]

    with pytest.raises(CheckError, match="two results for GPU 0"):
        diag_text.parse("\n".join(lines))


def test_the_count_of_gpus_is_read_from_discovery() -> None:
    """One GPU is singular."""
    assert (8, 1) == (gpus_discovered(text_of("discovery.txt")), gpus_discovered("1 GPU found.\n"))
    with pytest.raises(CheckError):
        gpus_discovered("Error: unable to establish a connection")


@pytest.mark.parametrize("gpu_id", [-1, 4294967295, None])
def test_a_test_of_the_node_may_name_no_gpu(gpu_id: object) -> None:
    """Before 4.0 it carries the GPU of its last error, or a number that stands for none."""
    document = json.loads(text_of("diag_33_r2_row_remap.json"))
    (row,) = document["DCGM GPU Diagnostic"]["test_categories"][0]["tests"][6]["results"]
    row["gpu_id"] = gpu_id
    row["warnings"][0]["warnings"] = "row remappings are pending"

    assert [8] == [*words_of(diag_json.parse(json.dumps(document)), "hardware_failures")]


def test_a_summary_that_repeats_its_gpus_messages_adds_nothing() -> None:
    """Later versions of DCGM 4 write every message twice; one that no GPU's row has is the node's."""
    document = json.loads(text_of("diag_4_r2_memory_fail.json").partition("\n")[2])
    test = document["DCGM Diagnostic"]["test_categories"][1]["tests"][0]
    (said_once,) = test["results"][5]["warnings"]
    detached = {**said_once, "warning": "GPU 7 is detached.", "error_id": 44}
    test["test_summary"]["warnings"] = [said_once, detached]
    results = diag_json.parse(json.dumps(document)).results

    assert [5] == [r.gpu for r in results for mine, _ in problems_of(r) if mine is Meaning.HARDWARE]
    assert [None] == [r.gpu for r in results for mine, _ in problems_of(r) if mine is Meaning.INTERNAL]


def changed(change: Change) -> str:
    """The healthy document after `change` of its categories and of its test "memory"."""
    whole = json.loads(text_of("diag_4_r2.json"))
    categories = whole["DCGM Diagnostic"]["test_categories"]
    [memory] = [test for row in categories for test in row["tests"] if test and test["name"] == "memory"]
    change(categories, memory)
    return json.dumps(whole)


@pytest.mark.parametrize(
    "change",
    [
        lambda categories, memory: memory["results"][3].update(errors=[{"error_id": 4, "message": "DBE"}]),
        lambda categories, memory: memory["results"][3].update(warnings={"warning": "DBE", "error_id": 4}),
        lambda categories, memory: memory["results"][3].update(sub_results=[{"status": "Fail"}]),
        lambda categories, memory: memory.update(per_link=[{"link": 3, "status": "Fail"}]),
        lambda categories, memory: categories.append(
            {"tests": [], "groups": [{"tests": [{"status": "Fail"}]}]}
        ),
    ],
    ids=["errors", "warnings as an object", "results of a result", "results of a test", "deeper categories"],
)
def test_results_in_a_place_that_is_not_known_are_not_passed_over(change: Change) -> None:
    """Every status that is read says Pass: a later version may have moved the others."""
    with pytest.raises(CheckError, match=r"no known version|unknown form"):
        diag_json.parse(changed(change))


@pytest.mark.parametrize("number", [51, 108])
def test_a_test_that_cuda_refused_is_a_failure(number: int) -> None:
    """DCGM's severity for these is MONITOR; the test has failed, and so would the job."""
    said = {"error_id": number, "error_category": 6, "error_severity": 1, "warning": "Error using CUDA API"}

    def fail(categories: Any, memory: Any) -> None:
        memory["results"][3].update(status="Fail", warnings=[said])
        memory["test_summary"]["status"] = "Fail"

    failures = words_of(diag_json.parse(changed(fail)), "software_failures")

    assert f"memory: error {number}: Error using CUDA API" == failures[3]
