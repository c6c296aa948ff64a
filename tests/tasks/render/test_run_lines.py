"""In which images it was measured and trains, and which numbers somebody raised: the same on every channel."""

from __future__ import annotations

import json
from dataclasses import replace
from html import unescape
from types import SimpleNamespace
from typing import Any, cast

import pytest

from checks.documents.report import dump, load
from checks.model_details import Images
from flows.cli.output import text_of
from tasks import judge
from tasks.gate.context import GateContext
from tasks.gate.jobs import images_of
from tasks.gate.session import Session
from tasks.launchers.base import Placement
from tasks.render.context import NO_CONTEXT, VerdictContext
from tasks.render.headline import images_json
from tasks.render.html import html
from tasks.render.terminal import terminal
from tests.sample_reports import healthy, verdict_of

DIGEST = "sha256:" + "0a" * 32
OWN, TRAINER = f"registry/prelaunch@{DIGEST}", "registry/trainer:1"


@pytest.mark.parametrize("form", ["text", "markdown", "html", "junit"])
def test_every_page_names_the_images(form: str) -> None:
    """With the digest, where the gate file has one."""
    report = replace(healthy(2, 1), images=Images(OWN, TRAINER), raised=("training.smoke.steps=200",))
    verdict = verdict_of(report)
    page = html(report, verdict, "c") if form == "html" else text_of(report, verdict, "c", form, NO_CONTEXT)
    plain = unescape(page.replace("<wbr>", ""))

    assert DIGEST in plain and "registry/trainer:1" in plain and "training.smoke.steps" in plain


def test_a_gate_in_one_image_names_it_once() -> None:
    """And one in none says nothing."""
    report = replace(healthy(2, 1), images=Images(TRAINER, TRAINER))

    assert f"image of the checks and the training: {TRAINER}\n" in text_of(
        report, verdict_of(report), "c", "text", NO_CONTEXT
    )
    assert "image" not in text_of(healthy(2, 1), verdict_of(healthy(2, 1)), "c", "text", NO_CONTEXT)


def test_the_documents_have_fields_for_them() -> None:
    """The verdict's JSON, and the report, which is read again as it was; without them their bytes are what they were."""
    report = replace(healthy(2, 1), images=Images(OWN, TRAINER), raised=("training.smoke.steps=200",))
    document = json.loads(text_of(report, verdict_of(report), "c", "json", NO_CONTEXT))

    assert document["raised"] == ["training.smoke.steps=200"]
    assert document["images"] == {
        "checks": {"image": OWN, "digest": DIGEST},
        "training": {"image": TRAINER, "digest": None},
    }
    again = load(dump(report))
    assert (again.images, again.raised) == (report.images, report.raised)
    assert b"images" not in dump(healthy(2, 1)) and images_json(None) is None


@pytest.mark.parametrize(
    ("options", "training", "placement", "images"),
    [
        ({"image": "a"}, {}, Placement.POOLED, Images("a", "a")),
        ({"image": "a"}, {"image": "b"}, Placement.PINNED, Images("a", "b")),
        ({"container_image": "a"}, {"image": "b"}, Placement.IN_JOB, Images("b", "b")),
        ({"image": "a"}, {"model_trainer": "m:t"}, Placement.POOLED, Images("a", "")),
        ({"container_image": ""}, {}, Placement.PINNED, None),
        ({}, {"image": "b"}, Placement.PINNED, Images("", "b")),
    ],
)
def test_which_images_a_gate_names(
    options: dict[str, Any], training: dict[str, str], placement: Placement, images: Images | None
) -> None:
    """The training's own where it has one; in one job the checks run in it as well."""
    gate = SimpleNamespace(
        cluster=SimpleNamespace(options=options),
        training=SimpleNamespace(**{"image": "", "model_trainer": "", **training}),
    )
    context = SimpleNamespace(gate=gate, launcher=SimpleNamespace(placement=placement))

    assert images_of(cast(GateContext, context)) == images


def test_a_gate_that_uses_an_earlier_pass_trains_in_its_own_image() -> None:
    """The report names the one in which the earlier gate trained."""
    report = replace(healthy(2, 1), images=Images(OWN, "registry/yesterday:1"))
    session = SimpleNamespace(
        context=SimpleNamespace(
            gate=SimpleNamespace(
                cluster=SimpleNamespace(options={"image": OWN}),
                training=SimpleNamespace(image=TRAINER, model_trainer=""),
            ),
            launcher=SimpleNamespace(placement=Placement.PINNED),
        )
    )
    images = judge._images(cast(Session, session), report)

    assert images == Images(OWN, TRAINER)
    page = terminal(report, verdict_of(report), "c", context=VerdictContext(images=images))
    assert TRAINER in page and "yesterday" not in page
