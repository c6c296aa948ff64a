"""What a node of the tests' Kubernetes is made of: images without files, the network of its pods, and how its programs are started."""

from __future__ import annotations

import hashlib
import json
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

from tests.container_engines import add_places

CONTAINERD = """\
version = 2
root = "{here}/containerd"
state = "{here}/state"
oom_score = 0
[grpc]
  address = "{here}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{cni}"
    conf_dir = "{here}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
"""
# The shell is process 1 of the node: when it ends, the kernel ends everything in it.
NODE = """\
set -eu
hostname {node}
# No node writes to the folders of this machine or sees those of another one: a kubelet removes the logs of pods that it does not know.
for place in /run /var/lib /var/log; do mount -t tmpfs none $place; done
[ -z "{boot}" ] || mount --bind {here}/boot_id /proc/sys/kernel/random/boot_id
printf 'nameserver {dns}\\n' >{here}/resolv.conf
{bin}/containerd -c {here}/containerd.toml &
until {bin}/ctr -a {here}/containerd.sock version >/dev/null 2>&1; do sleep 0.2; done
for image in {images}/*.tar; do {bin}/ctr -a {here}/containerd.sock -n k8s.io images import $image; done
{bin}/kubelet --kubeconfig={kubeconfig} --hostname-override={node} --container-runtime=remote \\
    --container-runtime-endpoint=unix://{here}/containerd.sock --root-dir={here}/kubelet --cgroup-driver=cgroupfs \\
    --cgroup-root=/{group} --cgroups-per-qos=true --enforce-node-allocatable= --fail-swap-on=false --oom-score-adj=0 \\
    --address={address} --node-ip={address} --healthz-port=0 --read-only-port=0 --cert-dir={here}/kubelet/pki --cluster-dns={dns} \\
    --cluster-domain=cluster.local --resolv-conf={here}/resolv.conf --node-status-update-frequency=1s --sync-frequency=2s \\
    --volume-plugin-dir={here}/kubelet/plugins --image-gc-high-threshold=100 --eviction-hard= --authorization-mode=AlwaysAllow \\
    --anonymous-auth=true --node-labels={labels}
"""


def cni(here: Path, index: int) -> dict[str, Any]:
    """A bridge whose pods have addresses of the node's own subnet."""
    ranges = [[{"subnet": f"10.201.{index}.0/24"}]]
    routes = [{"dst": "0.0.0.0/0"}]
    ipam = {"type": "host-local", "dataDir": str(here / "ipam"), "ranges": ranges, "routes": routes}
    plugin = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipam": ipam}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [plugin]}


def image(
    path: Path, name: str, files: dict[str, bytes], entry: tuple[str, ...], links: tuple[str, ...] = ()
) -> None:
    """An image as `docker save` writes it: a layer with folders, links into /usr, and these files."""
    layer = BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        folders = ("usr", "etc", "tmp", "proc", "sys", "dev", "root", "var", *(() if links else ("bin",)))
        add_places(archive, folders, links)
        for file, data in files.items():
            member = tarfile.TarInfo(file)
            member.size, member.mode = len(data), 0o755
            archive.addfile(member, BytesIO(data))
    digest = hashlib.sha256(layer.getvalue()).hexdigest()
    config = json.dumps({
        "architecture": "amd64", "os": "linux", "config": {"Entrypoint": list(entry)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }).encode()  # fmt: skip
    named = f"{hashlib.sha256(config).hexdigest()}.json"
    manifest = json.dumps([{"Config": named, "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(path, "w") as archive:
        for file, data in ((named, config), ("layer.tar", layer.getvalue()), ("manifest.json", manifest)):
            member = tarfile.TarInfo(file)
            member.size = len(data)
            archive.addfile(member, BytesIO(data))
