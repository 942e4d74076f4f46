"""GLoRIA's checkpoints: reading runs no code of theirs, and errors name the file and its mismatch."""

from __future__ import annotations

import pickle
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torchvision.models import resnet50

from medfaith.loaders.errors import InputError
from medfaith.tasks.models.alignment import gloria as released
from medfaith.tasks.models.alignment.gloria import GloriaAligner, GloriaModel, load_gloria
from tests.support.tasks import tiny_gloria


def test_a_checkpoint_written_is_the_one_that_was_read(gloria, tmp_path):
    model = load_gloria(gloria[True][0])
    model.save_checkpoint(tmp_path / "new.ckpt")
    written = torch.load(tmp_path / "new.ckpt", weights_only=True)["state_dict"]
    original = tiny_gloria.weights(no_attn=True)
    del original["gloria.text_encoder.model.embeddings.position_ids"]
    assert written.keys() == original.keys()
    assert all(torch.equal(written[name], original[name]) for name in original)
    assert [path.name for path in tmp_path.iterdir()] == ["new.ckpt"]
    reloaded = load_gloria(tmp_path / "new.ckpt")
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), reloaded.parameters(), strict=True))


def test_the_released_sizes_and_names_are_accepted():
    with torch.device("meta"):
        config = transformers.BertConfig(vocab_size=28996)  # BERT-base, cased: Bio_ClinicalBERT's
        tensors_by_prefix = {
            "img_encoder.model.": {n: t for n, t in resnet50().state_dict().items() if not n.startswith("fc.")},
            "img_encoder.global_embedder.": {"weight": torch.empty(768, 2048), "bias": torch.empty(768)},
            "img_encoder.local_embedder.": {"weight": torch.empty(768, 1024, 1, 1)},
            "text_encoder.model.": transformers.BertModel(config).state_dict(),
        }
        weights = {
            f"{prefix}{name}": tensor
            for prefix, tensors in tensors_by_prefix.items()
            for name, tensor in tensors.items()
        }
        weights["no_attn_vec"] = torch.empty(768)
        sizes = released._sizes(Path("gloria.ckpt"), weights)
        model = GloriaModel(**sizes)
        default = GloriaModel(no_attn=True)
    released.check_names(Path("gloria.ckpt"), weights, model.state_dict())
    released.check_names(Path("gloria.ckpt"), weights, default.state_dict())
    assert sizes["layers"] == [3, 4, 6, 3]
    assert sizes["bert"].num_attention_heads == 12


@pytest.mark.parametrize(
    ("lost", "added", "message"),
    [
        (r"img_encoder\.model\.layer2\.1\.conv3\.weight", {}, r"lacks img_encoder\.model\.layer2\.1\.conv3"),
        (r"img_encoder\.local_embedder\.weight", {}, r"lacks img_encoder\.local_embedder\.weight"),
        (r"img_encoder\.model\.layer1\.0\.conv1\.weight", {}, r"lacks img_encoder\.model\.layer1"),
        ("text_encoder", {}, r"lacks text_encoder\.model\.embeddings"),
        (None, {"gloria.position_embeddings.x": torch.zeros(19, 32)}, r"has also position_embeddings\.x"),
        (None, {"gloria.no_attn_vec": torch.zeros(7)}, "has in another shape no_attn_vec"),
        (None, {"epoch": 3}, "has no mapping of names to tensors"),
    ],
)
def test_checkpoints_with_other_weights(tmp_path, lost, added, message):
    weights = {name: tensor for name, tensor in tiny_gloria.weights().items() if not lost or not re.search(lost, name)}
    torch.save({"state_dict": weights | added}, tmp_path / "other.ckpt")
    with pytest.raises(InputError, match=rf"other\.ckpt: {message}") as caught:
        load_gloria(tmp_path / "other.ckpt")
    assert "a checkpoint of GLoRIA" in str(caught.value)


@pytest.fixture
def foreign():
    """A module of training classes that can be imported only while the file is written."""
    module = types.ModuleType("omegaconf_like")

    class DictConfig:
        def __init__(self, content):
            self.__dict__.update(_content=content, _flags=None)

        def __setstate__(self, state):
            raise AssertionError("code of the checkpoint was run")

    class Callback(dict):
        """A dict subclass, which no inert class can replace."""

    for class_ in (DictConfig, Callback):
        class_.__module__, class_.__qualname__ = module.__name__, class_.__name__
        setattr(module, class_.__name__, class_)
    sys.modules[module.__name__] = module
    yield module
    sys.modules.pop(module.__name__, None)


@pytest.mark.parametrize("importable", [False, True])
def test_a_trainings_own_objects_are_passed_over(gloria, foreign, tmp_path, importable):
    content = {
        "epoch": 16,
        "callbacks": {foreign.Callback: {"best": torch.tensor(0.5)}},
        "hyper_parameters": foreign.DictConfig({"temp1": foreign.DictConfig({"value": 4.0, "kind": Any})}),
        "optimizer_states": [{"state": {0: {"step": 1, "exp_avg": torch.zeros(2)}}}],
        "state_dict": tiny_gloria.weights(),
    }
    torch.save(content, tmp_path / "lightning.ckpt")
    if not importable:
        del sys.modules["omegaconf_like"]
    with pytest.raises(pickle.UnpicklingError):
        torch.load(tmp_path / "lightning.ckpt", weights_only=True)
    model, plain = load_gloria(tmp_path / "lightning.ckpt"), load_gloria(gloria[False][0])
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), plain.parameters(), strict=True))


class Executing:
    """Runs code when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (f"import pathlib; pathlib.Path({str(self.path)!r}).touch()",)


class Touching(Executing):
    """Runs a method of an object that is created by unpickling."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize(("harm", "loads"), [(Executing, True), (Touching, False)])
def test_what_a_checkpoint_would_run_is_not_run(tmp_path, harm, loads):
    content = {"state_dict": tiny_gloria.weights(), "callbacks": [harm(tmp_path / "touched")]}
    torch.save(content, tmp_path / "harmful.ckpt")
    if loads:
        load_gloria(tmp_path / "harmful.ckpt")
    else:
        with pytest.raises(InputError, match=r"harmful\.ckpt: cannot be loaded .*only its training code"):
            load_gloria(tmp_path / "harmful.ckpt")
    assert not (tmp_path / "touched").exists()
    torch.load(tmp_path / "harmful.ckpt", weights_only=False)
    assert (tmp_path / "touched").exists()  # an unrestricted load runs the code


def test_objects_that_cannot_be_passed_over_say_how_to_convert(foreign, tmp_path):
    torch.save({"state_dict": {}, "callbacks": foreign.Callback(best=0.5)}, tmp_path / "x.ckpt")
    with pytest.raises(InputError, match=r"x\.ckpt: cannot be loaded .*only its training code") as caught:
        load_gloria(tmp_path / "x.ckpt")
    assert "torch.save({'state_dict'" in str(caught.value)


@pytest.mark.parametrize("kind", ["missing", "html", "legacy", "cut"])
def test_files_that_are_no_checkpoint(gloria, tmp_path, kind):
    path = tmp_path / "x.ckpt"
    if kind == "html":
        path.write_bytes(b"<html>404</html>")
    if kind == "legacy":
        torch.save({"state_dict": tiny_gloria.weights()}, path, _use_new_zipfile_serialization=False)
    if kind == "cut":
        path.write_bytes(Path(gloria[False][0]).read_bytes()[:100_000])
    with pytest.raises(InputError, match=r"x\.ckpt: cannot be loaded") as caught:
        load_gloria(path)
    assert ("torch.save(" in str(caught.value)) == (kind in ("html", "legacy"))


def test_tokenizers_that_do_not_fit(gloria, tmp_path):
    with pytest.raises(InputError, match="text_model=/no/folder: cannot be loaded") as caught:
        GloriaAligner(gloria[False][0], "cpu", text_model="/no/folder")
    assert "emilyalsentzer/Bio_ClinicalBERT" in str(caught.value)
    n_tokens = len(tiny_gloria.VOCABULARY)
    larger = tiny_gloria.save_tokenizer(tmp_path / "larger", [*tiny_gloria.VOCABULARY, "opacity"])
    with pytest.raises(InputError, match=f"has {n_tokens + 1} tokens, the checkpoint's BERT {n_tokens}"):
        GloriaAligner(gloria[False][0], "cpu", text_model=larger)
    words = Tokenizer(WordLevel({"lung": 0, "?": 1}, unk_token="?"))
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="?").save_pretrained(tmp_path / "gpt")
    with pytest.raises(InputError, match=r"gpt: has no cls_token, sep_token, mask_token\n.*BERT's tokenizer"):
        GloriaAligner(gloria[False][0], "cpu", text_model=str(tmp_path / "gpt"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention": "mean"}, "attention: is 'mean'"),
        ({"tau": 0}, "tau: is 0"),
        ({"tau": "warm"}, "tau: is 'warm'"),
        ({"tau": True}, "tau: is True"),
        ({"tau": float("nan")}, "tau: is nan"),
    ],
)
def test_options_that_are_none(options, message):
    with pytest.raises(InputError, match=message):
        GloriaModel([1, 1, 1, 1], 4, tiny_gloria.bert_config(), **options)
