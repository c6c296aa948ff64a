"""Bad days of the service: calls that are throttled, objects that cannot be written or read.

Shares are exact, not random: of a share of 0.5 every second call suffers.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field

from tests.fakes.sagemaker.dials import Dials


@dataclass(frozen=True)
class Throttle:
    """The dial `throttle`: `share` of all calls is refused."""

    share: float = 1.0


@dataclass(frozen=True)
class Broken:
    """One entry of the dial `s3_faults`: requests of `method` whose key matches `key`.

    `code` is the error that is answered instead of asking S3, at most `count` times, of every 1/`share` requests.
    """

    method: str = "PUT"
    key: str = ""
    code: str = ""
    share: float = 1.0
    count: int = 1_000_000


@dataclass
class Faults:
    """What is decided for each request. Counts begin anew when a dial is turned."""

    dials: Dials
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _seen: dict[str, float] = field(default_factory=dict)
    _done: dict[str, int] = field(default_factory=dict)

    def throttles(self) -> bool:
        """Whether this call is refused with ThrottlingException."""
        if not self.dials.throttle:
            return False
        throttle = Throttle(**self.dials.throttle)
        with self._lock:
            return self._turn(repr(throttle), throttle.share)

    def of_object(self, method: str, key: str) -> Broken | None:
        """The first entry that this request suffers."""
        with self._lock:
            for index, row in enumerate(self.dials.s3_faults):
                broken, name = Broken(**row), f"{index} {row}"
                if broken.method != method or not re.search(broken.key, key):
                    continue
                if self._done.get(name, 0) < broken.count and self._turn(name, broken.share):
                    self._done[name] = self._done.get(name, 0) + 1
                    return broken
        return None

    def forget(self) -> None:
        """A dial was turned."""
        with self._lock:
            self._seen, self._done = {}, {}

    def _turn(self, name: str, share: float) -> bool:
        before = self._seen.get(name, 0.0)
        self._seen[name] = before + share
        return int(before + share + 1e-9) > int(before + 1e-9)


def error(code: str) -> tuple[int, bytes]:
    """Status and body of an S3 error."""
    # S3 API reference, "Error responses".
    status, message = {"SlowDown": (503, "Please reduce your request rate.")}[code]
    said = f"<Error><Code>{code}</Code><Message>{message}</Message><RequestId>0</RequestId></Error>"
    return status, f"<?xml version='1.0' encoding='UTF-8'?>\n{said}".encode()
