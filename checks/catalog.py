"""The explicit list of checks: one line each. Importing it loads no torch."""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Sequence

from checks import collectives, gemm, gpu, kernel_log, network, pairs, system, training
from checks.check import Check
from checks.model import Declared, Planned, Profile

CATALOG: tuple[Check, ...] = (
    system.identity,
    system.resources,
    system.clock,
    kernel_log.kernel_log,
    gpu.inventory,
    network.reachability,
    pairs.pairs,
    gemm.gemm,
    training.smoke,
    collectives.all_reduce,
    collectives.all_gather,
    training.ddp,
)


class CatalogError(Exception):
    """A check that was asked for is not there, or two bear one name."""


def with_extra(extra: Sequence[str]) -> tuple[Check, ...]:
    """The catalogue, preceded by a site's own checks ("package.module:attribute"). Raises CatalogError."""
    made = (*(_import(path) for path in extra), *CATALOG)
    names = [check.name for check in made]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise CatalogError(f"two checks are called {twice!r}. Rename the extra one.")
    return made


def plan(catalog: Sequence[Check], declared: Declared, profile: Profile) -> tuple[Planned, ...]:
    """What must be observed, from what is declared alone."""
    return tuple(Planned(c.name, c.scope, c.metrics, c.skip_for(declared, profile)) for c in catalog)


def digest(catalog: Sequence[Check]) -> str:
    """Equal for catalogues that make equal observations: names, scopes and metrics."""
    lines = (f"{c.name} {c.scope.value} {','.join(c.metrics)}" for c in catalog)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _import(path: str) -> Check:
    module, _, attribute = path.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a site's module may raise anything when it is imported
        raise CatalogError(f"extra check {path!r} cannot be imported: {error}") from error
    if not isinstance(found, Check):
        raise CatalogError(f"extra check {path!r} is no @check. Decorate it with checks.check.check.")
    return found
