"""The pages in docs/ name what exists: keys, checks, commands, exit codes, and each other."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest
from pydantic import BaseModel

from checks import catalog
from checks.exit_codes import Exit
from checks.policy import CheckPolicy, Rule, load
from flows.cli.verbs import COMMANDS
from tasks.gate.context import open_gate_context
from tasks.gate.forecast import forecast
from tasks.gate_file.model import LOCKED, Gate
from tasks.gate_file.request import GateRequest
from tasks.launchers.kubernetes.options import KubernetesOptions
from tasks.launchers.local.plan import LocalOptions
from tasks.launchers.sagemaker.options import SageMakerOptions
from tasks.launchers.slurm.options import SlurmOptions
from tasks.store import layout
from tests.architecture.test_tables import FOLDERS

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = (
    *sorted(DOCS.rglob("*.md")),
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")),
)
NAMED = re.compile(r"`((?:tasks|checks|flows|container|deployments|tests)/[\w./-]+)")
EXAMPLES = {"deployments/gates/p5-prod.toml"}
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)")


def page(name: str) -> str:
    """A page's text."""
    return (DOCS / name).read_text(encoding="utf-8")


def names(table: type[BaseModel]) -> Iterator[str]:
    """Every key of a table and of the tables below it, without the names of the tables above."""
    for name, field in table.model_fields.items():
        yield name
        found = [part for part in _parts(field.annotation) if issubclass(part, BaseModel)]
        for part in found:
            yield from names(part)


def _parts(annotation: object) -> Iterator[type]:
    if isinstance(annotation, type):
        yield annotation
    for part in getattr(annotation, "__args__", ()):
        yield from _parts(part)


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", title.lower()) for title in titles)
    return {"#" + title.replace(" ", "-") for title in plain}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_page_and_a_heading(path: Path) -> None:
    """Relative links alone; those to other sites are not followed."""
    for target, anchor in LINK.findall(path.read_text(encoding="utf-8")):
        other = (path.parent / target).resolve() if target else path
        assert other.exists(), target
        assert not anchor or anchor in anchors(other), f"{target}{anchor}"


def test_every_artifact_of_a_run_is_described() -> None:
    """What a flow publishes is in the table of the page about runs, and nothing else is."""
    code = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "tasks").rglob("*.py")))
    published = set(re.findall(r'f?"(gate-[a-z]+-|commission-[a-z]+)(?:\{|")', code))
    rows = re.findall(r"^\| (`(?:gate|commission)-.*?) \|", page("server.md"), re.MULTILINE)

    assert published == {name.removesuffix("CLUSTER") for row in rows for name in re.findall("`(.*?)`", row)}


def test_every_page_is_in_the_index() -> None:
    """docs/README.md leads to each of them."""
    index = page("README.md")

    assert [] == [
        path.name for path in DOCS.glob("*.md") if f"({path.name})" not in index and path.name != "README.md"
    ]


def test_every_key_of_a_gate_file_is_described() -> None:
    """Those of the file itself and of every launcher's options."""
    text = page("gate-file.md")
    options = [
        field.name
        for kind in (LocalOptions, SageMakerOptions, SlurmOptions, KubernetesOptions)
        for field in fields(kind)
    ]

    assert [] == [name for name in (*names(Gate), *options) if not re.search(rf"\b{name}\b", text)]


def test_every_key_that_set_cannot_change_is_named() -> None:
    """By its full name."""
    text = page("gate-file.md").partition("## What `--set` cannot change")[2]

    assert [] == [key for key in LOCKED if f"`{key}`" not in text]


def test_the_example_of_a_gate_file_is_one() -> None:
    """With the keys that are required and no others."""
    block = re.search(r"```toml\n(.*?)```", page("gate-file.md"), re.DOTALL)
    assert block is not None

    assert "p5-prod" == Gate.model_validate_json(json.dumps(tomllib.loads(block[1]))).name


def test_every_check_is_described() -> None:
    """By its name; none is named that does not exist. UPDATE_GOLDEN=1 adds a row, made of the check itself, for one that lacks it."""
    text = page("checks.md")
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    described = {name for row in rows for name in re.findall(r"`([\w.]+)`", row.split("|")[1])}
    new = [check for check in catalog.CATALOG if check.name not in described]
    if new and os.environ.get("UPDATE_GOLDEN"):
        made = [f"| `{check.name}` | {check.scope.value} | {check.summary} |" for check in new]
        (DOCS / "checks.md").write_text(
            text.replace(rows[-1], "\n".join([rows[-1], *made])), encoding="utf-8"
        )
        described |= {check.name for check in new}

    names = {check.name for check in (*catalog.CATALOG, *catalog.WATCH_ONLY)}
    assert not names - described, "docs/checks.md has no row for these checks; UPDATE_GOLDEN=1 adds them"
    assert not described - names, "docs/checks.md describes checks that do not exist"


def test_every_key_of_a_policy_is_described() -> None:
    """Those of a check and of a rule; and the example is a policy."""
    text = page("policies.md")
    keys = [field.name for kind in (CheckPolicy, Rule) for field in fields(kind)]
    block = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert block is not None

    assert [] == [key for key in keys if not re.search(rf"\b{key}\b", text)]
    assert "my-site" == load(tomllib.loads(block[1])).name


def test_every_command_and_exit_code_is_described() -> None:
    """As the command line has them."""
    text = page("commands.md")

    assert [] == [words for words in COMMANDS if f"`prelaunch {words}" not in text]
    assert [] == [code for code in Exit if not re.search(rf"^\|.*\b{code.value}\b.* \|", text, re.MULTILINE)]


def test_every_folder_of_a_store_is_described() -> None:
    """By its key."""
    text = page("history.md")

    assert [] == [name for name in (*FOLDERS, layout.HISTORY) if f"`{name}/" not in text]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_that_a_page_names_exists(path: Path) -> None:
    """Modules, folders, tests and settings of this repository."""
    named = {name.rstrip("./") for name in NAMED.findall(path.read_text(encoding="utf-8"))} - EXAMPLES

    assert [] == sorted(name for name in named if not (ROOT / name).exists())


ROW = re.compile(
    r"^\| `([a-z0-9-]+)` \| (\d+) x (\S+) \| (\w+) \| (\S+) USD \| (\S+) USD \| (\S+)(?: USD)? \|$", re.M
)
ROWS = ROW.findall((ROOT / "docs" / "start.md").read_text())


def test_the_page_has_a_row_for_each_placement_that_is_priced() -> None:
    """A pool, one job, and the same nodes again."""
    assert {"pooled", "in_job", "pinned"} == {row[3] for row in ROWS}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_is_what_plan_computes(row: tuple[str, ...]) -> None:
    """Rounded to cents."""
    name, nodes, kind, placement, expected, most, idle = row
    request = GateRequest(gate_file=str(ROOT / "deployments/gates" / f"{name}.toml"))
    made = forecast(open_gate_context(request), 0)
    chosen = next(one for one in made.placements if one.chosen)

    assert (nodes, kind, placement) == (str(made.nodes), made.instance_type, chosen.placement.value)
    assert made.price is not None
    usd = made.price.usd_per_node_hour
    assert expected == f"{(chosen.about_node_hours or 0.0) * usd:,.2f}"
    assert most == f"{chosen.at_most_node_hours * usd:,.2f}"
    idles = chosen.idle_at_most_node_hours
    assert idle == (f"{idles * usd:,.2f}" if idles else "nothing")
    assert chosen.is_least
