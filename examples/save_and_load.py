"""How do I save an explanation, share it and load it again?"""

import reagent

model = reagent.load_model("smollm2")
why = reagent.explain(model, "The capital of France is", max_new_tokens=1, probes=16)
why.save("why.json")
why.to_html("why.html")  # one file, interactive, without network
why.to_png("why.png")
again = reagent.load("why.json")
print("loaded:", again.completion, "because of", again.top(1)[0].token.text, "equal:", again == why)
