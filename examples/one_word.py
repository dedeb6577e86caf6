"""Which words of the prompt made one word of the answer?"""

import reagent

PROMPT = "My aunt moved to Japan to teach music. She rents a small flat in the capital,"

model = reagent.load_model("smollm2")
why = reagent.explain(model, PROMPT, target=" Tokyo, a big city", target_span="city", units="word", probes=32)
print("why", repr(why.output[why.focus].text))
for word in why.top(3):
    print(f"{word.token.text.strip():10} score {word.score:.2f}, effect {word.effect:+.1f} nats")
