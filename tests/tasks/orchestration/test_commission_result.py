"""The page of a commissioning: every cluster, the worst first, and what is different from the last time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tasks.orchestration.commission_result import (
    ClusterResult,
    CommissionResult,
    KeptResult,
    result_page,
    since,
    summary_line,
)

DAY = 86400.0 * 365
PASSED = ClusterResult("p5", "p5", CommissionResult.PASSED, "GO p5", "g-2")
REFUSED = ClusterResult(
    "p4", "p4", CommissionResult.REFUSED, "NO-GO p4: node-1 is slow", "g-3", ("network.pairs node-1",)
)


def kept(one: ClusterResult, why: str = "", about: tuple[str, ...] | None = None) -> KeptResult:
    """What the last commissioning left if it ended like this."""
    return KeptResult(1, one.result, why or one.sentence, "g-1", DAY, one.about if about is None else about)


ANOTHER = kept(REFUSED, "node-7 died", ("report node-7",))


@pytest.mark.parametrize(
    ("one", "last", "said", "changed"),
    [
        (PASSED, None, "first commissioning", True),
        (PASSED, kept(PASSED), "as on 1971-01-01", False),
        (PASSED, kept(PASSED, "GO p5: 3 nodes"), "as on 1971-01-01", False),
        (PASSED, kept(REFUSED), "was REFUSED on 1971-01-01", True),
        (REFUSED, kept(PASSED), "was PASSED on 1971-01-01", True),
        (REFUSED, kept(REFUSED), "as on 1971-01-01", False),
        (REFUSED, kept(REFUSED, "NO-GO p4: node-1 is slow: 0.3 GB/s"), "as on 1971-01-01", False),
        (REFUSED, ANOTHER, "also REFUSED on 1971-01-01, but: node-7 died", True),
    ],
)
def test_commission_result_names_what_changed_since_the_last(
    one: ClusterResult, last: KeptResult | None, said: str, changed: bool
) -> None:
    """Another result, or another part or check at fault; the numbers of a sentence differ each time."""
    assert (said, changed) == since(one, last)


def test_the_page_begins_with_what_changed() -> None:
    """Then all clusters, in the order that they are given in; nothing changed is said as well."""
    refused = replace(REFUSED, since="was PASSED on 1971-01-01", changed=True)
    passed = replace(PASSED, since="as on 1971-01-01")
    page = result_page((refused, passed))
    changes, _, table = page.partition("## Clusters")

    assert page.startswith("**1 of 2 clusters passed**\n")
    assert "- **REFUSED** p4: was PASSED on 1971-01-01" in changes and "p5" not in changes
    assert 1 == page.count("was PASSED on 1971-01-01") and "| see above |" in table
    assert table.index("| **REFUSED** | p4 |") < table.index("| **PASSED** | p5 |")
    assert "Nothing." in result_page((passed,))


def test_the_sentence_says_each_answer_once() -> None:
    """A gate's sentence begins with its answer; the result is said where nothing was judged."""
    judged = ClusterResult("a", "a", CommissionResult.CANNOT_TELL, "CANNOT TELL a: none", says_answer=True)
    busy = ClusterResult("b", "b", CommissionResult.BUSY, "gate g-1 has it")
    said = "1 of 3 clusters passed. CANNOT TELL a: none | BUSY: b: gate g-1 has it"

    assert said == summary_line((judged, busy, PASSED))


def test_hostile_names_are_text() -> None:
    """Of clusters, files and nodes; a row stays a row."""
    bad = "<b>|[x](http://evil)\n# \x1b[31m\u202e" + "a" * 10_000
    one = ClusterResult(bad, bad, CommissionResult.REFUSED, bad, bad, (bad,), bad, bad, changed=True)
    page = result_page((one,))

    assert not any(sign in page for sign in ("<b>", "](", "://", "\x1b", "\u202e"))
    assert page.splitlines()[-1].replace("&#124;", "").count("|") == 7
    assert len(page) < 10_000
