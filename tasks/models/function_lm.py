"""A model that is a Python function of images and a text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

from lm_eval.api.instance import Instance
from lm_eval.models.utils import postprocess_generated_text
from PIL import Image

from ...loaders.errors import MedfaithError
from ...loaders.progress import Progress
from ..outcomes import ANSWERED, EMPTY
from .answer_store import AnswerStore, hash_facts
from .chat_form import PLACEHOLDER, Reply, get_stops
from .image_lm import ImageLM, build_stored_reply, get_images, hash_pixels, iterate_repeats, row_id

AnswerFunction = Callable[[Sequence[Image.Image], str], str]


class FunctionLM(ImageLM):
    """Answers by a function, one row at a time.

    Args:
        function: Returns the answer, given the images of a row, in mode RGB, and the prompt without placeholders of
            images. Without an image (control `none`) the images are empty.
        answers: File that keeps the answers by the name of the function, the images and the prompt, so that a killed
            run asks nothing twice; None keeps none.
    """

    def __init__(self, function: AnswerFunction, answers: Path | None = None) -> None:
        super().__init__()
        self._function, self._answers = function, answers

    @property
    def tokenizer_name(self) -> str:
        """Name of the function."""
        return name_function(self._function)

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Call the function for each request.

        Args:
            requests: Requests of lm-eval.
            disable_tqdm: Whether to hide the progress bar.

        Returns:
            The answers, cut at the stop strings of the task.

        Raises:
            MedfaithError: The function returns no text, or a prompt has an image between texts.
        """
        answers, bar = [], Progress(total=len(requests), title="asking the model", unit="rows", quiet=disable_tqdm)
        with bar, AnswerStore(self._answers) as store:
            for request, repeat in iterate_repeats(requests):
                prompt, generation_kwargs = cast(Any, request.args)[:2]
                text = self._ask(request, self._remove_placeholders(str(prompt), request), repeat, store)
                answers.append(postprocess_generated_text(text, get_stops(generation_kwargs), None))
                bar.update()
        return answers

    def _ask(self, request: Instance, prompt: str, repeat: int, store: AnswerStore) -> str:
        """Return the stored answer to a request, or call the function and store its answer, which must be a text."""
        images, key = get_images(request)[:], ""
        if store.has_file:
            pixels = [hash_pixels(image) for image in images]
            key = hash_facts(function=self.tokenizer_name, images=pixels, prompt=prompt, repeat=repeat)
            if (reply := store.get(key)) is not None:
                return reply.text
        answer = self._function(images, prompt)
        if not isinstance(answer, str):
            problem = f"{self.tokenizer_name}: returned {type(answer).__name__} for row {row_id(request)}"
            raise MedfaithError(f"{problem}\n  what to do: return the answer as a str")
        if store.has_file:
            store.put(build_stored_reply(key, Reply(ANSWERED if answer.strip() else EMPTY, answer), request))
        return answer

    def _remove_placeholders(self, prompt: str, request: Instance) -> str:
        text = prompt
        while text.lstrip().startswith(PLACEHOLDER):
            text = text.lstrip().removeprefix(PLACEHOLDER)
        if PLACEHOLDER in text:
            problem = f"{self.tokenizer_name}: the prompt of {request.task_name} has images between its texts"
            action = "choose another task, or write a class of lm-eval's LM (docs/python.md)"
            raise MedfaithError(f"{problem}\n  what to do: {action}")
        return text.lstrip()


def name_function(function: Callable[..., Any]) -> str:
    """Name a function for tables.

    Args:
        function: A function, or another callable object.

    Returns:
        The name of the function, or of the object's class.
    """
    return getattr(function, "__name__", type(function).__name__)
