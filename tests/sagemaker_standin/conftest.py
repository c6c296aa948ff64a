"""One account for the tests of a file; every test has jobs of its own names, and turns its dials back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.sagemaker.bench import Cloud, stand_in, unavailable

QUICK = {"grace_s": 1.0, "pool_s": 0.0, "starting_s": 0.0, "downloading_s": 0.0, "uploading_s": 0.0}


@pytest.fixture(autouse=True, scope="session")
def containers() -> None:
    """Skip where none can be made."""
    if why := unavailable():
        pytest.skip(why)


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """Machines of several types, so that tests do not wait for each other's."""
    machines = {"ml.m5.large": 2, "ml.g5.12xlarge": 2}
    with stand_in(tmp_path_factory.mktemp("aws"), machines, dials=QUICK) as made:
        yield made
        made.until(lambda: {"running": made.running()}, lambda seen: not seen["running"], 10)
