"""Secrets of commands and arguments are masked, whatever their form, and other arguments are not."""

from __future__ import annotations

import pytest

from medfaith.loaders.errors import InputError, exit_status
from medfaith.loaders.secrets import find_url_secret, is_secret, mask_arguments, mask_text, refuse_url_secret

SECRET = "hidden0"
TEXTS = [
    f"--model_args model=m,api_key={SECRET}", f"--api-key={SECRET}", f'api_key="{SECRET} 1,2"', f"api_key='a {SECRET}'",
    f'{{"api_key": "{SECRET}"}}', f"{{'api_key': '{SECRET}'}}", f'{{"base_url":"x","api_key":{SECRET}}}',
    f"http://me:{SECRET}@host/v1", f"http://{SECRET}@host/v1", f"base_url=http://me:{SECRET},0@host/v1,model=m",
    f"https://host/v1?api_key={SECRET}&revision=1", f"https://host/v1?key={SECRET}", f"https://host/v1?sig={SECRET}",
    f"https://host/v1?x=1&access_token={SECRET}", f"postgresql://me:{SECRET}@host/x", f"http://me:a@{SECRET}@host",
    f"password={SECRET}", f"passwd={SECRET}", f"PWD={SECRET}", f"Authorization={SECRET}",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_secrets_of_a_command_are_masked(text):
    assert SECRET not in mask_text(text)
    assert "..." in mask_text(text)
    assert SECRET not in str(mask_arguments({"base_url": f"http://host/?{text}" if "://" not in text else text}))


@pytest.mark.parametrize("text", [
    "medfaith eval --model_args pretrained=org/model@main,dtype=auto,max_tokens=5 --data /a/b@c",
    "base_url=http://127.0.0.1:8000,model=org/model@main", "http://[::1]:8000/v1?revision=main", "me@host",
    "compass=3,author=me,keys=2,bypass=1",
])  # fmt: skip
def test_other_arguments_are_not_masked(text):
    assert mask_text(text) == text
    assert find_url_secret(text) == ""
    refuse_url_secret(text, "base_url")


def test_arguments_are_masked_inside_of_others_and_as_numbers():
    arguments = {
        "api_key": 1234567, "headers": {"Authorization": f"Bearer {SECRET}"}, "proxies": [f"http://me:{SECRET}@host"],
        "use_fast_token": True, "num_image_token": 256, "model": "m", "token": None, "max_tokens": 5,
    }  # fmt: skip
    masked = mask_arguments(arguments)
    assert masked == arguments | {
        "api_key": "...", "headers": {"Authorization": "..."}, "proxies": ["http://...@host"],
    }  # fmt: skip
    assert is_secret("api-key")


@pytest.mark.parametrize("url", ["http://me:hidden0@host", "http://hidden0@host", "http://host/v1?api_key=hidden0"])
def test_an_address_with_a_secret_is_refused_without_the_secret(url):
    with pytest.raises(InputError, match=r"base_url: holds a (.|\n)*OPENAI_API_KEY") as raised:
        refuse_url_secret(url, "base_url")
    assert SECRET not in str(raised.value)


def test_messages_show_no_password_of_an_address(capsys):
    """Such as the message of a library about the address of a proxy."""

    def raise_error() -> int:
        raise ConnectionError(f"cannot reach http://me:{SECRET}@host")

    assert exit_status(raise_error) == 2
    assert "http://...@host" in capsys.readouterr().err
