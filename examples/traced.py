"""Does the answer come from the prompt directly, or through the reasoning before it?"""

import reagent

QUESTION = """A farmer has 3 red boxes. Each box holds 4 apples. The boxes are heavy.
Question: How many apples are there?
Reasoning:"""

model = reagent.load_model("smollm2")
why = reagent.explain(
    model,
    [{"role": "user", "content": QUESTION}],
    max_new_tokens=40,
    answer_span="12",  # what is traced; the text before it is the reasoning
    units="sentence",
    method="occlusion",  # each sentence of the prompt and each token of the reasoning is deleted alone
    removal="delete",
)
why = reagent.check_traced(model, why, count=2)  # generate again without each of the two strongest sentences
why.show()
