"""`medfaith annotate` in a real browser: choose, answer, reload, kill and resume."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from medfaith.annotate.answers import read_judgements
from tests.support.annotate.annotation_scene import MODELS, SENTENCES, Scene
from tests.support.browser import browser
from tests.support.tasks.tiny_gloria import save

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: uv sync installs it")
WAIT = 180_000  # milliseconds; a busy machine
INSTRUCTIONS = "Models were asked which part"


@pytest.fixture(scope="module", name="browser")
def a_browser() -> Iterator:
    with browser() as running:
        yield running


@contextmanager
def served(scene: Scene, out: Path, *more: str) -> Iterator[tuple[subprocess.Popen, str]]:
    """Start the command and yield its process and the page's URL."""
    log = out.with_suffix(".log")
    command = [sys.executable, "-m", "medfaith", *scene.arguments(out, "--port", "0", *more)]
    with log.open("w") as errors:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        assert process.stdout
        lines = []
        for line in process.stdout:
            lines.append(line)
            if match := re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", line):
                yield process, match[0]
                return
        raise AssertionError(f"{''.join(lines)}{log.read_text()}")
    finally:
        process.kill()
        process.wait()


@contextmanager
def visited(browser, url: str) -> Iterator:
    """Open a page with long timeouts; at the end, fail if it received a model's name or contacted another machine."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000})
    page = context.new_page()
    page.set_default_timeout(WAIT)
    requests, ended = [], []

    def remember(request) -> None:  # playwright takes no method of a list
        requests.append(request)

    def remember_end(request) -> None:
        ended.append(request)

    page.on("request", remember)
    page.on("requestfinished", remember_end)
    page.on("requestfailed", remember_end)
    page.goto(url)
    yield page
    sent = [page.content()]
    for request in select_ended(page, requests, ended):
        if response := request.response():  # none where a reload cut it off
            try:
                sent.append(request.url + response.text())
            except (sync_api.Error, UnicodeDecodeError):  # of the page before a reload; a font
                continue
    context.close()
    assert [request.url for request in requests if not _is_own(request.url, url)] == []
    # It includes the server's messages to the open page.
    assert any("/queue/data" in request_text for request_text in sent)
    for secret in (*MODELS, "live-one", "live-two", "run0", "heatmaps/"):
        assert not [request_text for request_text in sent if secret in request_text], secret


def select_ended(page, requests: list, ended: list) -> list:
    """Return the finished requests after a grace period; reading the text of an endless request would block."""
    expected = [
        candidate for candidate in requests if "/heartbeat/" not in candidate.url and candidate.url.startswith("http")
    ]
    for _ in range(300):
        if all(request in ended for request in expected):
            break
        page.wait_for_timeout(100)
    return [request for request in expected if request in ended]


def _is_own(address: str, url: str) -> bool:
    return address.startswith((get_origin(url), "data:", "blob:"))


def get_origin(url: str) -> str:
    return url.partition("/?")[0]


def wait_until_another_window_hides(browser, url: str, text: str) -> None:
    """Wait until the server has processed the page's last message, which is lost if the page closes too early."""
    for _ in range(30):
        with visited(browser, url) as other_page:
            other_page.get_by_text("Choose one sentence").wait_for()
            try:
                return other_page.get_by_text(text).wait_for(state="hidden", timeout=2_000)
            except sync_api.TimeoutError:
                continue
    raise AssertionError(f"{text!r} is shown to this day")


def click_until(page, name: str, text: str) -> None:
    """Repeat a click, because a click during a redraw is lost; on a busy machine the page redraws after loading."""
    for _ in range(10):
        page.get_by_role("button", name=name).first.click()
        try:
            return page.get_by_text(text).first.wait_for(timeout=8_000)
        except sync_api.TimeoutError:
            continue
    raise AssertionError(f"{name!r} does not lead to {text!r}")


def choose(page, sentence: str) -> None:
    page.get_by_label(sentence).check()
    page.get_by_role("button", name="Show the heatmaps").first.click()


def answer(page, alias: str, points: tuple[int, int, int]) -> None:
    page.get_by_text(re.compile(rf"^{alias} ")).locator("visible=true").wait_for()
    for question, point in zip(("1. How", "2. How", "3. How"), points, strict=True):
        page.locator("fieldset:visible", has_text=question).get_by_role("radio").nth(point - 1).check()
    page.get_by_role("button", name="Next").locator("visible=true").click()


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture(scope="module")
def server(scene, tmp_path_factory) -> Iterator[tuple[subprocess.Popen, str, Path]]:
    """Start the command; yield its process, the page's URL and the answers file, which the killing test uses last."""
    out = tmp_path_factory.mktemp("server") / "answers.jsonl"
    with served(scene, out, "--annotator", "ann") as (process, url):
        yield process, url, out


def fetch_status(address: str, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers)) as response:
            return response.status
    except urllib.error.HTTPError as refused:
        return refused.code


def test_nothing_else_is_given_out(server):
    page, _, token = server[1].partition("/?")
    assert fetch_status(server[1]) == 200
    assert fetch_status(server[1], Host="evil.example") == 400
    for path in ("/etc/passwd", "pyproject.toml"):
        assert fetch_status(f"{page}/gradio_api/file={path}?{token}") == 403, path


@pytest.mark.parametrize("token", ["", "?token=", "?token=guessed", "?token=%ff%00é".encode().decode("latin-1")])
def test_who_has_not_the_address_gets_nothing(server, token):
    for path in ("/", "/config", "/theme.css", "/gradio_api/info", "/gradio_api/queue/data", "/none"):
        address = urllib.parse.quote(f"{get_origin(server[1])}{path}{token}", safe=":/?=%")
        assert [fetch_status(address), fetch_status(address, Cookie="medfaith-1=guessed")] == [403, 403], path


def test_a_cookie_holds_the_token_for_this_page_alone(server):
    with urllib.request.urlopen(server[1]) as response:
        assert "default-src 'self'" in response.headers["Content-Security-Policy"]
        cookie, *attributes = response.headers["Set-Cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict"} <= set(attributes)
    assert fetch_status(f"{get_origin(server[1])}/config", Cookie=cookie) == 200
    other_cookie = cookie.replace("medfaith-", "medfaith-9")
    assert fetch_status(f"{get_origin(server[1])}/config", Cookie=other_cookie) == 403


@pytest.mark.full
def test_two_images_with_a_reload_and_a_kill_on_the_way(scene, browser, server):
    process, url, out = server
    plan = scene.plan()
    with visited(browser, url) as page:
        page.get_by_text("Choose one sentence").wait_for()
        assert page.get_by_text("Model A").count() == 0
        instructions = page.get_by_text(INSTRUCTIONS)
        assert instructions.is_visible()
        page.get_by_role("button", name="Instructions").click()
        instructions.wait_for(state="hidden")
        wait_until_another_window_hides(browser, url, INSTRUCTIONS)
        page.reload()
        page.get_by_text("Choose one sentence").wait_for()
        instructions.wait_for(state="hidden")
        click_until(page, "Show the heatmaps", "Choose a sentence first.")
        choose(page, SENTENCES[0])
        page.get_by_text("Model A (1 of 2)").wait_for()
        page.reload()
        page.get_by_text("Model A (1 of 2)").wait_for()  # the choice stands
        following = page.get_by_role("button", name="Next").locator("visible=true")
        for width, height in ((390, 844), (1280, 800)):
            page.set_viewport_size({"width": width, "height": height})
            place = following.bounding_box()
            assert 0 <= place["y"] <= height - place["height"], "it is seen without a scroll"
        following.click()
        page.get_by_text("Answer all three questions.").wait_for()
        before = page.locator("img:visible").last.get_attribute("src")
        page.get_by_label("Show the boxes").check()
        page.wait_for_function("old => [...document.images].at(-1).src !== old", arg=before)
        answer(page, "Model A", (1, 2, 3))
        page.get_by_text("Model B (2 of 2)").wait_for()
    assert [line["kind"] for line in lines(out)] == ["choice", "judgement"]
    process.send_signal(signal.SIGKILL)
    process.wait()
    with out.open("a") as file:
        file.write('{"kind": "judgement", "annot')  # as left by a kill during a write
    with served(scene, out, "--annotator", "ann") as (process, url):
        assert "cut short" in out.with_suffix(".log").read_text()
        with visited(browser, url) as page:
            answer(page, "Model B", (5, 4, 3))
            page.get_by_text("Image 2").wait_for()
            choose(page, SENTENCES[1])
            answer(page, "Model A", (2, 2, 2))
            page.get_by_text("Model B (2 of 2)").wait_for()
            page.get_by_role("button", name="Back").locator("visible=true").click()
            answer(page, "Model A", (4, 4, 4))
            answer(page, "Model B", (1, 1, 1))
            page.get_by_text("All images are judged.").wait_for()
            assert page.get_by_text("2 of 2 images done").count() == 1
            page.get_by_role("tab", name="Own prompt").click()
            page.get_by_text("No model is loaded").wait_for()
            assert "--live" not in page.content()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    judgements, notes = read_judgements(out)
    assert notes == []
    points = {
        (judgement.instance, judgement.alias): (judgement.recall, judgement.precision, judgement.intuitiveness)
        for judgement in judgements
    }
    keys = [instance.key for instance in plan.instances]
    assert points == {
        (keys[0], "Model A"): (1, 2, 3), (keys[0], "Model B"): (5, 4, 3),
        (keys[1], "Model A"): (4, 4, 4), (keys[1], "Model B"): (1, 1, 1),
    }  # fmt: skip
    assert len(lines(out)) == 7  # two choices, four judgements, one of them twice
    assert all(
        judgement.model == plan.aliases(keys.index(judgement.instance))[judgement.alias] for judgement in judgements
    )
    assert {judgement.sentence for judgement in judgements} == set(SENTENCES)


@pytest.mark.full
def test_own_prompts_with_live_models(scene, browser, tmp_path):
    out = tmp_path / "answers.jsonl"
    live = []
    for seed, name in enumerate(("live-one", "live-two")):
        checkpoint, text_model = save(tmp_path / name, seed=seed)
        live += ["--live", f"{name}=gloria:{checkpoint},text_model={text_model}"]
    with served(scene, out, *live) as (_, url), visited(browser, url) as page:
        page.get_by_role("tab", name="Own prompt").click()
        page.get_by_label("Image, 1 to 2").fill("2")
        page.get_by_label("Your sentence").fill("Small right pleural effusion.")
        page.get_by_role("button", name="Show the heatmaps").locator("visible=true").click()
        answer(page, "Model A", (1, 2, 3))
        answer(page, "Model B", (3, 2, 1))
        page.get_by_text("Every model is judged").wait_for()
    judgements, _ = read_judgements(out)
    assert {judgement.model for judgement in judgements} == {"live-one", "live-two"}
    assert {(judgement.custom, judgement.row_id, judgement.sentence) for judgement in judgements} == {
        (True, None, "Small right pleural effusion.")
    }
    assert {judgement.instance for judgement in judgements} == {scene.plan().instances[1].key}


@pytest.mark.full
def test_two_windows_of_one_annotator_and_one_of_another(scene, browser, tmp_path):
    warning = "Another window has answered this already"
    files = {name: tmp_path / f"{name}.jsonl" for name in ("ann", "bob")}
    with (
        served(scene, files["ann"], "--annotator", "ann") as (_, ann_url),
        served(scene, files["bob"], "--annotator", "bob") as (_, bob_url),
        visited(browser, ann_url) as first,
        visited(browser, ann_url) as second,
        visited(browser, bob_url) as other,
    ):
        for page in (first, second, other):
            page.get_by_text("Choose one sentence").wait_for()
        choose(first, SENTENCES[0])
        first.get_by_text("Model A (1 of 2)").wait_for()
        choose(other, SENTENCES[1])
        other.get_by_text("Model A (1 of 2)").wait_for()
        choose(second, SENTENCES[1])
        second.get_by_text(warning).wait_for()
        second.reload()
        second.get_by_text("Model A (1 of 2)").wait_for()
        answer(first, "Model A", (1, 1, 1))
        first.get_by_text("Model B (2 of 2)").wait_for()
        answer(other, "Model A", (3, 3, 3))
        other.get_by_text("Model B (2 of 2)").wait_for()
        answer(second, "Model A", (5, 5, 5))
        second.get_by_text(warning).wait_for()
        second.reload()
        answer(second, "Model B", (2, 2, 2))
        second.get_by_text("Image 2").wait_for()
        answer(other, "Model B", (4, 4, 4))
        other.get_by_text("Image 2").wait_for()
    points = {
        name: {(judgement.annotator, judgement.sentence, judgement.recall) for judgement in read_judgements(path)[0]}
        for name, path in files.items()
    }
    assert points == {
        "ann": {("ann", SENTENCES[0], 1), ("ann", SENTENCES[0], 2)},
        "bob": {("bob", SENTENCES[1], 3), ("bob", SENTENCES[1], 4)},
    }
