"""The values of a gate file that are still an example's: of the shipped files, of the pages, or of AWS's documentation.

`prelaunch doctor`, `plan` and `gate` ask here. Pure.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

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
# The shipped file whose comments show the tables of every notifier.
NOTIFIERS_SHOWN = "sagemaker-p5"
# A text of a shipped file that matches may be somebody's own by chance.
PERHAPS = re.compile(r"/fsx/|/opt/ml/input/|#gpu-gates")
# Keys that `prelaunch init` copies, whose values are some site's own, whatever they are.
OWN = ("cluster.options.region", "cluster.options.partition", "training.command")


@dataclass(frozen=True)
class Example:
    """A value that cannot be the operator's own; `found` is the part that shows it, and `line` is None for a key that it lacks. With
    one that `is_refused` no gate runs; another one may be somebody's own after all.
    """

    key: str
    line: int | None
    value: str
    remedy: str
    is_refused: bool = False

    @property
    def location(self) -> str:
        """ "cluster.options.role_arn (line 21)"."""
        return self.key if self.line is None else f"{self.key} (line {self.line})"

    @property
    def message(self) -> str:
        """What is wrong with it."""
        return f"{self.value} is an example"

    @property
    def text(self) -> str:
        """One line for people."""
        return f"{self.location}: {self.message}. {self.remedy}"


def require_own_values(gate: Gate, file: str, environ: Mapping[str, str]) -> None:
    """Refuse a gate that cannot run, because values of its file are still an example's. Raises GateFileError, about all of them."""
    refused = [item for item in examples_of(gate, environ) if item.is_refused]
    if refused:
        first, *others = refused
        text = f"{first.message}. {first.remedy}"
        alike = [item.location for item in others if item.remedy == first.remedy]
        text += f" The same holds for {', '.join(alike)}." if alike else ""
        text += "".join(f" {item.text}" for item in others if item.remedy != first.remedy)
        raise GateFileError(file, first.key, text, line=first.line)


def examples_of(gate: Gate, environ: Mapping[str, str]) -> tuple[Example, ...]:
    """The values of a gate, with its overrides, that are still an example's; without those of AWS where another service answers."""
    stands_in = any(value and name.startswith(ENDPOINT) for name, value in environ.items())
    examples = list[Example]()
    for leaf, value in examples_in(gate.model_dump(mode="json"), gate.text):
        if not (stands_in and any(re.search(pattern, value) for pattern in OF_AWS)):
            handed_over = HANDED_OVER.match(leaf.key) and gate.cluster.launcher != "local"
            examples.append(replace(leaf, is_refused=bool(handed_over and UNOWNED.match(value))))
    return tuple(examples)


def copied_keys(text: str) -> tuple[str, ...]:
    """The keys of a new gate file whose values were copied from the shipped one, which somebody has to replace or to confirm."""
    patterns = (*map(re.compile, NOBODYS), PERHAPS)
    copied = (
        key.partition("[")[0]
        for key, value in leaves(tomllib.loads(text))
        if key.partition("[")[0] in OWN or any(pattern.search(value) for pattern in patterns)
    )
    return tuple(dict.fromkeys(copied))


def examples_in(values: Mapping[str, Any], text: str) -> Iterator[tuple[Example, str]]:
    """The examples among the values of a gate file (with its overrides), and their lines in its text; one for each key. Each with its
    whole value, which may hold a secret and is in no Example for that reason.
    """
    for key, value in leaves(values):
        for pattern, remedy in NOBODYS.items():
            if match := re.search(pattern, value):
                yield Example(key, _line(text, key, value), match[0], f"{remedy}."), value
                break


def _line(text: str, key: str, value: str) -> int | None:
    """The line of the key, or of the value where the key stands in a table within another line."""
    lines = [line if not line.lstrip().startswith("#") else "" for line in text.splitlines()]
    written = json.dumps(value, ensure_ascii=False)
    holding = [number for number, line in enumerate(lines, 1) if written in line]
    number = line_of(text, key)
    return number if number in holding else next(iter(holding), None)


def leaves(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    """Every text with its dotted key, such as "training.request.InputDataConfig[0].ChannelName"."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from leaves(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from leaves(inner, f"{key}[{index}]")
    elif isinstance(value, str):
        yield key, value
