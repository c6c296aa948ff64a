"""A launcher for SageMaker that reaches nobody, for the tests that put up AWS's answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tasks.launchers.sagemaker.stubbed import Stubbed, stubbed


@pytest.fixture
def aws() -> Iterator[Stubbed]:
    """Afterwards everything that was put up must have been asked."""
    with stubbed() as made:
        yield made
