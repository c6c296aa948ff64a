"""A real Kubernetes 1.20.2 on this machine: etcd, API server, controllers, scheduler, per node containerd and kubelet (root only).

with kubernetes_cluster(folder, nodes=2) as cluster:
    cluster.kubeconfig                         # for the launcher, and for kubectl

Every node is a network namespace with mounts, processes and control groups of its own; its pods have addresses that all nodes route.
The programs are those of tests/engines/kubernetes/build.sh. What is no part of Kubernetes and of this project's own making:

    DNS        a small server in the place of CoreDNS, which answers for pods with a host name from the API's endpoints
    images     one without files, whose pods see this machine's /usr through the template of `template()`
    the relay  the API server is in a namespace; a thread here hands connections of 127.0.0.1 over to it

All kubelets run on one kernel, so that their nodes have the same boot id, unless it is simulated: then the kubelet reports another
one than its pods read, which its node's label says.

    .venv/bin/python -m tests.engines.kubernetes.cluster 2     keeps a cluster for a person
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tasks.launchers.local import network
from tests.engines.kubernetes.node_files import CONTAINERD, NODE, cni, image
from tests.engines.kubernetes.relay import Relay

ROOT = Path(__file__).resolve().parents[3]
BUILT = ROOT / "build" / "kubernetes"
BUILD = Path(__file__).with_name("build.sh")
DNS = Path(__file__).with_name("dns.py")
CONTROL = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
PROGRAMS = (*CONTROL, "containerd", "busybox", "kubelet")
IMAGE, PAUSE = "localhost/prelaunch-test:1", "localhost/pause:1"
PORT, READY_S = 6443, 90.0
ADMIN, GATE = "admin-token", "gate-token"
SETTINGS = (
    "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)  # fmt: skip


def unavailable() -> str:
    """Why no cluster can be started here, with the remedy; "" where it can."""
    if why := network.unavailable():
        return why
    missing = [name for name in PROGRAMS if not (BUILT / "bin" / name).exists()]
    if missing:
        return f"not built: {', '.join(missing)}. Remedy: {BUILD.relative_to(ROOT)} {BUILT.relative_to(ROOT)}"
    if not Path("/sys/fs/cgroup/memory").is_dir():
        return "kubelet 1.20 needs control groups of version 1, which this machine does not have"
    missing = [name for name in ("openssl", "unshare", "nsenter") if shutil.which(name) is None]
    return f"not installed: {', '.join(missing)}" if missing else ""


class KubernetesCluster:
    """The cluster in the network `name`, whose last namespace is the control plane."""

    def __init__(
        self, folder: Path, name: str, addresses: tuple[str, ...], simulated_boot_ids: dict[int, str]
    ) -> None:
        self.folder, self.name, self.addresses = folder, name, addresses
        self.nodes = tuple(f"worker-{index}" for index in range(len(addresses) - 1))
        self.kubeconfig = str(folder / "kubeconfig")
        self._simulated = simulated_boot_ids
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self._relay = Relay(f"{name}-{len(self.nodes)}", addresses[-1], PORT)
        self._inside = folder / "inside.kubeconfig"
        self._saved = {key: Path("/proc/sys", key).read_text() for key in SETTINGS}

    def kubectl(self, *argv: str, check: bool = True, data: str | None = None) -> str:
        """What kubectl prints."""
        done = subprocess.run(
            ("kubectl", f"--kubeconfig={self.kubeconfig}", *argv), capture_output=True, text=True, check=False, input=data
        )  # fmt: skip
        assert not check or done.returncode == 0, f"kubectl {argv}: {done.stderr}"
        return done.stdout

    def user(self, token: str) -> str:
        """A kubeconfig of another user."""
        path = self.folder / f"{token}.kubeconfig"
        path.write_text(self._config(f"https://127.0.0.1:{self._relay.port}", token))
        return str(path)

    def up(self) -> None:
        """Start everything; returns when every node is ready."""
        self._write()
        self._control_plane()
        for index, node in enumerate(self.nodes):
            self._node(index, node)
        self._until("every node is ready", lambda: self._ready() == len(self.nodes))

    def down(self) -> None:
        """End everything that this started, nodes with their pods first."""
        for process in reversed(self._started.values()):
            process.kill()
            process.wait(60)
        self._relay.close()
        for key, value in self._saved.items():
            with contextlib.suppress(OSError):
                Path("/proc/sys", key).write_text(value)
        for index in range(len(self.nodes)):
            _remove_groups(self._group(index))

    def freeze(self, what: str, node: int | None = None) -> list[int]:
        """Stop the kubelet of a node, or a program of the control plane; returns what to give to `thaw`."""
        found = self._pids(f"--root-dir={self.folder}/node-{node}/" if node is not None else what)
        for pid in found:
            os.kill(pid, signal.SIGSTOP)
        assert found, f"no process of {what}"
        return found

    def thaw(self, pids: list[int]) -> None:
        """Let them go on."""
        for pid in pids:
            os.kill(pid, signal.SIGCONT)

    def running(self) -> list[str]:
        """The names of all pods whose containers run."""
        shown = json.loads(self.kubectl("get", "pods", "-o", "json"))
        return [pod["metadata"]["name"] for pod in shown["items"] if pod["status"].get("phase") == "Running"]

    def clean(self) -> None:
        """Remove every object of the tests."""
        kinds = "jobs,services,configmaps,secrets,pods"
        label = "app.kubernetes.io/managed-by=prelaunch"
        self.kubectl("delete", kinds, "-l", label, "--ignore-not-found", "--grace-period=1", "--timeout=50s")

    def template(self, folder: Path) -> str:
        """A pod template with which a pod sees this machine's programs, the checkout and `folder`."""
        wanted = dict.fromkeys(("/usr", sys.base_prefix, str(ROOT), str(folder)))
        paths = [path for path in wanted if not any(path.startswith(f"{other}/") for other in wanted)]
        volumes = [{"name": f"host-{i}", "hostPath": {"path": path}} for i, path in enumerate(paths)]
        mounts = [
            {"name": f"host-{i}", "mountPath": path, "readOnly": path != str(folder)}
            for i, path in enumerate(paths)
        ]
        shared = folder / "shared"  # for reports = "volume"
        shared.mkdir(exist_ok=True)
        volumes.append({"name": "reports", "hostPath": {"path": str(shared)}})
        env = [{"name": "PATH", "value": f"{ROOT}/.venv/bin:/usr/local/bin:/usr/bin:/usr/sbin"}]
        container = {"name": "prelaunch", "imagePullPolicy": "Never", "volumeMounts": mounts, "env": env}
        path = folder / "pod.yaml"
        # The folders of the machine that stand in for the image and the volume are root's.
        root = {"runAsUser": 0}
        made = {"spec": {"securityContext": root, "volumes": volumes, "containers": [container]}}
        path.write_text(json.dumps(made))
        return str(path)

    # ------------------------------------------------------------------------------------------------ how it is started

    def _write(self) -> None:
        for name in ("log", "certs", "images"):
            (self.folder / name).mkdir()
        _openssl("genrsa", "-out", str(self.folder / "sa.key"), "2048")
        names = f"subjectAltName=IP:127.0.0.1,IP:{self.addresses[-1]}"
        pair = ("-keyout", str(self.folder / "api.key"), "-out", str(self.folder / "api.crt"))
        request = ("-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=api")
        _openssl("req", *request, "-addext", names, *pair)
        tokens = f"{ADMIN},admin,admin,system:masters\n{GATE},gate,gate\n"
        (self.folder / "tokens.csv").write_text(tokens)
        Path(self.kubeconfig).write_text(self._config(f"https://127.0.0.1:{self._relay.port}", ADMIN))
        self._inside.write_text(self._config(f"https://{self.addresses[-1]}:{PORT}", ADMIN))
        known = {"etc/passwd": b"root:x:0:0:root:/root:/bin/sh\n", "etc/nsswitch.conf": b"hosts: files dns\n"}
        image(self.folder / "images" / "pod.tar", IMAGE, known, ("/bin/sh",), ("bin", "sbin", "lib", "lib64"))
        busybox = {"bin/busybox": (BUILT / "bin" / "busybox").read_bytes()}
        image(self.folder / "images" / "pause.tar", PAUSE, busybox, ("/bin/busybox", "sleep", "1000000"))

    def _config(self, server: str, token: str) -> str:
        return json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority": str(self.folder / "api.crt")}}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        })  # fmt: skip

    def _control_plane(self) -> None:
        here, address, etcd = self.folder, self.addresses[-1], "http://127.0.0.1:2379"
        control = len(self.nodes)
        for index in range(len(self.nodes)):
            self._ip(control, "route", "add", f"10.201.{index}.0/24", "via", self.addresses[index])
        self._start(
            "etcd", control, f"--data-dir={here}/etcd", "--unsafe-no-fsync", f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}", "--listen-peer-urls=http://127.0.0.1:2380",
        )  # fmt: skip
        self._start(
            "kube-apiserver", control, f"--etcd-servers={etcd}", f"--bind-address={address}", f"--secure-port={PORT}",
            f"--tls-cert-file={here}/api.crt", f"--tls-private-key-file={here}/api.key",
            "--service-cluster-ip-range=10.202.0.0/24", f"--service-account-key-file={here}/sa.key",
            f"--service-account-signing-key-file={here}/sa.key", "--service-account-issuer=https://kubernetes.default.svc",
            f"--token-auth-file={here}/tokens.csv", "--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged", "--kubelet-preferred-address-types=InternalIP", f"--advertise-address={address}",
            "--endpoint-reconciler-type=none",
        )  # fmt: skip
        self._until(
            "the API server answers", lambda: "ok" in self.kubectl("get", "--raw", "/readyz", check=False)
        )
        common = (
            f"--kubeconfig={self._inside}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            "--port=0",
        )
        self._start(
            "kube-controller-manager", control, *common, f"--cert-dir={here}/certs/controllers",
            f"--service-account-private-key-file={here}/sa.key", "--node-monitor-grace-period=12s",
        )  # fmt: skip
        self._start("kube-scheduler", control, *common, f"--cert-dir={here}/certs/scheduler")
        dns = (sys.executable, "-I", str(DNS), address, f"https://{address}:{PORT}", ADMIN)
        self._started["dns"] = self._spawn("dns", control, *dns)

    def _node(self, index: int, node: str) -> None:
        here = self.folder / f"node-{index}"
        for name in ("containerd", "state", "kubelet", "cni"):
            (here / name).mkdir(parents=True)
        for other, address in enumerate(self.addresses[:-1]):
            if other != index:
                self._ip(index, "route", "add", f"10.201.{other}.0/24", "via", address)
        (here / "cni" / "10.conflist").write_text(json.dumps(cni(here, index)))
        (here / "containerd.toml").write_text(CONTAINERD.format(here=here, cni=BUILT / "cni", pause=PAUSE))
        for controller in sorted(Path("/sys/fs/cgroup").iterdir()):
            if controller.name != "unified":
                (controller / self._group(index)).mkdir(exist_ok=True)
        boot = self._simulated.get(index, "")
        labels = "prelaunch.dev/boot-id=simulated" if boot else ""
        if boot:
            (here / "boot_id").write_text(f"{boot}\n")
        script = NODE.format(
            here=here, bin=BUILT / "bin", boot=boot, images=self.folder / "images", node=node, address=self.addresses[index],
            dns=self.addresses[-1], kubeconfig=self._inside, group=self._group(index), labels=labels,
        )  # fmt: skip
        (here / "start.sh").write_text(script)
        own = ("--mount", "--propagation", "private", "--uts", "--ipc", "--pid", "--fork", "--kill-child")
        argv = ("unshare", *own, "--mount-proc", "/bin/sh", str(here / "start.sh"))
        self._started[node] = self._spawn(node, index, *argv)

    def _group(self, index: int) -> str:
        return f"{self.name}-{index}"

    def _start(self, program: str, index: int, *argv: str) -> None:
        self._started[program] = self._spawn(program, index, str(BUILT / "bin" / program), *argv)

    def _spawn(self, name: str, index: int, *argv: str) -> subprocess.Popen[bytes]:
        with open(self.folder / "log" / f"{name}.log", "ab") as log:
            return subprocess.Popen(
                ("nsenter", f"--net=/run/netns/{self.name}-{index}", *argv), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=self.folder, start_new_session=True,
                env={"PATH": f"{BUILT}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.folder)},
            )  # fmt: skip

    def _ip(self, index: int, *argv: str) -> None:
        subprocess.run(("ip", "-n", f"{self.name}-{index}", *argv), check=True, capture_output=True)

    def _pids(self, word: str) -> list[int]:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                argv = path.read_bytes()
                mine = str(self.folder).encode() in argv
                if mine and word.encode() in argv and b"nsenter" not in argv:
                    found.append(int(path.parent.name))
        return found

    def _ready(self) -> int:
        shown = json.loads(self.kubectl("get", "nodes", "-o", "json", check=False) or '{"items": []}')
        conditions = [row for node in shown["items"] for row in node["status"].get("conditions", ())]
        return sum(row["type"] == "Ready" and row["status"] == "True" for row in conditions)

    def _until(self, what: str, so: Any) -> None:
        deadline = time.monotonic() + READY_S
        while not so():
            ended = [name for name, process in self._started.items() if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                names = ended or self._started
                logs = {name: (self.folder / "log" / f"{name}.log").read_text()[-1500:] for name in names}
                raise AssertionError(
                    f"not so after {READY_S} s: {what}. Ended: {ended}\n{json.dumps(logs, indent=1)}"
                )
            time.sleep(0.5)


def _openssl(*argv: str) -> None:
    subprocess.run(("openssl", *argv), check=True, capture_output=True)


def _remove_groups(name: str) -> None:
    """Remove the control groups of a node, the innermost first; they are empty once its processes are gone."""
    for top in Path("/sys/fs/cgroup").glob(f"*/{name}"):
        for path, _, _ in os.walk(top, topdown=False):
            with contextlib.suppress(OSError):
                os.rmdir(path)


@contextmanager
def kubernetes_cluster(
    folder: Path, nodes: int = 2, simulated_boot_ids: dict[int, str] | None = None
) -> Iterator[KubernetesCluster]:
    """A cluster of so many nodes; at the end nothing of it is left, pods included."""
    name = f"plk{uuid.uuid4().hex[:6]}"
    made = network.create(name, nodes + 1, "10.80.0")
    cluster = KubernetesCluster(folder, name, made.addresses, simulated_boot_ids or {})
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()
        network.remove(name)


def main() -> None:
    """Keep a cluster for a person, and print how to use it."""
    if why := unavailable():
        raise SystemExit(why)
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with (
        tempfile.TemporaryDirectory(prefix="prelaunch-kubernetes-") as folder,
        kubernetes_cluster(Path(folder), nodes) as cluster,
    ):
        print(f"export KUBECONFIG={cluster.kubeconfig}", flush=True)
        print("Ctrl-C ends all.", file=sys.stderr)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
