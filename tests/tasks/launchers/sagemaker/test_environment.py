"""The training's environment on the stand-in of SageMaker: what its container was given, and documented names."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from checks import bundle as bundles
from checks.bundle import Pass, PassedNode
from checks.model import SCHEMA_VERSION
from tasks.launchers.base import JobSpec, JobState, Placement, Work
from tasks.launchers.sagemaker.api import Clients
from tasks.launchers.sagemaker.launcher import SageMakerLauncher
from tasks.launchers.sagemaker.options import Code, SageMakerOptions
from tasks.store.aws import Limits
from tests.container.agents import make_bundle
from tests.container.test_agent_environment import BARE, SET, TRAINING
from tests.fakes.sagemaker.bench import IMAGE, ROLE, Cloud, stand_in
from tests.fakes.sagemaker.images import OURS, ROOT
from tests.survival.faulty_network import needs_root
from tests.tasks.launchers.contract import until_final

pytestmark = [pytest.mark.root, needs_root]

# As container/Dockerfile has it.
IN_IMAGE = "/opt/prelaunch"
IDENTITY = "import json; from checks.probes.host.system import identity_of_node; print(json.dumps(identity_of_node()))"
DUMP = (
    "{python}",
    "-c",
    "import json, os, sys; json.dump(dict(os.environ), open(sys.argv[1] + '/env.json', 'w'))",
    "{out}",
)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """An account with one machine, whose image has the code where ours has it."""
    machine = {"mounts": {IN_IMAGE: str(ROOT)}}
    image = {"environment": {"PYTHONPATH": IN_IMAGE}, "working_directory": "/"}
    dials = {"grace_s": 2.0, "pool_s": 0.0, "starting_s": 0.0, "downloading_s": 0.0, "uploading_s": 0.0}
    folder = tmp_path_factory.mktemp("environment")
    with (
        pytest.MonkeyPatch.context() as patch,
        stand_in(folder, {"ml.m5.large": [machine]}, images={OURS: image}, dials=dials) as made,
    ):
        for key, value in made.environment.items():
            patch.setenv(key, value)
        yield made


@pytest.fixture(scope="module")
def passed(cloud: Cloud) -> bytes:
    """A pass of this one machine."""
    name = cloud.create("identity", "python3", "-c", IDENTITY)
    cloud.wait(name)
    ((line, *_),) = cloud.log(name).values()
    node = PassedNode("algo-1", 0, json.loads(line))
    return bundles.dump(Pass(SCHEMA_VERSION, "earlier", "digest", "2026-01-01T00:00:00Z", (node,)))


# tests/container/test_agent_environment.py has every combination, without an engine.
@pytest.mark.parametrize(("code", "own"), [(Code.IMAGE, SET), (Code.CHANNEL, BARE)])
def test_the_training_gets_what_sagemaker_gave_the_container(
    cloud: Cloud, passed: bytes, code: Code, own: Mapping[str, str]
) -> None:
    """Variable for variable; nothing is left of the folder of our code, of the interpreter of the checks, or of their settings."""
    options = SageMakerOptions(
        cloud.region, IMAGE, ROLE, f"s3://{cloud.bucket}/gates", Placement.NONE,
        volume_gb=10, poll_seconds=0.1, code=code, python=sys.executable,
    )  # fmt: skip
    launcher = SageMakerLauncher(options)
    launcher.clients = Clients(cloud.region, Limits(deadline_s=10.0))
    name = f"train-{code}-{len(own)}"
    files = {"bundle.json": make_bundle(), "pass.json": passed}
    job = JobSpec(
        name, ("unused",), 1, 1, 60.0, files, own, Work.CONFIRM, DUMP, instance_type="m5.large",
    )  # fmt: skip
    launcher.submit(launcher.plan(job))
    status = until_final(launcher, name, 40.0)
    assert JobState.SUCCEEDED is status.state, cloud.log(name)
    (host,) = cloud.hosts(name)
    inside = Path(host["opt_ml"])
    found = json.loads((inside / "output" / "data" / "env.json").read_bytes())
    engine = json.loads((inside.parent / "container.json").read_bytes())["environment"]

    added = {key: found.pop(key) for key in TRAINING if key in found}
    assert TRAINING - {"PRELAUNCH_INTERFACE"} <= added.keys()
    assert options.python == engine.pop("PRELAUNCH_PYTHON")
    if code is Code.IMAGE:  # the folder of our code comes first, and only for the checks
        first, *rest = engine.pop("PYTHONPATH").split(":")
        assert IN_IMAGE == first
        engine |= {"PYTHONPATH": ":".join(rest)} if rest else {}
    assert engine == found
