"""Which of several retrieved passages was the answer based on, which sentence of it, and which words?"""

import reagent

PASSAGES = [
    "The lighthouse on Gull Rock was built in 1871. Its walls are two metres thick.",
    "The last keeper of the lighthouse was called Agnes Brown. She lived there for years with two goats.",
    "Storms are frequent in winter. The worst of them broke the windows of the lamp room.",
]
QUESTION = "Question: What animals did the last keeper of the lighthouse have?\nAnswer: The last keeper had two"

prompt = "\n\n".join([*PASSAGES, QUESTION])
starts = [prompt.index(passage) for passage in PASSAGES]
spans = [(start, start + len(passage)) for start, passage in zip(starts, PASSAGES, strict=True)]

model = reagent.load_model("smollm2")
# Only the passages are removed, not the question. The three levels share the probes.
units = ["span", "sentence", "word"]
why = reagent.explain(model, prompt, target=" goats", prompt_spans=spans, units=units, probes=48)
for level in why.levels:
    best = max(range(len(level.units)), key=lambda i: level.scores[0][i])
    print(f"{level.unit}: {level.units[best].text.strip()[:60]} ({level.scores[0][best]:.2f})")
print("word:", *(row.token.text.strip() for row in why.top(3)))
