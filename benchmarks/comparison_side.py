"""One tool explains one prompt, as its own documentation does it; started by comparison.py in the tool's environment.

Reads a job as JSON from the standard input: the folder of a model, and prompts with an answer of one word. Prints JSON:
for each prompt the pieces of the prompt with their scores, seconds, and the sequences that the model read.
"""

import importlib
import json
import os
import re
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

# Tools print; only the result may be written to the standard output.
messages = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

Pieces = list[tuple[str, float]]  # in the order of the prompt
PROBES = 64


def main() -> None:
    job = json.load(sys.stdin)
    try:
        explain = TOOLS[job["tool"]](job["model"])
        prompts = [measure(explain, **prompt) for prompt in job["prompts"]]
        answer: dict[str, Any] = {"version": version_of(job["tool"].split()[0]), "prompts": prompts}
    except Exception as error:  # recorded by the benchmark
        answer = {"error": " ".join(f"{type(error).__name__}: {error}".split())[:200]}
    messages.write(json.dumps(answer))
    messages.flush()


def version_of(package: str) -> str:
    return version("reagent-lm" if package == "reagent" else package)


class Passes:
    """Counts the sequences that a network reads."""

    count = 0

    def watch(self, network: Any) -> Any:
        forward = network.forward

        def counted(*arguments: Any, **options: Any) -> Any:
            inputs = (*arguments, options.get("input_ids"), options.get("inputs_embeds"))
            self.count += len(next(value for value in inputs if isinstance(value, torch.Tensor)))
            return forward(*arguments, **options)

        network.forward = counted
        return network


passes = Passes()


def measure(explain: Callable[[str, str], Pieces], prompt: str, target: str) -> dict[str, Any]:
    torch.manual_seed(0)
    np.random.seed(0)
    passes.count, begin = 0, time.perf_counter()
    pieces = explain(prompt, target)
    return {"pieces": pieces, "seconds": time.perf_counter() - begin, "passes": passes.count}


def load(folder: str) -> tuple[Any, Any]:
    network = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    return passes.watch(network), AutoTokenizer.from_pretrained(folder)


def logprob_of(folder: str) -> Callable[[list[str], str], np.ndarray]:
    """Log-probabilities of an answer after each text, for tools that take a function."""
    network, tokenizer = load(folder)
    tokenizer.pad_token, tokenizer.padding_side = tokenizer.pad_token or tokenizer.eos_token, "left"

    def logprob(texts: list[str], target: str) -> np.ndarray:
        (first, *_) = tokenizer(target, add_special_tokens=False)["input_ids"]
        values = []
        for begin in range(0, len(texts), 32):
            batch = tokenizer([text or " " for text in texts[begin : begin + 32]], return_tensors="pt", padding=True)
            positions = (batch["attention_mask"].cumsum(1) - 1).clamp(min=0)
            with torch.no_grad():
                logits = network(**batch, position_ids=positions, logits_to_keep=1).logits[:, -1]
            values.append(torch.log_softmax(logits, -1)[:, first])
        return torch.cat(values).numpy()

    return logprob


def words_of(prompt: str) -> list[str]:
    return re.findall(r"\s*\w+|\s*[^\w\s]", prompt)


# --- the tools ---


def captum(folder: str, method: str, **options: Any) -> Callable[[str, str], Pieces]:
    from captum import attr

    network, tokenizer = load(folder)
    explainer = attr.LLMAttribution(getattr(attr, method)(network), tokenizer)

    def explain(prompt: str, target: str) -> Pieces:
        inputs = attr.TextTokenInput(prompt, tokenizer)
        result = explainer.attribute(inputs, target=target, **options)
        ids = tokenizer(prompt)["input_ids"]
        return [(tokenizer.decode(i), float(score)) for i, score in zip(ids, result.seq_attr, strict=True)]

    return explain


def captum_gradients(folder: str) -> Callable[[str, str], Pieces]:
    from captum import attr

    network, tokenizer = load(folder)
    explainer = attr.LLMGradientAttribution(
        attr.LayerIntegratedGradients(network, network.get_input_embeddings()), tokenizer
    )

    def explain(prompt: str, target: str) -> Pieces:
        result = explainer.attribute(attr.TextTokenInput(prompt, tokenizer), target=target)
        ids = tokenizer(prompt)["input_ids"]
        return [(tokenizer.decode(i), float(score)) for i, score in zip(ids, result.seq_attr, strict=True)]

    return explain


def inseq(folder: str, method: str) -> Callable[[str, str], Pieces]:
    import inseq

    model = inseq.load_model(folder, method)
    passes.watch(model.model)

    def explain(prompt: str, target: str) -> Pieces:
        result = model.attribute(prompt, prompt + target, show_progress=False)[0].aggregate()
        ids = model.tokenizer(prompt)["input_ids"]
        column = np.nan_to_num(np.asarray(result.target_attributions)[: len(ids), 0])
        return [(model.tokenizer.decode(i), float(score)) for i, score in zip(ids, column, strict=True)]

    return explain


def shap(folder: str) -> Callable[[str, str], Pieces]:
    import shap

    _, tokenizer = load(folder)
    logprob = logprob_of(folder)

    def explain(prompt: str, target: str) -> Pieces:
        masker = shap.maskers.Text(tokenizer, mask_token="...", collapse_mask_token=True)
        explainer = shap.Explainer(lambda texts: logprob([str(text) for text in texts], target), masker)
        values = explainer([prompt], max_evals=PROBES)
        return [(str(text), float(score)) for text, score in zip(values.data[0], values.values[0], strict=True)]

    return explain


def lime(folder: str) -> Callable[[str, str], Pieces]:
    from lime.lime_text import LimeTextExplainer

    logprob = logprob_of(folder)

    def explain(prompt: str, target: str) -> Pieces:
        def classify(texts: list[str]) -> np.ndarray:
            probability = np.exp(logprob(texts, target))
            return np.stack([1 - probability, probability], 1)

        explainer = LimeTextExplainer(bow=False, split_expression=words_of, random_state=0)
        words = explainer.explain_instance(prompt, classify, num_features=1000, num_samples=PROBES)
        scores = dict(words.as_map()[1])
        return [(word, float(scores.get(i, 0.0))) for i, word in enumerate(words.domain_mapper.indexed_string.as_list)]

    return explain


def shapiq(folder: str, method: str) -> Callable[[str, str], Pieces]:
    package, logprob = importlib.import_module("shapiq"), logprob_of(folder)

    def explain(prompt: str, target: str) -> Pieces:
        words = words_of(prompt)

        def game(kept: np.ndarray) -> np.ndarray:
            return logprob(
                ["".join(word for word, keep in zip(words, row, strict=True) if keep) for row in kept], target
            )

        options = {"index": "SV", "max_order": 1} if method == "ProxySPEX" else {}
        approximator = getattr(package, method)(n=len(words), random_state=0, **options)
        values = approximator.approximate(budget=PROBES, game=game)
        return [(word, float(values[(i,)])) for i, word in enumerate(words)]

    return explain


def context_cite(folder: str) -> Callable[[str, str], Pieces]:
    import nltk

    nltk.download = lambda *_, **__: True  # data of its sentence splitter, which sources of words do not use
    package = importlib.import_module("context_cite")
    network, tokenizer = load(folder)
    tokenizer.padding_side, tokenizer.chat_template = "left", "{{ messages[0]['content'] }}"

    def explain(prompt: str, target: str) -> Pieces:
        citer = package.ContextCiter(
            network, tokenizer, prompt, "", source_type="word", num_ablations=PROBES, prompt_template="{context}"
        )
        citer._cache["output"] = prompt + target  # explains this answer instead of its own
        scores = citer.get_attributions(verbose=False)
        return [(source, float(score)) for source, score in zip(citer.sources, scores, strict=True)]

    return explain


def interpreto(folder: str, method: str) -> Callable[[str, str], Pieces]:
    package = importlib.import_module("interpreto")
    network, tokenizer = load(folder)
    explainer = getattr(package, method)(network, tokenizer)

    def explain(prompt: str, target: str) -> Pieces:
        (result,) = explainer.explain(prompt, target)
        scores = np.asarray(result.attributions, dtype=float).reshape(-1)
        return [(str(piece), float(score)) for piece, score in zip(result.elements, scores, strict=False)]

    return explain


def reagent(folder: str, preset: str) -> Callable[[str, str], Pieces]:
    import reagent as package

    model = package.load_model(load(folder))

    def explain(prompt: str, target: str) -> Pieces:
        why = package.explain(model, prompt, target=target, units="word", preset=preset)
        return [(unit.text, float(score)) for unit, score in zip(why.input, why.scores[0], strict=False)]

    return explain


TOOLS: dict[str, Callable[[str], Callable[[str, str], Pieces]]] = {
    "reagent (default)": partial(reagent, preset="fast"),
    "reagent (leave-one-out)": partial(reagent, preset="leave-one-out"),
    "captum FeatureAblation": partial(captum, method="FeatureAblation"),
    "captum ShapleyValueSampling": partial(captum, method="ShapleyValueSampling", n_samples=2),
    "captum LayerIntegratedGradients": captum_gradients,
    "inseq integrated_gradients": partial(inseq, method="integrated_gradients"),
    "inseq attention": partial(inseq, method="attention"),
    "inseq value_zeroing": partial(inseq, method="value_zeroing"),
    "shap PartitionExplainer": shap,
    "lime LimeTextExplainer": lime,
    "shapiq KernelSHAP": partial(shapiq, method="KernelSHAP"),
    "shapiq ProxySPEX": partial(shapiq, method="ProxySPEX"),
    "context-cite": context_cite,
    "interpreto Occlusion": partial(interpreto, method="Occlusion"),
    "interpreto Lime": partial(interpreto, method="Lime"),
}


if __name__ == "__main__":
    main()
