"""Why did the model say this and not that?"""

import reagent

PROMPT = "My aunt moved to Japan to teach music. She rents a small flat in the capital,"

model = reagent.load_model("smollm2")
why = reagent.explain(model, PROMPT, target=" Tokyo", contrast="Kyoto", units="word", probes=32)
for word in why.top(3):  # each makes the odds of Tokyo over Kyoto higher by e^effect
    print(f"{word.token.text.strip():10} score {word.score:.2f}, effect {word.effect:+.1f} nats")
