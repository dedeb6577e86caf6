"""Are the important words enough for the answer?"""

import reagent

PROMPT = "My aunt lives in Japan. She rents a flat in the capital,"

model = reagent.load_model("smollm2")
why = reagent.explain(model, PROMPT, target=" Tokyo", units="word", probes=64)
test = why[0].sufficiency
print("without any word:", f"−{test.total:.1f} nats")
print("only with", [why.input[i].text.strip() for i in test.units], f"−{test.effect:.1f} nats")
print("sufficient" if test.passed else "not sufficient", f"({test.share:.0%} of the answer is kept)")
