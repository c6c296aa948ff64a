"""A store's own name, kept in it: it tells its rows from another store's in an index that several share."""

from __future__ import annotations

import re
import secrets

from tasks.store.base import Store, StoreError

KEY = "store-id"
FORM = re.compile(rb"[0-9a-f]{32}\n")


def identity(store: Store) -> str:
    """Thirty-two digits, made on first use; of several that come first one wins. Raises StoreError."""
    found = store.get(KEY)
    if found is None:
        mine = f"{secrets.token_hex(16)}\n".encode()
        found = mine if store.put_if_absent(KEY, mine) else store.get(KEY)
    if found is None or not FORM.fullmatch(found):
        raise StoreError(
            f"{store.place(KEY)} is not what this program wrote there. Remove it; the index is made anew."
        )
    return found.decode().strip()
