"""Which words of a command start Python."""

from __future__ import annotations

import re

PYTHON = re.compile(r"(.*/)?python[0-9.]*|\{python\}")
