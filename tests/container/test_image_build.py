"""The `checks` image, really built on a minimal Debian, and its entrypoint, really run in it. No container engine's
daemon: debootstrap makes the base, buildah the rest. The base is kept in build/, because it takes most of the time.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from checks.documents.report import load
from tasks.launchers.local import network
from tests.container.agents import make_bundle
from tests.container_engines import podman_environment

ROOT = Path(__file__).resolve().parents[2]
BASE = ROOT / "build" / "debian-bookworm-python3.tar"
BASE_IMAGE = "localhost/prelaunch-test-base:1"
NOT_NEEDED = (
    "debootstrap",
    "var/cache/apt",
    "var/lib/apt/lists",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
)

pytestmark = [
    pytest.mark.long,
    pytest.mark.root,
    pytest.mark.needs("buildah", "debootstrap"),
    pytest.mark.timeout(600),
]


class Builder:
    """buildah with a store of its own."""

    def __init__(self, folder: Path) -> None:
        self.environment = {**os.environ, **podman_environment(folder, "vfs"), "BUILDAH_ISOLATION": "chroot"}

    def __call__(self, *argv: str | Path) -> subprocess.CompletedProcess[str]:
        """One command, whatever its exit code."""
        done = subprocess.run(argv, env=self.environment, capture_output=True, text=True, timeout=300)
        print(f"--- {argv} ended with {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}")
        return done

    def succeed(self, *argv: str | Path) -> str:
        """The last line of what it printed; it must succeed."""
        done = self(*argv)
        assert 0 == done.returncode, done.stderr
        return done.stdout.strip().rpartition("\n")[2]


def make_base(folder: Path) -> None:
    """Debian's required packages and python3, as a tar file."""
    tree = folder / "debian"
    # Unpacked and not configured: an image needs no accounts of its own, and it takes half the time.
    argv = ("debootstrap", "--foreign", "--variant=minbase", "--include=python3", "bookworm", tree)
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=500)
    if done.returncode:
        pytest.skip(f"debootstrap cannot make a Debian here: {done.stdout[-300:]}{done.stderr[-300:]}")
    for name in (tree / "debootstrap" / "base").read_text().split():
        for package in (tree / "var/cache/apt/archives").glob(f"{name}_*.deb"):
            unpack(package, tree)
    if (tree / "proc").is_symlink():  # to the host's, where debootstrap itself ran in a container
        (tree / "proc").unlink()
        (tree / "proc").mkdir()
    for name in NOT_NEEDED:
        shutil.rmtree(tree / name, ignore_errors=True)
    BASE.parent.mkdir(exist_ok=True)
    partial = BASE.with_suffix(f".{os.getpid()}")
    subprocess.run(("tar", "-C", tree, "-cf", partial, "."), check=True)
    partial.replace(BASE)
    shutil.rmtree(tree)


def unpack(package: Path, tree: Path) -> None:
    """The package's files; /lib stays the link to /usr/lib that debootstrap made."""
    archive = package.with_suffix(".tar")
    with open(archive, "wb") as file:
        subprocess.run(("dpkg-deb", "--fsys-tarfile", package), stdout=file, check=True)
    subprocess.run(("tar", "-C", tree, "--keep-directory-symlink", "-xf", archive), check=True)
    archive.unlink()


@pytest.fixture(scope="module")
def builder() -> Iterator[Builder]:
    """With the base image in its store."""
    folder = Path(tempfile.mkdtemp(prefix="pl-", dir="/tmp"))
    if not BASE.exists():
        make_base(folder)
    made = Builder(folder)
    container = made.succeed("buildah", "from", "scratch")
    made.succeed("buildah", "add", "--quiet", container, BASE, "/")
    made.succeed("buildah", "commit", "--quiet", "--rm", container, BASE_IMAGE)
    yield made
    made("buildah", "rm", "--all")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def image(builder: Builder) -> str:
    """The image that create-image.sh built."""
    words = ("--engine", "buildah", "--target", "checks", "--no-push", "--base-image", BASE_IMAGE)
    return builder.succeed(ROOT / "container" / "create-image.sh", *words, "prelaunch-checks", "test")


@pytest.fixture(scope="module")
def container(builder: Builder, image: str) -> str:
    """A container of that image."""
    return builder.succeed("buildah", "from", image)


def entrypoint(builder: Builder, container: str) -> list[str]:
    """What the image says it starts."""
    done = builder("buildah", "inspect", container)
    config = json.loads(done.stdout)["OCIv1"]["config"]
    assert ["train"] == config["Cmd"]
    words: list[str] = config["Entrypoint"]
    return words


def test_the_checks_are_listed_in_the_image(builder: Builder, container: str) -> None:
    """With Debian's Python, and nothing installed beside."""
    done = builder("buildah", "run", container, "--", *entrypoint(builder, container), "checks", "list")

    found = builder("buildah", "run", container, "--", "find", "/opt/prelaunch", "-name", "__pycache__")

    assert (0, True) == (done.returncode, "system.identity" in done.stdout)
    assert (0, "") == (found.returncode, found.stdout)


def test_a_module_that_checks_need_and_the_image_lacks_is_named(builder: Builder, container: str) -> None:
    """What the build of the target `image` runs, and fails by; Debian's Python has neither of them."""
    words = (*entrypoint(builder, container), "checks", "modules")
    done = builder("buildah", "run", container, "--", *words)

    assert 0 != done.returncode
    assert all(f"{name}: ModuleNotFoundError" in done.stdout + done.stderr for name in ("pynvml", "torch"))


def test_train_leaves_a_whole_report(builder: Builder, container: str, tmp_path: Path) -> None:
    """Node checks measure without PyTorch; what needs it is said to be missing, so that nobody can tell."""
    channel = tmp_path / "input" / "data" / "prelaunch"
    channel.mkdir(parents=True)
    (channel / "bundle.json").write_bytes(make_bundle(judged=False))
    words = ("--volume", f"{tmp_path}:/opt/ml", container, "--", *entrypoint(builder, container), "train")
    done = builder("buildah", "run", *words)
    report = load((tmp_path / "output" / "data" / "health_check_metrics.json").read_bytes())
    measured = {row.check for row in report.observations if row.outcome.value == "MEASURED"}

    assert 0 != done.returncode and (tmp_path / "output" / "failure").read_text().startswith("cannot_tell")
    assert (True, True) == (report.nodes[0].complete, {"system.identity", "system.clock"} <= measured)
    assert not {row for row in measured if row.startswith(("collective.", "training."))}


@pytest.mark.parametrize("base", ["aws", "scratch"])
def test_a_build_by_hand_without_pins_fails_and_says_which(builder: Builder, base: str) -> None:
    """Whoever goes round create-image.sh meets the same rule, before anything is downloaded."""
    file = ROOT / "container" / "Dockerfile"
    files = ("--file", file, "--ignorefile", f"{file}.dockerignore")
    arguments = ("--build-arg", f"BASE={base}", "--build-arg", f"BASE_IMAGE={BASE_IMAGE}")
    done = builder("buildah", "build", *files, "--target", "image", *arguments, ROOT)

    assert 0 != done.returncode and "efa has no sha256 in container/pins.toml" in done.stdout + done.stderr


# PyTorch is not in this image: Debian's Python is that of the tests, whose environment is mounted.
TORCH = ("--volume", f"{sys.prefix}:{sys.prefix}:ro", "--env", f"PRELAUNCH_PYTHON={sys.executable}")
PYNVML = ("--volume", f"{pynvml.__file__}:/opt/prelaunch/lib/pynvml.py:ro")  # where our image has it
RUN = ("podman", "run", "--rm", "--init", "--ipc=host", "--device=/dev/kmsg:/dev/kmsg:r", "--cap-add=SYSLOG")
same_python = pytest.mark.skipif(
    sys.version_info[:2] != (3, 11),
    reason="the tests' Python is not that of Debian 12. Remedy: run them with 3.11",
)


@same_python
@pytest.mark.needs("podman", "runc")
def test_image_runs_the_checks_of_one_node_to_a_go(builder: Builder, image: str, tmp_path: Path) -> None:
    """As docs/container.md says, but for PyTorch, which comes from outside: GO, with a line per group and larger numbers."""
    run = (*RUN, "--network", "host", "--volume", f"{tmp_path}:/reports", *TORCH, image)
    words = ("check", "--instance-type", "cpu", "--out", "/reports", "--verbose")
    done = builder(*run, *words, "--option", "training.smoke.steps=60")

    assert 0 == done.returncode and done.stdout.startswith("GO: 1 of 1 nodes")
    assert all(f"[{group}] " in done.stderr for group in ("ENV", "COMPUTE", "TRAIN"))
    assert "training.smoke: steps=60" in done.stderr and "improved=True" in done.stderr
    assert 1 == len(list(tmp_path.glob("prelaunch-check-*/out/health_check_metrics.json")))


LACKS: dict[str, tuple[str, tuple[str, ...], int, str]] = {
    "no torch": ("cpu", (), 3, "compute.gemm"),
    "no GPUs": ("p5.48xlarge", PYNVML, 1, "gpu.inventory"),
    "no pynvml": ("p5.48xlarge", (), 2, "the image cannot import pynvml"),
}


@pytest.mark.needs("podman", "runc")
@pytest.mark.parametrize(("kind", "mounted", "code", "says"), LACKS.values(), ids=LACKS)
def test_an_image_or_machine_that_lacks_something_is_refused(
    builder: Builder, image: str, tmp_path: Path, kind: str, mounted: tuple[str, ...], code: int, says: str
) -> None:
    """Without PyTorch nobody can tell. A container without the declared GPUs is no reason to end with 0. An image without the module
    that asks for GPUs is rejected.
    """
    run = (*RUN, "--network", "host", "--volume", f"{tmp_path}:/reports", *mounted, image)
    done = builder(*run, "check", "--instance-type", kind, "--out", "/reports")

    assert code == done.returncode and says in (done.stderr if code == 2 else done.stdout)


@same_python
@pytest.mark.needs("podman", "runc", "ip")
def test_two_nodes_on_a_network_of_their_own(builder: Builder, image: str, tmp_path: Path) -> None:
    """The same command on each, over a shared folder: GO. Where one never starts, it is named, and nobody can tell."""
    made = network.create(f"pl-{os.getpid()}-image", 2, "10.78.0")
    lines = [f"{address} node-{rank}" for rank, address in enumerate(made.addresses)]
    (tmp_path / "hosts").write_text("\n".join(("127.0.0.1 localhost", *lines, "")))

    def start(rank: int, run: str) -> subprocess.Popen[str]:
        argv = (
            *RUN, "--network", f"ns:/run/netns/{made.name}-{rank}", "--hostname", f"node-{rank}", "--env", "PRELAUNCH_INTERFACE=eth0",
            "--volume", f"{tmp_path}/hosts:/etc/hosts:ro", "--volume", f"{tmp_path}:/reports", *TORCH, image,
            "check", "--instance-type", "cpu", "--out", "/reports", "--hosts", "node-[0-1]", "--run", run,
        )  # fmt: skip
        pipe = subprocess.PIPE
        return subprocess.Popen(argv, env=builder.environment, text=True, stdout=pipe, stderr=pipe)

    try:
        ended = [(*child.communicate(), child.returncode) for child in [start(0, "both"), start(1, "both")]]
        alone = start(0, "alone")
        said, why = alone.communicate()
        again, because = start(0, "both").communicate()
    finally:
        network.remove(made.name)

    assert [0, 0] == [code for _, _, code in ended] and ended[0][0].startswith("GO: 2 of 2 nodes"), ended
    assert (3, True) == (alone.returncode, "node-1" in said), (said, why)
    assert "Give another --run" in because and again == ""
