"""What every test stands on: skips that say what is missing, and no process left behind."""

from __future__ import annotations

import atexit
import functools
import gc
import os
import shutil
import signal
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tasks.launchers.local.network import lacks_rights
from tests.architecture import leftovers
from tests.architecture.leftovers import pytest_sessionfinish as pytest_sessionfinish
from tests.architecture.summary import pytest_runtest_logstart as pytest_runtest_logstart
from tests.architecture.summary import pytest_runtest_makereport as pytest_runtest_makereport
from tests.architecture.summary import pytest_terminal_summary as pytest_terminal_summary
from tests.prefect_backend import prefect_backend as prefect_backend
from tests.prefect_backend import pytest_runtest_teardown as pytest_runtest_teardown
from tests.prefect_backend import template_dir as template_dir
from tests.world import at_world as at_world
from tests.world import new_world as new_world
from tests.world import world as world
from tests.world import world_cache as world_cache
from tests.world import world_worker as world_worker
from tests.world_end import pytest_world_ends_with_its_tests as pytest_world_ends_with_its_tests

# command -> the Debian package that brings it
PACKAGES = {
    "amtool": "prometheus-alertmanager",
    "buildah": "buildah",
    "chromium": "chromium",
    "debootstrap": "debootstrap",
    "fi_info": "libfabric-bin",
    "fi_pingpong": "libfabric-bin",
    "fio": "fio",
    "ip": "iproute2",
    "mpirun": "openmpi-bin",
    "nft": "nftables",
    "promtool": "prometheus",
    "stress-ng": "stress-ng",
    "tc": "iproute2",
    "tmux": "tmux",
    "unshare": "util-linux",
}
# command -> what installs it where no package of Debian does
MADE = {"pcluster": "make parallelcluster"}
# A busy machine makes an example slow, and fails no test for it. `make test` tries the same examples everywhere, `make test-long` new
# ones. In a checkout that this user may not write, no example that failed is kept.
KEEPS_EXAMPLES = {} if os.access(Path(__file__).parents[1], os.W_OK) else {"database": None}
hypothesis.settings.register_profile(
    "prelaunch",
    **KEEPS_EXAMPLES,
    max_examples=50,
    deadline=None,
    derandomize="NEW_EXAMPLES" not in os.environ,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("prelaunch")
# What .ci/system has only unpacked, because an installation would start it as a service.
UNPACKED = Path(__file__).parents[1] / "build" / "unpacked" / "usr" / "bin"
PARALLELCLUSTER = Path(__file__).parents[1] / "build" / "parallelcluster"
PLACES = ("/usr/sbin", "/sbin", str(UNPACKED), str(PARALLELCLUSTER))
SYSTEM_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), *PLACES))


def pytest_configure(config: pytest.Config) -> None:
    """Mark this session's processes, and let tests find what only root's PATH has."""
    os.environ["PATH"] = SYSTEM_PATH
    # A job in a script's background, or under nohup, starts so, and would hand it to every program that a test interrupts.
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)
    os.environ.setdefault("PRELAUNCH_GATES", "")  # gate files of tests lie anywhere: a form takes their paths
    # What a gate or a person found on this machine before is no matter of the tests.
    os.environ["PRELAUNCH_STATE"] = tempfile.mkdtemp(prefix="state-")
    atexit.register(shutil.rmtree, os.environ["PRELAUNCH_STATE"], ignore_errors=True)
    if not os.access(os.path.expanduser("~"), os.W_OK):
        os.environ["HOME"] = tempfile.mkdtemp(prefix="home-")  # Prefect wants to write there
        atexit.register(shutil.rmtree, os.environ["HOME"], ignore_errors=True)
    leftovers.pytest_configure(config)


# These read the whole tree, which one worker parses once.
READERS = tuple(
    f"tests/architecture/test_{name}.py"
    for name in ("cycles", "prose", "rules", "size", "structure", "summary", "tables")
)
# Their tests share what a module-wide fixture made, or build on each other: one worker runs the whole file.
WHOLE_FILES = (
    "tests/browser/test_fleet_page.py",
    "tests/browser/test_report_page.py",
    "tests/checks/probes/compute/test_overlap.py",
    "tests/checks/probes/pairs/test_pairs.py",
    "tests/checks/probes/collectives/test_collectives.py",
    "tests/checks/probes/compute/test_training_smoke.py",
    "tests/container/test_agent_reports.py",
    "tests/container/test_image_build.py",
    "tests/flows/test_gate_store.py",
    "tests/flows/test_remedy.py",
    "tests/flows/test_sagemaker.py",  # ranks of two jobs on this machine would want one port
    "tests/installation/test_hostile_places.py",
    "tests/survival/test_checks_that_misbehave.py",
    "tests/tasks/launchers/sagemaker/model_trainer/test_request.py",
    "tests/tasks/reports/mlflow/test_export.py",
    "tests/tasks/launchers/sagemaker/test_launcher_contract.py",
    "tests/tasks/launchers/sagemaker/output/test_fetch.py",
    "tests/tasks/store/test_store_contract.py",
    "tests/tasks/store/test_index.py",
    "tests/tasks/store/test_s3.py",
    "tests/documents/test_readme.py",
    "tests/documents/test_site.py",
    "tests/mutants/test_mutations.py",
    "tests/worlds/test_worlds.py",  # the fake host engines of two worlds would listen on one port
)


# Folders whose tests start servers, nodes or programs, and wait for them most of their time.
WAITING = tuple(
    f"tests/{name}/"
    for name in (
        "browser", "checks/runner", "checks/watch", "container", "deployments", "engines", "flows", "installation", "pipelines",
        "sagemaker_standin", "survival", "tasks/launchers", "tasks/orchestration", "tasks/slackbot", "worlds",
    )
)  # fmt: skip


class Scheduler(LoadScopeScheduling):  # type: ignore[misc]
    """Test by test, but for the files that stay whole, and for those that share the one server of tests.world."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file.startswith("tests/engines/"):
            return "tests.engines"  # its tests share one Slurm cluster
        if _says(file, "from tests.world import"):
            return "tests.world"
        if file in READERS:
            return "tests.architecture"
        if _says(file, "import Late"):
            return "tests.late"  # one worker imports torch, not all
        if _says(file, "prefect_backend"):
            # Two workers start a Prefect server, not all: a server that does nothing takes more than a hundredth of a core.
            whole = file if file in WHOLE_FILES else nodeid
            return f"tests.prefect_backend.{zlib.crc32(whole.encode()) % 2}"
        return file if file in WHOLE_FILES else nodeid

    def _assign_work_unit(self, node: WorkerController) -> None:
        """One worker begins at the end of the queue, where the tests stand that compute: the others wait more than they compute."""
        if node.gateway.id == "gw0":
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        super()._assign_work_unit(node)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Forget a unit that is done: xdist keeps each, and counts all of them anew after each test."""
        super().mark_test_complete(node, item_index, duration)
        units = self.assigned_work[node]
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(units[scope].values()):
            del units[scope]


@functools.cache
def _says(file: str, text: str) -> bool:
    path = Path(__file__).parents[1] / file
    return path.is_file() and text in path.read_text(encoding="utf-8")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduler:
    """Replace xdist's own, with --dist load."""
    return Scheduler(config, log)


# A cluster of eight ranks on two cores, whose bandwidths are compared, and a real measurement of how two ranks share the cores: beside
# other tests they would measure the load. The mark is given here alone, so that their group collects no other file.
ALONE = (
    "tests/survival/test_culprit.py",
    "tests/corpus/test_corpus.py::test_the_case_is_judged_as_it_should[compute.overlap-healthy-",
)
ALONE_FILES = frozenset(name.partition("::")[0] for name in ALONE)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Importing 600 files to run the few tests of ALONE would take as long as some of them."""
    wanted = str(config.getoption("markexpr")).startswith("alone")
    return True if wanted and collection_path.is_file() and not _alone(collection_path) else None


def _alone(path: Path) -> bool:
    return path.relative_to(Path(__file__).parents[1]).as_posix() in ALONE_FILES


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """What collecting made lives until the end: looking for garbage in it, again and again, was a tenth of the tests' time."""
    gc.disable()
    try:
        found = yield
        if "torch" in sys.modules:
            raise pytest.UsageError("collecting the tests imported torch: each worker would (tests/late.py)")
        return found
    finally:
        gc.freeze()
        gc.enable()
        gc.set_threshold(*COLLECTED)


# Python looks for garbage after 700 new objects, which took 3 to 8 % of the time of tests that compute.
COLLECTED = (50_000, 20, 20)
# How many had been imported when the collector last set aside what it need not look at.
MODULES = {"frozen": 0}


def pytest_runtest_logfinish() -> None:
    """What a test imported (Prefect, torch, moto) lives until the end as well, and is set aside too."""
    if len(sys.modules) > MODULES["frozen"] + 200:
        gc.collect()
        gc.freeze()
        MODULES["frozen"] = len(sys.modules)


HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Handle signals after a test as before it. Where a command that ran in this process left SIGINT ignored, every process that a
    later test of this worker started ignored it as well.
    """
    before = {number: signal.getsignal(number) for number in HANDLED}
    try:
        return (yield)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@pytest.fixture(scope="session", autouse=True)
def _forks_of_stand_ins_end() -> Iterator[None]:
    """The process that the stand-ins of SageMaker are forks of (tests/fakes/sagemaker/bench.py) is no leftover of a test."""
    yield
    if "tests.fakes.sagemaker.bench" in sys.modules:
        sys.modules["tests.fakes.sagemaker.bench"].end_forking()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """First what waits, then what computes; and mark what wants the machine to itself."""
    items.sort(key=lambda item: not item.nodeid.startswith(WAITING))
    for item in items:
        if item.nodeid.startswith(ALONE):
            item.add_marker(pytest.mark.alone)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what cannot run here, in one line with the remedy."""
    wanted = [str(command) for mark in item.iter_markers("needs") for command in mark.args]
    if item.get_closest_marker("browser"):
        wanted.append("chromium")
    absent = [command for command in wanted if not shutil.which(command)]
    for command in MADE.keys() & set(absent):
        pytest.skip(f"not installed: {command}. Remedy: {MADE[command]}")
    missing = sorted({PACKAGES.get(command, command) for command in absent})
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}. Remedy: apt-get install {' '.join(missing)}")
    if item.get_closest_marker("root") and (why := lacks_rights()):
        pytest.skip(f"{why}. Remedy: run the tests as root, in a container that is privileged")
