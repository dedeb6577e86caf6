"""The cost of a probe: share of the matrix-multiplication peak, 20 targets and 1, prompt length, memory.

python benchmarks/scoring.py            # prints JSON; a few minutes on two cores
"""

import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import torch
from prompts import DEMO, FORTY_TWO, LONG

import reagent
from reagent.models.huggingface import HuggingFaceModel
from reagent.sampling import sample_balanced


def seconds(call: Callable[[], object], repeats: int = 3) -> float:
    call()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return median(times)


def matmul_peak() -> float:
    """Floating-point operations per second of a large float32 matrix product, measured for about a second."""
    a, b = torch.randn(2, 1536, 1536)
    return 2 * 1536**3 / seconds(lambda: a @ b, repeats=25)


def flops(model: HuggingFaceModel, length: int, targets: int) -> float:
    """Operations for one sequence: two per weight and token, attention, and the output layer at the targets only."""
    config = model.network.config
    head = config.vocab_size * config.hidden_size
    body = sum(p.numel() for p in model.network.parameters()) - head
    attention = 4 * length * length * config.hidden_size * config.num_hidden_layers
    return 2.0 * body * length + attention + 2.0 * head * targets


def probes(model: HuggingFaceModel, text: str, count: int, ratio: float, targets: int = 1) -> tuple[np.ndarray, ...]:
    case = model.case(text, max_new_tokens=targets)
    replaced, _ = sample_balanced(
        len(case.input), max(1, round(ratio * len(case.input))), count, 1, np.random.default_rng(0)
    )
    sequences = np.repeat(case.ids[None], count, axis=0)
    sequences[:, : len(case.input)] = np.where(replaced, 1000, sequences[:, : len(case.input)])
    return sequences, case.positions, case.targets


def main() -> None:
    model = reagent.load_model("smollm2")
    assert isinstance(model, HuggingFaceModel)
    whole = probes(model, DEMO, 64, 1.0)  # all tokens replaced, with different first tokens: no shared prefix
    whole[0][:, 0] = np.arange(64) + 1000
    work = 64 * flops(model, int(whole[1].max()), 1)
    peaks, rates = [matmul_peak()], []
    for _ in range(9):  # alternating, because the machine's speed drifts
        rates.append(work / seconds(lambda: model.score(*whole), 1))
        peaks.append(matmul_peak())
    around = [(before + after) / 2 for before, after in pairwise(peaks)]
    result: dict[str, object] = {
        "threads": torch.get_num_threads(),
        "matmul_gflops": median(peaks) / 1e9,
        "probe_gflops": median(rates) / 1e9,
        "share_of_peak": median(r / p for r, p in zip(rates, around, strict=True)),
    }
    fixed = probes(model, f"{LONG[0]} {LONG[1]} {DEMO}", 32, 0.1)
    begin = model.case(f"{LONG[0]} {LONG[1]} ", target=" x").ids.size - 1
    fixed[0][:, :begin] = model.case(f"{LONG[0]} {LONG[1]} {DEMO}", target=" x").ids[
        :begin
    ]  # a prefix that is never replaced
    unshared = HuggingFaceModel(model.network, model.tokenizer)
    unshared._prefix.can_share = False
    pair = [(seconds(lambda: unshared.score(*fixed), 1), seconds(lambda: model.score(*fixed), 1)) for _ in range(3)]
    result["fixed_prefix_tokens"] = begin
    result["fixed_prefix_times_faster"] = median(a / b for a, b in pair)
    result["cut_times_faster"] = {n: cutting(model, n) for n in (1, 20)}
    times: dict[int, list[float]] = {1: [], 20: []}
    for _ in range(3):
        for n, measured in times.items():
            measured.append(reagent.explain(model, FORTY_TWO, max_new_tokens=n, probes=96).cost.seconds)
    result["seconds_96_probes"] = {n: median(measured) for n, measured in times.items()}
    result["twenty_targets_over_one"] = median(b / a for a, b in zip(times[1], times[20], strict=True))
    lengths = {}
    ids = model.tokenizer(" ".join(LONG) * 8)["input_ids"]
    for length in (32, 64, 128, 256, 512, 1024):
        count = max(4, 1024 // length)
        batch = probes(model, model.tokenizer.decode(ids[:length]), count, 0.1)
        lengths[length] = seconds(lambda batch=batch: model.score(*batch), 1) / count
    result["seconds_per_probe_by_prompt_length"] = lengths
    result["memory"] = [
        json.loads(subprocess.run([sys.executable, __file__, *size], check=True, capture_output=True, text=True).stdout)
        for size in (("256", "8"), ("576", "30"), ("960", "32"))
    ]
    print(json.dumps(result, indent=1))


def cutting(model: HuggingFaceModel, targets: int) -> float:
    """The speed-up of cutting batches of single-token probes by their shared prefixes."""
    single = probes(model, FORTY_TWO, 32, 0.0, targets)
    whole = Whole(model.network, model.tokenizer)
    pairs = [(seconds(lambda: whole.score(*single), 1), seconds(lambda: model.score(*single), 1)) for _ in range(5)]
    return median(a / b for a, b in pairs)


class Whole(HuggingFaceModel):
    """Cuts batches only when they are full."""

    _pass_costs = math.inf


def memory(hidden: int, layers: int) -> None:
    """Peak memory of a process that scores 64 probes of 64 tokens with a Llama of random weights of this size."""
    from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

    from reagent.models import bundled

    tokenizer = AutoTokenizer.from_pretrained(bundled.fetch("smollm2"))
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=8 * hidden // 3,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64 or 1,
        num_key_value_heads=1,
        tie_word_embeddings=True,
    )
    model = HuggingFaceModel(LlamaForCausalLM(config), tokenizer)
    weights = sum(p.numel() * p.element_size() for p in model.network.parameters())
    sequences = np.random.default_rng(0).integers(5, 1000, (64, 65))
    model.score(sequences, np.array([64]), np.array([7]))
    # `resource` would include the peak of the parent process.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    print(json.dumps({"weights_mb": weights / 1e6, "peak_mb": int(status["VmHWM"].split()[0]) / 1e3}))


if __name__ == "__main__":
    memory(int(sys.argv[1]), int(sys.argv[2])) if len(sys.argv) == 3 else main()
