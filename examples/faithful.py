"""Is the explanation faithful to the model?"""

import reagent

PROMPT = "My aunt lives in Japan. She rents a flat in the capital,"

model = reagent.load_model("smollm2")
why = reagent.explain(model, PROMPT, target=" Tokyo", probes=32)
faithfulness = reagent.evaluate(model, why, ["comprehensiveness", "sufficiency"], draws=8)
for result in faithfulness.results:
    direction = "higher" if result.higher_is_better else "lower"
    print(f"{result.metric}: {result.value:.1f} {result.measure}, random {result.random:.1f} ({direction} is better)")
