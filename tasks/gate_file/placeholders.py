"""The values of a gate file that are still an example's: of the shipped files, of the pages, or of AWS's documentation.

`prelaunch doctor`, `plan` and `gate` ask here. Pure, but for reading the shipped file of which init made one.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from checks.facts.builtin import builtin
from tasks.gate_file.folder import SHIPPED
from tasks.gate_file.model import Gate
from tasks.gate_file.read import GateFileError, line_of

# What cannot be anybody's own value -> what to write instead. AWS documents these account ids and this bucket as examples
# (https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_principal.html, AWS documentation conventions).
ACCOUNTS = r"(?:123456789012|111122223333|444455556666)"
OF_AWS: Mapping[str, str] = {
    rf"(?<!\d){ACCOUNTS}(?!\d)": "Write your own; aws sts get-caller-identity prints your account's id",
    r"\b(?:subnet|sg|vpc)-0123456789abcdef0\b": "Write the id of yours: docs/sagemaker.md says how each is made",
    r"s3://(?:bucket|my-bucket|amzn-s3-demo-bucket)(?=/|$)": "Write the name of your bucket",
}
NOBODYS: Mapping[str, str] = {
    **OF_AWS,
    r"\b(?:U012AB3CD|U0123ABCD|U0456EFGH|S012AB3CD|S0123ABCD)\b": "Write the ids of your people (in Slack: profile, Copy member ID)",
    r"@example\.(?:com|org|net)\b": "Write your own address",
    # What people and pages write where a value has to be filled in.
    r"(?<![A-Za-z0-9])(?:CHANGE|REPLACE|FILL)[-_ ]?(?:ME|THIS|IN)(?![A-Za-z0-9])": "Write your own value",
    r"(?:^|(?<=[/=]))<[A-Za-z_](?:[^<>]*[^<>\s])?>(?=/|$)": "Write your own value",
    r"(?:^|(?<=[\s=:]))/path/to(?=/|$)": "Write a path of yours",
    r"(?:^|(?<=[/:#@=]))(?:your|YOUR)[-_][A-Za-z0-9_-]+": "Write your own value",
}
# With these a gate is refused: names that AWS gives to nobody, as a whole value that Prelaunch hands to an engine. A bucket's name may
# have such an account in it and exist, and what stands in a command is the training's own: those are warned of.
UNOWNED = re.compile(
    rf"arn:aws[a-z-]*:[a-z0-9-]*:[a-z0-9-]*:{ACCOUNTS}:|{ACCOUNTS}\.dkr\.ecr\.|(?:subnet|sg|vpc)-0123456789abcdef0$"
)
HANDED_OVER = re.compile(r"(?:cluster\.options|training\.request)\.|training\.image$")
# Where one of these is set another service answers for AWS, such as a stand-in of the tests, and has whatever accounts it likes.
ENDPOINT = "AWS_ENDPOINT_URL"
# The same of a shipped file that may be somebody's own by chance.
# The shipped file whose comments show the tables of every notifier.
NOTIFIERS_SHOWN = "sagemaker-p5"
PERHAPS = re.compile(r"/fsx/|/opt/ml/input/|#gpu-gates")
# The line that `prelaunch init` writes into a new file.
MADE_LINE = "# Made by `prelaunch init`"
MADE_BY_INIT = re.compile(rf"^{MADE_LINE} from ([a-z0-9-]+\.toml):", re.MULTILINE)
# Keys that `prelaunch init` copies, whose values are some site's own, whatever they are.
MEMORY_TOLERANCE = 0.03  # as gpu.memory in the policies
OWN = ("cluster.options.region", "cluster.options.partition", "training.command")


@dataclass(frozen=True)
class _Place:
    """A key of a gate file. `line` is None if the file does not have it."""

    key: str
    line: int | None

    @property
    def place(self) -> str:
        """ "cluster.options.role_arn (line 21)"."""
        return self.key if self.line is None else f"{self.key} (line {self.line})"


@dataclass(frozen=True)
class Example(_Place):
    """A value that cannot be the operator's own; `found` is the part that shows it."""

    found: str
    remedy: str

    @property
    def message(self) -> str:
        """What is wrong with it."""
        return f"{self.found} is an example, which nobody owns"

    @property
    def text(self) -> str:
        """One line for people."""
        return f"{self.place}: {self.message}. {self.remedy}"


@dataclass(frozen=True)
class OtherMemory(Example):
    """The declared memory of a GPU of which the tables have another size: a mistake, or a variant that no table has."""

    @property
    def message(self) -> str:
        """What is known of it."""
        return self.found


def _memory(gate: Gate) -> Iterator[Example]:
    machine, key = gate.cluster.machine, "cluster.machine.gpu_memory_mib"
    if machine is None or machine.gpu_memory_mib is None:
        return
    sizes = {
        row.gpu_memory_mib
        for row in builtin().instances.values()
        if row.gpu == machine.gpu and row.gpu_memory_mib
    }
    if sizes and all(abs(machine.gpu_memory_mib / size - 1) > MEMORY_TOLERANCE for size in sizes):
        said = f"a {machine.gpu} has {' or '.join(map(str, sorted(sizes)))} MiB on the tables' machines, not {machine.gpu_memory_mib}"
        remedy = "Compare with nvidia-smi on a node: gpu.memory holds every GPU to this number."
        yield OtherMemory(key, line_of(gate.text, key), said, remedy)


@dataclass(frozen=True)
class Copied(_Place):
    """A value that `prelaunch init` took from a shipped file and nobody has changed since; by chance it may be the operator's own."""

    shipped: str

    @property
    def message(self) -> str:
        """What is known of it."""
        return f"still as in the shipped {self.shipped}: replace what is not right for you too"

    @property
    def text(self) -> str:
        """One line for people."""
        return f"{self.place}: {self.message}"


def require_own_values(gate: Gate, file: str, environ: Mapping[str, str]) -> None:
    """Refuse a gate that cannot run, because values of its file are still an example's. Raises GateFileError, about all of them."""
    refused, _ = _divided(gate, environ)
    if refused:
        first, *others = refused
        said = f"{first.message}. {first.remedy}"
        said += f" The same holds for {', '.join(one.place for one in others)}" if others else ""
        raise GateFileError(file, first.key, said, line=first.line)


def doubtful_examples(gate: Gate, environ: Mapping[str, str]) -> tuple[Example, ...]:
    """The examples with which a gate may run: of people who are notified, and what may be somebody's own after all."""
    return (*_divided(gate, environ)[1], *_memory(gate))


def _divided(gate: Gate, environ: Mapping[str, str]) -> tuple[list[Example], list[Example]]:
    """The examples with which the gate is refused, and the others."""
    refused, doubtful = list[Example](), list[Example]()
    for one, value in _applicable(gate, environ):
        handed_over = gate.cluster.launcher != "local" and HANDED_OVER.match(one.key)
        (refused if handed_over and UNOWNED.match(value) else doubtful).append(one)
    return refused, doubtful


def _applicable(gate: Gate, environ: Mapping[str, str]) -> Iterator[tuple[Example, str]]:
    """The examples and their values; without those of AWS where another service answers for it."""
    stands_in = any(value and name.startswith(ENDPOINT) for name, value in environ.items())
    for one, value in _examples(gate.model_dump(mode="json"), gate.text):
        if not (stands_in and any(re.search(pattern, value) for pattern in OF_AWS)):
            yield one, value


def examples_of(gate: Gate, environ: Mapping[str, str]) -> tuple[Example, ...]:
    """The values of a gate, with its overrides, that are still an example's."""
    return (*(one for one, _ in _applicable(gate, environ)), *_memory(gate))


def copied_of(gate: Gate) -> tuple[Copied, ...]:
    """The values of a gate that `prelaunch init` asked to be replaced, and that are as it wrote them."""
    return copied_in(gate.model_dump(mode="json"), gate.text)


def examples_in(values: Mapping[str, Any], text: str) -> tuple[Example, ...]:
    """The examples among the values of a gate file (with its overrides), and their lines in its text; one for each key."""
    return tuple(one for one, _ in _examples(values, text))


def copied_keys(text: str) -> tuple[str, ...]:
    """The keys of a new gate file whose values were copied from the shipped one, which somebody has to replace or to confirm."""
    patterns = (*map(re.compile, NOBODYS), PERHAPS)
    found = (
        key.partition("[")[0]
        for key, value in _leaves(tomllib.loads(text))
        if key.partition("[")[0] in OWN or any(pattern.search(value) for pattern in patterns)
    )
    return tuple(dict.fromkeys(found))


def copied_in(values: Mapping[str, Any], text: str) -> tuple[Copied, ...]:
    """Of the keys that `copied_keys` names, those that a file made by init has as init wrote them. Another file has none."""
    made = MADE_BY_INIT.search(text)
    path = SHIPPED / made[1] if made else None
    if path is None or not path.is_file():
        return ()
    theirs = path.read_text(encoding="utf-8")
    before, now = _ends(tomllib.loads(theirs)), _ends(values)
    sure = {one.key.partition("[")[0] for one, _ in _examples(values, text)}
    found = [
        Copied(key, line_of(text, key), path.name)
        for key in copied_keys(theirs)
        if key not in sure and key in now and now[key] == before[key]
    ]
    # init writes the tables of notifiers as another shipped file has them.
    shown = [
        Copied(key, line_of(text, key), f"{NOTIFIERS_SHOWN}.toml")
        for key, ends in now.items()
        if key.startswith("notify.") and key not in sure and any(map(PERHAPS.search, ends))
    ]
    return (*found, *shown)


def _ends(values: Mapping[str, Any]) -> Mapping[str, list[str]]:
    """Key -> its texts, of a path with {here} only the end: init writes another way to the same file."""
    ends: dict[str, list[str]] = {}
    for key, value in _leaves(values):
        end = value.rpartition("/")[2] if "/" in value and key.startswith("training.command") else value
        ends.setdefault(key.partition("[")[0], []).append(end)
    return ends


def _examples(values: Mapping[str, Any], text: str) -> Iterator[tuple[Example, str]]:
    """Each with its whole value, which may hold a secret and is in no Example for that reason."""
    for key, value in _leaves(values):
        for pattern, remedy in NOBODYS.items():
            if found := re.search(pattern, value):
                yield Example(key, _line(text, key, value), found[0], f"{remedy}."), value
                break


def _line(text: str, key: str, value: str) -> int | None:
    """The line of the key, or of the value where the key stands in a table within another line."""
    lines = [line if not line.lstrip().startswith("#") else "" for line in text.splitlines()]
    holding = [number for number, line in enumerate(lines, 1) if json.dumps(value) in line]
    number = line_of(text, re.sub(r"\[\d+\]", "", key))
    return number if number in holding else next(iter(holding), None)


def _leaves(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    """Every text with its dotted key, such as "training.request.InputDataConfig[0].ChannelName"."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, (list, tuple)):
        for place, inner in enumerate(value):
            yield from _leaves(inner, f"{key}[{place}]")
    elif isinstance(value, str):
        yield key, value
