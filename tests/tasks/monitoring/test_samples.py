"""What the verification takes for a page of metrics."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.monitoring import endpoint
from tasks.monitoring.endpoint import EndpointError, samples


@pytest.mark.parametrize(
    ("line", "sample"),
    [
        ("a 1", ("a", {}, 1.0, None)),
        ("a:b{} 1e3", ("a:b", {}, 1000.0, None)),
        ('a{x="1",} -1 1700000000000', ("a", {"x": "1"}, -1.0, 1.7e9)),
        ('a{x="1", y="}\\"\\n"} +Inf', ("a", {"x": "1", "y": '}"\n'}, float("inf"), None)),
        ("a\t2\r", ("a", {}, 2.0, None)),
    ],
)
def test_a_sample_is_read(line: str, sample: tuple[object, ...]) -> None:
    """With its labels, its value, and the time that it may carry."""
    assert [sample] == [
        (one.name, one.labels, one.value, one.timestamp) for one in samples(f"# HELP a b\n\n{line}\n")
    ]


@pytest.mark.parametrize(
    "text",
    [
        "<html><body>Welcome</body></html>",
        '{"status": "ok"}',
        "a",
        "a b",
        'a{x="1} 1',
        "1a 1",
        "a 1\nOK",
    ],
)
def test_what_is_no_page_of_metrics_is_refused(text: str) -> None:
    """One bad line is enough: half a page is none."""
    with pytest.raises(EndpointError, match="no list of metrics"):
        samples(text)


@given(st.text(max_size=60) | st.from_regex(r'[a{}="#\\ 1\n]{1,40}', fullmatch=True))
def test_a_hostile_page_is_an_error_of_its_endpoint(text: str) -> None:
    """Whatever answers there, the other exporters are asked."""
    with contextlib.suppress(EndpointError):
        samples(text)


def test_a_flood_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of samples is bounded."""
    monkeypatch.setattr(endpoint, "MOST_SAMPLES", 10)

    assert 10 == len(samples("a 1\n" * 10))
    with pytest.raises(EndpointError, match="more than 10"):
        samples("a 1\n" * 11)
