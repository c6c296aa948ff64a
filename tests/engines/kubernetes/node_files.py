"""What a node of the tests' Kubernetes is made of: images without files, the network of its pods, and how its programs are started."""

from __future__ import annotations

import hashlib
import json
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

from tests.container_engines import add_places

CONTAINERD = Path(__file__).with_name("containerd.toml.template").read_text()
# The shell is process 1 of the node: when it ends, the kernel ends everything in it.
NODE = Path(__file__).with_name("node.template").read_text()


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
