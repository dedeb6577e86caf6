"""Which words matter if the prompt states a fact twice?"""

import reagent

PROMPT = "My aunt moved to Japan to teach music. People in Japan are friendly. She rents a small flat in the capital,"

model = reagent.load_model("smollm2")
why = reagent.explain(model, PROMPT, target=" Tokyo", units="word", probes=48)
print("most important:", *(word.token.text for word in why.top(3)))
for group in why[0].groups:
    words = " and".join(why.input[i].text for i in group.units)
    print(f"{group.kind}:{words}: one by one {group.single:.1f} nats, together {group.effect:.1f} nats")
