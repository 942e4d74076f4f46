"""The fixture `hub`: a fresh loopback Hub for each test, reachable from this process as well."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hub.server import Hub


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """An empty Hub; huggingface_hub in this process uses its address and `hub.token`.

    datasets and evaluate read HF_ENDPOINT at import: they need a subprocess with `hub.environment(folder)`.
    """
    from huggingface_hub import close_session, constants

    with Hub() as served:
        # The tests' process is offline, and huggingface_hub keeps the settings that it read at import.
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "ENDPOINT", served.url)
        template = served.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setenv("HF_TOKEN", served.token)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        close_session()  # makes the next client read NO_PROXY
        yield served
        close_session()
    assert not served.crashes, "\n".join(served.crashes)
    assert not [request for request in served.requests if request.store and request.has_token], "a token left the Hub"
