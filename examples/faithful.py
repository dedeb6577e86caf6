"""Is the explanation faithful to the model?"""

import reagent

PROMPT = "She lives in Japan. The capital is"

model = reagent.load_model("smollm2")
why = reagent.explain(model, PROMPT, target=" Tokyo", probes=24)
faithfulness = reagent.evaluate(model, why, ["comprehensiveness", "sufficiency"], draws=4)
for result in faithfulness.results:
    direction = "higher" if result.higher_is_better else "lower"
    print(f"{result.metric}: {result.value:.1f} {result.measure}, random {result.random:.1f} ({direction} is better)")
