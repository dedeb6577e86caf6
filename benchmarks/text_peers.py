"""Other methods that need only answers, run from their own packages.

llmSHAP   Shapley values over windows of three units, with its own similarity of answers.
ICX360    MExGen C-LIME (Monteiro Paes, Wei et al., ACL 2025): a weighted linear model of removed units and pairs. The
          packages of its own similarities and segmenter are replaced by empty modules, since their networks are on a
          hub; answers are compared by our similarity, and units are given.
"""

import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt

from reagent.models.cache import cache_folder
from reagent.models.text.scorers import compare_texts

Floats = npt.NDArray[np.float64]
Ask = Callable[[list[str]], list[str]]  # answers to some prompts
WINDOW = 3
LLMSHAP, ICX360 = "llmSHAP==1.5.2", "icx360==0.1.0"
ABSENT = ("evaluate", "sentence_transformers", "spacy", "toma")


def run_llmshap(parts: Sequence[str], ask: Ask, requests: int) -> Floats:  # noqa: ARG001
    """It asks for one text after another; a first run collects its texts, which are then answered together."""
    texts: list[str] = []
    _run_llmshap(parts, lambda text: texts.append(text) or "")
    different = list(dict.fromkeys(texts))
    answers = dict(zip(different, ask(different), strict=True))
    return _run_llmshap(parts, answers.__getitem__)


def _run_llmshap(parts: Sequence[str], answer: Callable[[str], str]) -> Floats:
    _install(LLMSHAP)
    import llmSHAP
    from llmSHAP.attribution_methods import SlidingWindowSampler
    from llmSHAP.llm.llm_interface import LLMInterface

    class Model(LLMInterface):  # type: ignore[misc]
        def generate(self, prompt: str, tools: Any = None, images: Any = None) -> str:  # noqa: ARG002
            return answer(prompt)

    class PlainText(llmSHAP.PromptCodec):  # type: ignore[misc, name-defined]
        def build_prompt(self, data_handler: Any, indexes: Any) -> str:
            return "".join(data_handler.get_data(indexes, mask=False).values())  # deleted, as in ours

        def parse_generation(self, model_output: str) -> Any:
            return llmSHAP.Generation(output=model_output)

    data = llmSHAP.DataHandler(dict(enumerate(parts)))
    sampler = SlidingWindowSampler(data.get_keys(), WINDOW)
    method = llmSHAP.ShapleyAttribution(Model(), data, PlainText(), sampler=sampler, use_cache=True, verbose=False)
    return np.array([entry["score"] for entry in method.attribution().attribution.values()])


def run_icx360(parts: Sequence[str], ask: Ask, requests: int) -> Floats:
    """As many removed units and pairs as there are requests; one of them is the unchanged prompt."""
    import torch

    clime = _load_clime()
    explainer = clime.CLIME.__new__(clime.CLIME)
    (original,) = ask(["".join(parts)])

    class Answers:
        def scalarize_output(self, inputs: list[list[str]], **_: Any) -> Any:
            answers = ask(["".join(units) for units in inputs])
            return torch.tensor([compare_texts(answer, original) for answer in answers])

    explainer.scalarized_model, explainer.model = Answers(), None
    random.seed(0)
    result = explainer.explain_instance(
        list(parts),
        unit_types="w",
        output_orig=SimpleNamespace(),
        ind_segment=False,
        oversampling_factor=(requests - 1) / len(parts),
    )
    return np.asarray(result["attributions"]["score"], dtype=np.float64)


@cache
def _load_clime() -> Any:
    for name in ABSENT:
        sys.modules.setdefault(name, _EmptyModule(name))
    _install(ICX360)
    from icx360.algorithms.mexgen import MExGenExplainer, clime

    MExGenExplainer.generate_or_wrap_output = lambda _self, _units, output, _parameters: output
    return clime


class _EmptyModule(ModuleType):
    """Any name in it is something that can be called, and decorates a function by doing nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self if name == self.__name__ else lambda *_, **__: lambda function: function

    def range(self, *_: Any, **__: Any) -> Any:
        return lambda function: function


def _install(package: str) -> None:
    folder = cache_folder() / "benchmarks" / package.replace("==", "-")
    if not folder.is_dir():
        install = [sys.executable, "-m", "pip", "install", "--no-deps", "--quiet", "--target", str(folder), package]
        subprocess.run(install, check=True)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
