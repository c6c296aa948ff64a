"""The sentences of a policy's rules, made from the metric, its values and what they were compared with. Pure.

`metric_words.json` holds what a metric means: a predicate ("has persistence mode off"), which continues a sentence that begins with
the subject, or a noun ("driver version"). A key is a metric, or a check and its metric ("compute.gemm/wrong_elements"). A metric
that is in neither, such as one of a site's own check, is a noun by its own name.

In a predicate {value} is the value in its unit, {percent} a share as a percentage, {bytes} a number of bytes written out, {plain} a
number as it is, {version} a version that was written as one number, "{n row}" a count with its noun ("{n process/processes}" names
both forms), {few} is "few", or "many" below zero, {texts} are the values that are texts, {clauses} are values that continue a
sentence about their elements ("GPU 3 is too hot"), "[ in {at}]" is the element ("bf16") if there is one, and {check} the check
without its family.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from checks.model import CLUSTER, LINK, Finding, node_of
from checks.model_details import Comparison, Reference, Relation
from checks.policy import Over
from checks.value_types import byte_size

METRIC_WORDS = Path(__file__).with_name("metric_words.json")
# So many nodes, or ranks of one node (some in a row count once), are named in a sentence; of more only the number is.
MOST_NODES, MOST_RANKS = 3, 8
# By the end of a metric's name. "_gbps" is 10^9 bytes per second.
UNITS = {
    "_per_s": "",
    "_gbps": "GB/s",
    "_gbit_s": "Gbit/s",
    "tflops": "TFLOP/s",
    "gflops": "GFLOP/s",
    "_mib": "MiB",
    "_gib": "GiB",
    "_bytes": "B",
    "_percent": "%",
    "_us": "µs",
    "_ms": "ms",
    "_s": "s",
    "_c": "°C",
    "_w": "W",
}
REFERENCES = {
    Reference.PEERS: "the median of its peers",
    Reference.NODE: "the median of its node",
    Reference.FLEET: "the median of the nodes",
    Reference.EXPECTED: "the expected value",
    Reference.LOW_END: "the low end of the expected value",
    Reference.MINIMUM: "the minimum for its links",
    Reference.LIMIT: "the published minimum",
}
MEDIANS = {Over.PEERS: Reference.PEERS, Over.NODE: Reference.NODE, Over.FLEET: Reference.FLEET}
MOST_ELEMENTS = 8
MOST_MESSAGE = 400
# Signals of Linux that end processes (signal(7)).
SIGNALS = {
    2: "SIGINT",
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    8: "SIGFPE",
    9: "SIGKILL",
    11: "SIGSEGV",
    15: "SIGTERM",
}
_COUNT = re.compile(r"\{n ([^}/]*)(?:/([^}]*))?\}")
_OPTIONAL = re.compile(r"\[([^\]]*\{at\}[^\]]*)\]")
_IRREGULAR = {"has": "have", "is": "are", "was": "were", "does": "do"}


@lru_cache(maxsize=1)
def _tables() -> tuple[dict[str, str], dict[str, str]]:
    tables = json.loads(METRIC_WORDS.read_text("utf-8"))
    return tables["predicates"], tables["nouns"]


def predicate_of(check: str, metric: str) -> str:
    """The metric's predicate with its placeholders, "" if it has none."""
    predicates, nouns = _tables()
    own = f"{check}/{metric}"
    return predicates.get(own, "" if own in nouns else predicates.get(metric, ""))


def noun_of(check: str, metric: str) -> str:
    """The metric's noun: from the table, or its own name without underscores."""
    nouns = _tables()[1]
    return nouns.get(f"{check}/{metric}", nouns.get(metric, metric.replace("_", " ")))


def unit_of(metric: str) -> str:
    """The unit in which people read the metric's value, "" if it has none."""
    return next((unit for end, unit in UNITS.items() if metric.endswith(end)), "")


def figure(value: float, digits: int = 4) -> str:
    """The number with at least so many digits, as people write it: "19,961" and not "1.996e+04"."""
    if not 1e3 <= abs(value) < 1e15:
        return f"{value:.{digits}g}"
    whole = len(str(int(abs(value))))
    message = f"{value:,.{max(0, digits - whole)}f}"
    return message.rstrip("0").rstrip(".") if "." in message else message


def quantity(value: float, unit: str, digits: int = 4) -> str:
    """The number with its unit: "12.5 GB/s"; bytes in the largest binary unit of which there is one ("1.862 GiB")."""
    if unit == "B" and abs(value) >= 1024:
        return byte_size(value, digits)
    return f"{figure(value, digits)} {unit}".rstrip()


def percent(ratio: float, digits: int = 3) -> str:
    """A ratio as a percentage: "62 %"."""
    return f"{figure(100 * ratio, digits if float(f'{100 * ratio:.{digits}g}') < 100 else max(3, digits))} %"


def version(number: float) -> str:
    """A version of the form 1.22.3 that was written as one number, 1,022,003."""
    whole = int(number)
    return f"{whole // 10**6}.{whole // 1000 % 1000}.{whole % 1000}"


def bounded(check: str, metric: str, element: str, compared: Comparison) -> tuple[str, bool]:
    """The sentence about a value beyond a threshold, and whether it is a predicate."""
    template = predicate_of(check, metric)
    element = _label(element) if template else element
    value, unit, absolute = compared.value, compared.unit, compared.of is None
    if absolute and "{percent}" in template:
        digits = distinct_digits(3, lambda some: percent(value, some) == percent(compared.threshold, some))
    else:
        digits = distinct_digits(
            4,
            lambda some: absolute and quantity(value, unit, some) == quantity(compared.threshold, unit, some),
        )
    clause = _clause(compared, template, digits)
    if not template:
        noun = noun_of(check, metric)
        return f"{_labelled(noun, element)} is {quantity(value, unit, digits)}{clause}", False
    text = _filled(template, check, value, unit, element, digits) + clause
    return (text, True) if not element or "{at}" in template else (f"{element} {text}", False)


def distinct_digits(least: int, alike: Callable[[int], bool]) -> int:
    """How many digits tell a value from its threshold."""
    return next((digits for digits in range(least, 17) if not alike(digits)), 17)


def unequal(check: str, metric: str, odd: Sequence[tuple[str, object]], wanted: object) -> tuple[str, bool]:
    """The sentence about values that are not what they must be, each with its element ("" if the metric is no list)."""
    template = predicate_of(check, metric)
    if not template and wanted != "":
        listing = _listed(
            [f"{element} is {show(value)}" if element else f"is {show(value)}" for element, value in odd]
        )
        noun = f"{noun_of(check, metric)}:" if odd[0][0] else noun_of(check, metric)
        return f"{noun} {listing}, it must be {show(wanted)}", False
    names_of: dict[str, list[str]] = {}
    for element, value in odd:
        text = _message(value) if "{texts}" in template else show(value)
        names_of.setdefault(text, []).append(_label(element))
    texts = [f"{_numbered(names)}: {text}" if names[0] else text for text, names in names_of.items()]
    if not template:
        return f"{noun_of(check, metric)}: {_listed(texts)}", False
    if "{clauses}" in template:
        text = _listed([f"{_label(element)} {value}" for element, value in odd])
        return template.replace("{clauses}", text), True
    if "{texts}" in template:
        return template.replace("{texts}", _listed(texts)), True
    alike: dict[float, list[str]] = {}
    for element, value in odd:
        number = float(value) if isinstance(value, (int, float)) else 0.0
        alike.setdefault(number, []).append(_label(element))
    clauses = []
    for number, names in alike.items():
        text = _filled(template, check, number, unit_of(metric), _listed(names))
        continues = "{at}" in template or not names[0]
        if not continues:
            text = f"{_listed(names)} {text if len(names) == 1 else plural(text)}"
        clauses.append(text)
    return "; ".join(clauses[:MOST_ELEMENTS]), "{at}" in template or not odd[0][0]


def stated(check: str, metric: str, element: str, value: float) -> tuple[str, bool]:
    """The sentence that says the value and compares it with nothing, and whether it is a predicate."""
    template, unit = predicate_of(check, metric), unit_of(metric)
    if template:
        return _filled(template, check, value, unit, element), True
    return f"{_labelled(noun_of(check, metric), element)} is {quantity(value, unit)}", False


def plural(predicate: str) -> str:
    """The predicate with its verb for several subjects: "has" becomes "have". A verb in the past tense stays."""
    verb, space, rest = predicate.partition(" ")
    if verb in _IRREGULAR:
        verb = _IRREGULAR[verb]
    elif verb.endswith("ies"):
        verb = f"{verb[:-3]}y"
    elif verb.endswith(("ches", "shes")):
        verb = verb[:-2]
    elif verb.endswith("s"):
        verb = verb[:-1]
    return f"{verb}{space}{rest}"


def several(predicate: str) -> str:
    """The predicate for several subjects, for each of which its numbers hold: "each have 12 wrong values"; where they are in brackets
    at the end, "compute wrong sums (each: 12 wrong values)".
    """
    text = plural(predicate)
    if not any(map(str.isdecimal, text)):
        return text
    before, _, inside = text.removesuffix(")").rpartition("(")
    at_end = text.endswith(")") and not any(map(str.isdecimal, before)) and ")" not in inside
    return f"{before}(each: {inside})" if at_end else f"each {text}"


def subject_text(subject: str) -> str:
    """A subject in words: "node-1/rank-3" -> "node-1, rank 3", and "n1" -> "node n1"."""
    if subject == CLUSTER:
        return "the cluster"
    if LINK in subject:
        first, _, other = subject.partition(LINK)
        return f"the link between {subject_text(first)} and {subject_text(other)}"
    node, _, rank = subject.partition("/")
    text = node if node.lower().startswith(("node", "input")) else f"node {node}"
    return f"{text}, {rank.replace('-', ' ', 1)}" if rank else text


def subjects_text(subjects: Sequence[str]) -> str:
    """Several subjects in words: "node-1 and node-2", "node-1, ranks 0 to 7", "node-1, ranks 0, 3 and 5", "37 nodes", "2 links"."""
    if len(subjects) == 1:
        return subject_text(subjects[0])
    noun = subject_type(subjects)
    nodes = {node_of(subject) for subject in subjects}
    if noun == "nodes" and len(subjects) <= MOST_NODES:
        return and_text([subject_text(subject) for subject in subjects])
    ranks = [subject.rpartition("-")[2] for subject in subjects]
    if noun == "ranks" and len(nodes) == 1 and all(rank.isdecimal() and len(rank) < 10 for rank in ranks):
        runs = _runs(sorted({int(rank) for rank in ranks}))
        if len(runs) <= MOST_RANKS:
            return f"{subject_text(nodes.pop())}, ranks {and_text(runs)}"
    return f"{len(subjects)} {noun}"


def and_text(items: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _runs(numbers: Sequence[int]) -> list[str]:
    """Ascending numbers, of which three or more in a row are "40 to 47"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return [text for run in runs for text in ([f"{run[0]} to {run[-1]}"] if len(run) > 2 else map(str, run))]


def _numbered(labels: Sequence[str]) -> str:
    """Labels that differ in their last number alone as one: "GPU 0 to 7"; any others as a list."""
    families = {label.rpartition(" ")[0] for label in labels}
    numbers = [int(end) for label in labels if (end := label.rpartition(" ")[2]).isdecimal()]
    if len(families) > 1 or len(numbers) < len(labels):
        return _listed(labels)
    return f"{families.pop()} {and_text(_runs(sorted(numbers)))}"


def subject_type(subjects: Sequence[str]) -> str:
    """What all of them are, in the plural."""
    if all(LINK in subject for subject in subjects):
        return "links"
    if all("/rank-" in subject for subject in subjects):
        return "ranks"
    if any(subject == CLUSTER or "/" in subject or LINK in subject for subject in subjects):
        return "subjects"
    return "nodes"


def spoken(finding: Finding) -> str:
    """The finding as one sentence, with its subject."""
    subject = subject_text(finding.subject)
    return f"{subject} {finding.message}" if finding.is_predicate else f"{subject}: {finding.message}"


def exit_text(code: int | None) -> str:
    """How a process ended: "its process exited 7", "its process was ended by SIGKILL" (a negative code); None if it did not end."""
    if code is None:
        return "its process did not end"
    return f"its process was ended by {SIGNALS[-code]}" if -code in SIGNALS else f"its process exited {code}"


def show(value: object) -> str:
    """The value as text. A long text is cut in its middle."""
    text = str(value)
    if len(text) <= 120:
        return text
    start, end = text[:70], text[-40:]
    if " " in start and " " in end:  # cut at a space, so that a part of a word is not read as a word
        start, end = start.rpartition(" ")[0], end.partition(" ")[2]
    return f"{start} ... {end}"


def _message(value: object) -> str:
    """A tool's message. Only its end is cut: without its middle it can say the opposite."""
    text = str(value)
    return text if len(text) <= MOST_MESSAGE else f"{text[:MOST_MESSAGE].rpartition(' ')[0]} ..."


def _filled(template: str, check: str, value: float, unit: str, element: str, digits: int = 4) -> str:
    if value < 0 and template.startswith("lacks {n "):  # declared minus found
        template = _COUNT.sub(lambda match: f"{match[0]} too many", template.replace("lacks", "has", 1))
    text = _COUNT.sub(lambda match: _counted(abs(value), match[1], match[2]), template)
    text = text.replace("{value}", quantity(value, unit, digits)).replace("{percent}", percent(value, digits))
    text = text.replace("{bytes}", f"{figure(value)} bytes").replace("{plain}", f"{value:.10g}")
    text = text.replace("{version}", version(value)).replace("{few}", "many" if value < 0 else "few")
    text = text.replace("{check}", check.rpartition(".")[2])
    return _OPTIONAL.sub(lambda match: match[1].replace("{at}", element) if element else "", text)


def _counted(count: float, singular: str, several: str | None) -> str:
    return f"1 {singular}" if count == 1 else f"{figure(count)} {several or f'{singular}s'}"


def _clause(compared: Comparison, template: str, digits: int) -> str:
    """What the value was compared with."""
    threshold = compared.threshold
    if compared.reference is Reference.POSSIBLE:
        return f", more than the hardware can do ({quantity(threshold, compared.unit)}): the measurement is wrong"
    if compared.of is not None:
        ratio = compared.value / compared.of
        fine = distinct_digits(2, lambda some: percent(ratio, some) == percent(threshold, some))
        text = f", {percent(ratio, fine)} of {REFERENCES[compared.reference]} ({quantity(compared.of, compared.unit)})"
        return (
            text if compared.reference is Reference.LIMIT else f"{text}, threshold {percent(threshold, fine)}"
        )
    if threshold == 0 and compared.relation is Relation.ABOVE:
        return ""  # there should be none at all
    if "{percent}" in template:
        line = percent(threshold, digits)
    elif "{version}" in template:
        line = version(threshold)
    elif "{plain}" in template:
        line = f"{threshold:.10g}"
    elif "{bytes}" not in template and compared.unit == "B":
        line = quantity(threshold, "B", digits)
    else:
        line = figure(threshold, digits)
    return f", threshold {line}"


def _labelled(noun: str, element: str) -> str:
    """Such as "GPU 3: memory"; "bandwidth[2]" for an element that nothing names."""
    return f"{label}: {noun}" if (label := _label(element)) else f"{noun}{element}"


def _label(element: str) -> str:
    """The element's label, "" if nothing names it ("[2]")."""
    return "" if element.startswith("[") else element


def _listed(items: Sequence[str]) -> str:
    """Such as "GPU 1, GPU 3 and GPU 5"; at most so many of them, and how many more there are."""
    last = f"{len(items) - MOST_ELEMENTS} more" if len(items) > MOST_ELEMENTS else items[-1]
    first = items[:MOST_ELEMENTS] if len(items) > MOST_ELEMENTS else items[:-1]
    return f"{', '.join(first)} and {last}" if first else last
