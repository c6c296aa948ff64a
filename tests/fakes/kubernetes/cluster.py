"""Job controller, scheduler and kubelets of the stand-in, whose pods are processes of this machine. It is never Kubernetes.

A pod has no namespaces of its own here: /prelaunch in its arguments and variables is a folder, and the names that a headless service
would give to pods are addresses 127.0.x.y. Images are names. Containers end as a kubelet ends them: SIGTERM, and SIGKILL after grace.
"""

from __future__ import annotations

import base64
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Any

from checks.process.tree import end_tree
from tests.fakes.kubernetes import controllers, scheduler
from tests.fakes.kubernetes.api_server import ApiServer, Object, stamp
from tests.fakes.serving import serving

TICK_S, DELAY_S = 0.02, 0.05  # of the controllers, and between the steps of a pod
ZONES = (timezone(timedelta(hours=2)), timezone(timedelta(hours=-8)))  # of the nodes, in turn
IMAGE = "registry.example/prelaunch:1"
ROOT = re.compile(r"^/prelaunch(?=/|$)")
BOOT = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'


@dataclass
class Node:
    """A node with so many GPUs. A `frozen` kubelet does nothing and says nothing. A `boot_id` is simulated: its pods read it."""

    name: str
    gpus: int = 0
    frozen: bool = False
    boot_id: str = ""
    zone: tzinfo = UTC


@dataclass
class Running:
    """A container that was started."""

    process: subprocess.Popen[bytes]
    folder: Path
    reader: threading.Thread
    ends_at: float
    killed_at: float = 0.0
    why: str = ""


@dataclass
class Cluster:
    """The stand-in as a test has it. `images` can be pulled; `beside` runs in each round."""

    server: ApiServer
    nodes: list[Node]
    images: set[str] = field(default_factory=lambda: {IMAGE})
    beside: list[Callable[[], None]] = field(default_factory=list)
    boot_id: str = field(default_factory=lambda: Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    _running: dict[str, Running] = field(default_factory=dict)
    _since: dict[str, float] = field(default_factory=dict)
    _services: dict[str, int] = field(default_factory=dict)

    @property
    def kubeconfig(self) -> str:
        """The file with which the client finds it."""
        return str(self.server.folder / "kubeconfig")

    def running(self) -> list[str]:
        """The pods whose processes run."""
        return sorted(name for name, run in self._running.items() if run.process.poll() is None)

    def evict(self, pod: str) -> None:
        """As a kubelet under pressure does it: the container is ended, and the pod stays as failed."""
        with self.server.lock:
            self._kill(pod, "Evicted")

    def tick(self) -> None:
        """One round of all controllers."""
        with self.server.lock:
            controllers.round_of(self.server)
            for more in self.beside:
                more()
            for pod in list(self.server.objects["pods"].values()):
                self._pod(pod)

    def end(self) -> None:
        """End every process."""
        for run in self._running.values():
            if run.process.poll() is None:
                end_tree(run.process.pid, 0.0)
                run.process.wait()
            run.reader.join(5)

    def _pod(self, pod: Object) -> None:
        name, status = pod["metadata"]["name"], pod["status"]
        if not pod["spec"].get("nodeName"):
            if "deletionTimestamp" in pod["metadata"]:
                del self.server.objects["pods"][name]
                return
            self._schedule(pod)
            return
        node = next(node for node in self.nodes if node.name == pod["spec"]["nodeName"])
        if node.frozen:
            return
        run = self._running.get(name)
        if run is None and "deletionTimestamp" in pod["metadata"]:
            del self.server.objects["pods"][name]
        elif run is None and status["phase"] in ("Pending", "Running"):
            if time.monotonic() - self._since.get(name, time.monotonic()) > DELAY_S:
                self._start(pod)
        elif run is not None:
            self._look(pod, run)

    def _schedule(self, pod: Object) -> None:
        nodes = {node.name: node.gpus for node in self.nodes}
        objects = self.server.objects
        found = scheduler.node_for(pod, nodes, objects["nodes"], objects["pods"].values())
        if found:
            pod["spec"]["nodeName"] = found
            pod["status"] = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}
            self._since[pod["metadata"]["name"]] = time.monotonic()
            self._waits(pod, "ContainerCreating")
            return
        said = f"0/{len(nodes)} nodes are available: {len(nodes)} Insufficient nvidia.com/gpu."
        waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
        pod["status"]["conditions"] = [waits]

    def _waits(self, pod: Object, reason: str, message: str = "") -> None:
        state = {"waiting": {"reason": reason, **({"message": message} if message else {})}}
        self._shows(pod, state)

    def _shows(self, pod: Object, state: Object) -> None:
        """The state of its container, which was started again so often."""
        before = (pod["status"].get("containerStatuses") or [{}])[0]
        kept = {key: before[key] for key in ("restartCount", "lastState") if key in before}
        name = pod["spec"]["containers"][0]["name"]
        pod["status"]["containerStatuses"] = [{"restartCount": 0, **kept, "name": name, "state": state}]

    def _start(self, pod: Object) -> None:
        name, container = pod["metadata"]["name"], pod["spec"]["containers"][0]
        if container["image"] not in self.images:
            since = time.monotonic() - self._since[name]
            reason = "ErrImagePull" if since < 3 * DELAY_S else "ImagePullBackOff"
            self._waits(pod, reason, f'Back-off pulling image "{container["image"]}"')
            return
        folder = self.server.folder / "pods" / name
        try:
            self._mount(pod, folder / "root")
            environment = dict(self._environment(pod, container, folder / "root"))
        except KeyError as error:
            self._waits(pod, "ContainerCreating", f"MountVolume.SetUp failed: {error} not found")
            return
        here = str(folder / "root")
        words = (*container["command"], *container["args"])
        argv = [ROOT.sub(here, word).replace("$$(", "$(") for word in words]
        node = next(node for node in self.nodes if node.name == pod["spec"]["nodeName"])
        if node.boot_id:  # root only
            own = folder / "boot_id"
            own.write_text(f"{node.boot_id}\n")
            argv = ["unshare", "--mount", "/bin/sh", "-c", BOOT, str(own), *argv]
        process = subprocess.Popen(
            argv, env=environment, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        rows = self.server.logs.setdefault(name, [])
        reader = threading.Thread(target=_read, args=(process, rows, node.zone), daemon=True)
        reader.start()
        ends_at = time.monotonic() + float(pod["spec"]["activeDeadlineSeconds"])
        self._running[name] = Running(process, folder, reader, ends_at)
        pod["status"] |= {"phase": "Running", "startTime": stamp()}
        self._shows(pod, {"running": {"startedAt": stamp()}})

    def _mount(self, pod: Object, root: Path) -> None:
        """What the volumes hold, in their folders. Raises KeyError for an object that is not there."""
        maps, secrets = self.server.objects["configmaps"], self.server.objects["secrets"]
        folder = root / "input/data/prelaunch"
        folder.mkdir(parents=True, exist_ok=True)
        (root / "output/data").mkdir(parents=True, exist_ok=True)
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        for source in volumes["prelaunch-files"]["projected"]["sources"]:
            is_map = "configMap" in source
            found = maps[source["configMap"]["name"]] if is_map else secrets[source["secret"]["name"]]
            items = source.get("secret", {}).get("items")
            data = found.get("binaryData") or found.get("data") or {}
            for key, value in data.items():
                if items is None or key in [item["key"] for item in items]:
                    (folder / key).write_bytes(base64.b64decode(value))
        if "prelaunch-answers" in volumes:
            (root / "answers").mkdir(exist_ok=True)

    def _environment(self, pod: Object, container: Object, root: Path) -> Iterator[tuple[str, str]]:
        """Raises KeyError for a Secret that is not there."""
        yield "PRELAUNCH_STATE", os.environ.get("PRELAUNCH_STATE", "")
        yield "PATH", os.pathsep.join((str(Path(sys.executable).parent), "/usr/local/bin:/usr/bin:/bin"))
        job = pod["metadata"]["labels"][scheduler.JOB]
        for row in container["env"]:
            given = row.get("valueFrom", {})
            if "secretKeyRef" in given:
                found = self.server.objects["secrets"][given["secretKeyRef"]["name"]]
                value = base64.b64decode(found["data"][given["secretKeyRef"]["key"]]).decode()
            elif "fieldRef" in given:
                path = given["fieldRef"]["fieldPath"]
                fields = {"spec.nodeName": pod["spec"]["nodeName"], "metadata.name": pod["metadata"]["name"]}
                value = fields.get(path) or pod["metadata"]["annotations"][controllers.COMPLETION]
            else:
                value = ROOT.sub(str(root), row["value"])
            if row["name"] == "PRELAUNCH_POD_ADDRESS":
                number = self._services.setdefault(job, len(self._services) + 1)
                value = f"127.1.{number}.%"
            if row["name"] == "PRELAUNCH_TERMINATION_LOG":
                value = str(root / "termination")
            yield row["name"], value

    def _look(self, pod: Object, run: Running) -> None:
        name, now = pod["metadata"]["name"], time.monotonic()
        if pod["status"]["phase"] == "Running":
            code = run.process.poll()
            if code is not None:
                run.reader.join(5)
                self._ended(pod, run, code)
            elif run.killed_at:
                if now > run.killed_at + float(pod["spec"]["terminationGracePeriodSeconds"]):
                    end_tree(run.process.pid, 0.0)
            elif "deletionTimestamp" in pod["metadata"]:
                self._kill(name, "")
            elif now > run.ends_at:
                self._kill(name, "DeadlineExceeded")
        elif "deletionTimestamp" in pod["metadata"]:
            del self.server.objects["pods"][name]

    def _kill(self, name: str, why: str) -> None:
        run = self._running[name]
        run.killed_at, run.why = time.monotonic(), why
        run.process.send_signal(signal.SIGTERM)

    def _ended(self, pod: Object, run: Running, code: int) -> None:
        end_tree(run.process.pid, 0.0)
        code = code if code >= 0 else 128 - code
        path = run.folder / "root" / "termination"
        message = path.read_text()[:4096] if path.exists() else ""
        ended: dict[str, Any] = {"exitCode": code, "reason": "Error" if code else "Completed"}
        status, state = pod["status"], {"terminated": {**ended, **({"message": message} if message else {})}}
        again = pod["spec"].get("restartPolicy") == "OnFailure" and "deletionTimestamp" not in pod["metadata"]
        if code and again and not run.why:
            del self._running[pod["metadata"]["name"]]
            self._since[pod["metadata"]["name"]] = time.monotonic()
            row = status["containerStatuses"][0]
            row["restartCount"], row["lastState"] = row["restartCount"] + 1, state
            self._waits(pod, "CrashLoopBackOff", "back-off restarting failed container")
            return
        status["phase"] = "Failed" if code or run.why else "Succeeded"
        if run.why:
            status |= {"reason": run.why, "message": f"the pod was ended: {run.why}"}
        self._shows(pod, state)


def _read(process: subprocess.Popen[bytes], rows: list[tuple[str, str]], zone: tzinfo) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        # containerd writes the time of the node with its offset (pkg/cri/io/logger.go), and a kubelet leaves that as it is.
        at = datetime.now(zone).isoformat(timespec="microseconds")
        rows.append((at, line.decode("utf-8", "replace").rstrip("\n")))
    process.stdout.close()


@contextmanager
def kubernetes(folder: Path, nodes: int = 2, gpus: int = 0) -> Iterator[Cluster]:
    """A cluster of so many nodes; at the end nothing that it started runs."""
    server = ApiServer(folder)
    rows = [Node(f"worker-{index}", gpus, zone=ZONES[index % 2]) for index in range(nodes)]
    cluster = Cluster(server, rows)
    server.kubeconfig()
    for node in cluster.nodes:
        status = {
            "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110", **({"nvidia.com/gpu": str(gpus)} if gpus else {})},
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"bootID": cluster.boot_id},
        }  # fmt: skip
        named = {"name": node.name, "resourceVersion": "1", "labels": {"kubernetes.io/hostname": node.name}}
        server.objects["nodes"][node.name] = {
            "apiVersion": "v1", "kind": "Node", "metadata": named,
            "spec": {}, "status": status,
        }  # fmt: skip

    def rounds() -> None:
        while not server.over.wait(TICK_S):
            cluster.tick()

    thread = threading.Thread(target=rounds, daemon=True)
    with serving(server, server.over.set):
        thread.start()
        try:
            yield cluster
        finally:
            server.over.set()
            thread.join(10)
            cluster.end()
