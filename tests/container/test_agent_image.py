"""An image that cannot run the gate's checks is rejected before them, with the remedy in the failure file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from checks import bundle as bundles
from checks import image_requirements
from checks.bundle import Bundle
from checks.exit_codes import Exit
from checks.facts.builtin import builtin
from checks.model import Declared, Profile, Skip
from checks.policy import CheckPolicy, Policy
from checks.version import ENGINE
from container.agent import agent_run, settings
from container.agent.settings import Verb
from container.agent.supervisor import Signals
from tasks.gate_file.references import read_policy
from tests.container.agents import make_bundle, make_root

NVIDIA = read_policy(Path(__file__).parents[2] / "deployments" / "policies" / "nvidia.toml")


def a_bundle(gpus: int = 8, policy: Policy = NVIDIA, skip: tuple[str, ...] = ()) -> Bundle:
    """The bundle of two nodes."""
    declared = Declared("p5.48xlarge" if gpus else "cpu", 2, gpus, gpus or 1)
    return bundles.make("g", declared, Profile.QUICK, policy, builtin(), skip=skip)


def with_lines(change: Callable[[CheckPolicy], CheckPolicy]) -> Policy:
    """The shipped policy, with every check changed."""
    return replace(NVIDIA, checks={name: change(line) for name, line in NVIDIA.checks.items()})


def without_pynvml(name: str) -> object:
    """As importlib says it."""
    raise ModuleNotFoundError(f"No module named '{name}'")


@pytest.mark.parametrize(
    ("bundle", "said"),
    [
        (a_bundle(), "cannot import pynvml"),
        (replace(a_bundle(), facts="0" * 64), f"has Prelaunch {ENGINE}, and the gate {ENGINE}, with other tables of facts"),
        (replace(a_bundle(0), facts="0" * 64), f"has Prelaunch {ENGINE}, and the gate {ENGINE}, with other tables of facts"),
        (replace(a_bundle(), version="0.0.9"), f"has Prelaunch {ENGINE}, and the gate 0.0.9. Build"),
        (replace(a_bundle(), facts="0" * 64, version=""), "and the gate an earlier version, with other tables of facts"),
        (replace(a_bundle(0), version=""), ""),
        (a_bundle(0), ""),
        (a_bundle(policy=with_lines(lambda line: replace(line, required=False))), ""),
        (a_bundle(policy=with_lines(lambda line: replace(line, accept_skips=(Skip.TOOL_MISSING,)))), ""),
    ],
    ids=[
        *("no pynvml", "other facts", "other facts, no GPU", "other version", "no version", "a bundle of 0.1.0"),
        *("no GPU", "nothing is required", "the policy accepts it"),
    ],
)  # fmt: skip
def test_agent_names_what_the_image_lacks_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, bundle: Bundle, said: str
) -> None:
    """Only what the gate would refuse for: an image in which nothing needs NVML starts its checks."""
    monkeypatch.setattr(image_requirements, "load", without_pynvml)
    found = agent_run.image_fault(bundle)

    assert (said in found, bool(said)) == (True, bool(found))
    assert not found or "container/create-image.sh" in found


def test_an_image_that_has_all_lacks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same bundle, where pynvml can be imported."""
    monkeypatch.setattr(image_requirements, "load", lambda name: image_requirements)

    assert "" == agent_run.image_fault(a_bundle())


def test_the_agent_leaves_it_in_the_failure_file_and_starts_no_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SageMaker shows the first characters of that file as the job's FailureReason."""
    monkeypatch.setattr(agent_run, "image_fault", lambda bundle: "the image lacks it")
    monkeypatch.setattr(agent_run, "become_subreaper", lambda: None)
    root = make_root(tmp_path, make_bundle())
    made = replace(settings.make(root, {}, {}), verb=Verb.CHECK)

    assert Exit.REJECTED == agent_run.live(made, Signals())
    assert "the image lacks it" == (root / "output" / "failure").read_text()
    assert not list(root.rglob("nodes/*"))
