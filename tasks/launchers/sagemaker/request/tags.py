"""The tags of a job, which are shown in the engine's console and on its bill. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tasks.launchers.base import LaunchRejected

OURS = "prelaunch:"


def tags_of(ours: Mapping[str, str], options: Sequence[str]) -> list[dict[str, str]]:
    """The gate's own tags, then those of [cluster.options] tags ("key=value"). Raises LaunchRejected."""
    rows = list(ours.items())
    for text in options:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise LaunchRejected(f'tags: {text!r:.80} is not of the form "key=value".')
        require_free(key, "tags")
        rows.append((key, value))
    return [{"Key": key, "Value": value} for key, value in rows]


def require_free(key: str, where: str) -> None:
    """Raise LaunchRejected for a key that is the gate's own."""
    if key.lower().startswith(OURS):
        raise LaunchRejected(
            f"{where}: {key!r:.80} begins with {OURS}, as the gate's own do. Name it otherwise."
        )
