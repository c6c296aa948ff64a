"""Which notifiers there are, each imported on first use, and who is tried in which order."""

from __future__ import annotations

from collections.abc import Sequence

from tasks.notifiers.base import Keep, Notifier, NotifyError, Page

NAMES = ("log",)


def notifiers_for(order: Sequence[str], keep: Keep) -> tuple[Notifier, ...]:
    """The notifiers of a gate file, in its order. Raises NotifyError for a name that is none."""
    return tuple(_make(name, keep) for name in order)


def send_first(notifiers: Sequence[Notifier], page: Page) -> tuple[str, tuple[str, ...]]:
    """Try one after the other. Returns where the page went ("" for nowhere) and what failed."""
    failures: list[str] = []
    for notifier in notifiers:
        try:
            return notifier.send(page), tuple(failures)
        except NotifyError as error:
            failures.append(f"{notifier.name}: {error}")
    return "", tuple(failures)


def _make(name: str, keep: Keep) -> Notifier:
    if name == "log":
        from tasks.notifiers.log import LogNotifier

        return LogNotifier(keep)
    raise NotifyError(f"there is no notifier {name!r}. Choose of {', '.join(NAMES)}.")
