"""A machine of an instance type, made of recordings and fakes: files, device files, tools, NVML, CUDA and torch.

Everything that is replaced is somebody else's: programs on PATH, the modules `pynvml` and `torch`, CUDA's driver library, files of
the kernel's and of installers, and the ENA driver's answer to ethtool's ioctl. Rates are those of checks/facts, where it knows one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from checks.facts.builtin import builtin
from checks.facts.instances import Instance
from checks.judge.rules import expected_values
from tests.fakes import fabric, gpu_node, infiniband
from tests.fakes.gpu_models import MODELS
from tests.worlds import tools
from tests.worlds.tools import known

ROOT = Path(__file__).parents[2]
LIBRARY = Path(__file__).with_name("library") / "torch"
DRIVERS = {
    "hgx-h100": "570.133.20",
    "g5": "535.230.02",
    "p4d": "550.163.01",
    "p5": "570.133.20",
    "p5en": "580.105.08",
}
CAPABILITY = {"A10G": (8, 6), "A100": (8, 0), "H100": (9, 0), "H200": (9, 0)}
# AWS does not say what its containers have; NCCL between GPUs and memory registered with EFA need as much (judgement).
SHM_BYTES = 16 << 30
SIZES = [1 << shift for shift in range(10, 35)]
# Of what a bound allows, where nobody published a measurement: judgement.
SHARE = 0.6
# What no table of checks/facts has: judgement, within NVIDIA's data sheets.
OTHER_RATES = {
    "A10G": {"fp32": 16.0, "tf32": 30.0, "bf16": 60.0, "fp16": 60.0, "h2d": 24.0, "d2h": 24.0, "p2p": 15.0},
    "A100": {"fp32": 18.4, "tf32": 118.0, "bf16": 230.0, "fp16": 240.0},
    "CPU": {"fp32": 0.08, "bf16": 0.02, "copy": 12.0, "triad": 12.0},
}


@dataclass(frozen=True)
class Faults:
    """What is wrong with one machine. `nvml` are answers of tests/fakes/pynvml_fake.py; `torch` of tests/worlds/library/torch;
    `tools` of tests/worlds/tools.py; `inventory` has fewer GPUs in proc, dev or cuda; `files` are texts below the machine's folder.
    """

    nvml: Mapping[str, Any] = field(default_factory=dict)
    torch: Mapping[str, Any] = field(default_factory=dict)
    tools: Mapping[str, Any] = field(default_factory=dict)
    inventory: Mapping[str, int] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Made:
    """The machine as tests/fakes/sagemaker takes it: `row` is one of `machines`, `search` its PYTHONPATH, `folder` its files."""

    row: dict[str, Any]
    search: str
    folder: Path
    environment: dict[str, str]


def make(
    folder: Path, instance_type: str, node: int = 0, nodes: int = 1, faults: Faults | None = None
) -> Made:
    """The machine's files below the folder."""
    wrong, instance = faults or Faults(), known().instances[instance_type]
    model = model_of(instance)
    driver = DRIVERS.get(instance_type.partition(".")[0], "")
    environment, uuids, devices = dict[str, str](), list[str](), list[str]()
    if model:
        environment, uuids, devices = _gpus(folder, instance, model, node, driver, wrong)
    else:
        (folder / "python").mkdir(parents=True)
    devices += [f"neuron{index}" for index in range(instance.neuron_devices or 0)]
    tools.install(folder, instance, model, nodes, driver, wrong.tools)
    files = _files(folder, instance, wrong.tools.get("ib", {}))
    mounts = {str(place): str(source) for place, source in files.items()}
    # A machine that does nothing else: what the test's own machine is busy with is no concern of the devices that are not there.
    stat, used = folder / "proc_stat", "100 0 100 100000 0 0 0 0 0 0\n"
    stat.write_text(f"cpu  {used}cpu0 {used}btime 1795000000\n", encoding="ascii")
    mounts["/proc/stat"] = str(stat)
    told = torch_dials(instance_type, nodes, wrong.torch)
    ports = (folder / "tree" / "infiniband").glob("*/ports/*/counters/port_*_data")
    told["ports"] = sorted(map(str, ports)) if nodes > 1 else []
    (folder / "torch.json").write_text(json.dumps(told), encoding="utf-8")
    (folder / "ena.json").write_text(json.dumps(dict.fromkeys(ENA, 0)), encoding="utf-8")
    site = folder / "python" / "sitecustomize.py"
    before = site.read_text(encoding="utf-8") if site.exists() else ""
    site.write_text(before + _ENA, encoding="utf-8")
    environment |= {"FAKE_TORCH": str(folder / "torch.json"), "FAKE_ENA": str(folder / "ena.json")}
    environment |= {"PATH_OF_TOOLS": str(folder / "tools"), **wrong.environment}
    for place, text in wrong.files.items():
        (folder / place).write_text(text, encoding="utf-8")
    for module in sorted(LIBRARY.rglob("*.py")):
        copied = folder / "python" / "torch" / module.relative_to(LIBRARY)
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.with_name(copied.name.replace("package.py", "__init__.py")).write_bytes(module.read_bytes())
    search = str(folder / "python")
    row: dict[str, Any] = {"gpus": uuids, "driver": driver, "devices": devices, "mounts": mounts}
    row |= {"environment": environment, "shm_bytes": SHM_BYTES if instance.gpus > 1 else 64 << 20}
    return Made(row, search, folder, environment)


def model_of(instance: Instance) -> str:
    """The name of tests/fakes/gpu_models.py; "" without GPUs."""
    return next((name for name in MODELS if instance.gpu.startswith(name)), "")


def _gpus(
    folder: Path, instance: Instance, model: str, node: int, driver: str, wrong: Faults
) -> tuple[dict[str, str], list[str], list[str]]:
    count = instance.gpus
    dials: dict[str, Any] = {"model": model, "gpus": wrong.inventory.get("nvml", count), "node": node}
    dials |= {"driver": driver, "answers": dict(wrong.nvml), "cuda": wrong.inventory.get("cuda", count)}
    proc, dev = wrong.inventory.get("proc", count), wrong.inventory.get("dev", count)
    made = gpu_node.environment(folder, proc=proc, dev=dev, **dials)
    fake = gpu_node.module(**dials)
    uuids = [fake.uuid_of(index) for index in range(proc)]
    names = ["nvidiactl", "nvidia-uvm", *(f"nvidia{index}" for index in range(dev))]
    return {"FAKE_NVML": made["FAKE_NVML"], "FAKE_GPU_ROOT": "/"}, uuids, names


def _files(folder: Path, instance: Instance, port: Mapping[str, Any]) -> dict[Path, Path]:
    """Where folders of the machine lie -> here; `port` is what is wrong with the first port of InfiniBand."""
    tree = folder / "tree"
    found = {}
    if instance.efa_devices:
        fabric.make_sysfs(tree / "infiniband", tools.efa_names(instance))
        found[Path("/sys/class/infiniband")] = tree / "infiniband"
        (tree / "amazon" / "ofi-nccl" / "lib").mkdir(parents=True)
        (tree / "amazon" / "efa_installed_packages").write_text("# EFA installer version: 1.43.2\n")
        plugin = tree / "amazon" / "ofi-nccl" / "lib" / "libnccl-net-ofi.so"
        plugin.write_bytes(b"\x7fELF a fake of aws-ofi-nccl\0NET/OFI Initializing aws-ofi-nccl 1.16.3\0")
        found[Path("/opt/amazon")] = tree / "amazon"
    if instance.ib_ports:
        made = infiniband.adapters(instance.ib_ports)
        infiniband.make_sysfs(tree / "infiniband", [replace(made[0], **port), *made[1:]])
        found[Path("/sys/class/infiniband")] = tree / "infiniband"
    return {**found, **tools.neuron_files(tree, instance)}


def torch_dials(instance_type: str, nodes: int, faults: Mapping[str, Any]) -> dict[str, Any]:
    """What tests/worlds/library/torch is told of the machine."""
    instance = known().instances[instance_type]
    model, cpu = model_of(instance), OTHER_RATES["CPU"]
    latencies = {"node_latency_s": 8e-6, "rails_latency_s": 2.2e-5}
    told: dict[str, Any] = {"gpus": instance.gpus, "faults": dict(faults), "meet": False, "peers": True}
    told |= {"name": MODELS[model]["name"] if model else "", "capability": CAPABILITY.get(model, (0, 0))}
    told["memory_mib"] = instance.gpu_memory_mib or 0
    told["nccl"] = _nccl(instance, model, bool(faults.get("tcp")))
    told["rates"] = {"cpu": cpu, "cuda": _rates(model) if model else {}}
    ranks = max(instance.gpus, 1)
    wire = (instance.network_gbit_s or instance.network_burst_gbit_s or 10) / 8
    inside = told["rates"]["cuda"]["p2p"] if model else 1.0
    told["pairs"] = {"node": inside, "rails": SHARE * wire / ranks if model else 0.3, **latencies}
    told["busbw"] = _busbw(instance_type, instance, nodes, wire) if model else _gloo()
    return told


def _rates(model: str) -> dict[str, float]:
    facts, name = builtin(), MODELS[model]["name"].removeprefix("NVIDIA ")
    rates = dict(OTHER_RATES.get(model, {}))
    for precision in ("fp32", "tf32", "bf16", "fp16"):
        rates[precision] = _value(expected_values.expected_gemm(facts, name, precision), rates.get(precision))
    for test in ("copy", "triad"):
        rates[test] = _value(expected_values.expected_memory(facts, name, test), rates.get(test))
    for way in ("h2d", "d2h", "p2p"):
        rates[way] = _value(expected_values.expected_transfer(facts, name, way), rates.get(way))
    return rates


def _value(found: expected_values.Expected | None, other: float | None) -> float:
    """What healthy machines reach; a part that is only known by somebody's fail line is a fifth faster."""
    if found is not None:
        return found.value * (1.2 if found.is_limit else 1.0)
    assert other is not None
    return other


def _busbw(instance_type: str, instance: Instance, nodes: int, wire: float) -> dict[str, Any]:
    """[bytes, 10^9 bytes/s] of each collective within a node, between single ranks of nodes, and over all."""
    local = expected_values.transport_of(instance, 1)
    far = expected_values.transport_of(instance, nodes)
    everybody = nodes * instance.gpus
    spans = {"node": (1, instance.gpus, local), "all": (nodes, everybody, far), "rails": (nodes, nodes, far)}
    table: dict[str, Any] = {}
    for span, (count, ranks, transport) in spans.items():
        table[span] = {}
        for kind in ("all_reduce", "all_gather", "reduce_scatter", "alltoall", "sendrecv"):
            asked = expected_values.RAILS if span == "rails" else kind
            rows = []
            for size in SIZES:
                question = (known(), instance_type, count, ranks, asked)
                value = expected_values.expected_busbw(*question, size, transport)
                most = expected_values.most_busbw(*question, transport)
                bound = (most or wire) * SHARE / (1 if span != "rails" else max(instance.gpus, 1))
                rows.append([size, value.value if value else bound * min(1.0, (size / (1 << 26)) ** 0.5)])
            table[span][kind] = rows
    return table


def _gloo() -> dict[str, Any]:
    """Over loopback: 0.2 to 0.9 were measured (deployments/policies/local.toml)."""
    rows = [[size, 0.5 * min(1.0, size / (1 << 20))] for size in SIZES]
    return {span: {"all_reduce": rows} for span in ("node", "rails", "all")}


def _nccl(instance: Instance, model: str, tcp: bool) -> dict[str, Any]:
    """The lines that differ: forms of tests/recordings/nccl/log_efa.txt and log_socket.txt, and of NCCL's own src/transport/net_ib."""
    efa, ib = (0, 0) if tcp else (instance.efa_devices or 0, instance.ib_ports)
    direct = "/GDRDMA" if model in ("A100", "H100", "H200") else ""
    over_efa = [
        "NET/OFI Initializing aws-ofi-nccl 1.16.3",
        f"NET/OFI Selected provider is efa, fabric is efa-direct (found {efa} nics)",
        "Using network AWS Libfabric",
    ]
    ports = " ".join(f"[{number}]mlx5_{number}:1/IB" for number in range(ib))
    over_ib = [f"NET/IB : Using {ports} [RO]; OOB eth0:10.0.0.4<0>", "Using network IB"]
    outside = f"NET/AWS Libfabric/0{direct}" if efa else f"NET/IB/0{direct}" if ib else "NET/Socket/0"
    return {
        "version": "2.27.7",
        "network": over_efa if efa else over_ib if ib else ["Using network Socket"],
        "outside": outside,
        "inside": "P2P/CUMEM" if instance.nvlinks else "SHM/direct/direct",
    }


ENA = tuple(f"{name}_allowance_exceeded" for name in ("bw_in", "bw_out", "pps", "conntrack", "linklocal"))
_ENA = Path(__file__).with_name("ena.template").read_text()
