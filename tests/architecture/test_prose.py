"""No code decides by what a message says: kinds, results and actions are fields, and sentences are free.

Looked for are tests of the text of `message`, `reason` and `words`, of findings, observations and endings, in the product's
tree: string methods, `in`, `==` and regular expressions. What goes through another name is not seen, so whoever makes or shows
findings has no regular expressions at all but those that are listed. tests/checks/judge/test_wording.py says every sentence
otherwise, and compares verdicts.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator

import pytest

from tests.architecture.tree import PACKAGES, sources

SENTENCES = frozenset({"message", "reason", "words"})
METHODS = frozenset(
    {
        *("startswith", "endswith", "find", "rfind", "index", "rindex", "count"),
        *("split", "rsplit", "partition", "rpartition", "removeprefix", "removesuffix"),
    }
)
SEARCHES = frozenset({"search", "match", "fullmatch", "findall", "finditer"})


def reads(nodes: Iterable[ast.AST]) -> Iterator[int]:
    """The lines that test the text of a sentence."""
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method, of = node.func.attr, node.func.value
            searched = method in SEARCHES and any(map(_is_sentence, node.args))
            if searched or (method in METHODS and _is_sentence(of)):
                yield node.lineno
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            texts = [side for side in sides if not _is_empty(side)]
            tests = (ast.In, ast.NotIn, ast.Eq, ast.NotEq)
            if (
                any(isinstance(op, tests) for op in node.ops)
                and len(texts) > 1
                and any(map(_is_sentence, sides))
            ):
                yield node.lineno


def _is_sentence(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in SENTENCES


def _is_empty(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value in ("", None)


# Texts of other programs (the kernel, dcgmi, torch), and one that decides nothing.
KNOWN = {
    "checks/judge/culprits/from_report.py": 1,  # "ok" is no sentence: it must fit the result
    "checks/judge/culprits/silent_ranks.py": 1,  # what torch, gloo and NCCL say in a rank that waits
    "checks/probes/dcgm/diag_json.py": 1,
    "checks/probes/dcgm/diagnosis.py": 1,
    "checks/probes/kernel/kernel_log_reading.py": 4,
    "checks/probes/kernel/hardware.py": 3,
    "checks/probes/kernel/log_source.py": 4,
    "checks/probes/kernel/xid.py": 1,
    "checks/probes/network/names.py": 3,  # "ok", or why a name was not found
    "tasks/launchers/kubernetes/api.py": 1,  # the API server's own words
    "tasks/launchers/kubernetes/job_states.py": 2,  # reasons (Kubernetes' codes); the kubelet's words
    "tasks/launchers/kubernetes/preflight.py": 1,
    "tasks/launchers/slurm/job_states.py": 3,  # the reason of a job's state, which is one of Slurm's codes
    "tasks/launchers/sagemaker/api.py": 3,  # AWS's own words for a remedy: which quota, which action, whose policy
}


def test_no_code_tests_what_a_sentence_says() -> None:
    """A new place is a field that is missing; one that is gone leaves this list."""
    found = Counter(one.name for one in sources(*PACKAGES, "container") for _ in reads(one.nodes))

    assert KNOWN == dict(found)


# Who makes or shows findings, and what each regular expression there is for.
SHOWS = ("checks/judge", "tasks/render", "tasks/notifiers", "tasks/paging")
EXPRESSIONS = {
    "checks/judge/cost/failure_model.py": "the unit in the name of a metric",
    "checks/judge/culprits/silent_ranks.py": "what torch, gloo and NCCL say in a rank that waits",
    "checks/judge/rules/expected_questions.py": "the label of a measured point",
    "checks/judge/rules/wording.py": "the placeholders of the words of a metric",
    "checks/judge/xid_overlay.py": "the PCI address in the label of a GPU",
    "tasks/notifiers/apprise.py": "the address of a service",
    "tasks/notifiers/slack/blocks.py": "Slack's marks, which are made inert",
    "tasks/notifiers/slack/client.py": "the codes of Slack's errors",
    "tasks/notifiers/slack/messages.py": "the id of a Slack user",
    "tasks/render/findings.py": "the nouns of a remedy, which are said of several nodes",
    "tasks/render/markdown.py": "Markdown's marks, which are made inert",
    "tasks/render/remedy_commands.py": "the number in the label of a GPU",
}


def test_renderers_import_re_only_in_listed_files() -> None:
    """A new regular expression there is a field that is missing, or has to be listed with what it is for."""
    found = {
        source.name
        for source in sources(*SHOWS)
        for node in source.nodes
        if isinstance(node, ast.Import) and any(name.name == "re" for name in node.names)
    }

    assert set(EXPRESSIONS) == found


@pytest.mark.parametrize(
    "code",
    [
        'finding.message.startswith("no baseline")',
        '"refused" in row.reason',
        "WAITED.search(error.reason)",
        'test.ending.words == "ok"',
        'row.reason.partition(": ")[0]',
    ],
)
def test_a_planted_test_of_a_sentence_is_found(code: str) -> None:
    """Each way that was in the tree before."""
    assert [1] == list(reads(ast.walk(ast.parse(code))))


@pytest.mark.parametrize("code", ['finding.message == ""', "finding.kind in KINDS", "f(finding.message)"])
def test_prose_rule_accepts_code_that_tests_no_sentence(code: str) -> None:
    """Whether there is any is no matter of its words."""
    assert [] == list(reads(ast.walk(ast.parse(code))))
