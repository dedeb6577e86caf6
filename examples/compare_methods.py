"""Do two methods give the same explanation?"""

import reagent

PROMPT = "My aunt moved to Japan to teach music. She rents a small flat in the capital,"

model = reagent.load_model("smollm2")
both = reagent.compare(
    model, PROMPT, ["reagent", "attention"], target=" Tokyo", units="word", options={"reagent": {"probes": 32}}
)
for name, why in zip(both.names, both, strict=True):
    print(f"{name:12}", *(f"{word.token.text.strip()} {word.score:.2f}" for word in why.top(3)))
