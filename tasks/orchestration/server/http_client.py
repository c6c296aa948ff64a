"""What Prefect's HTTP client (httpx) takes from the environment: proxies and certificates. It cannot be made with some of them.

httpx makes a transport for each proxy that is named, also for one that no request would use: NO_PROXY does not help. Desktops set
all_proxy=socks://... , which it does not know; socks5:// needs a package; [::1] in NO_PROXY is no address to it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import partialmethod
from typing import TYPE_CHECKING

from checks.process.environment import home_folder

if TYPE_CHECKING:
    import httpx

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def client_fault(environ: Mapping[str, str] = os.environ, proxied: bool = True) -> str:
    """Why Prefect's client cannot be made in this process's environment, with the remedy; "" if it can.

    Without `proxied` proxies do not count, as for a client that asks none.
    """
    # As in a container with --user 12345; Prefect's import asks for it (settings/constants.py, 3.8.8).
    if home_folder() is None:
        return f"user {os.getuid()} has no home folder, and Prefect needs one. Set HOME to a folder: HOME=/tmp prelaunch ..."
    variables = {name for name in environ if name.upper() in (*CERTIFICATES, *(PROXIES if proxied else ()))}
    if not variables:
        return ""
    import httpx  # only where something is set: it takes 0.2 s, and most commands need none

    try:
        if proxied:
            httpx.Client().close()
        else:
            httpx.create_ssl_context()
    except (OSError, ValueError, ImportError, httpx.InvalidURL) as error:  # OSError is also ssl.SSLError
        problem = f"{type(error).__name__}: {error}".rstrip(".")
        without = " ".join(f"-u {name}" for name in sorted(variables))
        return (
            f"Prefect's client cannot use what this environment says in {' or '.join(sorted(variables))}: {problem}. Correct "
            f"it there, or leave it out for this command: env {without} prelaunch ..."
        )
    return ""


def service_fault(error: BaseException | None) -> httpx.HTTPError | None:
    """The HTTP error among the causes of an error, where the server failed and not our code: no answer, a 5xx, a password or a limit.

    Prefect's client has repeated the request by then.
    """
    if "httpx" not in sys.modules:  # nothing has asked a server
        return None
    import httpx

    while error is not None:
        if isinstance(error, httpx.HTTPStatusError):
            status = error.response.status_code
            return error if status >= 500 or status in (401, 403, 408, 429) else None
        if isinstance(error, httpx.HTTPError):
            return error
        error = error.__cause__ or error.__context__
    return None


def ask_no_proxy() -> None:
    """From now on Prefect's clients in this process ask no proxy: the embedded server is on the loopback interface."""
    from prefect.client.base import PrefectHttpxAsyncClient, PrefectHttpxSyncClient

    for client in (PrefectHttpxAsyncClient, PrefectHttpxSyncClient):
        if not isinstance(vars(client)["__init__"], partialmethod):
            client.__init__ = partialmethod(client.__init__, trust_env=False)  # type: ignore[assignment,method-assign]
