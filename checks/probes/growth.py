"""How much a device's counters grew between two looks, for the checks that compare the start of a run with its end."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from checks.check import CheckError


def first_look(before: Mapping[str, object] | None, name: str) -> Mapping[str, object]:
    """What the first look recorded of each device, under this name. Raises CheckError if there was none, or it is no record."""
    if before is None:
        message = "the counters could not be read at the start of the run: there is nothing to compare with"
        raise CheckError(message)
    values = before.get(name)
    if not isinstance(values, Mapping):
        raise CheckError(f"the record from the start of the run is not a list of {name}: {values!r:.200}")
    return values


class Growth:
    """Two looks at the counters of one device; what was not seen, or is no record, is as if it had none."""

    def __init__(self, before: object, after: Mapping[str, int | None]) -> None:
        self.before: Mapping[str, object] = before if isinstance(before, Mapping) else {}
        self.after = after

    def has(self, name: str) -> bool:
        """Whether the driver has the counter, which one of the two looks shows."""
        return name in self.after or name in self.before

    def total(self, names: Sequence[str]) -> int | None:
        """How much the counters grew together; None if one of them cannot be compared, or a look shows none at all."""
        if not self.before or not self.after:
            return None
        total = 0
        for name in names:
            then, now = self.before.get(name), self.after.get(name)
            if type(then) is not int or now is None or now < then:
                return None
            total += now - then
        return total

    def changes(self, but: Collection[str] = ()) -> str:
        """Every counter that changed or cannot be read, for the evidence."""
        latest = {name: now for name, now in self.after.items() if name not in but}
        names = [name for name, now in latest.items() if self.before.get(name) != now or now is None]
        return (
            ", ".join(f"{name} {self.before.get(name)} -> {self.after[name]}" for name in names)
            or "unchanged"
        )


def account(
    gone: Sequence[str], names: Sequence[str], looks: Sequence[Growth], but: Collection[str] = ()
) -> str:
    """The evidence: which devices are gone, and what changed on each of the others."""
    lines = [f"{name}: gone since the start of the run" for name in gone]
    lines += [f"{name}: {delta.changes(but)}" for name, delta in zip(names, looks, strict=True)]
    return "\n".join(lines)
