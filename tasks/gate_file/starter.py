"""A new gate file, made of the shipped one that is nearest to what somebody asked for (pure but for reading the shipped files)."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checks.facts.instances import Instance
from checks.model_details import DeclaredMachine
from tasks.gate_file.folder import SHIPPED
from tasks.gate_file.placeholders import NOTIFIERS_SHOWN, copied_keys, leaves
from tasks.gate_file.read import line_of
from tasks.gate_file.references import copy_of, is_near, reference

SCHEMA = SHIPPED.parent / "schemas" / "gate.schema.json"
RANKS_WITHOUT_ACCELERATORS = 2
VALUE = re.compile(r"(=\s*)(\[[^\]]*\]|\"[^\"]*\"|[^\s#]+).*")


@dataclass(frozen=True)
class Wish:
    """What somebody wants: `policy` is the policy's file, and `notifiers` the names in [notify].
    `machine` describes an instance type that no table has, with so many `gpus` a node.
    """

    name: str
    engine: str
    instance_type: str
    nodes: int
    policy: Path
    notifiers: tuple[str, ...]
    gpus: int = 0
    machine: DeclaredMachine | None = None


def starter_text(wish: Wish, instances: Mapping[str, Instance], target: Path) -> str:
    """The text of a gate file at `target`, with comments. The caller has seen that the instance type is known."""
    instance = instances[wish.instance_type]
    path = _nearest(wish, instances)
    lines = path.read_text(encoding="utf-8").splitlines()
    lines = lines[next(index for index, line in enumerate(lines) if line.startswith("name = ")) :]
    text = "\n".join(_without_notify(lines))
    ranks = instance.gpus or (instance.neuron_devices * (instance.neuron_cores_per_device or 1))
    here = target.absolute().parent
    changes: dict[str, object] = {
        "name": wish.name,
        "cluster.name": wish.name,
        "cluster.declared.instance_type": wish.instance_type,
        "cluster.declared.nodes": wish.nodes,
        "cluster.declared.gpus_per_node": instance.gpus,
        "cluster.declared.ranks_per_node": ranks or RANKS_WITHOUT_ACCELERATORS,
        "cluster.options.gpus_per_node": instance.gpus,
        "policy.file": reference(wish.policy, here),
    }
    command = tomllib.loads(text)["training"]["command"]
    if any("{here}" in argument for argument in command):
        changes["training.command"] = [_moved(argument, path.parent, here) for argument in command]
    for name, value in tomllib.loads(text)["cluster"].get("options", {}).items():
        if name.endswith("_file") and isinstance(value, str) and value and not value.startswith(("/", "~")):
            changes[f"cluster.options.{name}"] = reference(Path(os.path.normpath(path.parent / value)), here)
    for key, value in changes.items():
        text = _changed(text, key, value)
    if wish.machine is not None:
        text = text.replace("[cluster.options]", f"{_machine(wish.machine)}[cluster.options]", 1)
    head = [
        f"#:schema {_schema(here)}",
        f"# Made by `prelaunch init` from {path.name}: {wish.nodes} x {wish.instance_type}, launcher {wish.engine}.",
        "# `prelaunch plan FILE` shows what it would do, `prelaunch doctor FILE` what is missing; docs/gate-file.md has all keys.",
    ]
    return "\n".join([*head, text.rstrip("\n"), "", *_notify(wish.notifiers)]) + "\n"


def unchanged_keys(text: str) -> tuple[str, ...]:
    """The keys of a gate file whose values `init` copied and nobody has changed yet. They may be somebody's own by chance."""
    shipped = {
        leaf for path in SHIPPED.glob("*.toml") for leaf in leaves(tomllib.loads(path.read_text("utf-8")))
    }
    own = [(key.partition("[")[0], (key, value) in shipped) for key, value in leaves(tomllib.loads(text))]
    return tuple(
        key for key in copied_keys(text) if all(is_shipped for name, is_shipped in own if name == key)
    )


def _machine(machine: DeclaredMachine) -> str:
    """The table [cluster.machine] with what is known."""
    given_values = {name: value for name, value in vars(machine).items() if value}
    lines = [f"{name} = {json.dumps(value)}" for name, value in given_values.items()]
    note = "# What a node has: docs/gate-file.md lists all keys, slurm-ib.toml shows those of InfiniBand."
    return "\n".join([note, "[cluster.machine]", *lines, "", ""])


def _schema(here: Path) -> str:
    """How a file in `here` names the schema: a copy of it by a relative path, the installation's by its address."""
    if copy_of(SCHEMA, here) == SCHEMA and not is_near(SCHEMA, here):
        return SCHEMA.as_uri()
    schema = reference(SCHEMA, here)
    return schema if schema.startswith((".", "/")) else f"./{schema}"


def _nearest(wish: Wish, instances: Mapping[str, Instance]) -> Path:
    """The shipped file of the engine whose machines are most alike; by the alphabet where several are.

    Of those a training in the job that checks, started by torchrun, needs the least: on SageMaker no quota of warm pools.
    """
    wanted = instances[wish.instance_type]

    def distance(path: Path) -> tuple[object, ...]:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        declared, options = document["cluster"]["declared"], document["cluster"].get("options", {})
        other = instances[declared["instance_type"]]
        apart = options.get("placement") != "in_job"
        return (
            _accelerators(other) != _accelerators(wanted),
            (other.gpus > 1) != (wanted.gpus > 1),
            bool(other.efa_devices) != bool(wanted.efa_devices),
            apart and wish.engine == "sagemaker",
            declared["instance_type"] != wish.instance_type,
            apart,
            document["training"].get("distributed") != "torchrun",
            abs(other.gpus - wanted.gpus),
            (declared["nodes"] > 1) != (wish.nodes > 1),
            not path.stem.startswith(wish.engine),
            path.stem,
        )

    return min(_of_engine(wish.engine), key=distance)


def _of_engine(engine: str) -> Iterator[Path]:
    for path in sorted(SHIPPED.glob("*.toml")):
        cluster = tomllib.loads(path.read_text(encoding="utf-8"))["cluster"]
        # `init` asks for a known type, for which nothing has to be described, and for no image.
        asks = "machine" in cluster or "container_image" in cluster.get("options", {})
        if cluster["launcher"] == engine and not asks:
            yield path


def _accelerators(instance: Instance) -> str:
    return "neuron" if instance.neuron_devices else "gpu" if instance.gpus else "none"


def _without_notify(lines: Sequence[str]) -> Iterator[str]:
    """The lines without [notify], its comments, and a commented example of it."""
    inside = False
    for line in lines:
        if re.match(r"# Who is notified|# \[notify\]|\[notify", line):
            inside = True
        elif inside and re.match(r"\[(?!notify|approval)", line):
            inside = False
        if not inside:
            yield line


def _notify(names: Sequence[str]) -> Iterator[str]:
    """The table [notify] with the example of each notifier, from the comments of a shipped file."""
    yield f"# Who is notified: docs/people.md. Write no secret here, only where it is. Copy [approval] from {NOTIFIERS_SHOWN}.toml."
    yield "[notify]"
    yield f"order = {json.dumps(list(names))}   # who is told of hardware problems: the first that works, and the log if none does"
    if set(names) != {"log"}:
        owners = [name for name in names if name != "pagerduty"] or ["log"]
        yield f"owner = {json.dumps(owners)}   # missing evidence, a failed training: whoever owns the gate"
    tables = _shown_tables()
    for name in names:
        if name in tables:
            yield ""
            yield from tables[name]


def _shown_tables() -> Mapping[str, list[str]]:
    """Name of a notifier -> the lines of its table, with what names people still commented."""
    tables: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in (SHIPPED / f"{NOTIFIERS_SHOWN}.toml").read_text(encoding="utf-8").splitlines():
        if match := re.match(r"# \[notify\.(\w+)\]", line):
            lines = tables.setdefault(match[1], [])
        elif not line.startswith("# ") or line.startswith("# ["):
            lines = []  # what follows belongs to no notifier
            continue
        if match or lines:
            lines.append(line if re.match(r"# \w*mention = ", line) else line.removeprefix("# "))
    return tables


def _changed(text: str, key: str, value: object) -> str:
    """The text with another value of the key, where the file has the key; the line's comment was about the old value, and goes."""
    table: Any = tomllib.loads(text)
    *above, last = key.split(".")
    for name in above:
        table = table.get(name, {})
    number = line_of(text, key)
    if last not in table or number is None or table[last] == value:
        return text
    lines, written = text.splitlines(), json.dumps(value, ensure_ascii=False)
    lines[number - 1] = VALUE.sub(lambda match: match[1] + written, lines[number - 1], count=1)
    return "\n".join(lines)


def _moved(argument: str, old: Path, here: Path) -> str:
    """A word of a command with `{here}` for the folder of the shipped file, as it has to be in another folder."""
    if not argument.startswith("{here}/"):
        return argument
    moved = reference(Path(os.path.normpath(old / argument.removeprefix("{here}/"))), here)
    return moved if os.path.isabs(moved) else f"{{here}}/{moved}"
