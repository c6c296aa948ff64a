"""What an hour of a node costs: dated list prices, and the reader of a site's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from checks.documents.decode import decode, parse_json
from checks.facts.provenance import Provenance, resolved, table_bytes
from checks.value_types import Range

PRICES = Path(__file__).parent / "prices.json"
# What a table calls several regions that have one price.
AREAS = {"us": "the US regions"}
UsdPerHour = Annotated[float, Range(0.0001, 100_000)]


class Purchase(str, Enum):
    """How the nodes are paid: on demand, of EC2 or of SageMaker (whose "ml.p5.48xlarge" is a p5.48xlarge)."""

    EC2 = "ec2"
    SAGEMAKER = "sagemaker"


@dataclass(frozen=True)
class Price:
    """US dollars for one node and hour, on demand."""

    instance_type: str
    purchase: Purchase
    region: str
    usd_per_node_hour: UsdPerHour
    provenance: Provenance

    @property
    def where(self) -> str:
        """The words say of which region the price is: price of us-west-2. They are empty for a price that was declared for a job."""
        return f"price of {AREAS.get(self.region, self.region)}" if self.region else ""


@dataclass(frozen=True)
class _Prices:
    prices: tuple[Price, ...]


@lru_cache(maxsize=1)
def builtin_prices() -> tuple[Price, ...]:
    """The list prices of this version, each with its provenance."""
    return decode(_Prices, resolved(parse_json(table_bytes(PRICES), 1 << 20), "prices")).prices


def price_of(prices: Sequence[Price], instance_type: str, purchase: Purchase = Purchase.EC2) -> Price | None:
    """The price of a node of the type; None where the table has none."""
    fitting = (
        price for price in prices if (price.instance_type, price.purchase) == (instance_type, purchase)
    )
    return next(fitting, None)
