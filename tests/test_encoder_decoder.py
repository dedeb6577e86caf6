"""Encoder–decoder models from end to end: a trained translator, in which the cause of every output token is known."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import RobertaConfig, RobertaForMaskedLM

import masked
import reagent
import translator
from reagent.cli import main
from reagent.errors import CapabilityError
from reagent.explanation import Explanation
from reagent.metrics.registry import METRICS
from reagent.models.seq2seq import Seq2SeqModel
from reagent.views.html import to_view_data
from reagent.views.text import split_into_pieces, template_positions
from web.service import create_service

PROMPT = "with the red bread near a dog and the of to in"
CAUSES = {"chien": "dog", "rouge": "red", "pain": "bread"}  # in the order of the output


@pytest.fixture(scope="module")
def model() -> Seq2SeqModel:
    model = reagent.load_model((translator.network(), translator.tokenizer()))
    assert isinstance(model, Seq2SeqModel)
    return model


def top_words(why: Explanation) -> dict[str, str]:
    """The most important word of the source for each output word."""
    words = [token.text.strip() for token in why.input]
    rows = zip(why.output, why.scores, strict=True)
    return {token.text.strip(): words[int(np.argmax(row[: len(words)]))] for token, row in rows}


METHODS: dict[str, dict[str, Any]] = {
    "fast": {},
    "leave-one-out": {"preset": "leave-one-out"},
    "paper": {"preset": "paper", "attribute_target": False, "stop": False, "max_steps": 300, "runs": 1},
    "input_x_gradient": {"method": "input_x_gradient", "reduction": "norm"},
    **{name: {"method": name} for name in ("integrated_gradients", "gradient_shap")},
    **{name: {"method": name} for name in ("attention", "attention_last", "attention_rollout")},
    **{name: {"method": name} for name in ("lime", "occlusion", "shapley", "exact")},
    "greedy": {"method": "greedy", "removal": "mask"},
}
SOURCES = [
    {"wolf": "loup", "grey": "gris", "soup": "soupe"},
    {"hare": "lapin", "blue": "bleu", "honey": "miel"},
]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_finds_the_causes(model: Seq2SeqModel, name: str) -> None:
    rng = np.random.default_rng(0)
    for words in SOURCES:
        prompt = " ".join(rng.permutation([*words, *rng.choice(translator.OTHERS, 6)]))
        why = reagent.explain(model, prompt, **METHODS[name])
        assert top_words(why) == {target: word for word, target in words.items()}


def test_the_encoder_mixes_words(model: Seq2SeqModel) -> None:
    """So that a method must tell the cause from the places that have heard of it."""
    texts = [[translator.IDS[word] for word in text.split()] for text in ("the dog near a", "of dog with to")]
    with torch.inference_mode():
        states = model._adapter.encode(torch.tensor(texts))[:, 1]
    assert (states[1] - states[0]).norm() > 0.05 * states[0].norm()


def test_gradients_are_slopes(model: Seq2SeqModel) -> None:
    case = model.case(PROMPT, "chien rouge pain").with_logprobs(model)
    text = model.embed(case.ids[: int(case.positions.max())])
    assert text is not None
    words, step = len(PROMPT.split()), 0.01
    products = (text * model.gradients(case, text[None], range(3))[0]).sum(-1)[:, :words]
    values = []
    for factor in (1 + step, 1 - step):
        points = np.repeat(text[None], words, axis=0)
        points[np.arange(words), np.arange(words), :-1] *= factor  # the last column marks the boundary
        values.append(model.values(case, points).T)
    slopes = (values[0] - values[1]) / (2 * step)
    np.testing.assert_allclose(products, slopes, atol=0.03 * np.abs(products).max())


def test_random_scores_find_nothing(model: Seq2SeqModel) -> None:
    found = [top_words(reagent.explain(model, PROMPT, method="random", seed=seed)) == CAUSES for seed in range(5)]
    assert not any(found)


@pytest.mark.parametrize("removal", ["delete", "mask", "replace"])
@pytest.mark.parametrize("method", ["reagent", "occlusion", "shapley", "lime"])
def test_every_removal_finds_the_causes(model: Seq2SeqModel, method: str, removal: str) -> None:
    assert top_words(reagent.explain(model, PROMPT, method=method, removal=removal)) == CAUSES


@pytest.mark.parametrize("replacer", ["random", "pos"])
def test_replacers_change_the_source(model: Seq2SeqModel, replacer: str) -> None:
    why = reagent.explain(model, PROMPT, replacer=replacer)
    assert top_words(why) == CAUSES
    assert why.replacer is not None
    assert why.replacer["id"] == replacer


def test_a_masked_language_model_replaces_words_of_the_source(model: Seq2SeqModel, tmp_path: Path) -> None:
    tokenizer = masked.roberta_tokenizer()
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    network = RobertaForMaskedLM(RobertaConfig(vocab_size=len(tokenizer), max_position_embeddings=200, **sizes))
    network.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    why = reagent.explain(model, PROMPT, replacer="roberta", replacer_options={"model": str(tmp_path)})
    assert top_words(why) == CAUSES


def test_replacers_read_source_and_output_as_two_lines(model: Seq2SeqModel) -> None:
    case = model.case(PROMPT, "chien rouge")
    assert case.text == f"{PROMPT}\nchien rouge"
    assert [case.text[start:end].strip() for start, end in case.spans] == [*PROMPT.split(), "", "", "chien", "rouge"]


@pytest.mark.parametrize("replacer", ["self", "infill"])
def test_a_source_has_no_predictions_of_its_own(model: Seq2SeqModel, replacer: str) -> None:
    with pytest.raises(CapabilityError, match=f"replacer '{replacer}' needs a model that predicts next tokens"):
        reagent.explain(model, PROMPT, replacer=replacer)


def test_only_the_source_is_changed_unless_the_output_is_asked_for(model: Seq2SeqModel) -> None:
    why = reagent.explain(model, PROMPT)
    assert why.attributes == "prompt"
    assert all(not any(row[len(why.input) :]) for row in why.scores)
    both = reagent.explain(model, PROMPT, attribute_target=True, preset="leave-one-out")
    # The translator says a colour after an animal.
    assert both.effects is not None
    row = dict(zip([token.text.strip() for token in both.context(1)], both.effects[1], strict=True))
    assert row["chien"] > 1
    assert row["red"] > 1


def test_special_tokens_are_protected_and_never_important(model: Seq2SeqModel) -> None:
    why = reagent.explain(model, PROMPT)
    special = [i for i, token in enumerate(why.input) if token.protected]
    assert [why.input[i].text for i in special] == ["</s>", "<pad>"]  # the end of the source, the start of the output
    assert all(why.scores[t][i] == 0 for t in range(3) for i in special)


def test_units_are_words_sentences_and_spans(model: Seq2SeqModel) -> None:
    assert top_words(reagent.explain(model, PROMPT, units="word")) == CAUSES
    text = "the red. with a dog. bread of the."
    sentences = reagent.explain(model, text, units="sentence", target="chien rouge pain")
    parts = {"chien": "with a dog.", "rouge": "the red.", "pain": "bread of the."}
    assert top_words(sentences) == parts


def test_contrasts_and_phrases(model: Seq2SeqModel) -> None:
    why = reagent.explain(model, PROMPT, contrast="chat")
    assert top_words(why) == {"chien": "dog"}
    phrase = reagent.explain(model, PROMPT, target_span="rouge pain", attribute_target=False)
    words = {token.text.strip() for token, score in zip(phrase.input, phrase.scores[1], strict=False) if score > 0.2}
    assert words == {"red", "bread"}


def test_what_if_says_what_the_model_says_instead(model: Seq2SeqModel) -> None:
    why = reagent.explain(model, PROMPT, what_if=True, method="occlusion", removal="replace", replacer="random")
    by_target = {answer.target: answer for answer in why.what_if}
    assert by_target[0].answers[0].text.strip() != "chien"
    assert by_target[0].probability < 0.5


def test_metrics_prefer_the_true_explanation(model: Seq2SeqModel) -> None:
    good = reagent.explain(model, PROMPT, method="occlusion")
    bad = reagent.explain(model, PROMPT, method="random")
    names = [name for name in METRICS if name not in ("ante", "no_d")]  # those need annotations
    results = {}
    for name, why in (("good", good), ("bad", bad)):
        evaluation = reagent.evaluate(model, why, metrics=names, draws=8, replacer="random")
        results[name] = {(r.metric, r.measure): r for r in evaluation.results}
    for key, result in results["good"].items():
        sign = 1 if result.higher_is_better else -1
        assert sign * result.value > sign * results["bad"][key].value, key


def test_files_keep_everything(model: Seq2SeqModel, tmp_path: Path) -> None:
    why = reagent.explain(model, PROMPT)
    path = tmp_path / "why.json"
    why.save(path)
    again = reagent.load(path)
    assert again == why
    assert again.has_separate_output
    assert json.loads(path.read_text())["model"]["architecture"] == "encoder-decoder"


def test_documents_are_cited(model: Seq2SeqModel) -> None:
    documents = ["a dog. the of.", "red and the. to in.", "bread near a. of the."]
    citations = reagent.cite(model, "with the", documents, answer="chien rouge pain")
    first = citations.parts[0].sentences[:3]
    assert all("needed" in one.marks for one in first)
    texts = sorted(citations.sentences[one.index].text.strip() for one in first)
    assert texts == ["a dog.", "bread near a.", "red and the."]


def test_the_messages_of_a_chat_are_the_source(model: Seq2SeqModel) -> None:
    tokenizer = copy.deepcopy(translator.tokenizer())
    tokenizer.chat_template = "of {% for message in messages %}{{ message['content'] }} {% endfor %}and"
    chat = [{"role": "user", "content": PROMPT}]
    why = reagent.explain((model.network, tokenizer), chat, target="chien rouge pain", preset="leave-one-out")
    assert top_words(why) == CAUSES
    assert [token.text.strip() for token in why.input if token.protected] == ["of", "and", "</s>", "<pad>"]


def test_unchanged_sources_are_read_once(model: Seq2SeqModel) -> None:
    case = model.case(PROMPT, "chien rouge pain")
    rows = np.tile(case.ids, (5, 1))
    rows[:, -2] = [translator.IDS[word] for word in ("rouge", "bleu", "vert", "chat", "lait")]
    model.clear_cache()
    before = model.meter.tokens
    model.score(rows, case.positions, case.targets)
    source = len(case.input) - 1
    assert model.meter.tokens - before == source + 5 * 3  # a start token and two words in each output
    model.score(rows, case.positions, case.targets)
    assert model.meter.tokens - before == source + 2 * 5 * 3


# --- user interfaces ---


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("translator")
    translator.network().save_pretrained(folder)
    translator.tokenizer().save_pretrained(folder)
    return folder


def test_views_set_source_and_output_apart(
    model: Seq2SeqModel, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    why = reagent.explain(model, PROMPT, attribute_target=True, target_span="rouge", units="token")
    pieces = [(piece.kind, piece.text.strip()) for piece in split_into_pieces(why)]
    words = [*PROMPT.split(), "chien", "rouge", "pain"]
    assert [text for kind, text in pieces if kind == "token"] == words
    roles = [i for i, (kind, _) in enumerate(pieces) if kind == "role"]
    assert [pieces[i][1] for i in roles] == ["source", "output"]
    assert roles == [0, 1 + len(PROMPT.split())]
    assert all(kind != "special" for kind, _ in pieces)
    why.show()
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert any(re.match(r"source +with the ⟦red⟧", line) for line in lines)
    assert any(re.match(r"output +⟦chien⟧.? ▸ rouge", line) for line in lines)
    data = to_view_data(why)
    assert ["source", "role", ()] in data["pieces"]
    assert why.to_png(tmp_path / "why.png").stat().st_size > 1000
    assert template_positions(why) == {12, 13}


def test_the_command_line_explains_a_folder(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "why.json"
    with pytest.raises(SystemExit) as stop:
        main(["explain", PROMPT, "--model", str(folder), "--json", str(path), "--quiet"])
    assert not stop.value.code
    assert top_words(reagent.load(path)) == CAUSES
    with pytest.raises(SystemExit) as stop:
        main(["explain", PROMPT, "--model", str(folder), "--replacer", "self"])
    assert stop.value.code == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("error: replacer 'self' needs a model that predicts next tokens")


def test_the_web_page_explains_it(model: Seq2SeqModel, tmp_path: Path) -> None:
    service = create_service(tmp_path, model)
    try:
        options = service.client.get("/api/options").json()
        offered = {entry["id"] for entry in options["replacers"]}
        assert {"random", "pos"} <= offered
        assert not {"self", "infill"} & offered
        assert {"attention", "integrated_gradients"} <= {method["id"] for method in options["methods"]}
        job = service.wait_for_job(service.submit(prompt=PROMPT, max_new_tokens=5))
        assert job["state"] == "done"
        assert job["answer"] == "chien rouge pain"
        assert ["output", "role", []] in job["explanation"]["pieces"]
    finally:
        service.queue.close()
