"""dcgm.*: a fake dcgmi that replays, fails, hangs, is cut, and talks to no host engine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from checks.check import Check
from checks.explain.reading import OutputKind
from checks.model import Cause, Level, Observation
from checks.probes.dcgm import diag, health, policy
from tests.corpus.case import Observe, Recording, Sort, cases_of, context, observed, recordings_of
from tests.fakes.tools import Reply, install, on_path

HEALTHY, FAULTY, UNMEASURABLE = Sort
text_of = recordings_of("dcgm")
NO_ENGINE = "Error: unable to establish a connection to the specified host: localhost\n"
FAILED = 226  # DCGM_ST_NVVS_ERROR & 0xff: at least one test failed


def run(
    check: Check, replies: Sequence[Reply] | None, *, age_s: float | None = 90.0, **more: float
) -> Observe:
    """The check's own body with this dcgmi on PATH; without replies there is none."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        tools = tmp_path / "tools"
        tools.mkdir(exist_ok=True)
        if replies is not None:
            install(tools, "dcgmi", replies)
        options = {"level": 2, "deadline_s": 5.0, "listen_s": 1.5, "watch_s": 0.0, **more}
        before: dict[str, object] | None = None if age_s is None else {"at_s": time.monotonic() - age_s}
        with on_path(tools, alone=replies is None):
            return observed(check, context(check, tmp_path, options=options, before=before))

    return observe


def diagnosed(name: str, code: int = 0, level: int = 2, part: float = 1.0) -> Observe:
    return run(diag.diag, [Reply(text_of(name), "diag", code=code, part=part)], level=level)


def watched(
    report: str,
    watches: str = "watches.json",
    discovery: str = "discovery.txt",
    age_s: float | None = 90.0,
    part: float = 1.0,
) -> Observe:
    replies = [
        Reply(text_of(discovery), "discovery"),
        Reply(text_of(watches), "health.* -f"),
        Reply(text_of(report), "health.* -c", part=part),
    ]
    return run(health.health, replies, age_s=age_s)


def told(name: str, heard: str = "Listening for violations.\n", part: float = 1.0) -> Observe:
    return run(policy.policy, [Reply(text_of(name), "--get", part=part), Reply(heard, "--reg", seconds=60)])


_diag, _health, _policy = (cases_of(check.name) for check in (diag.diag, health.health, policy.policy))
WARN: dict[str, Level] = {"level": Level.WARN}
CONFIGURATION: dict[str, Cause] = {"cause": Cause.CONFIGURATION}
DIAG = [
    _diag(HEALTHY, "dcgm 4 level 1", diagnosed("diag_4_r1.json", level=1)),
    _diag(HEALTHY, "dcgm 4 level 2", diagnosed("diag_4_r2.json")),
    _diag(HEALTHY, "dcgm 4 level 3", diagnosed("diag_4_r3.json", level=3)),
    _diag(HEALTHY, "dcgm 3.3", diagnosed("diag_33_r2.json")),
    _diag(FAULTY, "dcgm 4 memory", diagnosed("diag_4_r2_memory_fail.json", FAILED), "GPU 5: memory: error 4"),
    _diag(FAULTY, "dcgm 4 exit code 0 all the same", diagnosed("diag_4_r2_memory_fail.json"), "GPU 5: memory"),
    _diag(FAULTY, "dcgm 4 nvlink down", diagnosed("diag_4_r2_nvlink.json", FAILED), "GPU 3: pcie: error 14"),
    _diag(FAULTY, "dcgm 4 seven GPUs", diagnosed("diag_4_r2_seven_gpus.json"), "gpus_missing lacks 1 GPU in DCGM's results"),
    _diag(FAULTY, "dcgm 3.3 row remap", diagnosed("diag_33_r2_row_remap.json", FAILED), "GPU 2: Page Retirement/Row Remap"),
    _diag(FAULTY, "persistence mode off warns", diagnosed("diag_4_r1_persistence.json", FAILED, 1), "GPU 0: software: error 29",
        **CONFIGURATION, **WARN),
    _diag(UNMEASURABLE, "a pass that could not allocate", diagnosed("diag_4_r2_alloc_pass.json")),
    _diag(UNMEASURABLE, "aborted on all eight GPUs", diagnosed("diag_4_r2_aborted.json", FAILED)),
    _diag(UNMEASURABLE, "the test itself broke", diagnosed("diag_4_r2_internal.json", FAILED)),
    _diag(UNMEASURABLE, "pcie skipped", diagnosed("diag_4_r2_skip.json")),
    _diag(UNMEASURABLE, "everything skipped", diagnosed("diag_4_r2_all_skip.json")),
    _diag(UNMEASURABLE, "not run on one GPU", diagnosed("diag_4_r2_not_run.json")),
    _diag(UNMEASURABLE, "a word that no version has", diagnosed("diag_4_r2_new_word.json")),
    _diag(UNMEASURABLE, "a version before 3.3", run(diag.diag, [Reply(text_of("diag_33_r2.json").replace("3.3.7", "3.1.8"))])),
    _diag(UNMEASURABLE, "a newer version", diagnosed("diag_5_r2.json")),
    _diag(UNMEASURABLE, "level 1 where 2 was asked for", diagnosed("diag_4_r1.json")),
    _diag(UNMEASURABLE, "level 2 where 3 was asked for", diagnosed("diag_33_r2.json", level=3)),
    _diag(UNMEASURABLE, "runtime error", diagnosed("diag_4_runtime_error.json", 233)),
    _diag(UNMEASURABLE, "exit code without a failed test", diagnosed("diag_4_r2.json", 245)),
    _diag(UNMEASURABLE, "cut output", diagnosed("diag_4_r2.json", part=0.6)),
    _diag(UNMEASURABLE, "cut output that dcgmi is satisfied with", diagnosed("diag_33_r2.json", part=0.95)),
    _diag(UNMEASURABLE, "health output instead", diagnosed("health_ok.json")),
    _diag(UNMEASURABLE, "nothing printed", run(diag.diag, [Reply()])),
    _diag(UNMEASURABLE, "text instead of JSON", diagnosed("diag_44_r2.txt")),
    _diag(UNMEASURABLE, "no host engine", run(diag.diag, [Reply(NO_ENGINE, code=235)])),
    _diag(UNMEASURABLE, "killed", run(diag.diag, [Reply(text_of("diag_4_r2.json"), part=0.3, signal=9)])),
    _diag(UNMEASURABLE, "hangs", run(diag.diag, [Reply(seconds=3600)], deadline_s=1.0)),
    _diag(UNMEASURABLE, "hangs after its output", run(diag.diag, [Reply(text_of("diag_4_r2.json"), seconds=3600)], deadline_s=1.0)),
    _diag(UNMEASURABLE, "not installed", run(diag.diag, None)),
]  # fmt: skip
HEALTH = [
    _health(HEALTHY, "nothing wrong", watched("health_ok.json")),
    _health(HEALTHY, "GPUs at their power limit", watched("health_power.json")),
    _health(FAULTY, "nvlink", watched("health_nvlink.json"), "GPU 2: NVLINK system"),
    _health(FAULTY, "seven GPUs", watched("health_ok.json", discovery="discovery_seven.txt"),
        "gpus_missing lacks 1 GPU in DCGM's results"),
    _health(FAULTY, "driver", watched("health_driver.json"), "GPU 0: Driver", **CONFIGURATION),
    _health(FAULTY, "thermal", watched("health_thermal.json"), "GPU 6: Thermal", **WARN),
    _health(UNMEASURABLE, "nobody watches memory", watched("health_ok.json", "watches_no_memory.json")),
    _health(UNMEASURABLE, "the watches were not set", watched("health_ok.json", age_s=None)),
    _health(UNMEASURABLE, "read as soon as they were set", watched("health_ok.json", age_s=2.0)),
    _health(UNMEASURABLE, "a report that contradicts itself", watched("health_contradiction.json")),
    _health(UNMEASURABLE, "cut report", watched("health_nvlink.json", part=0.5)),
    _health(UNMEASURABLE, "diag output instead", watched("diag_4_r2.json")),
    _health(UNMEASURABLE, "no host engine", run(health.health, [Reply(NO_ENGINE, code=235)])),
    _health(UNMEASURABLE, "not installed", run(health.health, None)),
]  # fmt: skip
POLICY = [
    _policy(HEALTHY, "nothing is set", told("policy_none.json")),
    _policy(HEALTHY, "set, and not violated", told("policy_set.json")),
    _policy(FAULTY, "violated", told("policy_set.json", text_of("violations.txt")), "XID error 63", **WARN),
    _policy(FAULTY, "it would reset GPUs", told("policy_reset.json"), "Reset GPU", **CONFIGURATION, **WARN),
    _policy(UNMEASURABLE, "nobody could listen", told("policy_set.json", "Error: Cannot register\n")),
    _policy(UNMEASURABLE, "cut", told("policy_set.json", part=0.5)),
    _policy(UNMEASURABLE, "garbage", run(policy.policy, [Reply("{}")])),
    _policy(UNMEASURABLE, "no host engine", run(policy.policy, [Reply(NO_ENGINE, code=235)])),
    _policy(UNMEASURABLE, "not installed", run(policy.policy, None)),
]  # fmt: skip
CASES = [*DIAG, *HEALTH, *POLICY]
P5 = "p5.48xlarge"
JSON_SAYS_TWICE = {
    r'^"category"': "the kind of test; its name says it too",
    r'^"Driver Version Detected"': "gpu.inventory judges the driver",
}
JSON_4 = {
    **JSON_SAYS_TWICE,
    r'^"entity_group_id"': "the number of entity_group, which stands beside it",
    r'^"device_id"': "gpu.inventory judges the model",
}
TABLE = {
    r"^Successfully ran diagnostic for group\.$": "it is printed after a failed test too",
    r"^[+|]-----  ": "a section's title",
    r"^\+=+\+=+\+$": "a rule between header and rows",
    r"^\+-+\+-+\+$": "the rule above the header; without the last one the table is cut",
    r"^\| Driver Version Detected": "gpu.inventory judges the driver",
}


WORDS = {
    r"^Policy information$": "words around the document",
    r"^\*\*\*\* Non-homogenous": "it is printed always",
}


def _recorded(path: str, level: Level, instance_type: str = "", **of: Any) -> Recording:
    return Recording(f"dcgm/{path}", OutputKind.DCGMI, level, instance_type, **of)


RECORDINGS: list[Recording] = [
    _recorded("diag_4_r2.json", Level.PASS, P5, irrelevant=JSON_4),
    _recorded("diag_4_r2_memory_fail.json", Level.FAIL, P5),
    _recorded("diag_4_r2_aborted.json", Level.FAIL, P5),
    _recorded("diag_4_r1_persistence.json", Level.WARN),
    _recorded("diag_4_runtime_error.json", Level.FAIL),
    _recorded("diag_33_r2.json", Level.PASS, P5, irrelevant=JSON_SAYS_TWICE),
    _recorded("diag_33_r2.txt", Level.PASS, P5, irrelevant=TABLE),
    _recorded("diag_33_r2_partial_fail.txt", Level.FAIL, P5),
    _recorded("diag_33_r2_thermal.txt", Level.FAIL, P5),
    _recorded("diag_44_r2.txt", Level.PASS, P5, irrelevant=TABLE),
    _recorded("diag_44_r2_fail.txt", Level.FAIL, P5),
    _recorded("diag_44_r2_internal.txt", Level.FAIL, P5),
    _recorded("health_ok.json", Level.PASS),
    _recorded("health_nvlink.json", Level.FAIL),
    _recorded("health_thermal.json", Level.WARN),
    _recorded("policy_none.json", Level.PASS, irrelevant=WORDS),
    _recorded("policy_reset.json", Level.WARN),
    *(
        _recorded(f"{name}.json", Level.FAIL, P5)
        for name in (
            "diag_33_r2_row_remap", "diag_4_r2_all_skip", "diag_4_r2_alloc_pass", "diag_4_r2_internal", "diag_4_r2_new_word",
            "diag_4_r2_not_run", "diag_4_r2_nvlink", "diag_4_r2_seven_gpus", "diag_4_r2_skip", "diag_5_r2", "health_contradiction",
            "health_driver",
        )
    ),
    _recorded("diag_4_r1.json", Level.PASS, P5, irrelevant=JSON_4),
    _recorded("diag_4_r3.json", Level.PASS, P5, irrelevant=JSON_4),
    _recorded("health_power.json", Level.PASS, P5,
        irrelevant={r'^"Monitor the power conditions': "half of a sentence of a remark: a GPU at its power limit"}),
    _recorded("policy_set.json", Level.PASS, P5,
        irrelevant={r'^"PCI errors and replays"': "which conditions a site watches is its own choice", **WORDS}),
]  # fmt: skip
