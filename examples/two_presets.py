"""The published algorithm and the fast preset at the same number of forward passes."""

import reagent

PROMPT = (
    "My aunt moved to Japan to teach music. (Her old piano is still standing in our garage). "
    "She rents a small flat in the capital,"
)

model = reagent.load_model("smollm2")
fast = reagent.explain(model, PROMPT, target=" Tokyo", preset="fast", probes=96)
# A step of the published algorithm takes two passes: 3 runs of 16 steps are 96.
paper = reagent.explain(model, PROMPT, target=" Tokyo", preset="paper", runs=3, max_steps=16, top_k=1)
for why in (fast, paper):
    best = ", ".join(f"{unit.token.text.strip()} {unit.score:.2f}" for unit in why.top(5))
    print(f"{why.method['preset']:5} {why.cost.forward_passes:4} passes: {best}")
