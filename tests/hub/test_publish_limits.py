"""Publishing under the Hub's rate limit (status 429)."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from types import SimpleNamespace

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


@pytest.mark.parametrize(
    ("header", "sent", "expected"),
    [
        ("Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:27:53 GMT", 8),
        ("Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:29:53 GMT", 1),
        ("Wednesday, 21-Oct-26 07:28:00 GMT", "Wed, 21 Oct 2026 07:27:53 GMT", 8),
        ("Wed, 21 Oct 2015 07:28:00 GMT", "", 1),
        ("Wed, 21 Oct 2026 07:28:00 GMT", "today", None),
        ("soon", "Wed, 21 Oct 2026 07:27:53 GMT", None),
        ("Wed, 21 Oct 2026 07:28:00 GMT", "Wed, 21 Oct 2026 07:27:53 -0000", 8),
        ("-7", "", None),
    ],
)
def test_the_time_may_be_a_date(header, sent, expected):
    response = SimpleNamespace(status_code=429, headers={"Retry-After": header, "Date": sent})
    assert hub_client._read_wait(response) == expected


def test_the_hub_is_given_the_time_until_a_date(small, hub, waits):
    until = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    hub.fail("POST", "/commit/", status=429, Retry_After=until)
    small()
    [seconds] = waits
    assert 30 <= seconds <= 62


def test_an_organisation_that_the_hub_does_not_know_is_said_to_be_wrong(small, hub):
    hub.fail("POST", "/repos/create", status=404)
    with pytest.raises(MedfaithError, match=r"answers 404 .*\n  what to do: correct the names of organisation and"):
        small()


@pytest.mark.parametrize(("route", "method"), [("/commit/", "POST"), ("/settings", "PUT")])
def test_a_new_repository_whose_first_commit_is_refused_is_said_to_be_empty(route, method, small, hub):
    hub.fail(method, route, status=403)
    with pytest.raises(MedfaithError, match="/datasets/clinic/small is new and still empty: run it again, or delete"):
        small()
    small()
    assert "a.parquet" in hub.repositories["dataset", "clinic/small"].files


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
