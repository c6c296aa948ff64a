"""network.counters: what the counters of the network interfaces counted while the checks and collectives ran."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from pathlib import Path

from checks.check import CheckError, Context, Measurement, check, lists
from checks.model import Scope
from checks.probes import growth
from checks.probes.network.interfaces import default_interfaces, driver_counters, interface_of

DEV = Path("/proc/net/dev")
# The columns of /proc/net/dev that stand for trouble, and one of the sent bytes.
COLUMNS = {"rx_errors": 2, "rx_dropped": 3, "tx_errors": 10, "tx_dropped": 11, "sent_bytes": 8}
WIDTH = 16
ALLOWANCE = (
    "_allowance_exceeded"  # the ENA driver's counters of packets that EC2 queued or dropped: bw_in, pps ...
)

Look = Mapping[str, Mapping[str, int]]


def first_look(context: Context) -> Mapping[str, object]:
    """The counters of the interfaces at the start. Raises CheckError."""
    return {"interfaces": {name: dict(values) for name, values in _look(context).items()}}


@check(
    "network.counters",
    Scope.NODE,
    timeout_s=10,
    metrics=(
        "interfaces",
        "rx_errors",
        "tx_errors",
        "rx_dropped",
        "tx_dropped",
        "allowance_counters",
        "allowance_exceeded",
        "sent_bytes",
    ),
    needs="/proc/net/dev, the driver's counters",
    before=first_look,
    beside_job=True,
    holds=lists("interfaces"),
)
def counters(context: Context) -> Measurement:
    """Compares the network interfaces' error and drop counters with those of the start of the run.

    The interfaces are those that bear this node's address in the roster, of the collectives, and of the default route; the
    loopback interface only if there is no other. One entry an interface, the growth of each. `allowance_counters` is how
    many counters of exceeded allowances the driver has (EC2's ENA; 0 where it is another driver) and `allowance_exceeded`
    the growth of their sum. A counter that went backwards, or that only one of the two looks shows, makes its number null.
    """
    return compared(growth.first_look(context.before, "interfaces"), _look(context))


def compared(before: Mapping[str, object], after: Look) -> Measurement:
    """The growth of every counter (pure)."""
    names = sorted({*before, *after})
    if not names:
        raise CheckError("no interface was compared")
    looks = [growth.Growth(before.get(name), after.get(name, {})) for name in names]
    plain = {key: tuple(look.of((key,)) for look in looks) for key in COLUMNS}
    allowances = [tuple(key for key in look.after if key.endswith(ALLOWANCE)) for look in looks]
    return Measurement(
        {
            "interfaces": tuple(names),
            **plain,
            "allowance_counters": tuple(len(keys) for keys in allowances),
            "allowance_exceeded": tuple(look.of(keys) for look, keys in zip(looks, allowances, strict=True)),
        },
        "\n".join(f"{name}: {look.changes()}" for name, look in zip(names, looks, strict=True)),
    )


def parse_dev(text: str) -> dict[str, dict[str, int]]:
    """/proc/net/dev: interface -> its counters. Raises CheckError for a line that is cut or garbled."""
    found: dict[str, dict[str, int]] = {}
    for line in text.splitlines()[2:]:
        name, colon, rest = line.partition(":")
        numbers = rest.split()
        if not colon or len(numbers) != WIDTH or not all(number.isdigit() for number in numbers):
            raise CheckError(f"a line of {DEV} is truncated or garbled: {line!r:.120}")
        found[name.strip()] = {key: int(numbers[column]) for key, column in COLUMNS.items()}
    if not found:
        raise CheckError(f"{DEV} lists no interface")
    return found


def _look(context: Context) -> Look:
    try:
        every = parse_dev(DEV.read_text(encoding="ascii", errors="replace"))
        me = context.roster.members[context.node_rank]
        wanted = (interface_of(me.address), context.roster.interface, *default_interfaces())
        names = chosen(wanted, every)
        if not names:
            raise CheckError(
                f"no interface has the address {me.address}, is named in the roster, or has a default route"
            )
        return {name: {**every[name], **_allowances(name)} for name in names}
    except OSError as error:
        raise CheckError(f"the interfaces' counters cannot be read: {error}") from error


def chosen(wanted: Iterable[str], every: Container[str]) -> list[str]:
    """The wanted interfaces that there are; the loopback interface only where it is the only one: no cable can fail in it."""
    names = [name for name in dict.fromkeys(wanted) if name in every]
    return [name for name in names if name != "lo"] or names


def _allowances(name: str) -> dict[str, int]:
    return {key: value for key, value in driver_counters(name).items() if key.endswith(ALLOWANCE)}
