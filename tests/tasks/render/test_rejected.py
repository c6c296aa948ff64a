"""A rejected request on paper: headed REJECTED, with the file, the line and what to do, and never a verdict."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as xml

import pytest

from checks.exit_codes import RejectionKind
from tasks.gate_file.read import GateFileError, OverrideError, read_gate_file
from tasks.render import rejected
from tasks.render.rejected import (
    Rejection,
    annotation,
    end_annotation,
    from_error,
    html,
    junit,
    markdown,
    sentence,
)

LINE = Rejection("gates/a.toml", 5, "cluster.lancher", "unknown key", "launcher")
NOWHERE = Rejection("", None, "", "the store cannot be written", None)
MARKUP = "<script>x</script>\x1b[31m | `y`"
HOSTILE = Rejection("a\n::warning::b,c.toml", 1, "<b>k</b>", MARKUP, "%0A::error::")


def test_the_sentence_names_the_file_the_line_and_the_nearest_key() -> None:
    """And is plain where nobody knows the place."""
    assert sentence(LINE) == "gates/a.toml, line 5: cluster.lancher: unknown key. Did you mean 'launcher'?"
    assert sentence(NOWHERE) == "the store cannot be written."


def test_a_summary_and_a_page_are_headed_rejected_and_hold_no_verdict() -> None:
    """Nothing was tested, so no count of observations stands there."""
    text, page = markdown(LINE, "alpha"), html(LINE, "alpha")

    assert text.startswith("# REJECTED alpha\n\n") and "line 5" in text and "launcher" in text
    assert "<h1>REJECTED</h1>" in page and "line 5" in page and "Content-Security-Policy" in page
    for made in (text, page):
        assert "No machine was tested" in made
        assert not re.search("CANNOT TELL|NO-GO|observed|Digests", made)


def test_the_error_of_junit_has_the_type_rejected_and_the_place() -> None:
    """One case, one error."""
    suite = xml.fromstring(junit(LINE, "alpha"))
    case = suite.find("testcase")

    assert (suite.get("tests"), suite.get("errors"), suite.get("failures")) == ("1", "1", "0")
    assert case is not None and (case.get("file"), case.get("line")) == ("gates/a.toml", "5")
    error = case.find("error")
    assert error is not None and error.get("type") == "REJECTED" and "lancher" in str(error.get("message"))


def test_a_line_for_github_names_the_file_below_the_workspace() -> None:
    """GitHub shows it in the file, at the line."""
    here = Rejection("/w/repo/gates/a.toml", 5, "cluster.lancher", "unknown key", None)

    title = "title=Prelaunch rejected the request"
    reason = "gates/a.toml, line 5: cluster.lancher: unknown key."
    assert annotation(here, "/w/repo") == f"::error file=gates/a.toml,line=5,{title}::{reason}"
    assert annotation(NOWHERE, "") == f"::error {title}::the store cannot be written."


@pytest.mark.parametrize("file", ["overrides (--set)", "gates/a.toml with overrides (--set)"])
def test_the_command_line_is_no_file(file: str) -> None:
    """GitHub and JUnit get no path that does not exist; the sentence says where it was."""
    typed = from_error(OverrideError(file, "cluster.declared.nodes", "expected a whole number"))

    assert "file=" not in annotation(typed, "/w/repo") and file in annotation(typed, "/w/repo")
    assert "file" not in xml.fromstring(junit(typed, "alpha")).find("testcase").attrib  # type: ignore[union-attr]


def test_a_file_outside_the_checkout_has_no_line_in_it() -> None:
    """It is named in the sentence."""
    made = annotation(Rejection("/other/a.toml", 5, "k", "unknown key", None), "/w/repo")

    assert made == "::error title=Prelaunch rejected the request::/other/a.toml, line 5: k: unknown key."


def test_rejection_for_a_lock_requires_no_correction() -> None:
    """What is wrong has to be corrected; a lock is given back by itself."""
    said = "cluster alpha is locked by gate alpha-1. Wait for that gate, or end its process."

    assert "Correct the problem" not in markdown(from_error(said, RejectionKind.BUSY), "alpha")
    assert "Nothing has to be corrected" in markdown(from_error(said, RejectionKind.BUSY), "alpha")
    assert "Correct the problem" in markdown(from_error(said, RejectionKind.REQUEST), "alpha")


def test_the_end_of_a_gate_is_one_line_for_github() -> None:
    """Whatever a node calls itself."""
    hostile = "NO-GO a: node%0A\n::add-mask::x\r, rank 3 computes wrong sums"

    inert = "NO-GO a: node%250A : :add-mask::x\\r, rank 3 computes wrong sums"
    error = f"::error title=Prelaunch%3A the gate did not end well::{inert}"
    warning = "::warning title=Prelaunch%3A a GO with warnings::GO a%0Ait is no g5.\\r: :error::x"
    assert error == end_annotation(hostile, is_error=True)
    assert warning == end_annotation("GO a", ("it is no g5.\r::error::x",), is_error=False)


def test_rejection_text_contains_no_markup_or_command() -> None:
    """Names and messages come from files that anybody may have written."""
    assert "<script>" not in markdown(HOSTILE, "<i>n</i>") + html(HOSTILE, "<i>n</i>")
    assert "\x1b" not in markdown(HOSTILE, "n") + junit(HOSTILE, "n") + html(HOSTILE, "n")
    made = annotation(HOSTILE, "")
    assert made.count("\n") == 0 and made.startswith("::error file=a")
    # The first :: after it begins the message.
    assert made.split("::")[1].endswith("title=Prelaunch rejected the request")


NODES = 'nodes = "two"\nranks_per_node = 1\n\n[policy]\nfile = "p"\n'
GATE = f"""# a comment: [cluster]
name = "x"

[cluster]
name = "x"
launcher = "local"

[cluster.declared]
instance_type = "cpu"   # cpu
{NODES}
[training]
max_runtime_minutes = 1
command = [
  "a",
]
"""


@pytest.mark.parametrize(
    ("old", "new", "path", "line", "words"),
    [
        ('launcher = "local"', 'lancher = "local"', "cluster.lancher", 6, ()),
        ("", "", "cluster.declared.nodes", 10, ()),
        ('nodes = "two"', "", "cluster.declared", 8, ()),  # what lacks a key is its table
        ('nodes = "two"', "nodes = ", "", 10, ()),  # not TOML
        ('name = "x"\n\n', 'name = "x"\nbogus = 1\n', "bogus", 3, ()),
        (NODES, "nodes = 2\nranks_per_node = 1\n", "policy", None, ()),  # a table that is missing
        # What was set on the command line has no line: the file is right.
        ('"two"', "2", "cluster.declared.nodes", None, ("cluster.declared.nodes=two",)),
    ],
)
def test_the_line_is_that_of_the_key_or_of_its_table(
    tmp_path: Path, old: str, new: str, path: str, line: int | None, words: tuple[str, ...]
) -> None:
    """Found in the text, because the parser does not keep it."""
    file = tmp_path / "a.toml"
    file.write_text(GATE.replace(old, new, 1) if old else GATE)
    with pytest.raises(GateFileError) as caught:
        read_gate_file(file, words)
    made = from_error(caught.value)

    assert made.path.startswith(path)
    assert made.line == line


def test_a_cancelled_gate_is_no_verdict_and_says_what_was_measured() -> None:
    """In every format, with neither the count of an empty report nor the word of a verdict."""
    by_then = "By then 12 of 66 observations had been made (node-0 12 of 33)"
    one = rejected.cancelled(f"cancelled by SIGINT. {by_then}")
    made = (markdown(one, "alpha"), html(one, "alpha"), junit(one, "alpha"))

    assert made[0].startswith("# CANCELLED alpha\n")
    for text in made:
        assert "CANCELLED" in text and "12 of 66 observations" in text and "Run the gate again." in text
        assert not re.search("CANNOT TELL|NO-GO|REJECTED|Digests|0 of 1", text)
