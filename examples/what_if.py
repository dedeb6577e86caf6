"""What would the model say if a word were another one?"""

import reagent

PROMPT = "She was born in Japan. The capital of this country is"
start = PROMPT.index(" Japan")
span = (start, start + len(" Japan"))  # without spans, the most important unit is replaced

model = reagent.load_model("smollm2")
why = reagent.explain(model, PROMPT, target=" Tokyo", prompt_spans=[span], what_if=True, replacer="self", probes=16)
(answer,) = why.what_if
print(f"with{answer.replacement} instead of{why.input[answer.position].text}:")
for token in answer.answers:
    print(f"{token.probability:6.1%}{token.text}")
