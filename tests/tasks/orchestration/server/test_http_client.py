"""Proxies and certificates of an environment that Prefect's client cannot use: said with the remedy, without effect on loopback."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from prefect.client.base import PrefectHttpxAsyncClient, PrefectHttpxSyncClient

from tasks.orchestration.server import http_client

# What desktops, ssh -D and documents of clusters set.
UNUSABLE = {
    "a desktop's": ("all_proxy", "socks://127.0.0.1:9/", "Unknown scheme"),
    "of ssh -D": ("ALL_PROXY", "socks5://127.0.0.1:9", "socksio"),
    "brackets": ("no_proxy", "localhost,[::1]", "Invalid port"),
}


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*http_client.PROXIES, *http_client.CERTIFICATES):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize("case", UNUSABLE)
def test_an_unusable_proxy_is_named(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence has the variable, what is wrong with it, and what to type."""
    name, value, why = UNUSABLE[case]
    monkeypatch.setenv(name, value)

    said = http_client.client_fault()

    assert why in said and f"env -u {name} prelaunch" in said
    assert http_client.client_fault(proxied=False) == ""


def test_usable_proxies_are_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that does not answer, and one without a scheme, are not looked at."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "localhost,::1,.example,10.0.0.0/8")

    assert http_client.client_fault() == ""


@pytest.mark.parametrize("proxied", [True, False])
def test_certificates_that_are_not_there_are_named(
    proxied: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Prefect cannot be imported with them, whichever server it talks to."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "gone.pem"))

    assert "SSL_CERT_FILE" in http_client.client_fault(proxied=proxied)


def test_a_proxys_password_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sentence goes to logs."""
    monkeypatch.setenv("all_proxy", "socks://somebody:hunter2@proxy.example:1080")

    assert "hunter2" not in http_client.client_fault()


def test_clients_of_the_embedded_server_ask_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kinds of Prefect's clients are made where httpx alone cannot make one, and calling it twice changes nothing."""
    clients = (PrefectHttpxAsyncClient, PrefectHttpxSyncClient)
    for client in clients:
        monkeypatch.setattr(client, "__init__", client.__init__)  # as before, once the test has ended
    monkeypatch.setenv("all_proxy", "socks://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "[::1]")
    http_client.ask_no_proxy()
    http_client.ask_no_proxy()

    assert not any(client(base_url="http://127.0.0.1:1/api").trust_env for client in clients)


def status_error(code: int) -> httpx.HTTPStatusError:
    """A Prefect server's answer that is no success."""
    request = httpx.Request("POST", "http://127.0.0.1:9/api/flow_runs/")
    return httpx.HTTPStatusError(str(code), request=request, response=httpx.Response(code, request=request))


@pytest.mark.parametrize(
    ("fault", "services"),
    [
        *((status_error(code), True) for code in (401, 403, 408, 429, 500, 502, 503, 504)),
        *((status_error(code), False) for code in (400, 404, 409, 422)),
        *((kind("slow"), True) for kind in (httpx.ReadTimeout, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ConnectError)),
        *((kind("gone"), True) for kind in (httpx.ReadError, httpx.WriteError, httpx.RemoteProtocolError)),
        *((kind("ours"), False) for kind in (ValueError, KeyError, TimeoutError)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_server_that_is_busy_or_away_is_no_error(fault: Exception, services: bool, wrapped: bool) -> None:
    """A server that calls our request wrong has found an error of ours; one that answers nothing useful has failed itself."""
    error: BaseException = fault
    if wrapped:
        error = RuntimeError("Failed to reach API")
        error.__cause__ = fault

    assert (fault if services else None) is http_client.service_fault(error)
