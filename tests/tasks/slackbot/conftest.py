"""One Prefect server for the tests of this folder."""

from __future__ import annotations

from tests.prefect_backend import prefect_backend as prefect_backend
from tests.prefect_backend import template_dir as template_dir
