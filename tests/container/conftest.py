"""What several tests of the agent use."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.container.fake_s3 import FakeS3
from tests.fakes.serving import serving


@pytest.fixture
def store() -> Iterator[FakeS3]:
    """An S3 of the test's own."""
    made = FakeS3()
    with serving(made.server):
        yield made
