"""The script of a pipeline and its page: a mistake of its variables is shown, and the page says what the variables do."""

from __future__ import annotations

import re
from pathlib import Path

from tests.pipelines.pipeline import ROOT
from tests.pipelines.test_pipelines import GITLAB, SCRIPT, _script


def test_a_mistake_of_the_variables_is_shown_on_github(tmp_path: Path) -> None:
    """As an annotation, and on the page of the step."""
    page = tmp_path / "page"
    done = _script(tmp_path, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(page))

    assert "::error title=Prelaunch rejected the request::name a gate file" in done.stderr
    assert page.read_text() == (tmp_path / "prelaunch-results" / "summary.md").read_text()


def test_the_page_names_every_variable_of_the_script() -> None:
    """Whoever writes a pipeline reads the page, and not a comment in a script that is included."""
    page = (ROOT / "docs" / "pipelines.md").read_text()
    variables = re.findall(r"^#   (PRELAUNCH\w*) ", SCRIPT.read_text(), re.MULTILINE)

    assert len(variables) > 6 and [] == [name for name in variables if f"| `{name}` |" not in page]


def test_a_gate_before_a_job_that_trains_launches_nothing_in_the_examples() -> None:
    """Or every GO would be trained on twice."""
    page = (ROOT / "docs" / "pipelines.md").read_text()
    header = "".join(
        line.removeprefix("#")
        for line in GITLAB.read_text().partition(".prelaunch-gate:")[0].splitlines(keepends=True)
    )
    examples = [
        block for block in page.split("```yaml\n") if "needs: [gate]" in block.partition("```")[0]
    ] + [header]

    assert 2 == len(examples)
    assert all('PRELAUNCH_CHECK_ONLY: "true"' in block.partition("```")[0] for block in examples)
    assert all(re.search(r"^ +timeout: ", block, re.MULTILINE) for block in examples)
