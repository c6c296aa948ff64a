"""What is changed, and which changes a sample holds."""

from __future__ import annotations

import pytest

from tests.architecture.tree import ROOT
from tests.mutants.__main__ import MODULES, all_mutants
from tests.mutants.mutations import mutants_of, sample
from tests.mutants.survivors import KNOWN, load

ENUMS = {"Level": ["PASS", "WARN", "FAIL"]}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("if left < 3: pass", ["if left >= 3: pass", "if left <= 3: pass", "if left < 4: pass"]),
        ("if time.monotonic() < until: pass", ["if time.monotonic() >= until: pass"]),
        ("if one is not two: pass", ["if one is two: pass"]),
        ("said = one and two", ["said = one or two"]),
        ("said = not one", ["said = one"]),
        ("if one: pass", ["if not one: pass"]),
        (
            "raise ValueError('ü', 1) from error",
            ["ValueError('ü', 1)", "raise ValueError('ü', 2) from error"],
        ),
        ("level = 'ü', Level.FAIL", ["level = 'ü', Level.PASS"]),
        ("level = Level.rank", []),
        ("strict = zip(one, two, strict=True)", []),
        ("WAIT_S = 3.0", []),
        ("MOST = 3", ["MOST = 4"]),
        ("said = text[:500]", []),
        ("first = rows[:1]", ["first = rows[:2]"]),
        ("seen: Literal[1] = True", ["seen: Literal[1] = False"]),
    ],
)
def test_a_line_is_changed_in_one_place(line: str, expected: list[str]) -> None:
    """Only the line of the change differs, and the rest of the file keeps every byte."""
    before, after = "# the first line\n", "\nlast = None  # ü\n"
    made = mutants_of("m", f"{before}{line}{after}".encode(), ENUMS)

    assert sorted(expected) == sorted(mutant.changed for mutant in made)
    assert {f"{before}{mutant.changed}{after}".encode() for mutant in made} == {m.source for m in made}
    assert {(2, line)} >= {(mutant.line, mutant.original) for mutant in made}


def test_a_raise_over_several_lines_is_dropped() -> None:
    """The exception is made, and nobody hears of it."""
    source = b"def f(e):\n    raise ValueError(\n        'no'\n    ) from e\n"

    (made,) = mutants_of("m", source, ENUMS)

    assert b"def f(e):\n    ValueError(\n        'no'\n    )\n" == made.source


def drawn(source: bytes, count: int, seed: int = 1) -> set[tuple[str, str, str, int]]:
    """What identifies the mutants of a sample."""
    return {mutant.key for mutant in sample(mutants_of("m", source, ENUMS), count, seed)}


def test_a_seed_draws_the_same_sample() -> None:
    """Another seed draws another one."""
    source = "".join(f"x{n} = {n}\n" for n in range(100)).encode()

    assert drawn(source, 20) == drawn(source, 20)
    assert drawn(source, 20) != drawn(source, 20, seed=2)


def test_an_edit_elsewhere_keeps_the_sample() -> None:
    """Lines move, and one more mutant pushes out one at most."""
    source = "".join(f"x{n} = {n}\n" for n in range(100)).encode()
    before, after = drawn(source, 20), drawn(b"import os\nnew = 7\n" + source, 20)

    assert len(before - after) <= 1


def test_equal_lines_are_told_apart() -> None:
    """The second `return 1` of a file is another mutant than the first."""
    made = mutants_of("m", b"def f():\n    return 1\ndef g():\n    return 1\n", ENUMS)

    assert [0, 1] == [mutant.occurrence for mutant in made]


def test_every_listed_survivor_is_a_mutant_of_today() -> None:
    """A reason whose line was changed is about nothing."""
    known = load(KNOWN)
    lines = {one.original for one in known}
    keys = {mutant.key for mutant in all_mutants(ROOT, sorted({one.module for one in known}), lines)}

    assert [] == [one for one in known if one.key not in keys]
    assert all(one.reason for one in known)


def test_every_module_is_there() -> None:
    """A module that moves is missed here, and not when somebody wonders about the count."""
    assert [] == [name for name in MODULES if not (ROOT / f"{name.replace('.', '/')}.py").is_file()]
