"""The command itself: help without imports, usage errors, signals, closed pipes, and errors of our own."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from checks.documents.report import dump, dump_plain
from flows.cli.intentions import INTENTIONS
from flows.cli.main import VERBS, main
from tests.sample_reports import POLICY, healthy

MODULES_OF_HELP = 32  # 27 are
MAIN = (sys.executable, "-m", "flows.cli.main")


def _run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, **environment}
    return subprocess.run([*MAIN, *words], capture_output=True, text=True, env=env)


def _broken(body: str, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command with `judge.run` replaced by a function of this body."""
    script = (
        f"import sys\nfrom flows.cli import judge, main\ndef run(arguments):\n{textwrap.indent(body, ' ')}\n"
    )
    script += "judge.run = run\nsys.exit(main.main(sys.argv[1:]))\n"
    env = {**os.environ, "PYTHONPATH": str(Path.cwd()), **environment}
    argv = [sys.executable, "-c", script, "judge", "x", *words]
    return subprocess.run(argv, capture_output=True, text=True, env=env)


def test_help_names_every_verb_and_the_exit_codes() -> None:
    """And exits 0."""
    ended = _run("--help")

    assert (0, "") == (ended.returncode, ended.stderr)
    assert all(verb in ended.stdout for verb in VERBS)
    assert "3 cannot tell" in " ".join(ended.stdout.split())


@pytest.mark.parametrize(
    "words",
    [["--help"], ["--version"], *([verb, "--help"] for verb in ("judge", "facts", "explain", "check"))],
)
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    """No prefect, pydantic, rich, jinja2, numpy, torch or boto3; and few of our own for the help as a whole."""
    script = "import sys; from flows.cli.main import main; main(sys.argv[1:]); print(*sys.modules, file=sys.stderr)"
    env = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    ended = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, env=env)
    modules = ended.stderr.split()

    assert 0 == ended.returncode
    own = [name for name in modules if name.partition(".")[0] in ("checks", "flows", "tasks")]
    assert len(words) > 1 or len(own) <= MODULES_OF_HELP, own
    assert set() == {name.partition(".")[0] for name in modules} & {
        "prefect",
        "pydantic",
        "rich",
        "jinja2",
        "numpy",
        "torch",
        "boto3",
        "sqlalchemy",
    }


def test_the_version_is_the_engines() -> None:
    """One line."""
    assert _run("--version").stdout.startswith("prelaunch 0.")


@pytest.mark.parametrize(
    "words",
    [
        [], ["jugde", "x"], ["judge"], ["judge", "x", "--polcy", "y"], ["judge", "x", "--format", "yaml"],
        ["judge", "x", "--pol", "y"], ["--nonsense"], ["facts", "cpu", "p5"],
    ],
)  # fmt: skip
def test_wrong_usage_exits_2(words: list[str]) -> None:
    """Usage and reason on stderr, nothing on stdout."""
    ended = _run(*words)

    assert (2, "") == (ended.returncode, ended.stdout)
    assert "usage: prelaunch" in ended.stderr and "Traceback" not in ended.stderr


@pytest.mark.parametrize("asked", [["--format", "json"], ["--format=json"]])
def test_wrong_usage_is_json_where_json_was_asked(asked: list[str]) -> None:
    """One document for every exit code."""
    ended = _run("judge", "--wrong", *asked)

    assert 2 == ended.returncode
    assert {"kind", "file", "path", "line", "message", "nearest"} == set(json.loads(ended.stdout)["error"])
    assert "--wrong" in ended.stderr or "REPORT" in ended.stderr


@pytest.mark.parametrize(
    ("words", "usage", "meant"),
    [
        (["gaet", "x"], "prelaunch gate", "gate"),
        (["store", "lst"], "prelaunch store list", "list"),
        (["node", "prollog"], "prelaunch node prolog", "prolog"),
        (["judge", "x", "--polcy", "y"], "prelaunch judge", "--policy"),
        (["judge", "x", "--polcy=y"], "prelaunch judge", "--policy"),
        (["plan", "--offlin"], "prelaunch plan", "--offline"),
        (["store", "list", "--clustr", "c"], "prelaunch store list", "--cluster"),
        (["node", "pack", "--uot", "f"], "prelaunch node pack", "--out"),
        (["judge", "x", "--format", "markdwn"], "prelaunch judge", "markdown"),
        (["facts", "cpu", "p5"], "prelaunch facts", None),
        (["qqqq"], "prelaunch", None),
        (["judge", "-x"], "prelaunch judge", None),
        (["gate", "f", "--nodes", "2"], "prelaunch gate", "--set cluster.declared.nodes=2"),
        (["plan", "--nodes=two"], "prelaunch plan", "--set cluster.declared.nodes=1"),
        (["plan", "f", "--mode", "observe"], "prelaunch plan", "--set policy.mode=observe"),
        (["gate", "f", "--partition", "gpu"], "prelaunch gate", "--set cluster.options.partition=gpu"),
        (["gate", "f", "--partition", "$(id)"], "prelaunch gate", "--set cluster.options.partition=VALUE"),
        (["node", "qqqq"], "prelaunch node", None),
        (["gate", "f", "--policy", "mine.toml"], "prelaunch gate", "[policy] file, in the gate file"),
        (["--policy", "mine.toml", "gate", "f"], "prelaunch gate", "[policy] file, in the gate file"),
        (["--check-only", "gate", "f"], "prelaunch gate", None),
    ],
)
def test_a_wrong_word_names_the_nearest_and_the_usage_of_its_command(
    words: list[str], usage: str, meant: str | None, capfd: pytest.CaptureFixture[str]
) -> None:
    """As a field of the error; the usage is that of the command that was meant."""
    before = signal.getsignal(signal.SIGTERM)
    code = main([*words, "--format", "json"] if words[-1] != "x" else [*words, "--format=json"])
    signal.signal(signal.SIGTERM, before)
    out, err = capfd.readouterr()

    assert (2, meant) == (code, json.loads(out)["error"]["nearest"])
    said, shown = err.split("\n", 1)
    assert said.startswith("prelaunch: ") and (meant is None) is ("Did you mean" not in said)
    assert shown.startswith(f"usage: {usage} ")


@pytest.mark.parametrize(
    ("typed", "verb", "said"),
    [
        ("why", "judge", "prelaunch judge REPORT"),
        ("status", "watch", "prelaunch store list STORE"),
        ("past", "store", "prelaunch trend STORE"),
        ("validate", "plan", "prelaunch plan FILE"),
        ("run", "gate", "prelaunch gate FILE"),
    ],
)
def test_a_word_for_what_another_verb_does_leads_to_it(
    typed: str, verb: str, said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """With that verb's usage; no question about a word that only looks alike."""
    before = signal.getsignal(signal.SIGTERM)
    code = main([typed, "x", "--format", "json"])
    signal.signal(signal.SIGTERM, before)
    out, err = capfd.readouterr()

    assert (2, verb) == (code, json.loads(out)["error"]["nearest"])
    assert f"\nusage: prelaunch {verb} " in err and "Did you mean" not in err
    assert err.startswith(f"prelaunch: there is no `{typed}`. ") and said in err


def test_the_table_of_intentions_names_verbs_and_hides_none() -> None:
    """Each command that it names exists, and no word of it is a verb."""
    assert not set(INTENTIONS) & set(VERBS)
    for verb, said in INTENTIONS.values():
        named = re.findall(r"`prelaunch ([a-z-]+)", said)
        assert verb in VERBS and named and set(named) <= set(VERBS), said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["gate/local", "p5.toml"],
            "unexpected argument 'p5.toml'. The gate file is named by an option: --gate NAME.",
        ),
        (["p5.toml"], "named by --gate NAME"),
    ],
)
def test_a_gate_file_that_trigger_does_not_expect_names_its_option(
    words: list[str], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Beside the deployment, and in its place."""
    before = signal.getsignal(signal.SIGTERM)
    code = main(["trigger", *words])
    signal.signal(signal.SIGTERM, before)

    assert 2 == code and said in capfd.readouterr().err


@pytest.mark.parametrize(
    "words", [["{}"], ["judge", "x", "--{}"], ["facts", "cpu", "{}"], ["judge", "--format", "{}"]]
)
def test_a_hostile_word_is_inert_on_the_terminal(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """Control characters are written out, and a long word is cut."""
    hostile = "\x1b[31m\u202e<b>" + "x" * 10_000
    before = signal.getsignal(signal.SIGTERM)
    code = main([word.format(hostile) for word in words])
    signal.signal(signal.SIGTERM, before)
    _, err = capfd.readouterr()

    assert 2 == code
    assert "\x1b" not in err and "\u202e" not in err and len(err) < 2000


def test_a_command_behind_two_hyphens_is_not_read() -> None:
    """What `node gate` starts has options of its own."""
    ended = _run("node", "gate", "--bundle", "b", "--out", "o", "--", "train", "--polcy", "x")

    assert 2 == ended.returncode and "PRELAUNCH_ROSTER" in ended.stderr


def test_an_error_of_ours_is_never_a_go() -> None:
    """3, one line, a document for JSON; the traceback only where asked for."""
    ended = _broken("raise ValueError('boom\\nsecond line')", "--format", "json")
    debug = _broken("raise ValueError('boom')", PRELAUNCH_DEBUG="1")

    assert (3, 1) == (ended.returncode, len(ended.stderr.splitlines()))
    assert "ValueError: boom" in json.loads(ended.stdout)["error"]["message"]
    assert "Traceback" not in ended.stderr
    assert debug.returncode != 0 and "Traceback" in debug.stderr


@pytest.mark.parametrize("body", ["return None", "sys.exit()", "sys.exit(0)", "sys.exit('no')"])
def test_a_verb_that_says_nothing_is_no_go(body: str) -> None:
    """Neither a forgotten code nor a library's exit reads as success."""
    ended = _broken(body)

    assert (3, 1) == (ended.returncode, len(ended.stderr.splitlines()))


def test_a_document_is_followed_by_no_second() -> None:
    """Even where something fails after it was printed."""
    body = "from flows.cli.output import write_stdout; write_stdout('{}'); raise ValueError('late')"
    ended = _broken(body, "--format", "json")

    assert (3, {}) == (ended.returncode, json.loads(ended.stdout))


def test_a_full_disk_under_stdout_is_no_go(tmp_path: Path) -> None:
    """What nobody can read was not said."""
    report, policy = tmp_path / "r.json", tmp_path / "p.json"
    report.write_bytes(dump(healthy()))
    policy.write_bytes(dump_plain(POLICY))
    with open("/dev/full", "wb") as full:
        argv = [*MAIN, "judge", str(report), "--policy", str(policy)]
        ended = subprocess.run(argv, stdout=full, stderr=subprocess.PIPE, text=True)

    assert (3, 1) == (ended.returncode, len(ended.stderr.splitlines())), ended.stderr
    assert "cannot be written to stdout: No space left on device" in ended.stderr


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_ends_it_with_its_code(name: str, code: int) -> None:
    """Cleanly: what must be undone is undone, and no traceback."""
    body = textwrap.dedent(
        f"""
        import os, signal, time
        try:
            os.kill(os.getpid(), signal.{name}); time.sleep(30)
        finally:
            print('undone', file=sys.stderr)
        """
    )
    ended = _broken(body, "--format", "json")

    assert (code, {"error"}) == (ended.returncode, set(json.loads(ended.stdout)))
    assert "undone" in ended.stderr and "Traceback" not in ended.stderr


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    """The exit code stays the verdict's, and stderr stays empty."""
    report, policy = tmp_path / "r.json", tmp_path / "p.json"
    report.write_bytes(dump(healthy(40, 4)))
    policy.write_bytes(dump_plain(POLICY))
    command = f"{' '.join(MAIN)} judge {report} --policy {policy} --format junit"
    script = f"set -o pipefail; {{ {command}; echo code $? >&2; }} | head -c 10 >/dev/null"
    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True)

    assert "code 0\n" == ended.stderr


def test_a_terminal_without_utf_8_gets_the_answer() -> None:
    """Signs that it cannot show are written out."""
    ended = _run("facts", "cpu", PYTHONIOENCODING="ascii", LC_ALL="C")

    assert 0 == ended.returncode and ended.stdout.startswith("cpu\n")


def test_facts_show_the_row_and_the_lines_with_their_sources() -> None:
    """Text for people, JSON for programs."""
    text, document = _run("facts", "cpu"), json.loads(_run("facts", "cpu", "--format", "json").stdout)

    assert "Policy local" in text.stdout and "source:" in text.stdout
    assert {"type", "instance", "facts", "policy"} == set(document)
    assert (0, "local") == (document["instance"]["gpus"], document["policy"]["name"])


def test_facts_of_an_unknown_type_name_the_nearest() -> None:
    """2."""
    ended = _run("facts", "p5.48xlarg", "--format", "json")

    assert (2, "p5.48xlarge") == (ended.returncode, json.loads(ended.stdout)["error"]["nearest"])


def test_facts_of_a_type_that_is_like_none_name_those_that_begin_alike() -> None:
    """ "p5" is several; the two characters are enough to tell them."""
    ended = _run("facts", "p5")

    assert 2 == ended.returncode
    assert "Similar ones are p5.48xlarge, p5" in ended.stderr and "g4dn" not in ended.stderr


@pytest.mark.parametrize("kind", ["p5.48xlarge", "trn1.32xlarge", "cpu"])
def test_facts_say_of_every_rule_what_it_holds_to(kind: str) -> None:
    """Also where the bound is the type's own row, or that all are alike; no number is written as 2e+09."""
    rules = [line for line in _run("facts", kind).stdout.splitlines() if re.match("  [a-z_0-9]+: ", line)]

    assert rules and all(re.search(": (FAIL|WARN) ", line) for line in rules), rules
    assert not any("e+" in line for line in rules)


def test_a_type_without_a_policy_says_so() -> None:
    """The facts are shown all the same, if no shipped policy names the type."""
    ended = _run("facts", "p5.48xlarge", "--format", "json")

    assert 0 == ended.returncode
    assert {"type", "instance", "facts", "policy"} == set(json.loads(ended.stdout))


def test_help_is_quick() -> None:
    """Far from a second of CPU time, as nothing is imported that is not needed. A busy machine changes the time by the clock."""
    times = []
    for _ in range(3):
        before = _of_children()
        _run("--help")
        times.append(_of_children() - before)

    assert min(times) < 1.0


def _of_children() -> float:
    """The seconds of the processor that the children of this process have used so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_sigterm_of_a_real_process_is_143(tmp_path: Path) -> None:
    """While it waits for stdin."""
    process = subprocess.Popen(
        [*MAIN, "judge", "-", "--format", "json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    deadline = time.monotonic() + 60
    while "SigCgt:\t0000000000000000" in Path(f"/proc/{process.pid}/status").read_text() or not _waits(
        process.pid
    ):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate()

    assert (143, {"error"}) == (process.returncode, set(json.loads(out)))
    assert b"Traceback" not in err


def _waits(pid: int) -> bool:
    """Whether it blocks in read(2) of stdin."""
    try:
        return Path(f"/proc/{pid}/syscall").read_text().startswith("0 0x0 ")
    except PermissionError:
        return Path(f"/proc/{pid}/wchan").read_text() in ("pipe_read", "anon_pipe_read")
