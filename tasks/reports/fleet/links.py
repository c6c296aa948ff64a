"""Links between the pages of a store."""

from __future__ import annotations

import posixpath
from pathlib import Path

from tasks.store.base import Store
from tasks.text.inert import browsable


def page_link(store: Store, key: str, page: str = "") -> str:
    """The address of the page under `key`, for the page under the key `page`: in the console of a bucket, and in a folder from one to
    the other. Without `page` it is for one that lies anywhere.
    """
    place = store.place(key)
    if "://" in place:
        return browsable(place)
    return posixpath.relpath(key, posixpath.dirname(page)) if page else Path(place).as_uri()
