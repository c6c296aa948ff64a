"""The one line that a person reads first in Slack: the answer and the culprit, in words (pure)."""

from __future__ import annotations

import re

from checks.model import CLUSTER, LINK
from tasks.notifiers.base import Item, Page
from tasks.render.clean import one_line

LINE = 300
# As the rules say it: "errors: GPU 3 (0000:b9:00.0) is 4, it must be 0", and "GPU 3: a sentence".
_METRIC = re.compile(r"(?P<metric>\w+): GPU (?P<gpu>\d{1,2})(?: \([^()]*\))? is (?P<value>.+)")
_GPU = re.compile(r"GPU (?P<gpu>\d{1,2})(?: \([^()]*\))?: (?P<said>.+)")


def first_line(page: Page) -> str:
    """Such as "NO-GO p5-prod: node ip-10-0-3-7, GPU 5: DCGM memory test failed (dcgm.diag)".

    The title, in which the finding that it names is put for people, without the coverage, which stands below.
    """
    title = one_line(page.title, 2 * LINE) or f"{page.kind} {page.gate or page.cluster}"
    for item in page.items:
        opening, found, rest = title.partition(f": {item.where}: {item.check}: ")
        if found:
            more = re.search(r" \(and \d+ more findings?\)", rest)
            return one_line(f"{opening}: {_said(item)}{more.group() if more else ''}", LINE)
    coverage = dict(page.facts).get("coverage", "")
    return one_line(title.replace(f"; observed {coverage}", "") if coverage else title, LINE)


def subject_in_words(where: str) -> str:
    """ "node-1/rank-3" -> "node node-1, rank 3"; several, a link and the cluster stay as they are."""
    if where == CLUSTER or LINK in where or ", " in where:
        return where
    node, _, part = where.partition("/")
    return f"node {node}, {part.replace('-', ' ', 1)}" if part else f"node {node}"


def _said(item: Item) -> str:
    who, said = subject_in_words(item.where), item.message
    of_metric, of_gpu = _METRIC.fullmatch(said), _GPU.fullmatch(said)
    if of_metric and "GPU " not in of_metric["value"]:
        value = of_metric["value"]
        words = value if re.match(r"[A-Za-z]+ ", value) else f"{of_metric['metric']} is {value}"
        who, said = f"{who}, GPU {of_metric['gpu']}", words
    elif of_gpu and "GPU " not in of_gpu["said"]:
        who, said = f"{who}, GPU {of_gpu['gpu']}", of_gpu["said"]
    return f"{who}: {said}" if item.check == "report" else f"{who}: {said} ({item.check})"
