"""The guard's rules on single texts: accepted, refused, and refused in every place and notation."""

from __future__ import annotations

import base64
import json
import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medfaith.builders.cxr_contrabench.vocabulary import vocabulary
from medfaith.builders.schemas.contrabench import QUESTION
from medfaith.cards.publish.guard import columns, identifiers, paths, pixels, secrets
from medfaith.cards.publish.guard.found import SHOWN, Value, shorten
from medfaith.cards.publish.guard.quotes import RUN, Quotable, Text
from tests.support.cards.guard_scenes import encode_image

HARMLESS = [
    "left/right", "w/o contrast", "1/2", "s/p", "and/or", "n/a", "A/P and lateral", "either / or", "presence /absence",
    "https://huggingface.co/datasets/org/cxr-contrabench-openi/resolve/main/openi_report_absence/test-00000-of-00001.parq",
    "http://mlcommons.org/croissant/1.0", "see https://doi.org/10.13026/8360-t248.",
    "[terms](https://physionet.org/content/x/)",
    "medfaith build cxr-contrabench --root openi=PATH --out DIR --seed 20260326",
    "`DIR/<benchmark>-<source>/<config>/x.parquet`", "<config>/<split>-00000-of-00001.parquet", "{out}/phantom",
    "</details>", "<br/>", "| 3/4 | 5/6 |", "...", "0.5 ... 0.9", "train/patient64540/study1/view1_frontal.jpg",
    "CXR1105_IM-0072-1001-0001.png", "chexpert/train/patient00001/study2/x", "a" * 64, "89504e470d0a1a0a" + "0" * 48,
    "rows " + " ".join(["0f" * 32] * 20), "|---|" + "-" * 200 + "|", "=" * 200,
    "openi/CXR3999_IM-2049-1001-0001/chexstruct_presence/descending_aortic_enlargement",
    "ratio 3:1, e.g.: \\n is a line end", "wrong-lung:50666899|1",
    "chexpert_absence_no_evidence_of, chexpert_presence_absence_of, chexpert_positive_only", "BM", "II", "MM", "GIF",
    "the PNG, JPEG and DICOM files", "data: two columns", "\\alpha", "Fran\u00e7ois M\u00fcller \u2013 99 %",
    "~ 3,000 rows", "~10/20", "12, 13, 14 and 15", "Drew: \\textit{et al.}", "e.g. C: yes", "ratio a:b/c",
    ", ".join(map(str, range(40))), "\ttabs\r\nand lines\n",
]  # fmt: skip


@pytest.mark.parametrize("text", HARMLESS)
def test_what_a_card_may_say_passes(text):
    assert pixels.find(text) is None
    assert paths.find(text) is None


PATHS = [
    "/home/user/openi", "(/mnt/openi/CXR1.png)", "root=/srv/openi", '"/data/openi"', "`/tmp/x`", "images:/scratch/a/b",
    "/data", "/CXR1_1_IM-0001-3001.png", "a\n/srv/openi/x", "<td>/home/user/x</td>", "/Users/someone/Downloads",
    "C:\\openi", "C:/openi", "x: D:\\\\openi\\\\a", "\\\\server\\share", "\\\\\\\\server\\\\share\\\\x",
    "//server/share/openi", "~/openi", "~user/openi", "file:///openi", "FILE:/openi", "s3://bucket/openi", "../openi",
    "images/../../x", "a\\..\\b", "..", "x\n..\ny", "https://example.org/?" + "a=1&" * 100,
]  # fmt: skip


@pytest.mark.parametrize("text", PATHS)
def test_paths_of_a_machine_are_found(text):
    leak = paths.find(text)
    assert leak is not None
    assert len(leak.what) < SHOWN + 60


WRITINGS = {
    "data URI": lambda data: "data:image/png;base64," + base64.b64encode(data).decode(),
    "latin-1": lambda data: data.decode("latin-1"),
    "undecodable bytes": lambda data: data.decode("utf-8", "surrogateescape"),
    "repr": repr,
    "JSON": lambda data: json.dumps(data.decode("latin-1")),
    "percent": lambda data: "".join(f"%{byte:02X}" for byte in data),
    "hexadecimal": bytes.hex,
    "hexadecimal with spaces": lambda data: data.hex(" "),
    "bytes of C": lambda data: ", ".join(f"0x{byte:02x}" for byte in data),
    "base64": lambda data: base64.b64encode(data).decode(),
    "base64 in lines": lambda data: base64.encodebytes(data).decode(),
    "url-safe base64": lambda data: base64.urlsafe_b64encode(data).decode().rstrip("="),
    "list of numbers": lambda data: str(list(data)),
}


@pytest.mark.parametrize("writing", WRITINGS)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "TIFF", "BMP"])
def test_image_data_is_found_in_every_writing(kind, writing):
    assert pixels.find(f"A card. {WRITINGS[writing](encode_image(kind))} And more.") is not None


@given(st.binary(min_size=60, max_size=300))
def test_bytes_in_base64_are_found_whatever_they_are(data):
    """Exceptions look like words: a character class is missing, or separators occur as in a path."""
    text = base64.b64encode(data).decode().rstrip("=")
    pieces = re.split(r"[/+]+", text)
    plain = re.search("[a-z]", text) and re.search("[A-Z]", text) and re.search("[0-9]", text)
    if plain and len(text) / len(pieces) > pixels.PIECE:
        assert pixels.find(text) is not None


@given(st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=50))
def test_digests_pass(digests):
    for digest in digests:
        assert pixels.find(digest.hex()) is None


WORDS = st.lists(st.text("abcdefghij", min_size=1, max_size=6), min_size=RUN, max_size=20)


def find_quoted(published: str, report: str) -> list[str]:
    quotable = Quotable()
    quotable.add(Value("README.md", published))
    return [error.found for error in quotable.find_quoted([Text("report 1", report)])]


@given(WORDS, st.data(), st.sampled_from([" ", ", ", "\n", " - ", "; "]))
def test_eight_words_of_a_report_are_found_however_they_are_set(tokens, data, between):
    start = data.draw(st.integers(0, len(tokens) - RUN))
    run = between.join(tokens[start : start + RUN]).upper()
    assert find_quoted(f"So: {run}!", " ".join(tokens)) != []


@given(WORDS)
def test_seven_words_in_a_row_are_not(tokens):
    published = " ".join(f"{word} x{i}" if i % (RUN - 1) == RUN - 2 else word for i, word in enumerate(tokens))
    assert find_quoted(published, " ".join(tokens)) == []


def test_a_short_sentence_is_not_looked_for_in_reports():
    assert find_quoted("no pleural effusion is seen", "No pleural effusion is seen.") == []


def test_both_places_are_named():
    text = "no focal consolidation pleural effusion or pneumothorax is seen"
    (message,) = find_quoted(text, f"FINDINGS: {text}.")
    assert "report 1" in message
    assert "no focal consolidation" in message


def test_a_text_is_read_once_and_a_report_named_once():
    text = " ".join(map(str, range(30)))
    assert len(find_quoted(text, text)) == 1


@given(st.text(max_size=300))
def test_what_is_shown_is_short_and_printable(text):
    assert len(shorten(text)) <= SHOWN + 2
    assert shorten(text).isprintable()
    assert shorten(text).isascii()


NESTED = pa.list_(
    pa.struct([("name", pa.string()), ("parts", pa.list_(pa.string())), ("size", pa.list_(pa.int32(), 2))])
)


def iterate_leaves(value):
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from iterate_leaves(inner)
    elif isinstance(value, str):
        yield value


_PARTS = st.lists(st.none() | st.text("ab", max_size=2), max_size=3)
_ITEM = st.none() | st.fixed_dictionaries(
    {"name": st.none() | st.text(max_size=3), "parts": st.none() | _PARTS, "size": st.none() | st.just([1, 2])}
)


@given(st.lists(st.none() | st.lists(_ITEM, max_size=3), max_size=6))
def test_every_text_of_a_column_is_seen_with_its_first_row(rows):
    table = pa.table({"x": pa.array(rows, NESTED)})
    first_rows = {}
    for _, values in columns.iterate_distinct(table):
        for text, row in values:
            first_rows[text] = min(row, first_rows.get(text, row))
    assert first_rows == {
        text: number for number, row in reversed([*enumerate(rows, 1)]) for text in iterate_leaves(row)
    }


def test_the_vocabulary_has_every_text_of_a_row():
    texts = {path for path, _ in columns.iterate_distinct(QUESTION.arrow_schema.empty_table())}
    assert texts == set(vocabulary())


TOKENS = {
    "hf_" + "a1" * 10: "Hugging Face", "ghp_" + "b2" * 18: "GitHub", "AKIA" + "C3" * 8: "cloud",
    "sk-" + "d4" * 12: "cloud",
    "xoxb-1234567890-abc": "cloud", "AIza" + "e5" * 17: "cloud", "-----BEGIN OPENSSH PRIVATE KEY-----": "private key",
    "eyJhbGciOiJI.eyJzdWIiOiIx.": "signed", "api_key=abcdef12": "password", "Password : s3cret-word": "password",
    "https://jane:secret@host/x": "password of an address", "j.doe+x@uni-bonn.de": "e-mail",
}  # fmt: skip


@pytest.mark.parametrize("text", TOKENS)
def test_secrets_are_found(text):
    leak = secrets.find(f"So: {text} and more")
    assert leak is not None
    assert TOKENS[text] in leak.what
    assert text not in leak.what


@pytest.mark.parametrize(
    "text", [*HARMLESS, "@article{drew2020,", "the keys: none", "secret: no", "a hf_model", "@jane"]
)
def test_what_a_card_may_say_is_no_secret(text):
    assert secrets.find(text) is None


@pytest.mark.parametrize("text", ["{}", "{} and more", "the key {}", "the key is {}.", "\n{}"])
def test_a_key_of_the_hashes_is_found_wherever_it_stands(text):
    key = "0123456789abcdef" * 2
    for writing in (key, key.upper()):
        found = identifiers.find_key(text.format(writing), ["f" * 32, key])
        assert found is not None
        assert text.format(writing)[found.start :].lower().startswith(key)
    assert identifiers.find_key(text.format(key[1:]), ["f" * 32, key]) is None


def test_the_environment_and_the_names_of_a_machine():
    assert secrets.select_secrets({"HF_TOKEN": "longer than eight", "PATH": "/usr/bin", "MY_SECRET": "short"}) == {
        "HF_TOKEN": "longer than eight"
    }
    keys = ("OPENAI_API_KEY", "MEDFAITH_KEY", "signing_key", "KEY", "Hub_Token", "db_password", "APP_SECRET")
    others = {"KEYBOARD": "longer than eight", "MONKEY": "longer than eight", "TURKEY_DIR": "longer than eight"}
    assert secrets.select_secrets(dict.fromkeys(keys, "longer than eight") | others).keys() == {*keys}
    assert secrets.find_name("made by JDoe.", {"the user": "jdoe"}) is not None
    assert secrets.find_name("made by jdoeson", {"the user": "jdoe"}) is None
    assert secrets.find_value("x longer than eight", {"HF_TOKEN": "longer than eight"}) is not None
