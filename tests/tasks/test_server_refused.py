"""What `medfaith-server` refuses: options, requests without images, and images for third parties."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from medfaith.loaders.errors import MedfaithError
from medfaith.tasks.lazy_images import LazyImages
from medfaith.tasks.models.server import access as server_access
from tests.support.tasks.asking import asked, shade
from tests.support.tasks.evaluating import load
from tests.support.tasks.server_scene import serving, texts_of

WRONG_LUNG = "medfaith_wrong_lung_gold"


REFUSED = [  # the model's options, and the expected message
    ({"base_url": "http://127.0.0.1:9/v1"}, "does not answer"),
    ({"model": "loading"}, r"does not answer a short question \(503: Loading model\)(.|\n)*wait until it has"),
    ({"model": "page"}, r"does not answer \(ValueError: '<html>' is no chat completion"),
    ({"model": "error"}, r"has no model 'error' \(404: no such model"),
    ({"model": "nosuch"}, r"has no model 'nosuch' \(404: (.|\n)*expected: one of m, other"),
    ({"base_url": "URL/not-here"}, r"has no model 'm' \(404: "),
    ({"base_url": "LOCKED"}, r"refuses the key \(401: (.|\n)*set OPENAI_API_KEY"),
    ({"base_url": "ftp://127.0.0.1"}, "expected: an address such as"),
    ({"base_url": "http://me:secret@127.0.0.1/v1"}, "the variable OPENAI_API_KEY"),
    ({"base_url": "ftp://me:secret@127.0.0.1/v1"}, r"the variable OPENAI_API_KEY, and leave it out of the address$"),
    ({"base_url": "http://127.0.0.1/v1?api_key=secret"}, "the variable OPENAI_API_KEY"),
    ({"base_url": "http://127.0.0.1:99999/v1"}, "expected: an address such as"),
    ({"base_url": "http://[127.0.0.1/v1"}, "expected: an address such as"),
    ({"base_url": "http://169.254.169.254/v1"}, "add --send-images-to 169.254.169.254"),
    ({"model": ""}, "names no model"),
    ({"concurency": 4}, "has no option concurency"),
    ({"concurrency": 0}, "a number from 1"),
    ({"concurrency": "many"}, "a number from 1"),
    ({"concurrency": 1_000_000}, "a number from 1 to 4,096"),
    ({"timeout": float("nan")}, "a number from 0"),
    ({"image_format": "gif"}, "png or jpeg"),
    ({"image_quality": 101}, "1 to 100"),
    ({"image_max_side": 0}, "positive"),
    ({"max_tokens_name": "limit"}, "max_tokens or max_completion_tokens"),
    ({"base_url": "http://8.8.8.8/v1"}, "add --send-images-to 8.8.8.8"),
    ({"base_url": "http://8.8.8.8/v1", "send_images_to": "8.8.4.4"}, "it is 8.8.4.4"),
    ({"answers": "BROKEN"}, "is no store of answers"),
]


def test_what_cannot_be_asked_is_refused_when_the_model_is_loaded(tmp_path):
    (tmp_path / "broken").write_text("no database" * 100)

    odd = {  # responses by the name of the model
        "loading": lambda handler: handler.send(503, {"error": {"message": "Loading model"}}, Retry_After="0.01"),
        "page": lambda handler: handler.send(200, "<html>"),
        "error": lambda handler: handler.send(200, {"error": {"message": "no such model", "code": 404}}),
    }

    def choose_fault(request):
        good = request["path"] == "/v1/chat/completions" and request["model"] == "m"
        if request["model"] in odd:
            return odd[request["model"]]
        return None if good else lambda handler: handler.send(404, {"error": {"message": "no such model or page"}})

    with serving(fault=choose_fault) as server, serving(models=None, status_of=lambda n: 401) as closed:
        places = {"URL": server.url, "LOCKED": closed.url, "BROKEN": str(tmp_path / "broken")}
        for arguments, message in REFUSED:
            options = {name: fill_places(value, places) for name, value in arguments.items()}
            with pytest.raises(MedfaithError, match=message) as raised:
                server.lm(**options)
            assert "secret" not in str(raised.value)
        assert server.lm(model="m", base_url=f"{server.url}/")
    with serving(models=None) as unlisted:
        assert unlisted.lm()
        assert [texts_of(request["messages"]) for request in unlisted.requests] == ["Say Yes."]


def fill_places(value: Any, places: dict[str, str]) -> Any:
    for name, place in places.items():
        value = value.replace(name, place) if isinstance(value, str) else value
    return value


def test_log_likelihoods_and_prompts_without_their_images_are_refused():
    with serving() as server:
        lm = server.lm()
        option = replace(asked(""), arguments=("<image>Is it?", " No edema", {"visual": [shade(1)]}))
        with pytest.raises(MedfaithError, match="medfaith-server answers about images; it gives no probability"):
            lm.loglikelihood([option])
        for prompt, pictures in (("Is it?", [shade(1)]), ("<image>Is it?", []), ("<image><image>", [shade(1)])):
            with pytest.raises(MedfaithError, match="image placeholders for"):
                lm.generate_until([asked("<image>", [shade(0)]), asked(prompt, pictures)])
        assert not server.requests


def test_which_hosts_are_third_parties(monkeypatch):
    private_hosts = ("127.0.0.1", "::1", "localhost", "10.1.2.3", "172.16.0.9", "192.168.1.1", "0.0.0.0", "127.9.9.9",
                     "fd12::1", "::ffff:10.1.2.3", "::ffff:127.0.0.1")  # fmt: skip
    assert not [host for host in private_hosts if server_access.is_third_party(host)]
    public_hosts = (
        "8.8.8.8", "172.32.0.1", "2001:4860:4860::8888", "::ffff:8.8.8.8", "2001:0:808:808::1", "64:ff9b::808:808",
        "100.64.0.1",
        # link-local, where whoever is on the link answers, and where clouds serve metadata and credentials
        "169.254.1.1", "169.254.169.254", "fe80::1", "::ffff:169.254.169.254", "fd00:ec2::254", "fd20:ce::254",
        "100.100.100.200", "192.0.0.192", "198.18.0.1", "240.0.0.1", "224.0.0.1",
    )  # fmt: skip
    assert {host for host in public_hosts if server_access.is_third_party(host)} == {*public_hosts}
    addresses = {"inside": ["10.0.0.7"], "mixed": ["10.0.0.7", "8.8.8.8"]}

    def resolve_host(host, _):
        if host not in addresses:
            raise OSError
        return [(0, 0, 0, "", (address, 0)) for address in addresses[host]]

    monkeypatch.setattr(server_access.socket, "getaddrinfo", resolve_host)
    assert [server_access.is_third_party(host) for host in ("inside", "mixed", "unknown")] == [False, True, True]


def test_data_go_to_a_third_party_only_where_their_terms_let_them(
    phantom_roots, phantom_wrong_lung_roots, phantom_wrong_lung_build, monkeypatch
):
    monkeypatch.setattr(server_access, "is_third_party", lambda host: True)
    keys = {"chexpert": "train/patient00001/study1/view1_frontal.jpg", "openi": "CXR1_1_IM-0001-3001.png"}
    references = {source: {"source": source, "key": key, "view": ""} for source, key in keys.items()}

    def make_request(*names, further=()):
        lazy_images = LazyImages("a", [references[name] for name in names], phantom_roots, further=further)
        return asked("<image>" * len(names), lazy_images)

    with serving() as server:
        run = partial(server.lm, send_images_to="127.0.0.1")
        for request in (make_request("openi", "chexpert"), make_request("openi", further=["chexpert"])):
            with pytest.raises(MedfaithError, match=r"chexpert: its terms do not let (.|\n)*-permission chexpert"):
                run().generate_until([make_request("openi"), request])
        loaded = load([WRONG_LUNG], phantom_wrong_lung_build, phantom_wrong_lung_roots, control="none")
        document = loaded["tasks"][WRONG_LUNG].test_docs()[0]
        assert (len(document["images"]), document["images"].sources) == (0, {"mimic_cxr"})  # sentences of reports
        assert not server.requests
        assert len(run().generate_until([make_request("openi"), asked("no image")])) == 2
        assert run(i_have_permission="mimic_cxr+chexpert").generate_until([make_request("chexpert")])
