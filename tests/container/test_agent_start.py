"""How an agent starts: from a launcher's input channel, again in the same container, and with which environment for the training."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from checks import bundle as bundles
from checks.bundle import Pass, PassedNode
from checks.model import SCHEMA_VERSION
from checks.probes.host.system import identity_of_node
from container.agent.files import s3
from container.agent.files.mirror import Mirror
from container.agent.machine import pool_token
from tasks.launchers.node_code import code_archive, start_script
from tests.container.agents import GATE, ROOT, Ended, fake_python, make_bundle, make_root, run
from tests.programs import executable

HOST = "127.0.0.1"
# Without an interpreter, which may add variables of its own (LC_CTYPE, PEP 538).
DUMP = ("env", "--null")
# docs/gate-file.md.
COMMAND = {"PRELAUNCH_NODE", "PRELAUNCH_ROSTER", "PRELAUNCH_ATTEMPT"}
TRAINING = COMMAND | {"PRELAUNCH_PASS", "PRELAUNCH_INTERFACE"}
BARE: Mapping[str, str] = {}
SET = {
    "PYTHONPATH": "/srv/mine",
    "OMP_NUM_THREADS": "7",
    "NCCL_DEBUG": "WARN",
    "RES_OPTIONS": "rotate",
    "LANG": "C.UTF-8",
    "LC_CTYPE": "C.UTF-8",
    "MASTER_PORT": "1",
}
# They are for Prelaunch alone, whoever set them.
FOREIGN = {
    "PRELAUNCH_POOL_TOKEN": "a" * 32,
    "PRELAUNCH_EXCHANGE_KEY": "/srv/key",
    "PRELAUNCH_SCRATCH": "/srv/scratch",
    "PRELAUNCH_WORKING_FOLDER": "/srv",
    "PRELAUNCH_PYTHON": sys.executable,
}


def channel_root(tmp_path: Path, host: str = "") -> Path:
    """An /opt/ml whose input channel has the code beside the bundle."""
    root = make_root(tmp_path, make_bundle(), (host,) if host else (), host)
    (channel_of(root) / "prelaunch.tar.gz").write_bytes(code_archive())
    (channel_of(root) / "start.sh").write_bytes(start_script())
    return root


def channel_of(root: Path) -> Path:
    """Where SageMaker lays what the launcher gave."""
    return root / "input" / "data" / "prelaunch"


def start(root: Path, arguments: Sequence[str], working: str = "/", **environment: str) -> Ended:
    """What SageMaker runs, in a container that knows nothing of us."""
    names = [name for name in os.environ if not name.startswith(("PRELAUNCH_", "PYTHON"))]
    given = {name: os.environ[name] for name in (*names, "PRELAUNCH_STATE")}
    path = f"{root}-bin:{os.environ['PATH']}"
    given |= {"PRELAUNCH_ROOT": str(root), "PATH": path, "TMPDIR": str(root.parent), **environment}
    argv = ("/bin/sh", str(channel_of(root) / "start.sh"), *arguments)
    ended = subprocess.run(argv, cwd=working, env=given, capture_output=True, text=True)
    print(ended.stdout, ended.stderr)
    return Ended(ended.returncode, root, ended.stdout + ended.stderr)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The same, with an interpreter for the image."""
    made = channel_root(tmp_path)
    image = Path(f"{made}-bin")
    image.mkdir()
    executable(image / "python3", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    return made


def test_packages_of_the_image_do_not_stand_before_the_checks(tmp_path: Path, root: Path) -> None:
    """A training may have a checks/ where it works: agent and checks stand elsewhere, and know where the command works."""
    working = tmp_path / "working"
    for name in ("checks", "container"):
        (working / name).mkdir(parents=True)
        (working / name / "__init__.py").write_text("raise SystemExit('somebody else')\n")
    script = '#!/bin/sh\necho "checks in $PWD, then $PRELAUNCH_WORKING_FOLDER."; exit 7\n'
    python = executable(tmp_path / "python", script)
    ended = start(root, ("gate", "--", "true"), str(working), PRELAUNCH_PYTHON=str(python))

    assert (7, False) == (ended.code, "somebody else" in ended.log)
    assert f", then {working}." in ended.log and f"checks in {working}" not in ended.log


def test_boto3_of_our_image_is_found_beside_and_where_the_image_has_it() -> None:
    """Code that came by the channel lies elsewhere than the libraries of the image."""
    assert {Path("/opt/prelaunch/lib"), Path(s3.__file__).parents[3] / "lib"} == set(s3.LIBRARIES)


def test_mirror_copies_files_again_after_throttling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Throttled to the end: the last copies are tried again for as long as there is time."""
    taken: dict[str, bytes] = {}
    failing = [True] * 6

    def put(url: str, data: bytes) -> None:
        if failing:
            failing.pop()
            raise s3.S3Error("SlowDown")
        taken[url] = data

    monkeypatch.setattr("container.agent.files.mirror.s3.put", put)
    (tmp_path / "nodes").mkdir()
    (tmp_path / "nodes" / "algo-1.json").write_bytes(b"a report")
    problem = Mirror(tmp_path, "s3://bucket/reports").close(20.0)

    assert ("", {"s3://bucket/reports/nodes/algo-1.json": b"a report"}) == (problem, taken)


def test_mirror_does_not_retry_a_refused_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No permission comes of waiting; the machines cost money meanwhile."""
    asked = []

    def put(url: str, data: bytes) -> None:
        asked.append(url)
        raise s3.S3Refused("AccessDenied")

    monkeypatch.setattr("container.agent.files.mirror.s3.put", put)
    (tmp_path / "report").write_bytes(b"a report")
    mirror = Mirror(tmp_path, "s3://bucket/reports")

    assert ("report: AccessDenied", 1) == (mirror.close(20.0), len(asked))


def container(folder: Path) -> Path:
    """/opt/ml with a bundle, a pass of this machine, and the code as it comes by the input channel."""
    root = channel_root(folder, HOST)
    node = PassedNode(HOST, 0, identity_of_node())
    made = Pass(SCHEMA_VERSION, "earlier", "digest", "2026-01-01T00:00:00Z", (node,))
    (channel_of(root) / "pass.json").write_bytes(bundles.dump(made))
    return root


def trained(
    root: Path, entrypoint: tuple[str, ...], verb: tuple[str, ...], given: Mapping[str, str]
) -> dict[str, str]:
    """What the command finds in a container of exactly this environment."""
    done = subprocess.run(
        (*entrypoint, *verb, "--root", str(root), "--", *DUMP),
        cwd=root, env=given, stdin=subprocess.DEVNULL, capture_output=True, check=False,
    )  # fmt: skip
    assert 0 == done.returncode, done.stdout + done.stderr
    lines = [line.rpartition(b"\n")[2] for line in done.stdout.split(b"\0")]
    return dict(line.decode().split("=", 1) for line in lines if b"=" in line)


@pytest.mark.parametrize(("verb", "code", "own"), [("gate", "channel", BARE), ("exec", "image", SET)])
def test_the_training_gets_what_the_engine_gave(
    tmp_path: Path, verb: str, code: str, own: Mapping[str, str]
) -> None:
    """Variable for variable, with the code in the image or by the input channel, behind the checks or without any."""
    root, path = container(tmp_path), f"{Path(sys.executable).parent}:{os.defpath}"
    channel, state = channel_of(root), os.environ["PRELAUNCH_STATE"]
    engine = {"PATH": path, "TRAINING_JOB_NAME": "job-7", "TMPDIR": str(tmp_path), "PRELAUNCH_STATE": state}
    engine |= own
    if code == "image":
        entrypoint: tuple[str, ...] = ("python3", "-m", "container.agent")
        given = {**engine, "PYTHONPATH": ":".join(filter(None, (str(ROOT), own.get("PYTHONPATH"))))}
    else:
        entrypoint, given = ("/bin/sh", str(channel / "start.sh")), engine
    options = ("--confirm", str(channel / "pass.json")) if verb == "gate" else ()
    found = trained(root, entrypoint, (verb, *options), {**given, **FOREIGN})

    added = {name: found.pop(name) for name in found.keys() - engine.keys()}
    assert (TRAINING if verb == "gate" else COMMAND) == added.keys()
    assert engine == found


VARIABLE = "SAGEMAKER_MANAGED_WARMPOOL_CACHE_DIRECTORY"


def checked(root: Path, python: Path, *options: str, **environment: str) -> str:
    """The token in the identity that a check of this machine reports, "" for none."""
    ended = run(root, "check", *options, python=python, **environment)
    assert 0 == ended.code
    return ended.merged.nodes[0].identity.get("pool_token", "")


def pooled(root: Path, tmp_path: Path, gate_id: str = GATE, **environment: str) -> tuple[Ended, str]:
    """A job on the pool, and what its checks and command found in their environment."""
    node = PassedNode("algo-1", 0, {"pool_token": "whatever"})
    made = Pass(SCHEMA_VERSION, gate_id, "digest", "now", (node,))
    (tmp_path / "pass.json").write_bytes(bundles.dump(made))
    command = ("--", "sh", "-c", "echo token=$PRELAUNCH_POOL_TOKEN.")
    words = ("gate", "--confirm", str(tmp_path / "pass.json"), "--pooled", *command)
    ended = run(root, *words, python=fake_python(tmp_path), **environment)
    return ended, ended.log.partition("token=")[2].partition(".")[0]


def test_the_next_job_on_the_machine_shows_the_token_that_the_check_left(tmp_path: Path) -> None:
    """In the folder that the pool keeps; the check's report holds the same."""
    root = make_root(tmp_path, make_bundle())
    given = {VARIABLE: str(tmp_path / "cache")}
    left = checked(root, fake_python(tmp_path), "--keep", **given)
    ended, shown = pooled(root, tmp_path, **given)

    assert (0, 32, left) == (ended.code, len(left), shown)
    assert left == (tmp_path / "cache" / "prelaunch" / GATE).read_text()


def test_without_keep_nothing_is_left_and_nothing_claimed(tmp_path: Path) -> None:
    """Nor is a token believed that came with the job's environment: every host would show it."""
    root = make_root(tmp_path, make_bundle())
    given = {VARIABLE: str(tmp_path / "cache"), "PRELAUNCH_POOL_TOKEN": "a" * 32}

    assert ("", False) == (checked(root, fake_python(tmp_path), **given), (tmp_path / "cache").exists())


@pytest.mark.parametrize("data", [b"", b"short", b"\xff" * 32, b"A" * 32, b"a" * 33])
def test_pool_token_is_empty_for_a_damaged_file(tmp_path: Path, data: bytes) -> None:
    """A file that was cut, or another program's."""
    (tmp_path / "prelaunch").mkdir()
    (tmp_path / "prelaunch" / GATE).write_bytes(data)

    assert "" == pool_token.find(tmp_path, GATE)


def test_the_gate_is_told_that_it_is_pooled(tmp_path: Path) -> None:
    """Only with a pass: without one nothing was proven."""
    root = make_root(tmp_path, make_bundle())
    script = f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {tmp_path}/words\nexit 3\n"
    python = executable(tmp_path / "python", script)
    (tmp_path / "pass.json").write_bytes(b"{}")
    told = []
    for confirm in (("--confirm", str(tmp_path / "pass.json")), ()):
        run(root, "gate", *confirm, "--pooled", "--ask-s", "600", "--", "true", python=python)
        told.append((tmp_path / "words").read_text().split("\n"))

    passed_on = [("--pooled" in words, float(words[words.index("--ask-s") + 1])) for words in told]
    assert [(True, 600.0), (False, 600.0)] == passed_on, json.dumps(told)


@pytest.mark.parametrize("writable", [True, False])
def test_a_folder_that_cannot_be_written_proves_nothing_later(tmp_path: Path, writable: bool) -> None:
    """Without the variable it is SageMaker's own folder, where that exists. The check goes on: the next job checks again in place."""
    root, cache = make_root(tmp_path, make_bundle()), tmp_path / "cache"
    own = root / "sagemaker" / "warmpoolcache"
    own.mkdir(parents=True)
    cache.write_text("a file")
    left = checked(root, fake_python(tmp_path), "--keep", **({} if writable else {VARIABLE: str(cache)}))

    assert left == ((own / "prelaunch" / GATE).read_text() if writable else "")


@pytest.mark.parametrize(("gate_id", "shown"), [(GATE, ""), ("earlier", "b" * 32)])
def test_the_token_is_of_the_gate_that_proved_the_machines(tmp_path: Path, gate_id: str, shown: str) -> None:
    """A machine that came into the pool later has none, or that of another gate's check, whatever the job's environment says."""
    root = make_root(tmp_path, make_bundle())
    (tmp_path / "cache" / "prelaunch").mkdir(parents=True)
    (tmp_path / "cache" / "prelaunch" / "earlier").write_text("b" * 32)
    given = {VARIABLE: str(tmp_path / "cache"), "PRELAUNCH_POOL_TOKEN": "a" * 32}

    assert shown == pooled(root, tmp_path, gate_id, **given)[1]
