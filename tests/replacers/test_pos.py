"""Nouns replace nouns and verbs replace verbs; the vocabulary is tagged once."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import masked
from reagent.case import Case
from reagent.errors import CapabilityError, InputError
from reagent.explanation import Token
from reagent.models.base import Model
from reagent.replacers import make_replacer, pos
from reagent.testing.scripted import ScriptedModel

NOUNS = ["aunt", "uncle", "garden", "flat", "river", "music", "teacher"]
PLURALS = ["books", "rivers", "gardens", "teachers", "windows"]
PASTS = ["moved", "wrote", "sang", "went", "came"]
NAMES = ["Japan", "Norway", "Peter", "London", "Egypt"]
ADJECTIVES = ["small", "old", "beautiful", "large", "green"]
ADVERBS = ["quickly", "often", "never", "slowly", "soon"]
DIGITS = ["7", "12", "2024", "90"]
OTHERS = ["the", "a", "in", "to", "She", "is", "researc", "desicc", "recomm", "exerc", "."]
VOCABULARY = [*NOUNS, *PLURALS, *PASTS, *NAMES, *ADJECTIVES, *ADVERBS, *DIGITS, *OTHERS]


def scripted(vocabulary: list[str]) -> ScriptedModel:
    return ScriptedModel(vocabulary, lambda context: np.zeros((len(context), len(vocabulary))))


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache on the disk and in memory."""
    monkeypatch.setenv("REAGENT_CACHE", str(tmp_path))
    pos._group_tokens.cache_clear()
    yield tmp_path
    pos._group_tokens.cache_clear()


def proposed(model: Model, case: Case, seed: int = 0, candidates: int = 256) -> list[set[str]]:
    """For each position, the proposals without their space."""
    replacer = make_replacer("pos", candidates=candidates)
    proposals = replacer.propose(model, case, np.random.default_rng(seed))
    spelled = dict(zip(model.ordinary_ids.tolist(), model.ordinary_texts, strict=True))  # type: ignore[attr-defined]
    return [
        {spelled[i].strip() for i in row[w > 0].tolist()}
        for row, w in zip(proposals.ids, proposals.weights, strict=True)
    ]


def test_each_word_is_replaced_by_its_part_of_speech() -> None:
    model = scripted(VOCABULARY)
    case = model.case("She moved to Japan often in 2024 . the small garden is in the aunt", target=" books")
    candidates = dict(
        zip([token.text.strip() for token in case.input + case.output], proposed(model, case), strict=True)
    )
    for word, group in [
        ("moved", PASTS),
        ("Japan", NAMES),
        ("often", ADVERBS),
        ("2024", DIGITS),
        ("small", ADJECTIVES),
        ("garden", NOUNS),
        ("books", PLURALS),
    ]:
        # "flat" alone is an adjective to the tagger
        assert candidates[word] - {"flat"} == set(group) - {word, "flat"}, word


def test_a_word_is_tagged_in_its_sentence() -> None:
    model = scripted([*VOCABULARY, "stone"])
    noun, adjective = model.case("She moved in the small flat", " ."), model.case("the flat stone is old", " .")
    assert proposed(model, noun)[5] >= {"garden", "river", "music"}
    assert proposed(model, adjective)[1] == {*ADJECTIVES}


def test_small_groups_widen_step_by_step() -> None:
    model = scripted(["aunt", "books", "rivers", "gardens", "Garden", "moved", "the", "+", "="])
    case = model.case("the aunt moved + the Garden", target=" moved")
    the, aunt, moved, plus, _, garden, _ = proposed(model, case)
    assert aunt == {"books", "rivers", "gardens"}  # nouns in the plural
    assert garden == {"aunt", "books", "rivers", "gardens"}  # the capital is dropped too
    words = {"aunt", "books", "rivers", "gardens", "Garden", "moved", "the"}
    assert the == words - {"the"}  # any word
    assert moved == words - {"moved"}
    assert plus == {"="}


@pytest.mark.parametrize("kind", ["byte-level", "metaspace", "pieces"])
def test_proposals_keep_the_space_and_leave_out_the_original(kind: str) -> None:
    model = masked.make_model(kind)
    case = model.case("My aunt isn't in\n\nJapan 🙂 (it's room7)", target=" 日本.")
    proposals = make_replacer("pos", candidates=20).propose(model, case, np.random.default_rng(0))
    used = proposals.weights > 0
    np.testing.assert_array_equal(proposals.replaceable, ~case.protected)
    assert not (used & (proposals.ids == case.ids[:, None])).any()
    spelled = dict(zip(model.ordinary_ids.tolist(), model.ordinary_texts, strict=True))
    for i, token in enumerate(case.input + case.output):
        original = spelled.get(int(case.ids[i]), token.text)
        assert all(spelled[j][0].isspace() == original[0].isspace() for j in proposals.ids[i][used[i]].tolist())
    if kind != "pieces":
        digit = [token.text for token in case.input].index("7")
        assert all(spelled[j].isdecimal() for j in proposals.ids[digit][used[digit]].tolist())


def test_parts_of_words_replace_parts_of_words() -> None:
    model = masked.make_model("pieces")
    case = model.case("My aunt moved to Japan", target=" to")
    tags = dict(zip([token.text for token in case.input], pos._tag_case(case), strict=False))
    assert tags["My"] == "DPS"
    assert tags[" to"] == "PRP"
    assert {tags[piece] for piece in ("u", "nt", "J", "ed")} == {pos.PART}
    assert tags[" "] == pos.SPACE


def test_contractions_are_split_as_the_model_splits_them() -> None:
    prompt, spans = "It isn't", [(0, 2), (2, 6), (6, 8)]  # as GPT-2 splits it
    tokens = tuple(Token((i,), prompt[a:b], a, b) for i, (a, b) in enumerate(spans))
    assert pos._tag_case(Case(prompt, " old", tokens, (Token((3,), " old", 0, 4),))) == [
        "PNP",
        "VBZ",
        "XX0",
        "AJ0",
    ]


def test_draws_are_seeded_and_bounded() -> None:
    model = scripted(VOCABULARY)
    case = model.case("the garden", target=" is")
    draws = [frozenset(proposed(model, case, seed, candidates=2)[1]) for seed in range(20)]
    assert {len(draw) for draw in draws} == {2}
    assert len(set(draws)) > 3
    assert draws[3] == proposed(model, case, 3, candidates=2)[1]


def test_a_vocabulary_is_tagged_once(cache_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tagged: list[int] = []
    tag = pos._tag_words
    monkeypatch.setattr(pos, "_tag_words", lambda texts: tagged.append(len(texts)) or tag(texts))

    def use(vocabulary: list[str]) -> list[set[str]]:
        pos._group_tokens.cache_clear()  # as in another process
        model = scripted(vocabulary)
        return proposed(model, model.case("the garden", target=" is"))

    first = use(VOCABULARY)
    assert use(VOCABULARY) == first
    assert tagged == [len(VOCABULARY)]
    use([*VOCABULARY, "stone"])  # another tokenizer
    assert use(VOCABULARY) == first
    assert tagged == [len(VOCABULARY), len(VOCABULARY) + 1]
    assert len(list(cache_folder.glob("pos-*/tags.json"))) == 2
    monkeypatch.setattr(pos, "_tagger_id", lambda: "HanTa 99")  # another tagger
    use(VOCABULARY)
    assert len(tagged) == 3
    assert len(list(cache_folder.glob("pos-*/tags.json"))) == 2


def test_without_the_extra_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "HanTa.HanoverTagger", None)
    pos._load_tagger.cache_clear()
    model = scripted(VOCABULARY)
    with pytest.raises(InputError, match=r"tagger, which is not installed: pip install 'reagent-lm\[pos\]'"):
        proposed(model, model.case("the garden", target=" is"))


def test_options_and_capabilities_are_checked() -> None:
    with pytest.raises(
        InputError, match="`candidates` of the replacer must be a whole number from 1 to 1000000, got 0"
    ):
        make_replacer("pos", candidates=0)
    info = make_replacer("pos").info
    assert info["id"] == "pos"
    assert info["tagger"].startswith("HanTa 1.")

    class WithoutTexts:
        def __init__(self) -> None:
            self.inner = scripted(["a", "b"])
            self.meter, self.info = self.inner.meter, self.inner.info
            self.case, self.score = self.inner.case, self.inner.score

    model = WithoutTexts()
    with pytest.raises(CapabilityError, match="replacer 'pos' needs a model that has a vocabulary with known texts"):
        make_replacer("pos").propose(model, model.case("a b", "b"), np.random.default_rng(0))


def test_a_file_in_the_working_folder_is_not_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import gzip
    import pickle

    from reagent.replacers import pos

    class Trap:
        def __reduce__(self) -> tuple[object, ...]:
            return Path.touch, (tmp_path / "pwned",)

    (tmp_path / "morphmodel_en.pgz").write_bytes(gzip.compress(pickle.dumps(Trap())))
    monkeypatch.chdir(tmp_path)
    pos._load_tagger.cache_clear()
    assert pos._load_tagger() is not None
    assert not (tmp_path / "pwned").exists()
