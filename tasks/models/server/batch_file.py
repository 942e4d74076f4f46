"""Files of requests and of answers in OpenAI's batch format, which batch engines read and write (vLLM, OpenAI).

One line of a file of requests is `{"custom_id", "method", "url", "body"}`; one line of a file of answers is
`{"custom_id", "response": {"status_code", "body"}, "error"}`. An id is a hash of everything that an answer depends on,
so answers need no other link to their rows, and may come in any order.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, NamedTuple

from ....loaders import json_text
from ....loaders.atomic import atomic_file
from ....loaders.errors import InputError
from ....loaders.progress import Progress
from ...outcomes import FILTERED, UNANSWERED
from ..chat_form import FILTERS, Picture, Reply, replace_surrogates
from ..chat_form import read as read_chat

URL = "/v1/chat/completions"
_ID = re.compile("[0-9a-f]{64}")  # a SHA-256
_LONGEST_REASON = 500  # characters


class RequestWriter:
    """Writes distinct requests to a file. The file appears when `close` is called, and never in part.

    Args:
        path: The file.
        image_folder: A folder for the images. Each image is written once and named by its hash, and the requests refer
            to it by a file:// address. With None the requests hold the images.
    """

    def __init__(self, path: Path, image_folder: Path | None) -> None:
        self._path, self._image_folder = path, image_folder
        self._digests: set[bytes] = set()
        self._images: set[str] = set()
        self._stack = ExitStack()
        self._file: IO[str] | None = None

    @property
    def n_requests(self) -> int:
        """The number of distinct requests."""
        return len(self._digests)

    @property
    def n_images(self) -> int:
        """The number of distinct images."""
        return len(self._images)

    def add(
        self, key: str, build_body: Callable[[Sequence[str]], Mapping[str, Any]], pictures: Sequence[Picture]
    ) -> None:
        """Write a request, unless the same one was written before.

        Args:
            key: The id of the request, a SHA-256 in hexadecimal digits.
            build_body: Builds the body from the addresses of the images.
            pictures: The encoded images.

        Raises:
            OSError: The file or an image cannot be written.
        """
        if self._file is None:
            partial = self._stack.enter_context(atomic_file(self._path))
            self._file = self._stack.enter_context(partial.open("w", encoding="utf-8"))
        digest = bytes.fromhex(key)
        if digest in self._digests:
            return
        self._digests.add(digest)
        urls = [self._save_image(picture) for picture in pictures]
        line = {"custom_id": key, "method": "POST", "url": URL, "body": build_body(urls)}
        self._file.write(json.dumps(line) + "\n")

    def close(self, facts: Mapping[str, Any]) -> Path:
        """Complete the file, and write a description next to it.

        Args:
            facts: Further facts for the description, which JSON can encode.

        Returns:
            The path of the description.
        """
        if self._file is None:  # no request is left: an empty file says so
            self._file = self._stack.enter_context(
                self._stack.enter_context(atomic_file(self._path)).open("w", encoding="utf-8")
            )
        self._stack.close()
        description = describe_path(self._path)
        counts = {"requests": self.n_requests, "images": self.n_images}
        folder = None if self._image_folder is None else str(self._image_folder.resolve())
        with self._path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        with atomic_file(description) as partial:
            content = {**counts, "image_folder": folder, "sha256": digest, **facts}
            partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        return description

    def _save_image(self, picture: Picture) -> str:
        """Return the address of an image: in the folder, or with all its bytes."""
        self._images.add(picture.digest)
        if self._image_folder is None:
            return picture.url
        kind, _, content = picture.url.partition(";base64,")
        path = self._image_folder.resolve() / f"{picture.digest.removeprefix('sha256:')}.{kind.rpartition('/')[2]}"
        if not path.exists():
            with atomic_file(path) as partial:
                partial.write_bytes(base64.b64decode(content))
        return path.as_uri()


def describe_path(requests: Path) -> Path:
    """Return the path of the description of a file of requests.

    Args:
        requests: The file of requests.

    Returns:
        `requests.about.json` for `requests.jsonl`.
    """
    return requests.with_name(f"{requests.stem}.about.json")


class _Place(NamedTuple):
    """The place of a line."""

    file: int
    offset: int


class AnswerFiles:
    """Answers of an engine by the id of their request. Only the places of the lines are in memory.

    An answer (`is_answer`) replaces an earlier or later failure. Among different answers to one request, the line with
    the smallest text counts. Thus the order of files and lines has no influence.

    Args:
        paths: The files of answers.

    Raises:
        InputError: A file cannot be read, or a line is not an answer.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths, self._places = [*paths], dict[bytes, _Place]()
        self._n_cut = self._n_foreign = 0
        self._different: set[bytes] = set()  # requests with two different answers
        for number, path in enumerate(self._paths):
            try:
                self._index(number, path)
            except OSError as error:
                action = "name the files that the engine wrote"
                raise InputError(path, f"cannot be read ({error.strerror})", action=action) from error

    def __len__(self) -> int:
        return len(self._places)

    def read(self, key: str, read_body: Callable[[Any], Reply]) -> Reply | None:
        """Read the reply to a request.

        Args:
            key: The id of the request.
            read_body: Reads the body of a response.

        Returns:
            The reply; None if no file has one. A failed request is unanswered, with the engine's reason.
        """
        place = self._places.get(bytes.fromhex(key))
        if place is None:
            return None
        entry = self._read_line(place)
        body = _get_body(entry)
        if body is None:
            return _read_failure(entry)
        try:
            return read_body(body)
        except ValueError as error:
            return Reply(UNANSWERED, reason=replace_surrogates(str(error))[:_LONGEST_REASON])

    def list_answered(self) -> Iterator[str]:
        """List the ids of the answered requests. Failed requests are omitted.

        Yields:
            The ids.
        """
        for digest, place in self._places.items():
            if is_answer(self._read_line(place)):
                yield digest.hex()

    def format_notes(self) -> str:
        """Format warnings about the files; "" if there are none."""
        notes = {
            "last lines are cut, and count as missing": self._n_cut,
            "lines have an id of no request of medfaith": self._n_foreign,
            "requests have two different answers, of which one counts": len(self._different),
        }
        return "; ".join(f"{n:,} {text}" for text, n in notes.items() if n)

    def _index(self, number: int, path: Path) -> None:
        """Index the place of each line; of two lines about one request, the better line counts."""
        bar = Progress(title=f"reading {path.name}", total=path.stat().st_size, unit="B")
        with path.open("rb") as file, bar:
            offset = 0
            for row, line in enumerate(file, start=1):
                place, offset = _Place(number, offset), offset + len(line)
                bar.update(len(line))
                entry = self._parse(line, path, row)
                if entry is None:
                    continue
                if _ID.fullmatch(entry["custom_id"]):
                    self._keep(bytes.fromhex(entry["custom_id"]), place, entry)
                else:
                    self._n_foreign += 1

    def _parse(self, line: bytes, path: Path, row: int) -> Mapping[str, Any] | None:
        """Parse a line; return None for an empty line, and for a last line that the engine could not complete."""
        if not line.strip():
            return None
        try:
            entry = json_text.parse(line, allow_surrogates=True)
        except ValueError:
            if not line.endswith(b"\n"):
                self._n_cut += 1
                return None
            entry = None
        if not isinstance(entry, dict) or not isinstance(entry.get("custom_id"), str):
            expected = 'an answer such as {"custom_id": ..., "response": {...}, "error": null}'
            action = "name a file of JSON lines in UTF-8; unpack or convert any other first"
            raise InputError(path, "is no answer of a batch", row=row, expected=expected, action=action)
        return entry

    def _keep(self, digest: bytes, place: _Place, entry: Any) -> None:
        """Keep the place of a line, unless an equal or better line is indexed."""
        stored_place = self._places.get(digest)
        if stored_place is None:
            self._places[digest] = place
            return
        new_rank, stored_rank = _rank(entry), _rank(self._read_line(stored_place))
        if new_rank[0] == stored_rank[0] == 0 and new_rank != stored_rank:
            self._different.add(digest)
        if new_rank < stored_rank:
            self._places[digest] = place

    def _read_line(self, place: _Place) -> Any:
        with self._paths[place.file].open("rb") as file:
            file.seek(place.offset)
            return json_text.parse(file.readline(), allow_surrogates=True)


def _get_response(entry: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """Get the status and the body of a line; None and an empty body if it has none."""
    response = entry.get("response")
    if not isinstance(response, dict):
        return None, {}
    body = response.get("body")
    return response.get("status_code"), body if isinstance(body, dict) else {}


def _get_body(entry: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Get the body of a successful response; None for a failure."""
    status, body = _get_response(entry)
    return body if str(status) == "200" and body.get("choices") and not entry.get("error") else None


def is_answer(entry: Mapping[str, Any]) -> bool:
    """Check whether a line answers its request. A failure, and an answer that an engine aborted, do not.

    Args:
        entry: The line.

    Returns:
        True if a row has an answer with it, which may be empty, cut, filtered or a refusal.
    """
    body = _get_body(entry)
    try:
        return body is not None and read_chat(body).outcome != UNANSWERED
    except ValueError:
        return False


def describe_failure(entry: Mapping[str, Any]) -> str:
    """Describe why a line does not answer its request.

    Args:
        entry: The line, of which `is_answer` is false.

    Returns:
        The engine's reason.
    """
    body = _get_body(entry)
    try:
        return _read_failure(entry).reason if body is None else read_chat(body).reason
    except ValueError as error:
        return str(error)


def _rank(entry: Mapping[str, Any]) -> tuple[int, str]:
    """Rank a line: answers before failures, then by the choices alone, since ids and times differ between copies."""
    if is_answer(entry):
        return 0, json.dumps(entry["response"]["body"]["choices"], sort_keys=True)
    return 1, json.dumps(entry, sort_keys=True)


def _read_failure(entry: Mapping[str, Any]) -> Reply:
    """Read the reply of a failed request, with the engine's message."""
    status, body = _get_response(entry)
    error = entry.get("error") or body.get("error") or body or "no response"
    if isinstance(error, dict) and isinstance(error.get("error"), dict):
        error = error["error"]  # vLLM's run-batch writes the body of the failure here
    code, message = (error.get("code"), error.get("message")) if isinstance(error, dict) else (None, None)
    reason = ": ".join(str(text) for text in (status, message or error) if text)
    return Reply(FILTERED if code in FILTERS else UNANSWERED, reason=replace_surrogates(reason)[:_LONGEST_REASON])
