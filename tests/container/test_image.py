"""The Dockerfile, its pins and its scripts: linted, and run as far as they go without internet."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.linters import finds_nothing
from tests.programs import executable

ROOT = Path(__file__).resolve().parents[2]
CONTAINER = ROOT / "container"
DOCKERFILE = (CONTAINER / "Dockerfile").read_text()
PINS: dict[str, Any] = tomllib.loads((CONTAINER / "pins.toml").read_text())
ARTEFACTS = {name: table for name, table in PINS.items() if name != "image"}
ACCOUNT = ("--account", "123456789012", "--region", "us-west-2")


def create_image(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """container/create-image.sh."""
    given = {**os.environ, "AWS_REGION": "", **environment}
    return subprocess.run((CONTAINER / "create-image.sh", *words), capture_output=True, text=True, env=given)


def path_with(folder: Path) -> str:
    """A PATH whose first programs are those of the folder."""
    return f"{folder}:{os.environ['PATH']}"


def fake(folder: Path, name: str, script: str) -> None:
    """An executable that writes its arguments to folder/calls, then does what the script says."""
    folder.mkdir(exist_ok=True)
    executable(folder / name, f'#!/bin/bash\necho "{name} $*" >>"{folder}/calls"\n{script}\n')


def test_hadolint_finds_nothing() -> None:
    """With nothing ignored but what the Dockerfile itself says, with its reason."""
    finds_nothing("hadolint", CONTAINER / "Dockerfile")


def test_shellcheck_finds_nothing() -> None:
    """In every script of the container."""
    scripts = sorted(CONTAINER.glob("*.sh"))
    finds_nothing("shellcheck", *scripts)

    assert len(scripts) > 1


@pytest.mark.parametrize(
    ("held", "pinned", "code"),
    [
        ("", "1.50.0", 1),
        ("1.9.0", "1.50.0", 1),
        ("1.50.0", "1.50.0", 0),
        ("1.100.0", "1.50.0", 0),
        ("2.4", "2.5", 1),
        ("4.6.0-1", "4.6.0-1", 0),
        ("4.5.2-1", "4.6.0-1", 1),
    ],
)
def test_image_script_keeps_a_held_version_unless_it_is_older(held: str, pinned: str, code: int) -> None:
    """The same version or a newer one stays; what is older or absent is installed."""
    done = subprocess.run((CONTAINER / "held.sh", "thing", held, pinned), capture_output=True, text=True)

    assert (code, "", True) == (done.returncode, done.stdout, pinned in done.stderr)


def test_every_pin_is_checked_and_used_by_the_build() -> None:
    """A line in the pins that the Dockerfile ignores would pin nothing."""
    for name in ARTEFACTS:
        upper = name.upper()
        assert {f"ARG {upper}_URL", f"ARG {upper}_SHA256"} <= set(DOCKERFILE.splitlines())
        assert f'fetch.sh {name} "${{{upper}_URL}}" "${{{upper}_SHA256}}"' in DOCKERFILE
        assert f'"{name}=${{{upper}_SHA256}}"' in DOCKERFILE


def test_the_entrypoint_is_process_1_itself() -> None:
    """Exec form, no shell and no init between SageMaker's SIGTERM and the agent."""
    entrypoints = [line for line in DOCKERFILE.splitlines() if line.startswith("ENTRYPOINT")]

    assert ['ENTRYPOINT ["python3", "-m", "container.agent"]'] * 2 == entrypoints
    assert "tini" not in DOCKERFILE


def test_the_image_imports_what_its_checks_need_before_it_is_one() -> None:
    """The catalogue says which modules these are: the list stands nowhere else."""
    image = DOCKERFILE.partition("\nFROM tools AS image\n")[2]

    assert "RUN python3 -m container.agent checks modules " in image
    assert "import pynvml" not in DOCKERFILE and "import torch" not in DOCKERFILE


def test_the_agents_libraries_are_those_of_this_repository() -> None:
    """One boto3, here and in the image, by version."""
    text = (CONTAINER / "requirements.txt").read_text()
    wanted = re.findall(r"^(\S+)==(\S+) --hash=sha256:[0-9a-f]{64}$", text, re.M)
    pinned = (ROOT / "constraints.txt").read_text().splitlines()

    assert {"boto3", "nvidia-ml-py"} <= set(dict(wanted))
    assert [] == [f"{name}=={version}" for name, version in wanted if f"{name}=={version}" not in pinned]


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--no-such-option", "x"),
        ("x", "1", "2"),
        ("--target", "other", "x"),
        ("--pins", "/nowhere", "x"),
        ("UPPER",),
        ("x", "a/b"),
        ("x", "--region"),
        ("--dry-run", "x"),
        ("--registry", "https://registry.example", "x"),
        ("--registry", "registry.example", "--no-push", "x"),
    ],
    ids=" ".join,
)
def test_bad_arguments_are_exit_code_2(words: tuple[str, ...]) -> None:
    """Rejected before anything is touched; no region is one of them."""
    done = create_image(*words)

    assert (2, "") == (done.returncode, done.stdout)


def test_a_dry_run_prints_the_commands_and_runs_none(tmp_path: Path) -> None:
    """Build, repository, login with the password on stdin, push: in this order."""
    for name in ("docker", "aws", "curl"):
        fake(tmp_path / "bin", name, "exit 99")
    words = ("--dry-run", *ACCOUNT, "--base", "scratch", "prelaunch", "7")
    done = create_image(*words, PATH=path_with(tmp_path / "bin"))
    registry, of_region = "123456789012.dkr.ecr.us-west-2.amazonaws.com", "--region us-west-2"
    build, repository, login, push, reference = done.stdout.splitlines()
    pins = [f"--build-arg {name.upper()}_SHA256={table['sha256']} " for name, table in ARTEFACTS.items()]

    assert (0, False) == (done.returncode, (tmp_path / "bin" / "calls").exists())
    assert build.startswith("env DOCKER_BUILDKIT=1 docker build --platform linux/amd64 ")
    assert all(word in build for word in (*pins, f"--tag {registry}/prelaunch:7"))
    assert repository.split(" || ") == [
        f"aws ecr describe-repositories --repository-names prelaunch {of_region}",
        f"aws ecr create-repository --repository-name prelaunch {of_region}",
    ]
    password = f"docker login --username AWS --password-stdin {registry}"
    assert login == f"aws ecr get-login-password {of_region} | {password}"
    assert (push, reference) == (f"docker push {registry}/prelaunch:7", f"{registry}/prelaunch:7")


def test_another_registry_is_pushed_to_without_aws(tmp_path: Path) -> None:
    """No command of aws; a mirror is passed on by its name, so that a password in its URL is never shown."""
    fake(tmp_path, "docker", "exit 0")
    mirrors = {"PIP_INDEX_URL": "https://user:s3cret@mirror.example/simple", "APT_MIRROR": ""}
    options = ("--target", "checks", "--base-image", "mirror.example/python:3.12", "--engine", "docker")
    words = ("--registry", "registry.example:5000/gpu", *options, "prelaunch-checks", "7")
    done = create_image(*words, PATH=path_with(tmp_path), **mirrors)
    calls = (tmp_path / "calls").read_text()

    assert (0, "registry.example:5000/gpu/prelaunch-checks:7") == (done.returncode, done.stdout.strip())
    assert "docker push registry.example:5000/gpu/prelaunch-checks:7" in calls and "login" not in calls
    assert "--build-arg PIP_INDEX_URL " in calls and "APT_MIRROR" not in calls
    assert "s3cret" not in calls + done.stdout + done.stderr


def test_a_build_with_an_empty_pin_is_refused(tmp_path: Path) -> None:
    """Before an engine is asked."""
    pins = tmp_path / "pins.toml"
    pins.write_text(re.sub(r'(?<=^sha256 = )".*"', '""', (CONTAINER / "pins.toml").read_text(), flags=re.M))
    fake(tmp_path / "bin", "buildah", "exit 0")
    words = ("--pins", str(pins), "--engine", "buildah", "--no-push", "--base-image", "localhost/x", "x")
    done = create_image(*words, PATH=path_with(tmp_path / "bin"))

    assert (1, False) == (done.returncode, (tmp_path / "bin" / "calls").exists())
    assert "efa.sha256" in done.stderr and "--record" in done.stderr


REPOSITORIES: dict[str, tuple[object, ...]] = {
    "there": ("exit 0", 0),
    "missing": ("echo RepositoryNotFoundException >&2; exit 254", 1),
    "refused": ("echo AccessDenied >&2; exit 254", None),
}


@pytest.mark.parametrize(("answer", "created"), REPOSITORIES.values(), ids=REPOSITORIES)
def test_the_repository_is_created_only_if_missing(tmp_path: Path, answer: str, created: int | None) -> None:
    """An answer that says nothing about the repository is not taken for "missing". No password is shown."""
    fake(tmp_path / "bin", "podman", f'[[ $1 != login ]] || cat >"{tmp_path}/password"')
    script = f"case $2 in describe-repositories) {answer} ;; get-login-password) echo s3cret ;; esac"
    fake(tmp_path / "bin", "aws", script)
    words = ("--engine", "podman", "--target", "checks", "--base-image", "localhost/x", *ACCOUNT, "prelaunch")
    done = create_image(*words, PATH=path_with(tmp_path / "bin"))
    calls = (tmp_path / "bin" / "calls").read_text()

    assert created == (None if done.returncode else calls.count("create-repository"))
    assert "s3cret" not in done.stdout + done.stderr + calls
    assert ("podman push" in calls, (tmp_path / "password").exists()) == ((created is not None,) * 2)


@pytest.mark.needs("curl")
def test_record_fills_what_is_empty_and_nothing_else(tmp_path: Path) -> None:
    """The checksum is that of what was downloaded; what cannot be had stays empty and is exit code 1."""
    (tmp_path / "file").write_bytes(b"dcgm")
    pins = tmp_path / "pins.toml"
    sections = dict.fromkeys(("efa", "gdrcopy", "nccl_tests"), ("f" * 64, f"file://{tmp_path}/none"))
    sections |= {"dcgm_core": ("", f"file://{tmp_path}/file"), "dcgm_cuda": ("", f"file://{tmp_path}/none")}
    text = [f'[{name}]\nurl = "{url}"\nsha256 = "{pin}"\n' for name, (pin, url) in sections.items()]
    pins.write_text("# why\n" + "\n".join(text))
    done = create_image("--record", "--pins", str(pins), "--base-image", "localhost/x")
    found = {name: table["sha256"] for name, table in tomllib.loads(pins.read_text()).items()}
    wanted = {name: pin for name, (pin, _) in sections.items()}

    assert 1 == done.returncode and "dcgm_cuda" in done.stderr
    assert wanted | {"dcgm_core": hashlib.sha256(b"dcgm").hexdigest()} == found
    assert pins.read_text().startswith("# why\n")


def test_record_takes_the_bases_digest_from_the_engine(tmp_path: Path) -> None:
    """What was pulled is what is pinned."""
    digest = "sha256:" + "a" * 64
    pins = tmp_path / "pins.toml"
    pins.write_text('[image.checks]\nname = "docker.io/library/python"\ntag = "3"\ndigest = ""\n')
    fake(tmp_path / "bin", "podman", f"[[ $1 != image ]] || echo docker.io/library/python@{digest}")
    words = ("--record", "--engine", "podman", "--target", "checks", "--pins", str(pins))
    done = create_image(*words, PATH=path_with(tmp_path / "bin"))

    calls = (tmp_path / "bin" / "calls").read_text()

    assert "podman pull --platform linux/amd64 docker.io/library/python:3\n" in calls
    assert (0, digest) == (done.returncode, tomllib.loads(pins.read_text())["image"]["checks"]["digest"])


PINNED = {
    "empty": ("", "no sha256"),
    "cut": ("abc", "no sha256"),
    "another": ("0" * 64, "not the pinned"),
    "right": (hashlib.sha256(b"x").hexdigest(), ""),
}


@pytest.mark.needs("curl")
@pytest.mark.parametrize(("pin", "said"), PINNED.values(), ids=PINNED)
def test_only_what_is_pinned_is_kept(tmp_path: Path, pin: str, said: str) -> None:
    """What has another checksum is removed, so that no later step can use it."""
    (tmp_path / "source").write_bytes(b"x")
    words = ("thing", f"file://{tmp_path}/source", pin, str(tmp_path / "kept"))
    done = subprocess.run((CONTAINER / "fetch.sh", *words), capture_output=True, text=True, check=False)

    assert (bool(said), said in done.stderr) == (done.returncode != 0, True)
    assert (not said) == (tmp_path / "kept").exists()


def test_the_build_sees_no_more_than_it_copies() -> None:
    """Neither .git nor a recording travels to the builder."""
    ignored = (CONTAINER / "Dockerfile.dockerignore").read_text().splitlines()
    allowed = {line[1:] for line in ignored if line[:1] == "!"}
    copied = set(re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.M))

    assert {word for line in copied for word in line.split()} == allowed
    assert all((ROOT / path).exists() for path in allowed) and shutil.which("bash")


def test_every_pin_is_a_checksum_or_empty_and_says_where_and_when_it_was_read() -> None:
    """Nothing in between looks like a pin and is none. The two packages of DCGM are of one version, which the checks' facts cover."""
    tables = {**ARTEFACTS, **PINS["image"]}

    assert {} == {
        name: one
        for name, one in tables.items()
        if not re.fullmatch(
            r"([0-9a-f]{64})?", one.get("digest", "").removeprefix("sha256:") or one.get("sha256", "")
        )
        or not one["source"].strip()
        or not re.fullmatch(r"20\d\d-\d\d-\d\d", one["read"])
        or one.get("version", "") not in one.get("url", "")
    }
    assert ARTEFACTS["dcgm_core"]["version"] == ARTEFACTS["dcgm_cuda"]["version"]
    assert "v4.6.0" in (ROOT / "checks" / "facts" / "dcgm.json").read_text()
    assert ["efa", "gdrcopy", "dcgm"] == re.findall(r"if ! \S*held\.sh (\w+)", DOCKERFILE)
