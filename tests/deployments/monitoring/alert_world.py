"""Real Prometheus, Alertmanager and node exporter, in a folder.

The configuration, the targets and the rules are those that the commands write, with all waits a fifth as long: a scrape is made each
three seconds instead of fifteen.
The watch begins a round every two intervals.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from checks.process import machine_state
from checks.process.free_ports import free_port
from tasks.store import records
from tasks.store.folder import FolderStore
from tests import waiting
from tests.fakes.mail import Webhook
from tests.fakes.serving import serving
from tests.sample_reports import healthy
from tests.tasks.kept_gates import keep, record_for

ROOT = Path(__file__).parents[3]
INTERVAL = 3.0
ROUND = 2 * INTERVAL
NODE, CLUSTER = "node-0", "slurm-cpu"
SHIPPED = ROOT / "deployments" / "gates" / "slurm-cpu.toml"
# The node is a network namespace, whose link can be cut.
HOST, CPU = "10.199.77.1", "10.199.77.2"
# Debian's programs read templates and pages from /usr/share, where an unpacked package has none: only they see them there.
SHARED = 'mount -t overlay overlay -o "lowerdir=$1:/usr/share" /usr/share && shift && exec "$@"'
WAITS = re.compile(r"(?m)^(\s+(?:for|\w+_interval|\w+_timeout|group_wait): )([0-9]+)([sm])$")


def _shorter(wait: re.Match[str]) -> str:
    """A line of YAML with a fifth of its wait, in milliseconds."""
    seconds = int(wait[2]) * (60 if wait[3] == "m" else 1)
    return f"{wait[1]}{seconds * 1000 * INTERVAL / 15:.0f}ms"


def get(url: str) -> Any:
    """A JSON document."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)


def until(what: str, done: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for it. A server that does not answer yet says no."""

    def is_done() -> bool:
        with suppress(OSError):
            return done()
        return False

    waiting.until(is_done, what, seconds, 0.1)


# /var/log is an empty file system with the file $1 as its messages; then the words after it are run.
LOG_OF_ITS_OWN = """
file=$1; shift
mount -t tmpfs none /var/log
touch /var/log/messages
mount --bind "$file" /var/log/messages
exec "$@"
"""


# A FAKE clock: every process of the watch reads a time that is so many days ahead. (libfaketime makes time.sleep fail with EINVAL.)
AHEAD = """
import time

_TIME = time.time
time.time = lambda: _TIME() + {days} * 86400
"""


class World:
    """The whole of it, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.stack = folder, ExitStack()
        names = ("prometheus", "alertmanager", "hook", "watch", "node", "exporter")
        self.port = {name: free_port() for name in names}
        self.namespace, self.link = f"prelaunch-{os.getpid()}", f"pl{os.getpid()}"
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.store = FolderStore(folder / "store")

    def start(self, name: str, *argv: str | Path, **environment: str) -> None:
        """A process that ends with the world."""
        with open(self.folder / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                argv, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=self.folder, env={**os.environ, **environment}
            )  # fmt: skip
        self.running[name] = process
        self.stack.callback(self.end, name)

    def end(self, name: str, number: int = signal.SIGKILL) -> None:
        """End it."""
        process = self.running[name]
        if process.poll() is None:
            process.send_signal(number)
            process.wait(60)

    def network(self) -> None:
        """A namespace with one link to this machine; both end with the world."""
        name = self.namespace
        self.stack.callback(subprocess.run, ("ip", "netns", "delete", name), check=False)
        for words in (
            f"netns add {name}",
            f"link add {self.link} type veth peer name eth0 netns {name}",
            f"address add {HOST}/30 dev {self.link}",
            f"link set {self.link} up",
            f"-n {name} address add {CPU}/30 dev eth0",
            f"-n {name} link set eth0 up",
            f"-n {name} link set lo up",
        ):
            subprocess.run(("ip", *words.split()), check=True)

    def prelaunch(self, *words: str | Path) -> str:
        """A command that succeeds."""
        argv = (sys.executable, "-m", "flows.cli.main", *map(str, words))
        done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def inside(self) -> tuple[str, ...]:
        """What runs a command on the node; unlike `ip netns exec`, it leaves /sys, and with it the cgroups, as they are."""
        return ("nsenter", f"--net=/run/netns/{self.namespace}")

    def node_exporter(self) -> None:
        """On the node, with a folder for textfiles."""
        (self.folder / "textfiles").mkdir(exist_ok=True)
        self.start(
            "node", *self.inside, "prometheus-node-exporter", f"--web.listen-address={CPU}:{self.port['node']}",
            "--collector.disable-defaults", "--collector.textfile", "--collector.uname",
            f"--collector.textfile.directory={self.folder / 'textfiles'}",
        )  # fmt: skip

    @property
    def kernel_log(self) -> Path:
        """What the node has as its /var/log/messages."""
        return self.folder / "messages"

    def watch(self, days: int = 0) -> None:
        """The real watch, of the node; its textfile is the node exporter's. In its own mounts the node's log is a file of ours.

        Its clock is so many days ahead.
        """
        self.kernel_log.touch()
        clock = self.folder / "clock"
        clock.mkdir(exist_ok=True)
        (clock / "sitecustomize.py").write_text(AHEAD.format(days=days))
        log = ("unshare", "--mount", "/bin/sh", "-ec", LOG_OF_ITS_OWN, "sh", self.kernel_log)
        self.start(
            "watch", *self.inside, *log, sys.executable, "-m", "checks", "watch", "--instance-type", "cpu",
            "--every", f"{ROUND:g}", "--listen", f"{CPU}:{self.port['watch']}",
            "--textfile", self.folder / "textfiles",
            PYTHONPATH=f"{clock}:{ROOT}", PRELAUNCH_STATE=str(self.folder / "state"),
        )  # fmt: skip

    def close_findings(self) -> None:
        """Close every finding of the node, as a person does."""
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "PRELAUNCH_STATE": str(self.folder / "state")}
        argv = (sys.executable, "-m", "checks", "findings")
        for name in [one.key.name for one in machine_state.read(self.folder / "state").open]:
            subprocess.run((*argv, "--close", name, "--by", "the test"), env=environment, check=True)

    def exporter(self) -> None:
        """The real exporter of the store."""
        self.start(
            "exporter", sys.executable, "-m", "flows.cli.main", "serve", "exporter", self.store.root,
            "--listen", f"127.0.0.1:{self.port['exporter']}", PYTHONPATH=str(ROOT),
        )  # fmt: skip

    def targets(self) -> None:
        """The targets of a shipped gate file with one node, as the command writes them."""
        file, text = self.folder / "gate.toml", SHIPPED.read_text()
        text = text.replace("nodes = 2", "nodes = 1").replace('"../', f'"{SHIPPED.parents[1]}/')
        file.write_text(text)
        out = self.folder / "etc" / "targets" / "nodes.json"
        self.prelaunch(
            "site", "monitoring", "targets", file, "--nodes", f"{NODE}={CPU}", "--without-efa", "--out", out
        )

    def configure(self) -> None:
        """What an operator types."""
        names = ("on-call", "owner", "heartbeat")
        hooks = [f"--{name}=http://127.0.0.1:{self.port['hook']}/{name}" for name in names]
        ports = [f"--port=prelaunch-watch={self.port['watch']}", f"--port=node={self.port['node']}"]
        self.prelaunch(
            "site", "monitoring", "config", "--out", self.folder / "etc", *hooks, *ports,
            "--prometheus", f"127.0.0.1:{self.port['prometheus']}",
            "--alertmanager", f"127.0.0.1:{self.port['alertmanager']}", "--exporter", f"127.0.0.1:{self.port['exporter']}",
        )  # fmt: skip
        for file in (self.folder / "etc").rglob("*.yml"):
            file.write_text(WAITS.sub(_shorter, file.read_text()))
        (self.folder / "etc" / "targets").mkdir()

    def alertmanager(self) -> None:
        """Debian's, installed or unpacked."""
        argv = (
            "prometheus-alertmanager", f"--config.file={self.folder / 'etc' / 'alertmanager.yml'}", "--cluster.listen-address=",
            f"--storage.path={self.folder / 'am'}", f"--web.listen-address=127.0.0.1:{self.port['alertmanager']}",
        )  # fmt: skip
        self.start("alertmanager", *self.sharing(argv[0]), *argv)

    @staticmethod
    def sharing(program: str) -> tuple[str, ...]:
        """What runs a program so that it finds its own files, if it was only unpacked."""
        shared = Path(shutil.which(program) or "").parents[1] / "share"
        unpacked = shared.is_relative_to(ROOT)
        return ("unshare", "--mount", "sh", "-c", SHARED, "sh", str(shared)) if unpacked else ()

    def prometheus(self) -> None:
        """With the configuration that the command wrote."""
        self.start(
            "prometheus", *self.sharing("prometheus"), "prometheus", f"--config.file={self.folder / 'etc' / 'prometheus.yml'}",
            f"--storage.tsdb.path={self.folder / 'prometheus'}", f"--web.listen-address=127.0.0.1:{self.port['prometheus']}",
        )  # fmt: skip

    def query(self, expression: str) -> list[Any]:
        """The result of an instant query."""
        words = urllib.parse.urlencode({"query": expression})
        found = get(f"http://127.0.0.1:{self.port['prometheus']}/api/v1/query?{words}")["data"]["result"]
        assert isinstance(found, list)
        return found

    def firing(self) -> set[str]:
        """The alerts that fire now, but for the heartbeat, as "name/job or family/node"."""
        query = 'ALERTS{alertstate="firing", alertname!="PrelaunchHeartbeat"}'
        metrics = [one["metric"] for one in self.query(query)]
        return {"/".join(one.get(label, "") for label in ("alertname", "job", "node")) for one in metrics}

    def first_fired(self, alert: str, since: float, **labels: str) -> float:
        """Seconds from a time until the alert fired, by the times of Prometheus' own samples."""
        matchers = ",".join(f'{key}="{value}"' for key, value in {"alertname": alert, **labels}.items())
        expression = f'ALERTS{{alertstate="firing",{matchers}}}'
        until(f"{expression} does not fire: {self.firing()}", lambda: bool(self.query(expression)))
        samples = self.query(expression + "[10m]")[0]["values"]
        return min(float(at) for at, _ in samples if at >= since) - since

    def told(self, receiver: str, alert: str, **labels: str) -> bool:
        """Whether the webhook got the alert."""
        bodies = [body for path, body in self.hook.posted if path == f"/{receiver}"]
        firing = [one for body in bodies for one in body["alerts"] if one["status"] == "firing"]
        return any(one["labels"].items() >= {"alertname": alert, **labels}.items() for one in firing)

    def __enter__(self) -> World:
        self.hook = Webhook(self.port["hook"])
        with self.stack:
            self.stack.enter_context(serving(self.hook))
            self.network()
            self.configure()
            self.declare()
            self.targets()
            self.node_exporter()
            self.watch()
            self.exporter()
            self.alertmanager()
            self.prometheus()
            self.stack = self.stack.pop_all()
        return self

    def declare(self) -> None:
        """A gate, now, that named the node."""
        verdict = keep(self.store, 0, healthy(nodes=1))
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        record = record_for(0, healthy(nodes=1), verdict, CLUSTER)
        records.keep(self.store, replace(record, judged_at=stamp, measured_at=stamp))

    def __exit__(self, *reason: object) -> None:
        self.stack.close()
