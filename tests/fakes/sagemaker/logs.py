"""CloudWatch: what a host writes goes to /aws/sagemaker/TrainingJobs, stream <job>/algo-N-<epoch>.

"Log Amazon SageMaker AI events with Amazon CloudWatch": group and stream names.
"""

from __future__ import annotations

import threading
import time
from typing import IO, Any

GROUP = "/aws/sagemaker/TrainingJobs"
LINE_BYTES = 256 * 1024  # PutLogEvents: the size of one event
BATCH = 1000


class Logs:
    """The log group, made on first use. `client` goes to the CloudWatch Logs behind the stand-in."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._streams: set[str] = set()
        self._lock = threading.Lock()

    def stream(self, job: str, host: str) -> str:
        """A stream of a new name: two lives of one second get two."""
        with self._lock:
            if not self._streams:
                self._make_group()
            second = int(time.time())
            while f"{job}/{host}-{second}" in self._streams:
                second += 1
            name = f"{job}/{host}-{second}"
            self._streams.add(name)
        self._client.create_log_stream(logGroupName=GROUP, logStreamName=name)
        return name

    def put(self, stream: str, lines: list[tuple[int, str]]) -> None:
        """Lines with their milliseconds."""
        events = [{"timestamp": at, "message": line or " "} for at, line in lines]
        for first in range(0, len(events), BATCH):
            batch = events[first : first + BATCH]
            self._client.put_log_events(logGroupName=GROUP, logStreamName=stream, logEvents=batch)

    def _make_group(self) -> None:
        try:
            self._client.create_log_group(logGroupName=GROUP)
        except self._client.exceptions.ResourceAlreadyExistsException:
            return


class Pump:
    """Reads one host's output to its end, and brings it to its stream as it comes."""

    def __init__(self, logs: Logs, stream: str, output: IO[bytes]) -> None:
        self._logs, self._stream, self._output = logs, stream, output
        self._waiting: list[tuple[int, str]] = []
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._read, self._bring)]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Until everything is in CloudWatch."""
        for thread in self._threads:
            thread.join()

    def _read(self) -> None:
        for line in self._output:
            text = line.decode(errors="replace").rstrip("\r\n")[:LINE_BYTES]
            with self._lock:
                self._waiting.append((int(time.time() * 1000), text))
        self._ended.set()

    def _bring(self) -> None:
        last = False
        while not last:
            last = self._ended.wait(0.1)
            with self._lock:
                lines, self._waiting = self._waiting, []
            if lines:
                self._logs.put(self._stream, lines)
