"""The tags of a job, which are shown in the engine's console and on its bill. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tasks.launchers.base import LaunchRejected

OURS = "prelaunch:"
# "Tag naming limits and requirements", AWS General Reference: keys that begin with aws: are AWS' own.
RESERVED = "aws:"


def tags_of(ours: Mapping[str, str], options: Sequence[str]) -> list[dict[str, str]]:
    """The gate's own tags, then those of [cluster.options] tags ("key=value"). Raises LaunchRejected."""
    made = dict(ours)
    for text in options:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise LaunchRejected(f'tags: {text!r:.80} is not of the form "key=value".')
        if key in made and not key.startswith(OURS):
            raise LaunchRejected(f"tags: {key!r:.80} is there twice. Leave one out.")
        require_free(key, "tags")
        made[key] = value
    return [{"Key": key, "Value": value} for key, value in made.items()]


def require_free(key: str, where: str) -> None:
    """Raise LaunchRejected for a key that is the gate's or AWS' own."""
    if key.lower().startswith(OURS):
        raise LaunchRejected(
            f"{where}: {key!r:.80} begins with {OURS}, as the gate's own do. Name it otherwise."
        )
    if key.lower().startswith(RESERVED):
        raise LaunchRejected(f"{where}: AWS keeps keys that begin with {RESERVED}, as {key!r:.80} does.")
