"""The topology that a gate file states: [cluster] topology (a file beside the gate file) and topology_names."""

from __future__ import annotations

from pathlib import Path

from checks.culprit.topology import Topology, grouped, why_no_expression
from checks.culprit.topology_file import FILE_BYTES, TopologyError, parse
from checks.documents.report import dump_plain
from tasks.gate_file.model import Cluster
from tasks.gate_file.read import GateFileError

# Every node gets it in its bundle, of which it reads 1 MiB, the policy included.
MOST_TOPOLOGY_BYTES = 512 << 10


def topology_of(cluster: Cluster, file: str, here: Path) -> Topology | None:
    """The described switches; None if the gate file describes none. Raises GateFileError."""
    if not cluster.topology and not cluster.topology_names:
        return None
    if cluster.topology_names and (problem := why_no_expression(cluster.topology_names)):
        raise GateFileError(file, "cluster.topology_names", problem)
    under = _read(file, here / cluster.topology) if cluster.topology else {}
    topology = Topology(under, cluster.topology_names)
    size = len(dump_plain(topology))
    if size > MOST_TOPOLOGY_BYTES:
        message = f"it takes {size} bytes, a node reads {MOST_TOPOLOGY_BYTES}: leave out the nodes of other clusters"
        raise GateFileError(file, "cluster.topology", message)
    return topology


def _read(file: str, path: Path) -> dict[str, tuple[str, ...]]:
    try:
        with path.open("rb") as opened:
            data = opened.read(FILE_BYTES + 1)
        if len(data) > FILE_BYTES:
            raise TopologyError(f"it is larger than the {FILE_BYTES} bytes that are read")
        return grouped(parse(data.decode("utf-8-sig")))
    except OSError as error:
        raise _wrong(file, path, f"it cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise _wrong(file, path, "it is not UTF-8 text") from error
    except TopologyError as error:
        raise _wrong(file, path, str(error)) from error


def _wrong(file: str, path: Path, message: str) -> GateFileError:
    return GateFileError(file, "cluster.topology", f"{path}: {message}")
