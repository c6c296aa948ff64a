"""`prelaunch site completion`: each shell takes the script, and it completes what the real parser takes."""

from __future__ import annotations

import argparse
import subprocess

import pytest

from flows.cli.verbs import VERBS, whole_parser
from tests.flows.cli.conftest import Run

# Below it the shell completes a word that is typed as the tab key would.
BASH = """
COMP_WORDS=({words})
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
$(complete -p prelaunch | sed 's/.*-F \\([^ ]*\\).*/\\1/') && printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("words", "word"),
    [
        ("prelaunch node heal", "healthcheck"),
        ("prelaunch fleet store pr", "prune"),
        ("prelaunch judge x --format markd", "markdown"),
    ],
)
def test_bash_completes(run: Run, words: str, word: str) -> None:
    """Verbs, the verbs below them, options, and their choices."""
    script = run("site", "completion", "bash").out + BASH.format(words=words)
    done = subprocess.run(("bash", "--norc"), input=script, capture_output=True, text=True, check=False)

    assert word in done.stdout.split(), done


@pytest.mark.parametrize(
    ("shell", "words"),
    [
        pytest.param("zsh", ("zsh", "-n"), marks=pytest.mark.needs("zsh")),
        pytest.param("fish", ("fish", "--no-execute"), marks=pytest.mark.needs("fish")),
    ],
)
def test_another_shell_takes_the_script(run: Run, shell: str, words: tuple[str, ...]) -> None:
    """Without an error of its syntax; it names every verb."""
    script = run("site", "completion", shell).out
    done = subprocess.run(words, input=script, capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stderr)
    assert [] == [verb for verb in VERBS if verb not in script]


def test_the_parser_has_every_verb_with_its_arguments() -> None:
    """What is completed is what is parsed: no verb is left empty."""
    (below,) = (a for a in whole_parser()._actions if isinstance(a, argparse._SubParsersAction))

    assert list(VERBS) == list(below.choices)
    assert [] == [verb for verb, parser in below.choices.items() if len(parser._actions) < 2]
