"""What the image of a job must hold for its checks, and what a look into ECR says of it before anything is paid for."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from checks import bundle as bundles
from tasks.gate.context import open_gate_context
from tasks.gate.jobs import planned_jobs
from tasks.gate_file.request import GateRequest
from tasks.launchers.base import JobSpec, Plan, PreflightCheck, PreflightResult
from tasks.launchers.sagemaker.preflight.image import tools
from tasks.launchers.sagemaker.preflight.requirements import Requirements, requirements_of
from tasks.launchers.sagemaker.request.image import LABEL, Checked, checked_in, labelled, unlabelled, wanted
from tests.tasks.launchers.sagemaker.preflight.accounts import answered, options, plans

ROOT = Path(__file__).resolve().parents[5]
GATES = ROOT / "deployments" / "gates"
TRAINING = "123456789012.dkr.ecr.us-east-1.amazonaws.com/training:latest"
OURS = "123456789012.dkr.ecr.us-east-1.amazonaws.com/prelaunch:latest"
INDEX = "application/vnd.oci.image.index.v1+json"
ALL = "all_reduce_perf dcgmi fi_info fi_pingpong fio nv-hostengine stress-ng torch"


def planned(gate: str) -> tuple[Plan, ...]:
    """The jobs of a shipped gate file."""
    setting = open_gate_context(GateRequest(gate_file=str(GATES / f"{gate}.toml")))
    return tuple(setting.launcher.plan(job) for job in planned_jobs(setting))


def gated() -> JobSpec:
    """The one job of the gate file whose checks run in the training's own image."""
    return planned("sagemaker-p5-injob")[0].job


def asked(image: str = TRAINING) -> Requirements:
    """A gate whose checks run in this image."""
    chosen = options()
    return dataclasses.replace(requirements_of(plans(chosen), chosen), checked=checked_in(gated(), image))


@pytest.fixture
def layers() -> Iterator[dict[str, bytes]]:
    """What can be downloaded, by path; "" is where. A server on loopback, as S3 would be."""
    held: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = held.get(self.path)
            self.send_response(404 if data is None else 200)
            self.send_header("Content-Length", str(len(data or b"")))
            self.end_headers()
            self.wfile.write(data or b"")

        def log_message(self, format: str, *args: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        held[""] = f"http://127.0.0.1:{server.server_address[1]}".encode()
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield held
        server.shutdown()
        thread.join()


def pushed(layers: dict[str, bytes], labels: Mapping[str, str] | None, cut: int = 0) -> list[tuple[str, Any]]:
    """ECR's answers for an image with these labels; of its configuration `cut` bytes are lost on the way."""
    data = json.dumps({"architecture": "amd64", "config": {"Labels": labels}}).encode()
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    layers[f"/{digest}"] = data[: len(data) - cut]
    manifest = json.dumps({"schemaVersion": 2, "config": {"digest": digest}, "layers": []})
    url = f"{layers[''].decode()}/{digest}"
    return [_got(manifest), ("get_download_url_for_layer", {"downloadUrl": url, "layerDigest": digest})]


def _got(manifest: str) -> tuple[str, Any]:
    return ("batch_get_image", {"images": [{"imageManifest": manifest}], "failures": []})


def looked(calls: list[tuple[str, Any]], image: str = TRAINING) -> PreflightCheck:
    """The one line of a look at the image."""
    (line,) = tools(asked(image), answered(ecr=calls))
    return line


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stubbed client signs nothing, but is not made without a key."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


def test_what_a_policy_asks_of_the_image_follows_from_the_catalogue() -> None:
    """Required checks and those that may be left out apart; nvidia-ml-py comes with the checks."""
    required, optional = wanted(bundles.load(gated().files["bundle.json"]))

    assert {"dcgmi", "nv-hostengine", "fi_info", "fi_pingpong", "torch"} == set(required)
    assert {"all_reduce_perf", "fio", "stress-ng", "dcgmi", "nv-hostengine"} == set(optional)
    assert {"dcgm.diag", "dcgm.health"} <= set(required["dcgmi"]) and ("nccl.tests",) == optional[
        "all_reduce_perf"
    ]


def test_a_check_that_the_gate_file_leaves_out_asks_for_nothing() -> None:
    """[checks] skip."""
    made = bundles.load(gated().files["bundle.json"])

    assert "fio" not in wanted(dataclasses.replace(made, skip=("disk.io",)))[1]


def test_a_plan_says_before_anybody_looks_what_an_unknown_image_may_cost() -> None:
    """In the job that checks and trains the image is the training's own."""
    (line,) = planned("sagemaker-p5-injob")[0].unverified

    assert (PreflightResult.UNSEEN, True) == (
        line.result,
        line.message.startswith(f"{TRAINING}: the image was not inspected; "),
    )
    assert "the verdict is CANNOT TELL: dcgmi (" in line.message and "dcgm.diag" in line.message
    assert "a WARN: all_reduce_perf (nccl.tests)" in line.message
    assert "FROM the prelaunch image" in line.remedy and "docs/sagemaker.md" in line.remedy


def test_an_image_with_our_label_is_fine(layers: dict[str, bytes]) -> None:
    """It was built by our Dockerfile, or FROM what that built."""
    line = looked(pushed(layers, {LABEL: ALL, "maintainer": "me"}))

    assert (PreflightResult.OK, f"{TRAINING}: its label {LABEL} names all that the checks need") == (
        line.result,
        line.message,
    )


def test_a_label_that_lacks_a_tool_names_it(layers: dict[str, bytes]) -> None:
    """And not what is there."""
    line = looked(pushed(layers, {LABEL: ALL.replace("dcgmi ", "")}))

    assert (PreflightResult.UNSEEN, True, False) == (
        line.result,
        "dcgmi (" in line.message,
        "fi_info (" in line.message,
    )


@pytest.mark.parametrize("labels", [None, {}, {"maintainer": "me"}, {f"{LABEL}.version": ALL}])
def test_an_image_without_our_label_is_unseen(
    layers: dict[str, bytes], labels: Mapping[str, str] | None
) -> None:
    """It may have all of it; nobody knows."""
    line = looked(pushed(layers, labels))

    assert (PreflightResult.UNSEEN, True) == (line.result, f"it has no label {LABEL}" in line.message)
    assert "dcgmi (" in line.message and line.remedy


def test_of_an_index_the_image_for_amd64_is_looked_at(layers: dict[str, bytes]) -> None:
    """docker pushes an index, with an attestation for no platform beside the image."""
    calls = pushed(layers, {LABEL: ALL})
    rows = [
        {"digest": "sha256:" + "a" * 64, "platform": {"os": "unknown", "architecture": "unknown"}},
        {"digest": "sha256:" + "b" * 64, "platform": {"os": "linux", "architecture": "amd64"}},
    ]

    assert (
        PreflightResult.OK
        is looked([_got(json.dumps({"mediaType": INDEX, "manifests": rows})), *calls]).result
    )
    assert (
        PreflightResult.UNSEEN
        is looked([_got(json.dumps({"mediaType": INDEX, "manifests": rows[:1]}))]).result
    )


@pytest.mark.parametrize(
    "calls",
    [
        [("batch_get_image", "AccessDeniedException")],
        [("batch_get_image", {"images": [], "failures": [{"failureCode": "ImageNotFound"}]})],
        [_got("{")],
        [_got("[]")],
        [_got(json.dumps({"config": {}}))],
    ],
    ids=["denied", "absent", "cut", "a list", "no configuration"],
)
def test_whatever_hinders_the_look_is_unseen_with_the_tools(calls: list[tuple[str, Any]]) -> None:
    """Never OK, and never an end of the preflight."""
    line = looked(calls)

    assert (PreflightResult.UNSEEN, True) == (line.result, "dcgmi (" in line.message)


def test_a_configuration_with_another_digest_is_not_believed(layers: dict[str, bytes]) -> None:
    """What is cut, or from somebody else."""
    assert PreflightResult.UNSEEN is looked(pushed(layers, {LABEL: ALL}, cut=1)).result
    assert PreflightResult.UNSEEN is looked(pushed(layers, {LABEL: ALL}, cut=10_000)).result


@pytest.mark.parametrize(
    "image", ["training:1", "public.ecr.aws/x/y:1", OURS.replace("us-east-1", "eu-west-1")]
)
def test_an_image_elsewhere_is_unseen(image: str) -> None:
    """Nobody is asked."""
    line = looked([], image)

    assert (PreflightResult.UNSEEN, True) == (
        line.result,
        "the image was not inspected, because it is not in ECR of" in line.message,
    )


def test_the_label_of_our_dockerfile_names_all_that_any_gpu_gate_needs() -> None:
    """The value that stands in container/Dockerfile, against every shipped gate file that checks GPUs."""
    label = next(
        line.partition("=")[2].strip('"')
        for line in (ROOT / "container" / "Dockerfile").read_text().splitlines()
        if line.startswith(f"LABEL {LABEL}=")
    )
    found = [one for path in GATES.glob("sagemaker-[gp]*.toml") for plan in planned(path.stem)
             for one in checked_in(plan.job, TRAINING)]  # fmt: skip

    assert {PreflightResult.OK} == {labelled(one, label).result for one in found}
    assert label.split() == sorted(label.split())


def test_an_optional_tool_costs_a_warning_and_a_required_one_the_verdict() -> None:
    """Both are said, each with its checks."""
    line = unlabelled(Checked("x", {"dcgmi": ("dcgm.diag", "dcgm.health")}, {"fio": ("disk.io",)}), "why")

    assert (
        "x: why; each of these that is missing is missing evidence, and the verdict is CANNOT TELL: dcgmi (dcgm.diag, dcgm.health); "
        "each of these that is missing skips a check, which is a WARN: fio (disk.io)"
    ) == line.message
