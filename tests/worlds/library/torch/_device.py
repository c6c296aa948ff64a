"""A FAKE torch, part 1: the types of elements, the machine's rates and faults, and the clock of a device that is not there."""

from __future__ import annotations

import json
import os
import time
from typing import Any

REAL_MONOTONIC = time.monotonic


class dtype:
    """An element's type."""

    def __init__(self, name: str, itemsize: int) -> None:
        self.name, self.itemsize = name, itemsize

    def __repr__(self) -> str:
        return f"torch.{self.name}"


float32, float64 = dtype("float32", 4), dtype("float64", 8)
float16, bfloat16 = dtype("float16", 2), dtype("bfloat16", 2)
int32, int64, uint8, boolean = dtype("int32", 4), dtype("int64", 8), dtype("uint8", 1), dtype("bool", 1)


class World:
    """What FAKE_TORCH names: the machine's rates and faults."""

    def __init__(self) -> None:
        self._told: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if not self._told:
            with open(os.environ["FAKE_TORCH"], encoding="utf-8") as file:
                self._told = json.load(file)
        return self._told[name]

    def fault(self, name: str, device: str, default: Any) -> Any:
        """The fault of this name on the device, "cuda:3" or "cpu"."""
        found = self["faults"].get(name, {})
        return found.get(device, default) if isinstance(found, dict) else default

    def rate(self, name: str, device: str) -> float:
        """A rate of the device, with its planted slowness, and healthy parts' spread of a part in a hundred."""
        table = self["rates"]["cuda" if device.startswith("cuda") else "cpu"]
        index = int(device.partition(":")[2] or 0)
        spread = 1 - 0.01 * (index * 5 % 8) / 8
        return float(table[name] * self.fault(f"{name}_share", device, 1.0) * spread)


WORLD = World()


class Clock:
    """Seconds that the devices of this process worked. `link` is what carries collectives while products run."""

    def __init__(self) -> None:
        self.now = self.products = self.link = 0.0

    def run(self, seconds: float) -> None:
        """The stream of the products works."""
        self.products = max(self.products, self.now) + seconds

    def carry(self, seconds: float) -> None:
        """A collective, after the products that were asked for before it."""
        self.link = max(self.link, self.products, self.now) + seconds

    def wait(self) -> None:
        """For everything."""
        self.now = max(self.now, self.products, self.link)

    def wait_products(self) -> None:
        """For the stream of the products."""
        self.now = max(self.now, self.products)


CLOCK = Clock()


def _perf_counter() -> float:
    CLOCK.now += 1e-7
    return CLOCK.now


time.perf_counter = _perf_counter
time.monotonic = lambda: REAL_MONOTONIC() + CLOCK.now
