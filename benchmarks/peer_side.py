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


def context_cite(job: dict[str, Any]) -> dict[str, Any]:
    """The package itself, with the words of the prompt as sources and the prompt as it is."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if job["model"] not in networks:
        network = AutoModelForCausalLM.from_pretrained(job["model"], dtype=torch.float32).eval()
        tokenizer = AutoTokenizer.from_pretrained(job["model"], padding_side="left")
        tokenizer.chat_template = "{{ messages[0]['content'] }}"
        networks[job["model"]] = network, tokenizer
    begin = time.perf_counter()
    citer = import_context_cite().ContextCiter(
        *networks[job["model"]], job["prompt"], "", source_type="word", num_ablations=job["passes"], batch_size=32,
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


METHODS = {
    "start": start,
    "lasso": lasso,
    "captum FeatureAblation": captum_ablation,
    "captum ShapleyValueSampling": captum_shapley,
    "captum KernelShap": captum_kernel_shap,
    "shapiq KernelSHAP": shapiq_kernel_shap,
    "shapiq ProxySPEX": shapiq_proxyspex,
    "context-cite": context_cite,
}


if __name__ == "__main__":
    main()
