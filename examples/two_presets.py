"""How does the default preset compare with the published algorithm, at the same number of forward passes?"""

import reagent

PROMPT = "My aunt moved to Japan to teach music. She rents a small flat in the capital,"

model = reagent.load_model("smollm2")
fast = reagent.explain(model, PROMPT, target=" Tokyo", preset="fast", probes=32)
# A step of the published algorithm takes two passes: 2 runs of 8 steps are 32.
paper = reagent.explain(model, PROMPT, target=" Tokyo", preset="paper", runs=2, max_steps=8, top_k=1)
for why in (fast, paper):
    best = ", ".join(f"{token.token.text.strip()} {token.score:.2f}" for token in why.top(5))
    print(f"{why.method['preset']:5} {why.cost.forward_passes:4} passes: {best}")
