"""Why did the model say this and not that?"""

import reagent

PROMPT = "My aunt moved to Japan to teach music. She rents a small flat in the capital,"

model = reagent.load_model("smollm2")
plain = reagent.explain(model, PROMPT, target=" Tokyo", units="word", probes=32)
contrast = reagent.explain(model, PROMPT, target=" Tokyo", contrast="Kyoto", units="word", probes=32)
print("why Tokyo:              ", *(word.token.text for word in plain.top(3)))
print("why Tokyo and not Kyoto:", *(word.token.text for word in contrast.top(3)))
