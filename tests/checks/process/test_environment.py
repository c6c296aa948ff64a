"""The training gets back the environment that the engine gave."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checks.process.environment import for_checks, for_training, of_chosen

NAMES = st.sampled_from(["PYTHONPATH", "OMP_NUM_THREADS", "NCCL_DEBUG", "HOME", "LD_LIBRARY_PATH"])
VALUES = st.sampled_from(["", "1", "/code", "/code:/mine", "/mine", "/mine:/code", ":", "/mine:"])


@given(
    st.dictionaries(NAMES, VALUES), st.dictionaries(NAMES.filter(lambda name: name != "PYTHONPATH"), VALUES)
)
def test_training_environment_is_without_the_additions_of_the_checks(
    engine: dict[str, str], defaults: dict[str, str]
) -> None:
    """Variable for variable, whatever the engine set. A path that begins with the folder already is the image's own."""
    path = engine.get("PYTHONPATH", "")
    expected = dict(engine)
    if path.split(":")[0] == "/code":
        expected = {**engine, "PYTHONPATH": path[6:]} if ":" in path else {**engine}
        if ":" not in path:
            del expected["PYTHONPATH"]

    assert expected == for_training(for_checks(engine, "/code", defaults))


def test_the_checks_find_their_code_first() -> None:
    """Before the engine's own path, and with the defaults that the engine did not set."""
    made = for_checks({"PYTHONPATH": "/mine", "A": "engine"}, "/code", {"A": "ours", "B": "ours"})

    assert made == {
        "PYTHONPATH": "/code:/mine",
        "PRELAUNCH_CODE": "/code",
        "PRELAUNCH_ADDED": "B",
        "A": "engine",
        "B": "ours",
    }


@pytest.mark.parametrize(
    "name",
    ["PRELAUNCH_EXCHANGE_KEY", "PRELAUNCH_POOL_TOKEN", "PRELAUNCH_SCRATCH", "PRELAUNCH_WORKING_FOLDER"],
)
def test_training_environment_is_without_tokens_and_keys(name: str) -> None:
    """The training gets neither a pool's token nor a key."""
    assert {"A": "1"} == for_training({"A": "1", name: "secret"})


def test_the_engine_variables_say_which_nodes_are_left() -> None:
    """Those that the engine set, and the list of ours."""
    engine = {"SLURM_NNODES": "3", "SLURM_NODEID": "2", "SLURM_JOB_NODELIST": "n[1-3]", "SLURM_JOB_ID": "7"}

    assert of_chosen(engine, ["n2", "n3"], "n3") == {
        "SLURM_NNODES": "2",
        "SLURM_NODEID": "1",
        "SLURM_JOB_NODELIST": "n2,n3",
        "PRELAUNCH_NODELIST": "n2,n3",
    }


def test_a_path_that_somebody_changed_meanwhile_stays_as_it_is() -> None:
    """Only what was added is taken away."""
    assert {"PYTHONPATH": "/x:/code"} == for_training({"PYTHONPATH": "/x:/code", "PRELAUNCH_CODE": "/code"})
