"""The peers' side of `peers.py`: runs in a peer's environment, and reads and writes one JSON object per line."""

import importlib
import json
import os
import sys
import time
from typing import Any

import numpy as np

# Packages print; only messages may be written to the standard output.
messages = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

MODULES = {"scikit-learn": ("sklearn.linear_model", "captum.attr"), "shapiq": ("shapiq",), "context-cite": ()}


def main() -> None:
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer = METHODS[job["method"]](job)
        except Exception as error:  # recorded by the benchmark
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        send(answer)


def send(message: dict[str, Any]) -> None:
    messages.write(json.dumps(message) + "\n")
    messages.flush()


def value(kept: Any) -> np.ndarray:
    """Log-probabilities of the target for subsets of the units, [subsets]; `kept` is [subsets, units]."""
    send({"kept": np.asarray(kept).astype(int).tolist()})
    return np.array(json.loads(sys.stdin.readline())["values"])


def start(job: dict[str, Any]) -> dict[str, Any]:
    for module in MODULES[job["environment"]]:
        importlib.import_module(module)
    if job["environment"] == "context-cite":
        import_context_cite()
    return {}


# --- scikit-learn ---


def lasso(job: dict[str, Any]) -> dict[str, Any]:
    """ContextCite's estimator: half of the units deleted, LASSO on the log-odds of the target."""
    from sklearn.linear_model import LassoCV

    kept = np.random.default_rng(job["seed"]).random((job["passes"], job["units"])) < 0.5
    probability = np.clip(np.exp(value(kept)), 1e-30, 1 - 1e-6)
    odds = np.log(probability) - np.log1p(-probability)
    fitted = LassoCV(cv=5, random_state=job["seed"], max_iter=10_000).fit(kept.astype(float), odds)
    return {"scores": fitted.coef_.tolist()}


# --- captum ---


def forward(inputs: Any) -> Any:
    import torch

    return torch.from_numpy(value(inputs.numpy() > 0.5))


def captum_ablation(job: dict[str, Any]) -> dict[str, Any]:
    from captum.attr import FeatureAblation

    return captum_scores(FeatureAblation(forward), job, perturbations_per_eval=job["units"])


def captum_shapley(job: dict[str, Any]) -> dict[str, Any]:
    from captum.attr import ShapleyValueSampling

    permutations = max(1, job["passes"] // job["units"])
    return captum_scores(ShapleyValueSampling(forward), job, n_samples=permutations, perturbations_per_eval=32)


def captum_kernel_shap(job: dict[str, Any]) -> dict[str, Any]:
    from captum.attr import KernelShap

    return captum_scores(KernelShap(forward), job, n_samples=job["passes"], perturbations_per_eval=32)


def captum_scores(method: Any, job: dict[str, Any], **options: int) -> dict[str, Any]:
    import torch

    torch.manual_seed(job["seed"])
    np.random.seed(job["seed"])
    shape = (1, job["units"])
    scores = method.attribute(torch.ones(shape), baselines=torch.zeros(shape), **options)
    return {"scores": scores[0].tolist()}


# --- shapiq ---


def shapiq_kernel_shap(job: dict[str, Any]) -> dict[str, Any]:
    from shapiq import KernelSHAP

    return shapiq_scores(KernelSHAP(n=job["units"], random_state=job["seed"]), job)


def shapiq_proxyspex(job: dict[str, Any]) -> dict[str, Any]:
    from shapiq import ProxySPEX

    return shapiq_scores(ProxySPEX(n=job["units"], index="SV", max_order=1, random_state=job["seed"]), job)


def shapiq_scores(method: Any, job: dict[str, Any]) -> dict[str, Any]:
    values = method.approximate(budget=job["passes"], game=value)
    return {"scores": [float(values[(i,)]) for i in range(job["units"])]}


# --- context-cite ---

networks: dict[str, Any] = {}


def import_context_cite() -> Any:
    import nltk

    nltk.download = lambda *_, **__: True  # data of its sentence splitter, which sources of words do not use
    return importlib.import_module("context_cite")


def load_network(name: str) -> Any:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if name not in networks:
        network = AutoModelForCausalLM.from_pretrained(name, dtype=torch.float32).eval()
        networks[name] = network, AutoTokenizer.from_pretrained(name, padding_side="left")
    return networks[name]


def context_cite(job: dict[str, Any]) -> dict[str, Any]:
    """The package itself, with the words of the prompt as sources and the prompt as it is."""
    network, tokenizer = load_network(job["model"])
    tokenizer.chat_template = "{{ messages[0]['content'] }}"
    begin = time.perf_counter()
    citer = import_context_cite().ContextCiter(
        network, tokenizer, job["prompt"], "", source_type="word", num_ablations=job["passes"], batch_size=32,
        prompt_template="{context}",
    )  # fmt: skip
    citer._cache["output"] = job["prompt"] + job["target"]  # explains this answer instead of its own
    scores = citer.get_attributions(verbose=False)
    seconds = time.perf_counter() - begin
    words, at = [], 0
    for part in citer.sources:
        at = job["prompt"].index(part, at)
        words.append((at, at + len(part)))
        at += len(part)
    tokens = sum(len(citer._get_prompt_ids(mask)) for mask in citer._masks)
    cost = {"seconds": seconds, "forward_passes": len(citer._masks), "tokens": tokens}
    return {"scores": scores.tolist(), "words": words, "cost": cost}


def context_cite_sentences(job: dict[str, Any]) -> dict[str, Any]:
    """The package itself, in a chat. Its sources are the marked spans of the message; the rest always stays."""
    package = import_context_cite()
    base = importlib.import_module("context_cite.context_partitioner").BaseContextPartitioner
    spans = job["sources"]
    ends = [0, *(end for _, end in spans)]

    class Spans(base):  # type: ignore[misc, valid-type]
        num_sources = len(spans)

        def split_context(self) -> None: ...

        def get_source(self, index: int) -> str:
            return str(self.context[slice(*spans[index])])

        def get_context(self, mask: Any = None) -> str:
            kept = np.ones(len(spans), dtype=bool) if mask is None else mask
            text = "".join(
                self.context[end:start] + (self.context[start:stop] if keep else "")
                for end, (start, stop), keep in zip(ends, spans, kept, strict=False)
            )
            return text + str(self.context[ends[-1] :])

    begin, core = time.perf_counter(), time.process_time()
    citer = package.ContextCiter(
        *load_network(job["model"]), job["prompt"], "", num_ablations=job["passes"], batch_size=4,
        prompt_template="{context}", partitioner=Spans(job["prompt"]),
    )  # fmt: skip
    citer._cache["output"] = citer._get_prompt_ids(return_prompt=True)[1] + job["answer"]
    scores = citer.get_attributions(verbose=False)
    seconds = {"seconds": time.perf_counter() - begin, "core_seconds": time.process_time() - core}
    tokens = sum(len(citer._get_prompt_ids(mask)) + len(citer._response_ids) for mask in citer._masks)
    return {"scores": scores.tolist(), "cost": {"forward_passes": len(citer._masks), "tokens": tokens} | seconds}


def context_cite_game(job: dict[str, Any]) -> dict[str, Any]:
    """The random subsets and the regression of the package; the log-probabilities come from the benchmark."""
    import_context_cite()
    utils = importlib.import_module("context_cite.utils")
    solver = importlib.import_module("context_cite.solver").LassoRegression()
    masks = np.array([utils._create_mask(job["units"], 0.5, seed) for seed in range(job["passes"])])
    logprob = np.minimum(value(masks), -1e-6)
    odds = logprob - np.log(-np.expm1(logprob))  # what `aggregate_logit_probs` makes of the probability of an answer
    return {"scores": solver.fit(masks, odds, job["tokens"])[0].tolist()}


METHODS = {
    "start": start,
    "lasso": lasso,
    "captum FeatureAblation": captum_ablation,
    "captum ShapleyValueSampling": captum_shapley,
    "captum KernelShap": captum_kernel_shap,
    "shapiq KernelSHAP": shapiq_kernel_shap,
    "shapiq ProxySPEX": shapiq_proxyspex,
    "context-cite": context_cite,
    "context-cite sentences": context_cite_sentences,
    "context-cite game": context_cite_game,
}


if __name__ == "__main__":
    main()
