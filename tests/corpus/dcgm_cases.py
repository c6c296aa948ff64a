"""dcgm.*: a fake dcgmi that replays, fails, hangs, is cut, and talks to no host engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from checks.check import Check
from checks.explain.reading import OutputKind
from checks.model import Cause, Level, Observation, Profile
from checks.probes.dcgm import diag, health, policy
from tests.corpus.case import Case, Recording, Sort, context, observed, recordings_of
from tests.fakes.tools import Reply, install, on_path

text_of = recordings_of("dcgm")
QUICK = {"deadline_s": 5.0}
NO_ENGINE = "Error: unable to establish a connection to the specified host: localhost\n"
FAILED = 226  # DCGM_ST_NVVS_ERROR & 0xff: at least one test failed


def run(
    check: Check,
    replies: Sequence[Reply] | None,
    *,
    level: int = 2,
    deadline_s: float = 5.0,
    age_s: float | None = 90.0,
) -> Callable[[Path], Sequence[Observation]]:
    """The check's own body with this dcgmi on PATH; without replies there is none."""

    def observe(tmp_path: Path) -> Sequence[Observation]:
        tools = tmp_path / "tools"
        tools.mkdir(exist_ok=True)
        if replies is not None:
            install(tools, "dcgmi", replies)
        options = {"level": level, "deadline_s": deadline_s, "listen_s": 1.5, "watch_s": 0.0}
        before: dict[str, object] | None = None if age_s is None else {"at_s": time.monotonic() - age_s}
        with on_path(tools, alone=replies is None):
            return observed(check, context(check, tmp_path, options=options, before=before))

    return observe


def diagnosed(
    name: str, code: int = 0, level: int = 2, part: float = 1.0
) -> Callable[[Path], Sequence[Observation]]:
    return run(diag.diag, [Reply(text_of(name), "diag", code=code, part=part)], level=level)


def watched(
    report: str,
    watches: str = "watches.json",
    discovery: str = "discovery.txt",
    age_s: float | None = 90.0,
    part: float = 1.0,
) -> Callable[[Path], Sequence[Observation]]:
    replies = [
        Reply(text_of(discovery), "discovery"),
        Reply(text_of(watches), "health.* -f"),
        Reply(text_of(report), "health.* -c", part=part),
    ]
    return run(health.health, replies, age_s=age_s)


def told(
    name: str, heard: str = "Listening for violations.\n", part: float = 1.0
) -> Callable[[Path], Sequence[Observation]]:
    return run(policy.policy, [Reply(text_of(name), "--get", part=part), Reply(heard, "--reg", seconds=60)])


def _healthy(name: str, observe: Callable[[Path], Sequence[Observation]], check: str = "dcgm.diag") -> Case:
    return Case(check, Sort.HEALTHY, name, observe)


def _faulty(
    name: str,
    observe: Callable[[Path], Sequence[Observation]],
    names: str,
    cause: Cause = Cause.HARDWARE,
    level: Level = Level.FAIL,
    check: str = "dcgm.diag",
) -> Case:
    return Case(check, Sort.FAULTY, name, observe, level=level, cause=cause, names=names)


def _unmeasurable(
    name: str,
    observe: Callable[[Path], Sequence[Observation]],
    check: str = "dcgm.diag",
    profile: Profile = Profile.STANDARD,
) -> Case:
    return Case(check, Sort.UNMEASURABLE, name, observe, profile=profile)


WARN, CONFIGURATION, EVIDENCE = Level.WARN, Cause.CONFIGURATION, Cause.EVIDENCE
DIAG = [
    _healthy("dcgm 4 level 1", diagnosed("diag_4_r1.json", level=1)),
    _healthy("dcgm 4 level 2", diagnosed("diag_4_r2.json")),
    _healthy("dcgm 4 level 3", diagnosed("diag_4_r3.json", level=3)),
    _healthy("dcgm 3.3", diagnosed("diag_33_r2.json")),
    _faulty("dcgm 4 memory", diagnosed("diag_4_r2_memory_fail.json", FAILED), "GPU 5: memory: error 4"),
    _faulty("dcgm 4 exit code 0 all the same", diagnosed("diag_4_r2_memory_fail.json"), "GPU 5: memory"),
    _faulty("dcgm 4 nvlink down", diagnosed("diag_4_r2_nvlink.json", FAILED), "GPU 3: pcie: error 14"),
    _faulty("dcgm 4 seven GPUs", diagnosed("diag_4_r2_seven_gpus.json"), "gpus_missing lacks 1 GPU in DCGM's results"),
    _faulty("dcgm 3.3 row remap", diagnosed("diag_33_r2_row_remap.json", FAILED), "GPU 2: Page Retirement/Row Remap"),
    _faulty("persistence mode off warns", diagnosed("diag_4_r1_persistence.json", FAILED, 1), "GPU 0: software: error 29",
        CONFIGURATION, WARN),
    _unmeasurable("a pass that could not allocate", diagnosed("diag_4_r2_alloc_pass.json")),
    _unmeasurable("aborted on all eight GPUs", diagnosed("diag_4_r2_aborted.json", FAILED)),
    _unmeasurable("the test itself broke", diagnosed("diag_4_r2_internal.json", FAILED)),
    _unmeasurable("pcie skipped", diagnosed("diag_4_r2_skip.json")),
    _unmeasurable("everything skipped", diagnosed("diag_4_r2_all_skip.json")),
    _unmeasurable("not run on one GPU", diagnosed("diag_4_r2_not_run.json")),
    _unmeasurable("a word that no version has", diagnosed("diag_4_r2_new_word.json")),
    _unmeasurable("a version before 3.3", run(diag.diag, [Reply(text_of("diag_33_r2.json").replace("3.3.7", "3.1.8"))])),
    _unmeasurable("a newer version", diagnosed("diag_5_r2.json")),
    _unmeasurable("level 1 where 2 was asked for", diagnosed("diag_4_r1.json")),
    _unmeasurable("level 2 where 3 was asked for", diagnosed("diag_33_r2.json", level=3)),
    _unmeasurable("runtime error", diagnosed("diag_4_runtime_error.json", 233)),
    _unmeasurable("exit code without a failed test", diagnosed("diag_4_r2.json", 245)),
    _unmeasurable("cut output", diagnosed("diag_4_r2.json", part=0.6)),
    _unmeasurable("cut output that dcgmi is satisfied with", diagnosed("diag_33_r2.json", part=0.95)),
    _unmeasurable("health output instead", diagnosed("health_ok.json")),
    _unmeasurable("nothing printed", run(diag.diag, [Reply()])),
    _unmeasurable("text instead of JSON", diagnosed("diag_44_r2.txt")),
    _unmeasurable("no host engine", run(diag.diag, [Reply(NO_ENGINE, code=235)])),
    _unmeasurable("killed", run(diag.diag, [Reply(text_of("diag_4_r2.json"), part=0.3, signal=9)])),
    _unmeasurable("hangs", run(diag.diag, [Reply(seconds=3600)], deadline_s=1.0)),
    _unmeasurable("hangs after its output", run(diag.diag, [Reply(text_of("diag_4_r2.json"), seconds=3600)], deadline_s=1.0)),
    _unmeasurable("not installed", run(diag.diag, None)),
]  # fmt: skip
HEALTH = [
    _healthy("nothing wrong", watched("health_ok.json"), "dcgm.health"),
    _healthy("GPUs at their power limit", watched("health_power.json"), "dcgm.health"),
    _faulty("nvlink", watched("health_nvlink.json"), "GPU 2: NVLINK system", check="dcgm.health"),
    _faulty("seven GPUs", watched("health_ok.json", discovery="discovery_seven.txt"), "gpus_missing lacks 1 GPU in DCGM's results",
        check="dcgm.health"),
    _faulty("driver", watched("health_driver.json"), "GPU 0: Driver", CONFIGURATION, check="dcgm.health"),
    _faulty("thermal", watched("health_thermal.json"), "GPU 6: Thermal", level=WARN, check="dcgm.health"),
    _unmeasurable("nobody watches memory", watched("health_ok.json", "watches_no_memory.json"), "dcgm.health"),
    _unmeasurable("the watches were not set", watched("health_ok.json", age_s=None), "dcgm.health"),
    _unmeasurable("read as soon as they were set", watched("health_ok.json", age_s=2.0), "dcgm.health"),
    _unmeasurable("a report that contradicts itself", watched("health_contradiction.json"), "dcgm.health"),
    _unmeasurable("cut report", watched("health_nvlink.json", part=0.5), "dcgm.health"),
    _unmeasurable("diag output instead", watched("diag_4_r2.json"), "dcgm.health"),
    _unmeasurable("no host engine", run(health.health, [Reply(NO_ENGINE, code=235)]), "dcgm.health"),
    _unmeasurable("not installed", run(health.health, None), "dcgm.health"),
]  # fmt: skip
POLICY = [
    _healthy("nothing is set", told("policy_none.json"), "dcgm.policy"),
    _healthy("set, and not violated", told("policy_set.json"), "dcgm.policy"),
    _faulty("violated", told("policy_set.json", text_of("violations.txt")), "XID error 63", level=WARN, check="dcgm.policy"),
    _faulty("it would reset GPUs", told("policy_reset.json"), "Reset GPU", CONFIGURATION, WARN, "dcgm.policy"),
    _unmeasurable("nobody could listen", told("policy_set.json", "Error: Cannot register\n"), "dcgm.policy"),
    _unmeasurable("cut", told("policy_set.json", part=0.5), "dcgm.policy"),
    _unmeasurable("garbage", run(policy.policy, [Reply("{}")]), "dcgm.policy"),
    _unmeasurable("no host engine", run(policy.policy, [Reply(NO_ENGINE, code=235)]), "dcgm.policy"),
    _unmeasurable("not installed", run(policy.policy, None), "dcgm.policy"),
]  # fmt: skip
CASES: list[Case] = [*DIAG, *HEALTH, *POLICY]
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


def _recorded(
    path: str, level: Level, instance_type: str = "", irrelevant: dict[str, str] | None = None
) -> Recording:
    return Recording(f"dcgm/{path}", OutputKind.DCGMI, level, instance_type, irrelevant=irrelevant or {})


RECORDINGS: list[Recording] = [
    _recorded("diag_4_r2.json", Level.PASS, P5, JSON_4),
    _recorded("diag_4_r2_memory_fail.json", Level.FAIL, P5),
    _recorded("diag_4_r2_aborted.json", Level.FAIL, P5),
    _recorded("diag_4_r1_persistence.json", Level.WARN),
    _recorded("diag_4_runtime_error.json", Level.FAIL),
    _recorded("diag_33_r2.json", Level.PASS, P5, JSON_SAYS_TWICE),
    _recorded("diag_33_r2.txt", Level.PASS, P5, TABLE),
    _recorded("diag_33_r2_partial_fail.txt", Level.FAIL, P5),
    _recorded("diag_33_r2_thermal.txt", Level.FAIL, P5),
    _recorded("diag_44_r2.txt", Level.PASS, P5, TABLE),
    _recorded("diag_44_r2_fail.txt", Level.FAIL, P5),
    _recorded("diag_44_r2_internal.txt", Level.FAIL, P5),
    _recorded("health_ok.json", Level.PASS),
    _recorded("health_nvlink.json", Level.FAIL),
    _recorded("health_thermal.json", Level.WARN),
    _recorded("policy_none.json", Level.PASS, "",
        {r"^Policy information$": "words around the document", r"^\*\*\*\* Non-homogenous": "it is printed always"}),
    _recorded("policy_reset.json", Level.WARN),
]  # fmt: skip
