"""Sentences that each recipe trains on, and words that it hides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import transformers

from medfaith.loaders.errors import InputError
from medfaith.tasks.models.alignment.gloria_text import tokenize
from medfaith.training.data import Example, select
from medfaith.training.recipes import RECIPES, SHOTS, Recipe
from medfaith.training.texts import entities, sentences, tokens, word_list
from tests.support.tasks import tiny_gloria

TEXT = "Small right pleural effusion, pneumothorax is stable."  # the tokenizer has no "pneumothorax" and splits it
TERMS = ["right lung", "right costophrenic angle", "pleural effusion", "mass/nodule (not otherwise specified)"]
ENTITY = ["right", "pleural", "effusion"]


def make_row(number: int, *, text: str = TEXT, abnormal: bool = False) -> Example:
    subsets = frozenset({"abnormal"} if abnormal else ())
    return Example(str(number), f"p{number:03}", number, text, (256, 256), [[0.0, 0.0, 9.0, 9.0]], TERMS, subsets)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return transformers.AutoTokenizer.from_pretrained(tiny_gloria.save_tokenizer(tmp_path_factory.mktemp("bert")))


def find_hidden_words(recipe: Recipe, tokenizer, n: int, text: str = TEXT) -> list[set[str]]:
    """Find the fully masked words in n sentences; fail if a word is masked in part."""
    examples, plain = [make_row(number) for number in range(n)], tokenize(tokenizer, [text])
    masked_tokens = tokens(recipe, tokenizer, examples, [text] * n, np.random.default_rng(0))
    text_words = word_list(text)
    hidden = []
    for ids in masked_tokens.ids:
        masked = ids == tokenizer.mask_token_id
        assert (ids[~masked] == plain.ids[0][~masked]).all()
        word_numbers = {int(word) for word in plain.word[0][masked]}
        assert all(masked[plain.word[0] == word].all() for word in word_numbers)
        assert word_numbers <= set(range(1, len(text_words) + 1))  # neither [CLS] nor [SEP]
        hidden.append({text_words[word - 1] for word in word_numbers})
    return hidden


def test_a_word_is_hidden_with_all_its_pieces_in_30_of_100_cases(tokenizer):
    hidden = find_hidden_words(RECIPES["word_masking"], tokenizer, 600)
    assert set().union(*hidden) == set(word_list(TEXT))
    share = np.mean([word in hidden_in_sentence for hidden_in_sentence in hidden for word in word_list(TEXT)])
    assert share == pytest.approx(0.3, abs=0.03)  # 4 standard deviations of 4,200 draws


def test_an_entity_is_hidden_as_a_whole_in_half_of_the_cases(tokenizer):
    hidden = find_hidden_words(RECIPES["clinical_masking"], tokenizer, 600)
    assert {frozenset(hidden_in_sentence) for hidden_in_sentence in hidden} == {frozenset(), frozenset(ENTITY)}
    assert np.mean([bool(hidden_in_sentence) for hidden_in_sentence in hidden]) == pytest.approx(0.5, abs=0.09)


def test_other_recipes_hide_nothing(tokenizer):
    for name in RECIPES.keys() - {"word_masking", "clinical_masking"}:
        assert find_hidden_words(RECIPES[name], tokenizer, 20) == [set()] * 20, name


def test_a_long_sentence_is_cut_before_its_end_is_hidden(tokenizer):
    text = "pneumothorax " * 20
    masked_tokens = tokens(Recipe(mask_words=1.0), tokenizer, [make_row(0)], [text], np.random.default_rng(0))
    assert masked_tokens.ids[0, 0] == tokenizer.cls_token_id
    assert masked_tokens.ids[0, -1] == tokenizer.sep_token_id
    assert (masked_tokens.ids[0, 1:-1] == tokenizer.mask_token_id).all()


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


def make_splits(n: int, abnormal: int = 0) -> dict[str, list[Example]]:
    return {
        split: [make_row(start + number, abnormal=number < abnormal) for number in range(n)]
        for split, start in (("train", 0), ("validation", 1000))
    }


def test_thirty_examples_and_thirty_others():
    selected, watched = select(RECIPES["30_shot"], make_splits(50), seed=1)
    assert len({example.id for example in selected}) == len({example.id for example in watched}) == 30
    assert not {example.patient for example in selected} & {example.patient for example in watched}
    assert selected == select(RECIPES["30_shot"], make_splits(50), seed=1)[0]
    assert selected != select(RECIPES["30_shot"], make_splits(50), seed=2)[0]


def test_only_abnormal_sentences():
    selected, watched = select(RECIPES["abnormal"], make_splits(20, abnormal=7), seed=0)
    assert len(selected) == len(watched) == 7
    assert all("abnormal" in example.subsets for example in selected + watched)


@pytest.mark.parametrize(
    ("name", "splits", "message"),
    [
        (
            "30_shot",
            make_splits(29),
            r"29 sentences for training and 29 for validation\n +expected: 30 of each, of",
        ),
        ("abnormal", make_splits(20), "has 0 abnormal sentences for training"),
        ("retrained", make_splits(1), "has 1 sentences for training"),
    ],
)
def test_too_few_sentences(name, splits, message):
    with pytest.raises(InputError, match=message):
        select(RECIPES[name], splits, seed=0)


def test_random_sentences_are_of_other_images():
    examples = [make_row(number, text=f"text {number}") for number in range(4)]
    mine = [examples[0]._replace(id=text, sentence=text) for text in ("text a", "text b")]  # about the same image
    samples = [sentences(RECIPES["rand_sents"], examples, examples + mine, np.random.default_rng(n)) for n in range(50)]
    assert {texts[0] for texts in samples} == {"text 1", "text 2", "text 3"}
    expected = [example.sentence for example in examples]
    assert sentences(RECIPES["retrained"], examples, examples, np.random.default_rng(0)) == expected


def test_published_recipes():
    """Section 4.1 and footnotes 8 to 10."""
    shot = RECIPES["30_shot"]
    assert (SHOTS, shot.rounds, shot.patience) == (30, 500, 25)
    assert {recipe.patience for name, recipe in RECIPES.items() if name != "30_shot"} == {10}
    assert replace(RECIPES["no_attn"], no_attn=False) == RECIPES["retrained"]
