"""Explanations of shap, Inseq and captum of one prompt, graded by `reagent evaluate` in one table.

    python3 -m venv /somewhere/rivals && /somewhere/rivals/bin/pip install shap inseq captum
    python benchmarks/rivals.py --python /somewhere/rivals/bin/python > docs/benchmarks/rivals.json

The other packages run in their own environment with their usual settings. Their results are imported, joined to common
units, and measured on equal draws together with those of reagent and random scores. One prompt shows that the exchange
works; it does not rank the methods.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from prompts import JAPAN

import reagent
from reagent.api.evaluate import evaluate_together
from reagent.evaluation import Evaluations
from reagent.exchange.captum import from_captum
from reagent.exchange.common_units import align
from reagent.exchange.inseq import from_inseq
from reagent.exchange.shap import from_shap
from reagent.explanation import Explanation
from reagent.methods import make_method
from reagent.metrics.config import EvaluationConfig
from reagent.models import bundled

TARGET = " Tokyo"
EVALUATIONS = 200  # of shap and of Shapley values
METRICS = ["comprehensiveness", "sufficiency", "lds"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", required=True, help="of an environment with shap, inseq and captum")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        answers = ask(arguments.python, Path(folder))
        model = reagent.load_model("smollm2")
        imported = {
            name: read(model, name, answer) for name, answer in answers["answers"].items() if "error" not in answer
        }
    own = {name: reagent.explain(model, JAPAN, target=TARGET, method=name, seed=0) for name in ("reagent", "random")}
    explanations = align([*own.values(), *imported.values()])
    config = EvaluationConfig(metrics=METRICS, removal=["replace", "delete"], seed=0)
    evaluations = evaluate_together(model, explanations, config)
    with contextlib.redirect_stdout(sys.stderr):
        Evaluations(tuple(evaluations)).show()
    names = [*own, *imported]
    result = {
        "prompt": JAPAN,
        "target": TARGET,
        "units": len(explanations[0].input),
        "versions": answers["versions"],
        "errors": {name: answer["error"] for name, answer in answers["answers"].items() if "error" in answer},
        "seconds": {name: why.cost.seconds for name, why in own.items()}
        | {name: answers["answers"][name]["seconds"] for name in imported},
        "best_units": {
            name: [one.token.text for one in why.top(4)] for name, why in zip(names, explanations, strict=True)
        },
        "results": {
            name: {f"{r.metric} {r.measure}": [round(r.value, 4), round(r.stderr, 4)] for r in evaluation.results}
            for name, evaluation in zip(names, evaluations, strict=True)
        },
        "random": {f"{r.metric} {r.measure}": round(r.random, 4) for r in evaluations[0].results},
        "higher_is_better": {f"{r.metric} {r.measure}": r.higher_is_better for r in evaluations[0].results},
        "methods": {name: make_method(name)[1] for name in own},
    }
    print(json.dumps(result, indent=1, ensure_ascii=False))


def ask(python: str, folder: Path) -> dict[str, Any]:
    """What the other packages say."""
    job = {"model": str(bundled.fetch("smollm2")), "prompt": JAPAN, "target": TARGET}
    job |= {"evaluations": EVALUATIONS, "folder": str(folder)}
    (folder / "job.json").write_text(json.dumps(job))
    side = Path(__file__).with_name("rivals_side.py")
    subprocess.run([python, side, folder / "job.json"], check=True, stdout=subprocess.DEVNULL)
    answers = json.loads((folder / "answers.json").read_text())
    return dict(answers)


def read(model: Any, name: str, answer: dict[str, Any]) -> Explanation:
    if name.startswith("inseq"):
        return from_inseq(model, answer["path"])
    if name.startswith("captum"):
        tokens = None if answer["tokens"] is None else torch.tensor(answer["tokens"])
        result: Any = SimpleNamespace(
            input_tokens=answer["inputs"],
            output_tokens=answer["outputs"],
            seq_attr=torch.tensor(answer["seq"]),
            token_attr=tokens,
            inp=None,
        )
        return from_captum(model, result, method=name, completion=TARGET)
    values: Any = SimpleNamespace(
        values=np.array(answer["values"]),
        data=np.array(answer["data"]),
        output_names=answer["names"],
        feature_names=None,
    )
    return from_shap(model, values, completion=TARGET)


if __name__ == "__main__":
    main()
