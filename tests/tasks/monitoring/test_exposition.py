"""Prometheus' text format as the verification reads it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from tasks.monitoring import exposition
from tasks.monitoring.exposition import ExpositionError, Sample, samples
from tests.tasks.monitoring import expositions


@pytest.mark.parametrize(
    ("line", "sample"),
    [
        ("a 1", Sample("a", "", 1.0, None)),
        ("a:b{} 1e3", Sample("a:b", "", 1000.0, None)),
        ('a{x="1",} -1 1700000000000', Sample("a", 'x="1",', -1.0, 1.7e9)),
        ('a{x="1", y="}\\"\\n"} +Inf', Sample("a", 'x="1", y="}\\"\\n"', float("inf"), None)),
        ("a\t2\r", Sample("a", "", 2.0, None)),
    ],
)
def test_a_sample_is_read(line: str, sample: Sample) -> None:
    """With its labels, its value, and the time that it may carry."""
    assert [sample] == list(samples(f"# HELP a b\n\n{line}\n"))


def test_labels_are_unescaped() -> None:
    """As the format says; a label that is not there is empty."""
    [sample] = samples('a{x="q\\"\\\\\\n",gpu="7"} 1')

    assert ('q"\\\n', "7", "") == (sample.label("x"), sample.label("gpu"), sample.label("pu"))


@pytest.mark.parametrize(
    "text",
    [
        "<html><body>Welcome</body></html>",
        '{"status": "ok"}',
        "a",
        "a b",
        'a{x="1} 1',
        "a 1 2 3",
        "1a 1",
        "a 1\nOK",
    ],
)
def test_what_is_no_exposition_is_refused(text: str) -> None:
    """One bad line is enough: half a page is none."""
    with pytest.raises(ExpositionError):
        list(samples(text))


def test_a_flood_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of samples is bounded."""
    monkeypatch.setattr(exposition, "MOST_SAMPLES", 10)

    assert 10 == len(list(samples("a 1\n" * 10)))
    with pytest.raises(ExpositionError, match="more than 10"):
        list(samples("a 1\n" * 11))


@given(
    st.dictionaries(st.from_regex("[a-z]{1,8}", fullmatch=True), st.text(max_size=20), max_size=4),
    st.floats(allow_nan=False),
)
def test_what_prometheus_client_writes_is_read_alike(labels: dict[str, str], value: float) -> None:
    """Also with labels of a hostile machine."""
    escaped = {
        key: text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
        for key, text in labels.items()
    }
    line = "a{" + ",".join(f'{key}="{text}"' for key, text in escaped.items()) + f"}} {value!r}\n"
    if "\r" in line:
        return
    [sample] = samples(line)

    assert (labels, value) == ({key: sample.label(key) for key in labels}, sample.value)


def test_the_recorded_expositions_are_valid() -> None:
    """Prometheus' own client reads as many samples."""
    for text in (
        expositions.watch(gpus=8),
        expositions.node(),
        expositions.dcgm(),
        expositions.EFA,
        expositions.STORE,
    ):
        theirs = sum(len(family.samples) for family in text_string_to_metric_families(text))
        assert theirs == len(list(samples(text)))
