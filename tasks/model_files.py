"""The small files of a model of transformers, and the checks of them before its weights are loaded."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..loaders import json_text
from ..loaders.errors import InputError, MedfaithError
from . import SERVER
from .hub_access import can_reach_hub, is_path
from .model_types import OURS_TO_LOAD


def check_model(config: Any, model_args: Mapping[str, Any]) -> None:
    """Check a model of transformers: its config, the packages of its processor, and the use of its chat template.

    Args:
        config: lm-eval's EvaluatorConfig.
        model_args: The arguments of the model.

    Raises:
        MedfaithError: The model is not named, cannot be read, cannot be asked as lm-eval asks, needs another package,
            or has no chat template that `--apply_chat_template` could apply.
    """
    from .models.vlm.families import check_answering

    name, revision = model_args.get("pretrained"), str(model_args.get("revision", "main"))
    if not name:
        raise MedfaithError(f"--model {config.model}: names no model\n  what to do: --model_args pretrained=MODEL")
    path = find_model_file(str(name), "config.json", revision)
    if path is None:
        raise InputError(str(name), "has no config.json", expected="a model of transformers: its folder, or its id")
    model_type = _read_json(path).get("model_type")
    check_answering(model_type)
    if model_type == "smolvlm" and importlib.util.find_spec("num2words") is None:
        raise MedfaithError(f"{name}: SmolVLM needs num2words, not installed here\n  what to do: pip install num2words")
    templated = _has_chat_template(str(name), revision)
    if templated and not config.apply_chat_template:
        print(
            f"medfaith: WARNING: {name} has a chat template, and the prompts are sent without it\n"
            "  what to do: add --apply_chat_template, unless the model is a base model",
            file=sys.stderr,
        )
    elif config.apply_chat_template and not templated and not model_args.get("trust_remote_code"):
        raise MedfaithError(f"{name}: has no chat template\n  what to do: leave --apply_chat_template out")


def check_loadable(model: str, model_args: Mapping[str, Any]) -> None:
    """Check that transformers knows the model's type as one that reads images. A model with its own code is skipped.

    Args:
        model: The model type.
        model_args: The arguments of the model.

    Raises:
        InputError: transformers does not load the model as one of images and text.
    """
    if model_args.get("trust_remote_code"):
        return
    from transformers.models.auto import modeling_auto as auto

    name = str(model_args["pretrained"])
    path = find_model_file(name, "config.json", str(model_args.get("revision", "main")))
    config = _read_json(path) if path else {}
    kind = config.get("model_type")
    texts = auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES if model in OURS_TO_LOAD and "vision_config" in config else {}
    if kind not in auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES and kind not in texts:
        advice = "trust_remote_code=True in --model_args runs its own code, if you trust it; or " * (
            "auto_map" in config
        )
        raise InputError(
            f"pretrained={name}",
            f"is of the type {kind!r}, which transformers does not load as a model of images and text",
            expected="a vision-language model",
            action=f"{advice}serve it (vLLM, SGLang, llama.cpp) and use --model {SERVER}",
        )


def read_model_type(model_args: Mapping[str, Any]) -> str | None:
    """Read the type of a model of transformers from its config.json.

    Args:
        model_args: The arguments of the model.

    Returns:
        The type, or None if the file does not say it.

    Raises:
        InputError: As `find_model_file`.
    """
    path = find_model_file(str(model_args["pretrained"]), "config.json", str(model_args.get("revision", "main")))
    return _read_json(path).get("model_type") if path else None


def find_model_file(name: str, file: str, revision: str) -> Path | None:
    """Find a small file of a model, in its folder or on the Hub.

    Args:
        name: The folder or the Hub id of the model.
        file: The name of the file.
        revision: The revision on the Hub.

    Returns:
        The path of the file, or None if the model has no such file.

    Raises:
        InputError: The model does not exist, or may not be read.
    """
    from huggingface_hub import errors, hf_hub_download

    if Path(name).is_dir():
        return path if (path := Path(name) / file).is_file() else None
    if is_path(name):
        action = "correct the path" + (" (write your home in full: nothing replaces ~ here)" if name[0] == "~" else "")
        raise InputError(f"pretrained={name}", "there is no such folder", expected="a model's folder", action=action)
    try:
        return Path(
            hf_hub_download(name, file, revision=revision, local_files_only=not can_reach_hub(), etag_timeout=5)
        )
    except errors.LocalEntryNotFoundError as error:  # offline or no connection, and the cache does not have the file
        if file != "config.json":
            return None
        action = "name the folder of a model, or download it first: hf download " + name
        problem = "no such folder, not in the cache of the Hub, and the Hub cannot be reached"
        raise InputError(f"pretrained={name}", problem, action=action) from error
    except errors.EntryNotFoundError:
        return None
    except (errors.HfHubHTTPError, errors.HFValidationError, OSError) as error:
        reason = str(error).strip().splitlines()[-1]
        action = "correct the name or the revision; a gated model needs hf auth login with an account that has access"
        raise InputError(f"pretrained={name}", f"cannot be read ({reason})", action=action) from error


def _has_chat_template(name: str, revision: str) -> bool:
    if any(find_model_file(name, file, revision) for file in ("chat_template.jinja", "chat_template.json")):
        return True
    configs = (find_model_file(name, file, revision) for file in ("tokenizer_config.json", "processor_config.json"))
    return any("chat_template" in _read_json(path) for path in configs if path)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json_text.parse(path.read_bytes())
    except ValueError as error:
        raise InputError(path, f"not JSON ({error})", expected="a file of a model of transformers") from error
    return content if isinstance(content, dict) else {}
