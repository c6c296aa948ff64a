"""The command itself: help without imports, usage errors, signals, closed pipes, errors of our own, and an end before it has begun.

What reads files alone works where Prefect is broken, and does not import it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from checks.documents.report import dump, dump_plain
from checks.model import Report
from flows.cli import judge
from flows.cli.output import write_stdout
from flows.cli.verbs import COMMANDS, VERBS, whole_parser
from tests.flows.cli.conftest import Ended, Run
from tests.installation.hostile import TRAP, environment
from tests.sample_reports import POLICY, healthy
from tests.waiting import until

MODULES_OF_HELP = 20  # 17 are
HEAVY = {"prefect", "pydantic", "rich", "jinja2", "numpy", "torch", "boto3", "sqlalchemy"}
MAIN = (sys.executable, "-m", "flows.cli.main")

CODES = {
    "gate": "0 1 2 3 4 5 130 143 0", "run follow": "0 1 2 3 4 5 130 143 0", "plan": "0 2 3 5", "check": "0 1 2 3 130 143",
    "judge": "0 1 2 3 5 130 143", "node": "0 1 2 3 127 130 143", "init": "", "site examples": "",
}  # fmt: skip
FILES = ("--junit", "junit.xml", "--summary=summary.md", "--html", "page.html")


def test_help_names_every_command_and_begins_with_three_that_the_parser_takes(run: Run) -> None:
    """On one page, with at most 14 verbs; it exits 0."""
    ended = run("--help")
    lines = ended.out.splitlines()
    first = [line.split()[1:] for line in lines if line.startswith("  prelaunch ")]

    assert (0, "") == (ended.code, ended.err)
    assert all(re.search(rf"\b{words.split()[-1]}\b", ended.out) for words in COMMANDS)
    assert len(VERBS) <= 14 and len(lines) <= 40 and max(map(len, lines)) < 80
    assert ["init", "doctor", "gate"] == [words[0] for words in first]
    assert all(whole_parser().parse_args(words) for words in first)


@pytest.mark.parametrize(("words", "codes"), CODES.items())
def test_help_has_the_exit_codes_of_a_command_that_judges(words: str, codes: str, run: Run) -> None:
    """Its own ones alone; others have none there."""
    epilog = run(*words.split(), "--help").out.partition("exit codes: ")[2]

    assert codes.split() == re.findall(r"\b[0-9]+\b", epilog)


@pytest.mark.parametrize(
    "words", [["--help"], ["judge", "--help"], ["check", "--help"], ["explain", __file__]]
)
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    """No prefect, pydantic, rich, jinja2, numpy, torch or boto3; and few of our own for the help as a whole. Nor does a text that is
    explained, whose policy is named.
    """
    script = "import sys; from flows.cli.main import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    env = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    ended = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, env=env)
    modules = ended.stderr.split()

    assert 0 == ended.returncode
    own = [name for name in modules if name.partition(".")[0] in ("checks", "flows", "tasks")]
    assert len(words) > 1 or len(own) <= MODULES_OF_HELP, own
    assert set() == {name.partition(".")[0] for name in modules} & HEAVY
    assert ("policy: nvidia" in ended.stderr) is ("explain" in words)


@pytest.mark.parametrize(
    "words",
    [
        [], ["jugde", "x"], ["judge"], ["judge", "x", "--format", "yaml"], ["judge", "x", "--pol", "y"], ["--nonsense"],
    ],
)  # fmt: skip
def test_wrong_usage_exits_2(words: list[str], run: Run) -> None:
    """Usage and reason on stderr, nothing on stdout."""
    ended = run(*words)

    assert (2, "") == (ended.code, ended.out)
    assert "usage: prelaunch" in ended.err and "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("words", "usage", "meant"),
    [
        (["gaet", "x"], "prelaunch gate", "gate"),
        (["trigger", "x"], "prelaunch run start", "run start"),
        (["cluster-config"], "prelaunch site parallelcluster", "site parallelcluster"),
        (["machines"], "prelaunch fleet list", "fleet list"),
        (["render"], "prelaunch judge", "judge"),
        (["status"], "prelaunch run follow", "run follow"),
        (["fleet", "lst"], "prelaunch fleet list", "fleet list"),
        (["fleet", "gate.toml"], "prelaunch fleet", None),
        (["fleet"], "prelaunch fleet", None),
        (["fleet", "store", "lst"], "prelaunch fleet store list", "list"),
        (["judge", "x", "--polcy=y"], "prelaunch judge", "--policy"),
        (["plan", "--offlin"], "prelaunch plan", "--offline"),
        (["fleet", "store", "list", "--clustr", "c"], "prelaunch fleet store list", "--cluster"),
        (["node", "pack", "--uot", "f"], "prelaunch node pack", "--out"),
        (["judge", "x", "--format", "markdwn"], "prelaunch judge", "markdown"),
        (["facts", "cpu", "p5"], "prelaunch facts", None),
        (["qqqq"], "prelaunch", None),
        (["judge", "-x"], "prelaunch judge", None),
    ],
)
def test_a_wrong_word_names_the_nearest_and_the_usage_of_its_command(
    words: list[str], usage: str, meant: str | None, run: Run
) -> None:
    """As a field of the error; the usage is that of the command that was meant."""
    ended = run(*words, *(["--format", "json"] if words[-1] != "x" else ["--format=json"]))

    assert (2, meant) == (ended.code, json.loads(ended.out)["error"]["nearest"])
    said, shown = ended.err.split("\n", 1)
    assert said.startswith("prelaunch: ") and (meant is None) is ("Did you mean" not in said)
    assert shown.startswith(f"usage: {usage} ")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gate/local", "p5.toml"], "argument 'p5.toml'. The gate file is named by an option: --gate NAME."),
        (["p5.toml"], "named by --gate NAME"),
    ],
)
def test_a_gate_file_that_run_start_refuses_names_its_option(words: list[str], said: str, run: Run) -> None:
    """Beside the deployment, and in its place."""
    ended = run("run", "start", *words)

    assert 2 == ended.code and said in ended.err


@pytest.mark.parametrize(
    "words", [["{}"], ["judge", "x", "--{}"], ["facts", "cpu", "{}"], ["judge", "--format", "{}"]]
)
def test_a_hostile_word_is_inert_on_the_terminal(words: list[str], run: Run) -> None:
    """Control characters are written out, and a long word is cut."""
    hostile = "\x1b[31m\u202e<b>" + "x" * 10_000
    ended = run(*(word.format(hostile) for word in words))

    assert 2 == ended.code
    assert "\x1b" not in ended.err and "\u202e" not in ended.err and len(ended.err) < 2000


def test_a_command_behind_two_hyphens_is_not_read(run: Run) -> None:
    """What `node gate` starts has options of its own."""
    ended = run("node", "gate", "--bundle", "b", "--out", "o", "--", "train", "--polcy", "x")

    assert 2 == ended.code and "PRELAUNCH_ROSTER" in ended.err


@pytest.fixture
def broken(run: Run, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """The command with `judge.run` replaced by a function."""

    def runner(body: Callable[[], object], *words: str) -> Ended:
        monkeypatch.setattr(judge, "run", lambda _: body())
        return run("judge", "x", *words)

    return runner


def fails() -> None:
    """An error of ours."""
    raise ValueError("boom\nsecond line")


def test_an_error_of_ours_is_never_a_go(
    broken: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch
) -> None:
    """3, one line, a document for JSON; the error itself only where asked for."""
    ended = broken(fails, "--format", "json")
    monkeypatch.setenv("PRELAUNCH_DEBUG", "1")

    assert (3, 1) == (ended.code, len(ended.err.splitlines()))
    assert "ValueError: boom" in json.loads(ended.out)["error"]["message"]
    assert "Traceback" not in ended.err
    with pytest.raises(ValueError, match="boom"):
        broken(fails)


@pytest.mark.parametrize("body", [lambda: None, sys.exit, lambda: sys.exit(0), lambda: sys.exit("no")])
def test_a_verb_that_says_nothing_is_no_go(broken: Callable[..., Ended], body: Callable[[], object]) -> None:
    """Neither a forgotten code nor a library's exit reads as success."""
    ended = broken(body)

    assert (3, 1) == (ended.code, len(ended.err.splitlines()))


def test_a_document_is_followed_by_no_second(broken: Callable[..., Ended]) -> None:
    """Even where something fails after it was printed."""

    def late() -> None:
        write_stdout("{}")
        fails()

    ended = broken(late, "--format", "json")

    assert (3, {}) == (ended.code, json.loads(ended.out))


def judge_words(folder: Path, report: Report) -> list[str]:
    """The command that judges this report."""
    (folder / "r.json").write_bytes(dump(report))
    (folder / "p.json").write_bytes(dump_plain(POLICY))
    return ["judge", str(folder / "r.json"), "--policy", str(folder / "p.json")]


def test_a_full_disk_under_stdout_is_no_go(tmp_path: Path) -> None:
    """What nobody can read was not said."""
    with open("/dev/full", "wb") as full:
        argv = [*MAIN, *judge_words(tmp_path, healthy())]
        ended = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True)

    assert (3, 1) == (ended.returncode, len(ended.stderr.splitlines())), ended.stderr
    assert "cannot be written to stdout: No space left on device" in ended.stderr


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    """The exit code stays the verdict's, and stderr stays empty."""
    command = shlex.join([*MAIN, *judge_words(tmp_path, healthy(40, 4)), "--format", "junit"])
    script = f"set -o pipefail; {{ {command}; echo code $? >&2; }} | head -c 10 >/dev/null"
    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True)

    assert "code 0\n" == ended.stderr


def test_a_terminal_without_utf_8_gets_the_answer() -> None:
    """Signs that it cannot show are written out."""
    # Python 3.11 does not start in this locale where a .pth file, such as that of an editable installation, has another letter.
    locale = "C" if sys.executable.isascii() else "C.UTF-8"
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": locale}
    ended = subprocess.run([*MAIN, "facts", "cpu"], capture_output=True, text=True, env=env)

    assert 0 == ended.returncode and ended.stdout.startswith("cpu: no GPU\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_it_with_its_code(number: signal.Signals, code: int) -> None:
    """While it waits for stdin: one document, and no traceback."""
    argv, pipe = [*MAIN, "judge", "-", "--format", "json"], subprocess.PIPE
    process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe)
    assert process.stdin is not None
    status = Path(f"/proc/{process.pid}/status")
    until(lambda: "SigCgt:\t0000000000000000" not in status.read_text() and _waits(process.pid))
    process.send_signal(number)
    out, err = process.communicate()

    assert (code, {"error"}) == (process.returncode, set(json.loads(out)))
    assert b"Traceback" not in err


def _waits(pid: int) -> bool:
    """Whether it blocks in read(2) of stdin."""
    try:
        return Path(f"/proc/{pid}/syscall").read_text().startswith("0 0x0 ")
    except PermissionError:
        return Path(f"/proc/{pid}/wchan").read_text() in ("pipe_read", "anon_pipe_read")


@pytest.mark.parametrize(
    "argv", [("gate", "gate.toml"), ("judge", "report.json"), ("fleet", "replay", "store")]
)
def test_baseline_option_without_text_names_no_baseline(argv: tuple[str, ...]) -> None:
    """A pipeline passes a variable that may be empty."""
    assert whole_parser().parse_args((*argv, "--baseline", "")).baseline is None


def pages(folder: Path) -> list[str]:
    """The three files, each complete."""
    error = ElementTree.parse(folder / "junit.xml").getroot().find(".//error")
    assert error is not None
    said = f"{error.get('type')}: {error.get('message')}"
    return [said, *((folder / name).read_text() for name in ("summary.md", "page.html"))]


def test_wrong_usage_is_a_rejection_in_every_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    """And an annotation in a workflow of GitHub."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    code, out, err = run("gate", "p5.toml", "--format", "json", *FILES, "--wait", "finishd")
    junit, summary, page = pages(tmp_path)

    said = "--wait: 'finishd' is none of verdict, started, finished"
    assert (2, said) == (code, json.loads(out)["error"]["message"])
    assert junit.startswith(f"REJECTED: {said}")
    assert summary.startswith("# REJECTED p5\n") and "<h1>REJECTED</h1>" in page
    assert 1 == err.count("::error title=Prelaunch rejected the request::--wait") and 1 == err.count(said)
    assert "usage: prelaunch gate" in err


def test_a_rejection_is_said_once_in_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    """GitHub shows the annotation's text, which has file and line for that; any other log the line for people."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gate.toml").write_text("name = 1\n")
    said = "gate.toml, line 1: name: expected text, found the number 1."
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    plain = run("plan", "gate.toml", "--offline").err
    usage = run("plan", "gate.toml", "--wrong").err
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    github = run("plan", "gate.toml", "--offline").err

    assert f"prelaunch: {said}" in plain and "::error" not in plain and 1 == plain.count(said)
    assert github.startswith(f"::error file=gate.toml,line=1,title=Prelaunch rejected the request::{said}\n")
    assert 4 == github.count("::error ")
    assert usage.startswith("prelaunch: ") and "usage: prelaunch plan" in usage.splitlines()[1]


def test_a_signal_before_the_gate_begins_is_a_cancellation(tmp_path: Path) -> None:
    """In every file and in the document: no machine was judged, and none is called unknown."""
    body = textwrap.dedent(
        """
        import os, signal, sys, time
        from flows.cli import gate, main
        def opened(request):
            os.kill(os.getpid(), signal.SIGTERM); time.sleep(30)
        gate.open_gate_context = opened
        sys.exit(main.main())
        """
    )
    argv = [*MAIN[:1], "-c", body, "gate", "p5.toml", "--format", "json", *FILES]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(argv, cwd=tmp_path, env=env, capture_output=True, text=True)
    junit, summary, page = pages(tmp_path)

    said = "cancelled by SIGTERM before the gate began: nothing was started"
    assert 143 == done.returncode, done.stderr
    assert f"CANCELLED p5: {said}" == json.loads(done.stdout)["first_line"]
    assert f"CANCELLED: {said}." == junit
    assert summary.startswith(f"# CANCELLED p5\n\n{said}") and "<h1>CANCELLED</h1>" in page
    assert "prelaunch: cancelled by SIGTERM\n" in done.stderr


ROOT = Path(__file__).parents[3]
PAGES = ("--html", "page.html", "--junit", "page.xml", "--summary", "page.md")


@pytest.mark.parametrize(
    ("words", "code"),
    [(("facts", "p5.48xlarge"), 0), (("judge", "good.json", "--policy", "policy.json", *PAGES), 0)],
    ids=["facts", "judge"],
)
def test_files_are_read_where_prefect_is_broken(tmp_path: Path, words: tuple[str, ...], code: int) -> None:
    """A package `prefect` that raises when it is imported is first on the path; it also writes that it was imported."""
    imported = tmp_path / "imported"
    broken = tmp_path / "packages" / "prefect"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text(TRAP.format(marker=str(imported)))
    (tmp_path / "good.json").write_bytes(dump(healthy()))
    (tmp_path / "policy.json").write_bytes(dump_plain(POLICY))
    done = subprocess.run(
        (sys.executable, "-m", "flows.cli.main", *words), cwd=tmp_path,
        env=environment(f"{broken.parent}:{ROOT}", PRELAUNCH_DEBUG="1"),
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (code, False) == (done.returncode, imported.exists()), done.stderr
    assert "Traceback" not in done.stderr
