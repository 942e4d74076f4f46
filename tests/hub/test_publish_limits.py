"""Publishing under the Hub's rate limit (status 429)."""

from __future__ import annotations

import time

import pytest

from medfaith.cards.publish import hub_client, upload, upload_plan
from medfaith.loaders.errors import MedfaithError


@pytest.fixture
def waits(monkeypatch) -> list[float]:
    """Seconds of each suppressed sleep."""
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    return slept


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/whoami-v2"),
        ("GET", "/api/datasets/"),
        ("POST", "/repos/create"),
        ("PUT", "/settings"),
        ("POST", "/validate-yaml"),
        ("POST", "/preupload/"),
        ("POST", "/lfs/objects/batch"),
        ("PUT", "/lfs/"),
        ("POST", "/commit/"),
        ("GET", "/tree/"),
    ],
)
@pytest.mark.parametrize("header", [{"Retry_After": "7"}, {"RateLimit": '"api";r=0;t=7'}])
def test_the_hub_is_given_the_time_that_it_asks_for(method, path, header, small, hub, waits, capsys):
    hub.fail(method, path, times=2, status=429, **header)
    small()
    assert waits == [8, 8]  # seconds; one more for the Hub's rounding
    assert capsys.readouterr().err.count("the Hub has had too many requests: waiting 8 seconds\n") == 2
    assert set(hub.repositories["dataset", "clinic/small"].files) == {".gitattributes", "README.md", "a.parquet"}


@pytest.mark.parametrize(
    ("path", "header", "complaint", "slept"),
    [
        ("/commit/", {"Retry_After": "3600"}, "asks to wait 3601 seconds\n  what to do: run it again after that", 0),
        ("/lfs/", {"Retry_After": "3600"}, "asks to wait 3601 seconds\n  what to do: run it again after that", 0),
        ("/commit/", {"Retry_After": "7"}, "answers 429 .*\n  what to do: wait five minutes", 5),
        ("/commit/", {}, "answers 429 .*\n  what to do: wait five minutes", 0),
    ],
)
def test_the_hub_is_not_waited_for_without_end(path, header, complaint, slept, small, hub, waits):
    hub.fail("POST", path, times=99, status=429, **header)
    with pytest.raises(MedfaithError, match=complaint):
        small()
    assert waits == [8] * slept


@pytest.fixture
def small(hub, medfaith, tmp_path):
    """Publish a card and a Parquet file, gated, with the real command."""
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "README.md").write_text("---\nlicense: mit\n---\n")
    (folder / "a.parquet").write_bytes(b"PAR1")

    def publish():
        api = hub_client.get_client()
        hub_client.check_access(api, "clinic")
        planned = upload_plan.build_plan(api, "clinic/small", "dataset", folder)
        return upload.upload(api, planned, folder, message="small", gated=True)

    return publish
