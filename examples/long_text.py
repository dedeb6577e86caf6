"""Which sentence of a long text was the answer based on?"""

import reagent

TEXT = (
    "The museum is closed on Mondays. Tickets cost nine euros. Children do not pay. Dogs must stay outside. "
    "The cafe sells soup and cake. Guided tours start at noon. Photographs are allowed without a flash. "
    "The car park behind the church is free. "
)
QUESTION = "Question: When do guided tours start?\nAnswer: Guided tours start at"

model = reagent.load_model("smollm2")
why = reagent.explain(
    model,
    TEXT + QUESTION,
    target=" noon",
    units=["sentence"],  # a list such as ["sentence", "word"] continues inside the important sentences
    prompt_spans=[(0, len(TEXT))],  # the question is never removed
    probes=24,
)
for sentence in why.top(2):
    print(f"{sentence.score:.2f} {sentence.token.text.strip()}")
