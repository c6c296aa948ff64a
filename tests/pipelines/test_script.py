"""The script of a pipeline and its page: a mistake of its variables is shown, and the page says what the variables do."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from tasks.render.markdown import escape
from tasks.reports.schema import RESULT_PATH
from tests.pipelines.pipeline import ROOT, fake_command
from tests.pipelines.test_pipelines import GITLAB, RESULTS, SCRIPT, _script, cancelled, gated


def headed(folder: Path, word: str, name: str = "gate") -> str:
    """What all four results of a run in this folder say, if each is complete and headed alike."""
    out = folder / "prelaunch-results"
    assert RESULTS == sorted(path.name for path in out.iterdir())
    document = json.loads((out / "prelaunch.json").read_text())
    jsonschema.Draft202012Validator(json.loads(RESULT_PATH.read_text())).validate(document)
    error = ElementTree.parse(out / "junit.xml").getroot().find(".//error")
    assert error is not None and error.get("type") == word
    assert (out / "summary.md").read_text().startswith(f"# {word} {name}\n\n")
    page = (out / "report.html").read_text()
    assert f"<h1>{word}</h1>" in page and f"<title>{word} {name}</title>" in page
    suite = ElementTree.parse(out / "junit.xml").getroot()
    case = suite.find("testcase")
    assert case is not None and (f"prelaunch {name}", name) == (suite.get("name"), case.get("name"))
    assert word == "REJECTED" or document["first_line"].startswith(f"{word} {name}: ")
    said = document["error"]["message"] if word == "REJECTED" else document["reason"]
    assert said == error.get("message")
    return str(said)


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("PRELAUNCH_CHECK_ONLY", "True", "write true or false in small letters"),
        ("PRELAUNCH_CHECK_ONLY", "TRUE", "PRELAUNCH_CHECK_ONLY) is 'TRUE'"),
        ("PRELAUNCH_WAIT", "finishd", "'finishd', which is none of verdict, started and finished"),
        ("PRELAUNCH", "/nope/pre&launch", "the command '/nope/pre&launch' (command, PRELAUNCH) is not there"),
        ("PRELAUNCH_GATE_FILE", "--help", "--help is an option"),
        ("PRELAUNCH_GATE_FILE", "", "name a gate file"),
        ("PRELAUNCH_SETS", 'cluster."nodes" <2>', "a line 'cluster.\"nodes\" <2>', which is not of the form"),
    ],
)
def test_a_wrong_variable_is_rejected_on_every_channel(
    tmp_path: Path, variable: str, value: str, said: str
) -> None:
    """Before the command runs: above all, a gate that was to check only does not launch a training. GitHub shows it as an annotation,
    and on the page of the step.
    """
    output, page = tmp_path / "output", tmp_path / "page"
    asked = {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(page), variable: value}
    done = gated(tmp_path, "touch ran", GITHUB_ACTIONS="true", **asked)

    assert (2, False) == (done.returncode, (tmp_path / "ran").exists()), done.stderr
    assert said in headed(tmp_path, "REJECTED")
    assert "exit-code=2\ndecision=\nresults=prelaunch-results\n" == output.read_text()
    assert 1 == done.stderr.count(
        "::error title=Prelaunch rejected the request::REJECTED gate: The variables of the gate's"
    )
    assert page.read_text() == (tmp_path / "prelaunch-results" / "summary.md").read_text()
    assert "usage:" not in done.stderr


def test_a_folder_that_cannot_be_written_is_said_where_it_can_be(tmp_path: Path) -> None:
    """A file stands in its place: the annotation and the outputs remain."""
    (tmp_path / "prelaunch-results").write_text("")
    output = tmp_path / "output"
    done = _script(tmp_path, PRELAUNCH_GATE_FILE="g.toml", GITHUB_ACTIONS="true", GITHUB_OUTPUT=str(output))

    assert 2 == done.returncode and "::error title=Prelaunch rejected the request::" in done.stderr
    assert output.read_text().startswith("exit-code=2\n")


@pytest.mark.parametrize(("value", "passed"), [("true", True), ("false", False), ("", False)])
def test_check_only_is_passed_where_it_is_true(tmp_path: Path, value: str, passed: bool) -> None:
    """And nowhere else."""
    gated(tmp_path, 'echo "$@" >words', PRELAUNCH_CHECK_ONLY=value)

    assert passed is ("--check-only" in (tmp_path / "words").read_text().split())


@pytest.mark.parametrize(
    ("own", "code", "word"),
    [
        (2, 2, "REJECTED"), (126, 2, "REJECTED"), (0, 3, "CANNOT TELL"), (1, 3, "CANNOT TELL"),
        (5, 5, "CANNOT TELL"), (143, 143, "CANCELLED"), (130, 130, "CANCELLED"),
    ],
)  # fmt: skip
def test_a_command_that_leaves_nothing_is_said_on_every_channel(
    tmp_path: Path, own: int, code: int, word: str
) -> None:
    """Its output is no document, and a zero without a decision is no go."""
    output = tmp_path / "output"
    text = f"echo some text; exit {own}"
    done = gated(tmp_path, text, GITHUB_ACTIONS="true", GITHUB_OUTPUT=str(output))

    assert code == done.returncode, done.stderr
    assert headed(tmp_path, word) and 1 == done.stderr.count("::error ")
    assert output.read_text().startswith(f"exit-code={code}\n")


@pytest.mark.parametrize(
    ("end", "code", "word"), [("kill -9 $$", 137, "CANNOT TELL"), ("exit 143", 143, "CANCELLED")]
)
def test_a_gate_that_is_killed_leaves_complete_results(
    tmp_path: Path, end: str, code: int, word: str
) -> None:
    """It had begun: its summary says only that it has not finished, and what it started may run."""
    text = 'while [ $# -gt 0 ]; do [ "$1" = --summary ] && echo "# X" >"$2"; shift; done; '
    done = gated(tmp_path, text + end, GITHUB_ACTIONS="true")

    assert (code, 1) == (done.returncode, done.stderr.count("::error "))
    assert "nothing was started" not in headed(tmp_path, word)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('# name = "no"\nname = "bravo"\n[cluster]\nname = "other"\n', "bravo"),
        ("name='bravo-2' # ours\r\n[cluster]\r\n", "bravo-2"),
        ('[cluster]\nname = "other"\n', "my_gates.v2"),
        ('name = "bravo"; echo pwned"\n', "my_gates.v2"),
        ('name = "$(touch pwned)`touch pwned`"\n', "my_gates.v2"),
        ('name = "' + "a" * 10_000 + '"\n', "my_gates.v2"),
        ('name = "\u202e\x1b[31m%s%n"\n', "my_gates.v2"),
        ('name = "late"\n'.rjust(70_000, "#"), "my_gates.v2"),
        ("\0\xff\n" * 100, "my_gates.v2"),
        ("", "my_gates.v2"),
    ],
)
def test_pipeline_summary_is_headed_by_the_name_of_the_gate(tmp_path: Path, text: str, name: str) -> None:
    """As the gate file says it, where that can be a name; else as the file is called. Nothing of a file is run or has a meaning."""
    (tmp_path / "deep").mkdir()
    path = tmp_path / "deep" / "my_gates.v2.toml"
    path.write_bytes(text.encode("latin-1", "replace"))
    done = gated(tmp_path, "exit 143", PRELAUNCH_GATE_FILE=str(path), GITHUB_ACTIONS="true")

    assert headed(tmp_path, "CANCELLED", name) and not list(tmp_path.rglob("pwned"))
    assert f"::CANCELLED {name}: " in done.stderr


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({"PRELAUNCH_GATE_FILE": "p5-prod"}, "p5-prod"),
        ({"PRELAUNCH_DEPLOYMENT": "gate/p5-prod"}, "p5-prod"),
        ({"PRELAUNCH_GATE_FILE": 'gates/<b>&"%s.toml'}, "gate"),
        ({"PRELAUNCH_GATE_FILE": "a/\u202e\x1b[31m"}, "gate"),
        ({"PRELAUNCH_GATE_FILE": "a" * 10_000}, "gate"),
        ({"PRELAUNCH_GATE_FILE": "/dev/stdin"}, "stdin"),
    ],
)
def test_a_gate_file_that_cannot_be_read_names_the_gate(
    tmp_path: Path, variables: dict[str, str], name: str
) -> None:
    """As the file or the deployment is called, if that can be a name."""
    _script(tmp_path, PRELAUNCH=fake_command(tmp_path, "exit 143"), **variables)

    assert headed(tmp_path, "CANCELLED", name)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_before_the_gate_began_is_a_cancellation(tmp_path: Path, number: signal.Signals) -> None:
    """The command had not said anything yet: the script acknowledges the signal, and writes the results."""
    code, said = cancelled(tmp_path, "echo x >began; exec sleep 60", number)

    assert 143 == code, said
    assert f"prelaunch: {number.name} received: the gate is told to end\n" in said
    assert f"cancelled by {number.name} before the gate began" in headed(tmp_path, "CANCELLED")
    assert "prelaunch: cancelled, exit code 143" in said


ENDS = """
while [ $# -gt 0 ]; do [ "$1" = --summary ] && echo '# X' >"$2"; shift; done
printf '{{\\n  "decision": {decision},\\n}}\\n'; exit {code}"""


@pytest.mark.parametrize(
    ("code", "decision", "said"),
    [
        (0, '"launched"', "launched"), (1, '"refused"', "refused"), (2, "null", "rejected"),
        (3, '"cannot_tell"', "cannot tell"), (4, '"launched"', "training failed"), (4, '"not_launched"', "training not started"),
        (5, "null", "no machines, or a service failed"), (130, "null", "cancelled"), (143, '"launched"', "cancelled"),
    ],
)  # fmt: skip
def test_the_last_line_says_how_it_ended(tmp_path: Path, code: int, decision: str, said: str) -> None:
    """And not what was decided before a training failed."""
    done = gated(tmp_path, ENDS.format(code=code, decision=decision))

    assert (code, f"prelaunch: {said}, exit code {code}, results in prelaunch-results") == (
        done.returncode,
        done.stderr.splitlines()[-1],
    )


def test_a_gate_whose_time_was_up_is_said_to_be_so(tmp_path: Path) -> None:
    """The command is given the limit and ends by itself; one that ends as it likes within its time is not called late."""
    text = 'echo "$@" >words; sleep 0.7' + ENDS.format(code=3, decision="null")
    limits = {"0.01": "its time was up after 0.01 minutes", "10": "cannot tell"}
    for minutes, said in limits.items():
        done = gated(tmp_path, text, PRELAUNCH_TIMEOUT_MINUTES=minutes)

        assert 3 == done.returncode
        assert f"prelaunch: {said}, exit code 3, results in prelaunch-results" in done.stderr
        assert f"--timeout-minutes {minutes}" in (tmp_path / "words").read_text()


def test_the_page_names_every_variable_of_the_script() -> None:
    """Whoever writes a pipeline reads the page, and not a comment in a script that is included."""
    page = (ROOT / "docs" / "pipelines.md").read_text()
    variables = re.findall(r"^#   (PRELAUNCH\w*) ", SCRIPT.read_text(), re.MULTILINE)

    assert len(variables) > 6 and [] == [name for name in variables if f"| `{name}` |" not in page]


def test_a_gate_before_a_job_that_trains_launches_nothing_in_the_examples() -> None:
    """Or every GO would be trained on twice."""
    page = (ROOT / "docs" / "pipelines.md").read_text()
    header = "".join(
        line.removeprefix("#")
        for line in GITLAB.read_text().partition(".prelaunch-gate:")[0].splitlines(keepends=True)
    )
    examples = [
        block for block in page.split("```yaml\n") if "needs: [gate]" in block.partition("```")[0]
    ] + [header]

    assert 2 == len(examples)
    assert all('PRELAUNCH_CHECK_ONLY: "true"' in block.partition("```")[0] for block in examples)
    assert all(re.search(r"^ +timeout: ", block, re.MULTILINE) for block in examples)


def test_a_log_without_markdown_shows_the_signs_themselves(tmp_path: Path) -> None:
    """What a summary escapes, a person would have to decode in a job's log."""
    said = r"a [b] of c_d: *e* `f` https://g.h/i $1 <j> |k| ~l #m @n \\o &p"
    (tmp_path / "summary").write_text(f"# NO-GO x: {escape(said)}\n\n## Nodes\n\nmore\n")
    text = 'while [ $# -gt 0 ]; do [ "$1" = --summary ] && cp summary "$2"; shift; done; echo; exit 5'
    done = gated(tmp_path, text)

    assert f"# NO-GO x: {said}\n" in done.stderr and "&#" not in done.stderr and "more" not in done.stderr
