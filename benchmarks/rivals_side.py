"""Explanations of one prompt by shap, Inseq and captum; runs in an environment that has them, started by rivals.py.

Each runs as its documentation shows it, on the same network, tokenizer, prompt and target. Results of shap and captum
are written as plain numbers, those of Inseq by Inseq itself.
"""

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

job = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
prompt, target, folder = job["prompt"], job["target"], Path(job["folder"])
network = AutoModelForCausalLM.from_pretrained(job["model"], dtype=torch.float32).eval()
tokenizer = AutoTokenizer.from_pretrained(job["model"])
torch.manual_seed(0)


def shap_partition() -> dict[str, Any]:
    import shap

    explainer = shap.Explainer(
        shap.models.TeacherForcing(network, tokenizer), shap.maskers.Text(tokenizer, mask_token="..."), silent=True
    )
    values = explainer([prompt], [target], max_evals=job["evaluations"])[0]
    return {
        "data": list(map(str, values.data)),
        "names": list(map(str, values.output_names)),
        "values": values.values.tolist(),
    }


def captum_result(method: Any, **options: Any) -> dict[str, Any]:
    from captum.attr import LLMAttribution, LLMGradientAttribution, TextTokenInput

    kind = LLMGradientAttribution if "Layer" in type(method).__name__ else LLMAttribution
    result = kind(method, tokenizer).attribute(TextTokenInput(prompt, tokenizer), target=target, **options)
    rows = None if result.token_attr is None else result.token_attr.tolist()
    return {
        "inputs": list(result.input_tokens),
        "outputs": list(result.output_tokens),
        "seq": result.seq_attr.tolist(),
        "tokens": rows,
    }


def captum_ablation() -> dict[str, Any]:
    from captum.attr import FeatureAblation

    return captum_result(FeatureAblation(network))


def captum_shapley() -> dict[str, Any]:
    from captum.attr import ShapleyValueSampling

    units = len(tokenizer(prompt)["input_ids"])
    return captum_result(ShapleyValueSampling(network), n_samples=max(1, job["evaluations"] // units))


def inseq_method(name: str, **options: Any) -> dict[str, Any]:
    import inseq

    output = inseq.load_model(job["model"], name).attribute(prompt, prompt + target, show_progress=False, **options)
    path = folder / f"{name}.json"
    output.save(path, overwrite=True)
    return {"path": str(path)}


METHODS = {
    "shap Partition": shap_partition,
    "captum FeatureAblation": captum_ablation,
    "captum ShapleyValueSampling": captum_shapley,
    "inseq input_x_gradient": lambda: inseq_method("input_x_gradient"),
    "inseq integrated_gradients": lambda: inseq_method("integrated_gradients", n_steps=32),
    "inseq attention": lambda: inseq_method("attention"),
}
answers = {}
for name, method in METHODS.items():
    begin = time.perf_counter()
    try:
        answers[name] = method()
    except Exception as error:  # recorded by the benchmark
        answers[name] = {"error": f"{type(error).__name__}: {error}"[:300]}
    answers[name]["seconds"] = round(time.perf_counter() - begin, 2)
versions = {package: version(package) for package in ("shap", "captum", "inseq", "torch", "transformers")}
(folder / "answers.json").write_text(json.dumps({"versions": versions, "answers": answers}))
