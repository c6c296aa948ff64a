"""What the tests of the exchange share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from checks.roster import Member
from tests.exchanges import listening


@pytest.fixture
def member() -> Iterator[Member]:
    """A responder on loopback."""
    with listening() as (_, found):
        yield found
