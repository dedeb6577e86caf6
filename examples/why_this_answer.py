"""Why did the model give this answer?"""

import reagent

PROMPT = "My aunt moved to Japan to teach music. She rents a small flat in the capital,"

model = reagent.load_model("smollm2")  # or a hub id, a folder, a .gguf file, a URL, or a (model, tokenizer) pair
why = reagent.explain(model, PROMPT, max_new_tokens=3, probes=32)  # without `probes`, it continues until sufficient
why.show()  # in a notebook, write `why`
