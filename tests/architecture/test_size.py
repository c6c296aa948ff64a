"""The budget of lines: what the project may weigh at most. Its numbers only go down; whatever is added is saved elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from textwrap import dedent

import pytest

from tests.architecture import size
from tests.architecture.size import PRODUCT, TESTS, Size
from tests.architecture.tree import Source

# The aim is 66,000 lines of code in at most 600 modules, of which a gate imports 38,000 lines, and 80,000 lines of tests.
MODULES = 559
# So much may be free before the budget has to be lowered: a change that takes lines away keeps them away.
SLACK = 300


@pytest.mark.parametrize(
    ("measure", "budget"),
    [
        pytest.param(partial(size.total, *PRODUCT), 65_431, id="product"),
        pytest.param(partial(size.total, *TESTS), 77_700, id="tests"),
        pytest.param(size.core, 36_521, id="what a gate imports"),
    ],
)
def test_the_lines_of_code_are_within_the_budget_which_only_goes_down(
    measure: Callable[[], Size], budget: int
) -> None:
    """Lower the budget in this file when lines go; `python -m tests.architecture.size` shows where they are."""
    assert budget - SLACK <= measure().lines <= budget


def test_the_product_has_no_more_modules_than_the_budget() -> None:
    """A new module needs one that goes."""
    assert size.total(*PRODUCT).modules <= MODULES


def test_blank_lines_comments_and_docstrings_are_no_lines_of_code() -> None:
    """A string that is assigned is code, also where it has several lines."""
    text = dedent('''
        """A docstring
        of two lines."""

        # A comment.
        TEXT = """one
        two"""


        def double(x):
            """Another docstring."""
            return 2 * x  # code and a comment
    ''')

    assert size.code_lines(Source("sample.py", text, ast.parse(text))) == 4
