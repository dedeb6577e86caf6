"""What would the model say if a word were another one?"""

import reagent

PROMPT = "My aunt lives in Japan. She rents a flat in the capital,"
start = PROMPT.index(" Japan")

model = reagent.load_model("smollm2")
why = reagent.explain(
    model, PROMPT, target=" Tokyo", prompt_spans=[(start, start + len(" Japan"))], what_if=True, replacer="self"
)
(answer,) = why.what_if
print(f"with{answer.replacement} instead of{why.input[answer.position].text}:")
for token in answer.answers:
    print(f"{token.probability:6.1%} {token.text}")
