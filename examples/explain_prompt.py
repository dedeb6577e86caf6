"""Ten lines: load a model, explain its answer, show and save the explanation."""

import reagent

model = reagent.load_model("smollm2")  # or a hub id, a folder, a .gguf file, or a (model, tokenizer) pair
prompt = (
    "My aunt moved to Japan to teach music. (Her old piano is still standing in our garage). "
    "She rents a small flat in the capital,"
)
why = reagent.explain(model, prompt, max_new_tokens=1)
why.show()
for unit in why.top(3):
    print(f"{unit.token.text!r} made {why.completion!r} {unit.effect:.1f} ± {unit.stderr:.1f} nats more likely")
why.save("why.json")
why.to_html("why.html")
