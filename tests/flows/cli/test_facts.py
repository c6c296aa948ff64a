"""`prelaunch facts`: no number of this program is without a source that can be printed."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from checks import policy as policies
from checks.facts.builtin import builtin
from checks.facts.peak_rates import of_model
from checks.facts.provenance import KEYS
from flows.cli import facts
from flows.cli.main import main

ROOT = Path(__file__).resolve().parents[3]
TYPE = "p5.48xlarge"
MODEL = builtin().instances[TYPE].gpu


@pytest.fixture(name="document", scope="module")
def _document() -> dict[str, object]:
    """What the command prints as JSON."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with redirect_stdout(out):
        assert main(["facts", TYPE, "--format", "json"]) == 0
    out.seek(0)
    made: dict[str, object] = json.loads(out.read())
    return made


def _numbers(value: object) -> Iterator[float]:
    if isinstance(value, bool):
        return
    if isinstance(value, (int, float)):
        yield float(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key not in (*KEYS, "provenance"):
                yield from _numbers(item)
    elif isinstance(value, list):
        for item in value:
            yield from _numbers(item)


def _rows(name: str) -> Iterator[object]:
    """The rows of a file that apply to the type."""
    document = json.loads((ROOT / "checks" / "facts" / f"{name}.json").read_bytes())
    for key, table in document.items():
        if key in ("provenance", "columns"):
            continue
        rows = list(table.values()) if isinstance(table, dict) else table
        models = [row["model"] for row in rows if isinstance(row, dict) and "model" in row]
        for row in [table[TYPE]] if key == "instances" else rows:
            of_type = TYPE in row.get("types", [TYPE]) and row.get("instance_type", TYPE) == TYPE
            of_type &= row.get("devices", "nvidia") == "nvidia"
            if of_type and ("model" not in row or row["model"] == of_model(MODEL, models)):
                yield row


TABLES = sorted(path.stem for path in (ROOT / "checks" / "facts").glob("*.json"))


@pytest.mark.parametrize("name", [name for name in TABLES if name != "peaks"])
def test_every_number_of_a_table_is_printed(name: str, document: dict[str, object]) -> None:
    """Of the rows that apply to the type; codes within the text of their row, collectives by their points."""
    facts = document["facts"]
    assert isinstance(facts, list)
    said = {row["value"] for row in facts if not isinstance(row["value"], str)}
    texts = [f"{row['name']} {row['value']}" for row in facts]
    printed = re.findall(r"-?[0-9][0-9.,]*", "\n".join(texts))
    words = {number.replace(",", "").rstrip(".") for number in printed}
    numbers = said | {float(word) for word in words}
    missing = [number for row in _rows(name) for number in _numbers(row) if number not in numbers]

    assert not missing


def test_every_fact_is_printed_with_the_four(document: dict[str, object]) -> None:
    """Source, conditions, date and kind beside the number."""
    facts = document["facts"]
    assert isinstance(facts, list) and len(facts) > 400
    assert all(str(row[key]).strip() for row in facts for key in KEYS)


def test_every_threshold_of_the_policy_is_printed_with_its_source(capsys: pytest.CaptureFixture[str]) -> None:
    """As people read it: no bound, tolerance, option or least number of peers is left out.

    The type has no InfiniBand, so that only a machine of one's own shows what applies to that.
    """
    assert main(["facts", TYPE, "--verbose"]) == 0
    lines = capsys.readouterr().out.splitlines()
    data = (ROOT / "checks" / "policies" / "nvidia.json").read_bytes()
    policy = json.loads(data)
    own = dataclasses.replace(builtin().instances[TYPE], ib_ports=8, ib_rate_gbit_s=400)
    assert not [line for line in lines if line.startswith("ib.")]
    lines += facts._policy_lines(own, policies.load(policy))
    text = "\n".join(lines)
    missing = []
    for check, line in policy["checks"].items():
        for rule in line["rules"]:
            bounds = [rule[key] for key in ("warn_below", "fail_below", "warn_above", "fail_above")]
            for value in [*bounds, rule["deviations"] or None]:
                if value is not None and _shown(value) not in text:
                    missing.append((check, rule["metric"], value))
            if f"    source: {rule['source']}" not in lines:
                missing.append((check, rule["metric"], "source"))
        missing += [(check, key, "option") for key in line["options"] if f"  option {key} = " not in text]

    assert not missing


def _shown(value: float) -> str:
    return f"{value:,.0f}" if math.isclose(value, round(value)) else f"{value:g}"


def test_without_a_type_the_types_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Each with its GPUs."""
    assert main(["facts"]) == 0
    lines = capsys.readouterr().out.splitlines()

    assert [line.split()[0] for line in lines] == list(builtin().instances)
    assert "p5.48xlarge         8 x H100 80GB HBM3" in lines
    assert any(line.endswith("16 Neuron devices") for line in lines)


@pytest.mark.parametrize("name", list(builtin().instances))
def test_every_type_can_be_told(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """On one screen, whatever its row leaves out."""
    assert main(["facts", name]) == 0
    lines = capsys.readouterr().out.splitlines()

    assert lines[0].startswith(f"{name}: ") and len(lines) < 40 and max(map(len, lines)) <= 120
