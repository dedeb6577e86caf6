"""How do I explain a list of prompts and get one table?"""

import pandas as pd

import reagent

PROMPTS = ["The capital of France is", "The opposite of hot is", "A week has seven"]

model = reagent.load_model("smollm2")
explanations = reagent.explain(model, PROMPTS, max_new_tokens=1, probes=16)  # each is computed when it is read
frames = [why.to_frame().assign(prompt=why.prompt) for why in explanations]
table = pd.concat(frames, ignore_index=True)
best = table.loc[table.groupby("prompt").score.idxmax()]
print(best[["prompt", "output", "text", "score", "effect"]].round(2).to_string(index=False))
