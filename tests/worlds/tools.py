"""The programs of a world's machine, from recordings made for as many devices as its type has. They are fakes, and say so."""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checks.facts.builtin import builtin
from checks.facts.instances import Facts, Instance
from checks.judge.rules import expected_values
from tasks.gate_file.read import read_gate_file
from tests.fakes import fabric
from tests.fakes import tools as fakes
from tests.fakes.gpu_models import MODELS
from tests.fakes.tools import Reply
from tests.programs import executable, python_line

RECORDINGS = Path(__file__).parents[1] / "recordings"
DCGM = "4.2.3"
NO_ENGINE = "Error: unable to establish a connection to the specified host: localhost\n"
_DCGMI = Path(__file__).with_name("dcgmi.template").read_text()
_ENGINE = """{first_line}
# A fake nv-hostengine for Prelaunch's tests: it listens, and that is all.
import socket
server = socket.create_server(("127.0.0.1", {port}))
while True:
    link, _ = server.accept()
    link.close()
"""


GATES = Path(__file__).parents[2] / "deployments" / "gates"


@functools.cache
def known() -> Facts:
    """The facts, with the machines that shipped gate files describe."""
    facts = builtin()
    for path in sorted(GATES.glob("*.toml")):
        facts = facts.merged(read_gate_file(path, ()).declared(()))
    return facts


def install(
    folder: Path, instance: Instance, model: str, nodes: int, driver: str, faults: Mapping[str, Any]
) -> None:
    """All programs of the machine into folder/tools. `faults`: diag, efa (device -> mode), efa_missing; ls names a recording."""
    tools = folder / "tools"
    tools.mkdir(parents=True, exist_ok=True)
    if model:
        _dcgm(tools, instance, model, driver, faults)
        if instance.gpus > 1:
            fakes.install(tools, "all_reduce_perf", [Reply(all_reduce(instance, model))])
    if instance.efa_devices:
        names = efa_names(instance)[: instance.efa_devices - faults.get("efa_missing", 0)]
        modes = {f"{name}-rdm": mode for name, mode in faults.get("efa", {}).items()}
        fabric.install_fabric(tools, fabric.endpoints(names), modes, folder / "tree" / "infiniband")
    if instance.neuron_devices:
        listing = (RECORDINGS / "neuron" / faults.get("ls", "ls_trn1.json")).read_text()
        fakes.install(tools, "neuron-ls", [Reply(listing)])
        ran = (RECORDINGS / "neuron" / "nccom_allr.txt").read_text()
        fakes.install(tools, "nccom-test", [Reply(ran)])


def efa_names(instance: Instance) -> list[str]:
    """As the kernel names them: "rdmap79s0" and so on."""
    return [f"rdmap{79 + index}s0" for index in range(instance.efa_devices or 0)]


def neuron_files(tree: Path, instance: Instance) -> dict[Path, Path]:
    """The driver's tree of devices and counters."""
    if not instance.neuron_devices:
        return {}
    for index in range(instance.neuron_devices):
        folder = tree / "neuron" / f"neuron{index}" / "stats" / "hardware"
        folder.mkdir(parents=True)
        for name in ("mem_ecc_uncorrected", "sram_ecc_uncorrected", "mem_ecc_repairable_uncorrected"):
            (folder / name).write_text("0\n")
        for core in range(instance.neuron_cores_per_device or 0):
            for name in ("hw_error", "timeout"):
                status = tree / "neuron" / f"neuron{index}" / f"neuron_core{core}" / "stats" / "status" / name
                status.mkdir(parents=True)
                (status / "total").write_text("0\n")
    return {Path("/sys/devices/virtual/neuron_device"): tree / "neuron"}


def _dcgm(tools: Path, instance: Instance, model: str, driver: str, faults: Mapping[str, Any]) -> None:
    count = instance.gpus
    levels = {level: diagnosis(level, count, driver, faults.get("diag", "")) for level in (1, 2, 3)}
    health = (RECORDINGS / "dcgm" / "health_ok.json").read_text()
    replies = [
        Reply("Health monitor systems set successfully.\n", "health.* -s"),
        Reply((RECORDINGS / "dcgm" / "watches.json").read_text(), "health.* -f"),
        Reply(health, "health.* -c"),
        Reply(discovery(count, MODELS[model]["name"]), "discovery"),
        Reply((RECORDINGS / "dcgm" / "policy_none.json").read_text(), "policy.*--get"),
        Reply("Listening for violations.\n", "policy.*--reg", seconds=60),
        *(
            Reply(text, f"diag -r {level}", code=226 if faults.get("diag") else 0)
            for level, text in levels.items()
        ),
    ]
    answers = fakes.install(tools / "behind", "dcgmi", replies)
    values = {"first_line": python_line("-S"), "port": 5555}
    script = _DCGMI.format(**values, no_engine=NO_ENGINE, answers=str(answers), gpus=count)
    executable(tools / "dcgmi", script)
    executable(tools / "nv-hostengine", _ENGINE.format(**values))


def diagnosis(level: int, count: int, driver: str, fault: str) -> str:
    """dcgmi diag -j of DCGM 4 for so many GPUs. `fault`: "memory" or "pcie" of the last GPU."""
    made = copy.deepcopy(json.loads((RECORDINGS / "dcgm" / f"diag_4_r{level}.json").read_text()))
    made["metadata"]["Driver Version Detected"] = driver
    [group] = [group for group in made["entity_groups"] if group["entity_group"] == "GPU"]
    group["entities"] = group["entities"][:count]
    for category in made["DCGM Diagnostic"]["test_categories"]:
        for test in category["tests"]:
            test["results"] = [row for row in test["results"] if row["entity_id"] < count]
            if test["name"] == fault or (level == 1 and fault):
                warning = {"warning": f"GPU {count - 1}: an uncorrectable error was found", "error_id": 4}
                warning |= {"error_category": 10, "error_severity": 2}
                test["results"][-1] |= {"status": "Fail", "warnings": [warning]}
                test["test_summary"] = {"status": "Fail"}
    return json.dumps(made)


def discovery(count: int, name: str) -> str:
    """`dcgmi discovery -l`, in the form of tests/recordings/dcgm/discovery.txt."""
    rule = f"+{'-' * 8}+{'-' * 70}+\n"
    rows = "".join(f"| {index:<6} | {f'Name: {name}':<68} |\n{rule}" for index in range(count))
    head = f"{count} GPU{'s' if count != 1 else ''} found.\n{rule}| GPU ID | {'Device Information':<68} |\n"
    return f"{head}{rule}{rows}0 NvSwitches found.\n"


def all_reduce(instance: Instance, model: str) -> str:
    """What nccl-tests 2.17 prints for 1 MiB to 1 GiB by fours on all GPUs of a node: the published rates, or half of a bound."""
    [kind] = [name for name, row in known().instances.items() if row is instance]
    way = expected_values.transport_of(instance, 1)
    rows = []
    for size in (1 << shift for shift in range(20, 31, 2)):
        value = expected_values.expected_busbw(known(), kind, 1, instance.gpus, "all_reduce", size, way)
        bus = value.value if value else 8.0
        alg = bus / (2 * (instance.gpus - 1) / instance.gpus)
        spent = size / alg / 1e3
        shown = f"{spent:8.2f} {alg:7.2f} {bus:7.2f} {0:6d}"
        rows.append(f"{size:12d} {size // 4:13d}     float     sum      -1 {shown} {shown}\n")
    ranks = "".join(
        f"#  Rank {rank:2d} Group  0 Pid  41200 on algo-1 device {rank:2d} [0000:{0x1B + rank:02x}:00] {MODELS[model]['name']}\n"
        for rank in range(instance.gpus)
    )
    recorded = (RECORDINGS / "nccl" / "all_reduce_2.17.txt").read_text().splitlines(keepends=True)
    table = [
        line
        for line in recorded
        if line.startswith("#") and ("out-of-place" in line or "size " in line or "(B)" in line)
    ]
    return "".join(
        (
            "# nccl-tests version 2.17.6 nccl-headers=22707 nccl-library=22707\n# Collective test starting: all_reduce_perf\n",
            f"# nThread 1 nGpus {instance.gpus} minBytes 1048576 maxBytes 1073741824 step: 4(factor) warmup iters: 1 iters: 20 "
            "agg iters: 1 validation: 1 graph: 0\n#\n# Using devices\n",
            ranks,
            "#\n",
            *table,
            *rows,
            "# Out of bounds values : 0 OK\n"
            "# Avg bus bandwidth    : 101.5 \n#\n# Collective test concluded: all_reduce_perf\n#\n",
        )
    )
