"""What each recipe trains on and what of a sentence it hides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import transformers

from medfaith.loaders.errors import InputError
from medfaith.tasks.models.gloria_text import tokenize
from medfaith.training.data import Example, select
from medfaith.training.recipes import RECIPES, SHOTS, Recipe
from medfaith.training.texts import entities, sentences, tokens, word_list
from tests.tasks import tiny_gloria

TEXT = "Small right pleural effusion, pneumothorax is stable."  # the tokenizer has no "pneumothorax" and splits it
TERMS = ["right lung", "right costophrenic angle", "pleural effusion", "mass/nodule (not otherwise specified)"]
ENTITY = ["right", "pleural", "effusion"]


def row(number: int, *, text: str = TEXT, abnormal: bool = False) -> Example:
    subsets = frozenset({"abnormal"} if abnormal else ())
    return Example(str(number), f"p{number:03}", number, text, (256, 256), [[0.0, 0.0, 9.0, 9.0]], TERMS, subsets)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return transformers.AutoTokenizer.from_pretrained(tiny_gloria.save_tokenizer(tmp_path_factory.mktemp("bert")))


def hidden_words(recipe: Recipe, tokenizer, n: int, text: str = TEXT) -> list[set[str]]:
    """Of n sentences: the words of which every piece is [MASK]; a word with only some of them masked fails."""
    examples, plain = [row(number) for number in range(n)], tokenize(tokenizer, [text])
    found = tokens(recipe, tokenizer, examples, [text] * n, np.random.default_rng(0))
    words = word_list(text)
    hidden = []
    for ids in found.ids:
        masked = ids == tokenizer.mask_token_id
        assert (ids[~masked] == plain.ids[0][~masked]).all()
        whole = {int(word) for word in plain.word[0][masked]}
        assert all(masked[plain.word[0] == word].all() for word in whole)
        assert whole <= set(range(1, len(words) + 1))  # neither [CLS] nor [SEP]
        hidden.append({words[word - 1] for word in whole})
    return hidden


def test_a_word_is_hidden_with_all_its_pieces_in_30_of_100_cases(tokenizer):
    drawn = hidden_words(RECIPES["word_masking"], tokenizer, 600)
    assert set().union(*drawn) == set(word_list(TEXT))
    share = np.mean([word in own for own in drawn for word in word_list(TEXT)])
    assert share == pytest.approx(0.3, abs=0.03)  # 4 standard deviations of 4,200 draws


def test_an_entity_is_hidden_as_a_whole_in_half_of_the_cases(tokenizer):
    drawn = hidden_words(RECIPES["clinical_masking"], tokenizer, 600)
    assert {frozenset(own) for own in drawn} == {frozenset(), frozenset(ENTITY)}
    assert np.mean([bool(own) for own in drawn]) == pytest.approx(0.5, abs=0.09)


def test_other_recipes_hide_nothing(tokenizer):
    for name in RECIPES.keys() - {"word_masking", "clinical_masking"}:
        assert hidden_words(RECIPES[name], tokenizer, 20) == [set()] * 20, name


def test_a_long_sentence_is_cut_before_its_end_is_hidden(tokenizer):
    text = "pneumothorax " * 20
    found = tokens(Recipe(mask_words=1.0), tokenizer, [row(0)], [text], np.random.default_rng(0))
    assert found.ids[0, 0] == tokenizer.cls_token_id
    assert found.ids[0, -1] == tokenizer.sep_token_id
    assert (found.ids[0, 1:-1] == tokenizer.mask_token_id).all()


@pytest.mark.parametrize(
    ("text", "terms", "spans"),
    [
        ("no left effusion", [], []),
        ("the left and the right lung", ["right lung", "left lung"], [[1], [4, 5]]),
        ("not otherwise specified mass", TERMS, [[3]]),  # words that say nothing by themselves
        ("COPD / emphysema", ["copd/emphysema"], [[0, 1]]),
    ],
)
def test_entities(text, terms, spans):
    assert entities(word_list(text), terms) == spans


def parts_of(n: int, abnormal: int = 0) -> dict[str, list[Example]]:
    return {
        part: [row(first + number, abnormal=number < abnormal) for number in range(n)]
        for part, first in (("train", 0), ("validation", 1000))
    }


def test_thirty_examples_and_thirty_others():
    chosen, watched = select(RECIPES["30_shot"], parts_of(50), seed=1)
    assert len({example.id for example in chosen}) == len({example.id for example in watched}) == 30
    assert not {example.patient for example in chosen} & {example.patient for example in watched}
    assert chosen == select(RECIPES["30_shot"], parts_of(50), seed=1)[0]
    assert chosen != select(RECIPES["30_shot"], parts_of(50), seed=2)[0]


def test_only_abnormal_sentences():
    chosen, watched = select(RECIPES["abnormal"], parts_of(20, abnormal=7), seed=0)
    assert len(chosen) == len(watched) == 7
    assert all("abnormal" in example.subsets for example in chosen + watched)


@pytest.mark.parametrize(
    ("name", "parts", "message"),
    [
        (
            "30_shot",
            parts_of(29),
            r"29 sentences for training and 29 for validation\n +expected: 30 of each, of",
        ),
        ("abnormal", parts_of(20), "has 0 abnormal sentences for training"),
        ("retrained", parts_of(1), "has 1 sentences for training"),
    ],
)
def test_too_few_sentences(name, parts, message):
    with pytest.raises(InputError, match=message):
        select(RECIPES[name], parts, seed=0)


def test_random_sentences_are_of_other_images():
    examples = [row(number, text=f"text {number}") for number in range(4)]
    mine = [examples[0]._replace(id=text, sentence=text) for text in ("text a", "text b")]  # about the same image
    drawn = [sentences(RECIPES["rand_sents"], examples, examples + mine, np.random.default_rng(n)) for n in range(50)]
    assert {texts[0] for texts in drawn} == {"text 1", "text 2", "text 3"}
    own = [example.sentence for example in examples]
    assert sentences(RECIPES["retrained"], examples, examples, np.random.default_rng(0)) == own


def test_published_recipes():
    """Section 4.1 and footnotes 8 to 10."""
    shot = RECIPES["30_shot"]
    assert (SHOTS, shot.rounds, shot.patience) == (30, 500, 25)
    assert {recipe.patience for name, recipe in RECIPES.items() if name != "30_shot"} == {10}
    assert replace(RECIPES["no_attn"], no_attn=False) == RECIPES["retrained"]
