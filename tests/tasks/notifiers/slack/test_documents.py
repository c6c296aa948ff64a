"""What is shipped for Slack beside the code: the app's manifest and the page about it say what is so."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import yaml

from tasks.gate_file.people import Notify
from tests.fakes.slack.workspace import BOT_SCOPES

ROOT = Path(__file__).resolve().parents[4]
PAGE = (ROOT / "docs" / "people.md").read_text(encoding="utf-8")


def test_the_manifest_asks_for_what_is_used() -> None:
    """Every test runs with these scopes, so that none is missing; and none is asked for in vain."""
    manifest = yaml.safe_load((ROOT / "deployments" / "slack-app-manifest.yaml").read_text(encoding="utf-8"))

    assert tuple(manifest["oauth_config"]["scopes"]["bot"]) == BOT_SCOPES
    assert all(f"`{scope}`" in PAGE for scope in BOT_SCOPES)


def test_the_tables_on_the_page_are_valid() -> None:
    """What an operator copies is a gate file's [notify]."""
    block = re.search(r"```toml\n(\[notify\].*?)```", PAGE, re.DOTALL)
    assert block is not None

    notify = Notify.model_validate_json(json.dumps(tomllib.loads(block[1])["notify"]))

    assert notify.slack is not None
    assert set(notify.slack.model_dump()) - {"api_url"} == set(tomllib.loads(block[1])["notify"]["slack"])
