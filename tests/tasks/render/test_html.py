"""What the page says first, its links to other gates, and in which images it was measured and trains: the same on every page.

A page stays small enough for a phone, however bad a fleet is.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from types import SimpleNamespace
from typing import Any, cast

import pytest

from checks.documents.report import dump, load
from checks.model import Answer, Cause, Finding, Level
from checks.model_details import Images
from flows.cli.output import text_of
from tasks import judge
from tasks.gate.context import GateContext
from tasks.gate.jobs import images_of
from tasks.gate.session import Session
from tasks.launchers.base import Placement
from tasks.render.context import NO_CONTEXT, EndMark, GateHistory, PastGate, VerdictContext
from tasks.render.headline import headline, images_json
from tasks.render.html import html
from tasks.render.terminal import terminal
from tests.sample_reports import healthy, verdict_of, wrong_sums

REPORT = wrong_sums(healthy())

DIGEST = "sha256:" + "0a" * 32
OWN, TRAINER = f"registry/prelaunch@{DIGEST}", "registry/trainer:1"


def _said(page: str) -> str:
    found = re.search('<p class="said">(?:Verdict: )?<strong>(.*?)</strong>', page)
    assert found is not None
    return found[1]


def test_the_page_is_headed_by_how_the_gate_ended() -> None:
    """The line of the terminal, inert; the verdict's own line below it, once."""
    verdict = verdict_of(REPORT)
    line = "OVERRIDDEN local: <b>ada</b> started the training despite NO-GO: node-1"
    page = html(REPORT, verdict, "local", replace(NO_CONTEXT, first_line=line))
    same = html(REPORT, verdict, "local", replace(NO_CONTEXT, first_line=headline(verdict, "local")))

    ended = "OVERRIDDEN local: &lt;b&gt;ada&lt;/b&gt; started the training despite NO-GO: node-1"
    assert f'<h1 class="line">{ended}</h1>' in page and f"<title>{ended}</title>" in page
    assert _said(page) == f"NO-GO {_said(same)}" and _said(same).startswith("local: ")
    assert "<h1>NO-GO</h1>" in same and "<title>NO-GO local</title>" in same
    assert 1 == same.count('class="said"') == page.count('class="said"')


def _page(link: str) -> str:
    before = PastGate("g-1", "2026-11-21T08:00:00Z", Answer.GO, "", link=link)
    gates = (before, PastGate("g-2", "", Answer.NO_GO, "", True))
    return html(REPORT, verdict_of(REPORT), "local", replace(NO_CONTEXT, past=GateHistory(gates)))


LINKS = ("../g-1/report.html", "https://console.aws.amazon.com/s3/object/b?prefix=gates/g-1/report.html")
NO_LINKS = ("javascript:alert(1)", "data:text/html,x", "//e.example", "http://e.example", "../a b", "")


@pytest.mark.parametrize("link", (*LINKS, *NO_LINKS, "../" + "a" * 2000))
def test_the_gate_before_is_a_link(link: str) -> None:
    """To its page in the store; without such a page it is named all the same."""
    name = f'<a href="{link}">Previous gate</a>' if link in LINKS else "Previous gate"
    assert f"{name}: g-1, GO" in _page(link)


def test_a_gate_that_failed_after_its_go_is_not_shown_as_a_go() -> None:
    """Neither as the previous gate, nor in the strip and its counts."""
    gates = (
        PastGate("g-0", "2026-11-20T08:00:00Z", Answer.GO, ""),
        PastGate("g-1", "2026-11-21T08:00:00Z", Answer.GO, "", end=EndMark.TRAINING_FAILED),
        PastGate("g-2", "", Answer.GO, "", True),
    )
    past = GateHistory(gates).ended(EndMark.CANCELLED)
    shown = replace(NO_CONTEXT, past=past, failed="why", end=EndMark.CANCELLED)
    page = html(healthy(), verdict_of(healthy()), "local", shown)

    assert "3 gates, 1 go, 1 training failed, 1 cancelled" == past.summary
    assert "Previous gate: g-1, TRAINING FAILED" in page and '<li class="fail">' in page
    assert '<li class="skipped" aria-current="true"' in page and '<header class="answer skipped">' in page
    for tone, context in (("pass", NO_CONTEXT), ("fail", replace(NO_CONTEXT, failed="exit code 1"))):
        page = html(healthy(), verdict_of(healthy()), "local", context)
        assert f'<header class="answer {tone}">' in page


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

    text = text_of(report, verdict_of(report), "c", "text", NO_CONTEXT)
    assert f"image of the checks and the training: {TRAINER}\n" in text
    assert "image" not in text_of(healthy(2, 1), verdict_of(healthy(2, 1)), "c", "text", NO_CONTEXT)


def test_the_documents_have_fields_for_them() -> None:
    """The verdict's JSON, and the report, which is read again as it was; without them their bytes are what they were."""
    report = replace(healthy(2, 1), images=Images(OWN, TRAINER), raised=("training.smoke.steps=200",))
    document = json.loads(text_of(report, verdict_of(report), "c", "json", NO_CONTEXT))

    assert document["raised"] == ["training.smoke.steps=200"]
    assert document["images"]["checks"] == {"image": OWN, "digest": DIGEST}
    assert document["images"]["training"] == {"image": TRAINER, "digest": None}
    again = load(dump(report))
    assert (again.images, again.raised) == (report.images, report.raised)
    assert b"images" not in dump(healthy(2, 1)) and images_json(None) is None


def _context(options: dict[str, Any], training: dict[str, str], placement: Placement) -> GateContext:
    own = SimpleNamespace(**{"image": "", "model_trainer": "", **training})
    gate = SimpleNamespace(cluster=SimpleNamespace(options=options), training=own)
    made = SimpleNamespace(gate=gate, launcher=SimpleNamespace(placement=placement))
    return cast(GateContext, made)


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
    assert images_of(_context(options, training, placement)) == images


def test_a_gate_that_uses_an_earlier_pass_trains_in_its_own_image() -> None:
    """The report names the one in which the earlier gate trained."""
    report = replace(healthy(2, 1), images=Images(OWN, "registry/yesterday:1"))
    context = _context({"image": OWN}, {"image": TRAINER}, Placement.PINNED)
    images = judge._images(cast(Session, SimpleNamespace(context=context)), report)

    assert images == Images(OWN, TRAINER)
    page = terminal(report, verdict_of(report), "c", context=VerdictContext(images=images))
    assert TRAINER in page and "yesterday" not in page


LIMIT = 2_000_000


def test_a_thousand_nodes_that_all_fail_differently_are_below_2_mb() -> None:
    """Each with 4 KiB of evidence: the page has the first of it, every node, and says how much more there is."""
    evidence = "'" * 4095
    report = healthy(1000, 1, network=False)
    findings = tuple(
        Finding(
            Level.FAIL, Cause.HARDWARE, "compute.gemm", f"node-{i}/rank-{i}", f"wrong_elements is {i} {evidence[:580]}",
            f"{i} " + evidence, evidence[:600],
        )
        for i in range(1000)
    )  # fmt: skip
    page = html(report, replace(verdict_of(report), findings=findings), "local")

    assert len(page.encode()) < LIMIT
    assert [] == [f"node-{i}" for i in range(1000) if f"node-{i}" not in page]
    assert "900 more are in the report itself." in page
    assert "more is in the report itself" in page
