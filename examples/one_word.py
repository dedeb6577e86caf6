"""Which words of the prompt made one word of the answer?"""

import reagent

PROMPT = "My aunt moved to Japan to teach music. She rents a small flat in the capital,"
ANSWER = " the city of Tokyo"  # without `target`, the model's own answer

model = reagent.load_model("smollm2")
# With `attribute_target=True`, the earlier words of the answer are removed and scored too.
why = reagent.explain(
    model, PROMPT, target=ANSWER, target_span="Tokyo", attribute_target=False, units="word", probes=32
)
print(f"why{why.output[why.focus].text}?")
for word in why.top(3):
    print(f"{word.token.text.strip():10} score {word.score:.2f}, effect {word.effect:+.1f} nats")
