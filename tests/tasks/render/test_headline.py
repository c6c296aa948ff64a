"""The headline, and what it says apart from the coverage."""

from __future__ import annotations

from dataclasses import replace

from tasks.render.headline import headline, without_coverage
from tests.sample_reports import healthy, verdict_of, wrong_sums


def test_the_headline_is_also_had_without_the_coverage() -> None:
    """A picture shows the coverage in numbers; a message may hold the very words that come before it in a headline."""
    found = verdict_of(wrong_sums(healthy()))
    odd = replace(found, findings=tuple(replace(f, message="lost; observed twice") for f in found.findings))

    assert without_coverage(odd, "local").endswith("lost; observed twice")
    assert headline(odd, "local").startswith(f"{without_coverage(odd, 'local')}; observed ")
    assert "GO local" == without_coverage(verdict_of(healthy()), "local")
