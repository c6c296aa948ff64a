"""Every number that is built in says where it comes from."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checks.facts.builtin import builtin
from checks.facts.instances import load
from checks.facts.provenance import NumberKind, Provenance, every_row, resolved
from checks.value_types import DecodeError

FACTS = Path(__file__).resolve().parents[3] / "checks" / "facts"
FOUR = {"source": "NVIDIA", "conditions": "as sold", "date": "2026-11", "kind": "documented"}


@pytest.mark.parametrize("path", sorted(FACTS.glob("*.json")), ids=lambda path: path.stem)
def test_every_row_of_every_table_has_the_four_and_no_provenance_is_left_over(path: Path) -> None:
    """Source, conditions, date and kind, in the row or by name. An entry that no row names was renamed away from its rows."""
    document = json.loads(path.read_bytes())
    rows = dict(every_row(document))
    rest = json.dumps({key: value for key, value in document.items() if key != "provenance"})

    assert rows
    assert all(row.source.strip() and row.conditions.strip() for row in rows.values())
    assert not [name for name in document.get("provenance", {}) if json.dumps(name) not in rest]


@pytest.mark.parametrize("key", list(FOUR))
def test_a_row_without_one_of_the_four_is_refused(key: str) -> None:
    """Missing, empty, or not what it should be; with the path of the row."""
    for value in (None, "", "  ", 7):
        row = {**FOUR, key: value}
        if value is None:
            del row[key]
        with pytest.raises(DecodeError) as refused:
            resolved({"parts": [{**FOUR, "model": "a"}, {**row, "model": "b"}]}, "parts")
        assert refused.value.path == f"parts[1].{key}"


@pytest.mark.parametrize("date", ["11/2026", "2026-13", "2026-11-00"])
def test_a_date_is_a_month_or_a_day(date: str) -> None:
    """Anything else could not be compared."""
    with pytest.raises(DecodeError, match="YYYY-MM"):
        resolved({"rows": {"a": {**FOUR, "date": date}}}, "rows")


def test_a_name_stands_for_the_four_and_a_key_of_the_rows_own_for_itself() -> None:
    """What the row says is more exact than what its file says."""
    document = {"provenance": {"aws": FOUR}, "rows": {"a": {"provenance": "aws", "source": "AWS, page 2"}}}

    assert dict(every_row(document)) == {
        "rows.a": Provenance("AWS, page 2", "as sold", "2026-11", NumberKind.DOCUMENTED)
    }


def test_a_name_that_is_not_there_has_a_nearest() -> None:
    """A slip of the pen, and not a row without a source."""
    with pytest.raises(DecodeError) as refused:
        resolved({"provenance": {"catalogue": FOUR}, "rows": [{"provenance": "catalog"}]}, "rows")

    assert (refused.value.path, refused.value.nearest) == ("rows[0].provenance", "catalogue")


@pytest.mark.parametrize("rows", ["text", [7], {"a": []}])
def test_facts_loader_rejects_rows_that_are_no_table(rows: object) -> None:
    """And nothing in it is taken for a fact."""
    with pytest.raises(DecodeError):
        resolved({"rows": rows}, "rows")


def test_a_column_of_the_instance_table_says_where_it_comes_from() -> None:
    """The count of GPUs, their memory and the network of one row have three sources."""
    facts = builtin()
    p5 = facts.instances["p5.48xlarge"]
    sources = [facts.origin(p5, column).source for column in ("gpus", "gpu_memory_mib", "network_gbit_s")]

    assert len(set(sources)) == 3


@pytest.mark.parametrize(
    ("columns", "said"), [({"efa_device": "x"}, "unknown column"), ({"efa_devices": "y"}, "own table")]
)
def test_a_column_or_a_name_that_is_not_there_is_refused(columns: dict[str, str], said: str) -> None:
    """In the instance table as well."""
    row = {"gpus": 8, "gpu": "H100", "provenance": "x", "columns": columns}
    document = {"provenance": {"x": FOUR}, "instances": {"p5": row}}

    with pytest.raises(DecodeError, match=said):
        load(json.dumps(document).encode())
