"""The samples of a page of metrics."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample


def samples(text: str) -> tuple[Sample, ...]:
    """The samples of a page in Prometheus' text format, as its own client reads them."""
    return tuple(one for family in text_string_to_metric_families(text) for one in family.samples)
