"""Every recording that `prelaunch explain` reads, whole and mutated: what lost a line is no pass, unless the line said nothing."""

from __future__ import annotations

from functools import cache

import pytest

from checks.explain.reading import OutputKind, ReadOptions
from checks.explain.registry import STUMBLED, claimed_by, module_of
from checks.model import Level
from checks.policy import Policy
from tasks.reports.explained_input import explain_text
from tasks.reports.read import default_policy_of
from tests.corpus.case import RECORDINGS_FOLDER, Recording, RecordProperty, declared, of_all_families
from tests.corpus.mutations import MOST_LINES, chosen, mutants, passed_wrongly

RECORDINGS: list[Recording] = of_all_families("RECORDINGS")
# Lines that are taken from a recording whose whole is refused: what could make it pass is its fault alone.
FEW = 20
TYPICAL = {OutputKind.NEURON_LS: "trn2.48xlarge"}


def _level(recording: Recording, data: bytes) -> Level:
    """The level that its kind's own reader gives it: recognising it could only refuse more."""
    said = recording.instance_type
    asked = ReadOptions(declared(said, recording.nodes)) if said else ReadOptions()
    policy = _policy(said or TYPICAL.get(recording.kind, "p5.48xlarge"))
    found = explain_text("-", "recording", data, recording.kind, policy, asked)
    stumbled = [f.message for f in found.verdict.findings if STUMBLED in f.message]
    assert not stumbled, "a reader says where a text breaks; it does not break itself"
    return found.verdict.level


@cache
def _policy(instance_type: str) -> Policy:
    return default_policy_of(instance_type)[0]


def _text(recording: Recording) -> str:
    data = (RECORDINGS_FOLDER / recording.path).read_bytes()
    return data.decode("utf-8", "backslashreplace").replace("\r\n", "\n")


def _name(recording: Recording) -> str:
    return f"{recording.path}-{recording.instance_type or 'undeclared'}"


@pytest.mark.parametrize("recording", RECORDINGS, ids=_name)
def test_the_whole_recording_is_judged_as_it_says(recording: Recording) -> None:
    """It is recognised as its kind, and has its level."""
    data = (RECORDINGS_FOLDER / recording.path).read_bytes()

    assert module_of(recording.kind) == claimed_by(_text(recording))
    assert recording.level is _level(recording, data)


@pytest.mark.parametrize("recording", RECORDINGS, ids=_name)
def test_a_mutated_recording_never_passes(recording: Recording, record_property: RecordProperty) -> None:
    """But for lines that are stated to carry no evidence; and no such statement is stale."""
    most = FEW if recording.level is Level.FAIL else MOST_LINES

    assert [] == passed_wrongly(
        _text(recording),
        lambda text: _level(recording, text.encode()) is Level.PASS,
        recording.irrelevant,
        record_property,
        most,
    )


def test_every_line_of_a_short_file_is_deleted_once() -> None:
    """And it is cut at each tenth, at its very beginning too."""
    made = list(mutants("one\ntwo\nthree\n"))

    assert ["two\nthree\n", "one\nthree\n", "one\ntwo\n"] == [mutant.text for mutant in made[:3]]
    assert (10, "", ("one", "two", "three")) == (len(made[3:]), made[3].text, made[3].lost)


def test_a_cut_within_a_line_loses_that_line() -> None:
    """What is left of it is no evidence."""
    half = next(mutant for mutant in mutants("12345\n6789\n") if mutant.text == "123")

    assert ("12345", "6789") == half.lost


def test_mutation_choice_covers_the_first_and_last_line_of_each_shape() -> None:
    """Eight GPUs say everything eight times."""
    lines = [line for gpu in range(100) for line in (f"<gpu {gpu}>\n", *(f"a{gpu}\n",) * 5)]

    assert [0, 1, 594, 599] == list(chosen(lines))
