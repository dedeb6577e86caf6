"""Which of several retrieved passages was the answer based on, which sentence of it, and which words?

    python examples/passages.py

takes half a minute on two cores.
"""

import reagent

PASSAGES = [
    "The lighthouse on Gull Rock was built in 1871. Its walls are two metres thick at the base. The lamp was lit with "
    "whale oil at first, later with paraffin. Since 1964 it has burned electric light.",
    "The island has one village. Most of the forty families who live there catch crabs. In summer, a ferry brings "
    "visitors on Tuesdays and Fridays. The school has a single room and nine pupils.",
    "The last keeper of the lighthouse was a woman called Agnes Brown. She lived there for thirty years with two "
    "goats. She wrote down the weather every evening. Her notebooks are kept in the library of the mainland town.",
    "Storms are frequent between October and March. The worst of them, in 1953, broke the windows of the lamp room. "
    "Nobody was hurt. The fishermen still talk about the waves of that night.",
]
QUESTION = "Question: What animals did the last keeper of the lighthouse have?\nAnswer: The last keeper had two"

prompt = "\n\n".join(PASSAGES) + "\n\n"
spans = []
for passage in PASSAGES:
    start = prompt.index(passage)
    spans.append((start, start + len(passage)))

model = reagent.load_model("smollm2")
why = reagent.explain(
    model,
    prompt + QUESTION,
    target=" goats",
    prompt_spans=spans,  # only the passages are removed, not the question
    units=["span", "sentence", "word"],
    probes=96,  # shared by the three levels
)
why.show()
for level in why.levels:
    best = max(range(len(level.units)), key=lambda i: level.scores[0][i])
    print(f"{level.unit}: {level.units[best].text.strip()[:70]} ({level.scores[0][best]:.2f})")
print("word:", *(row.token.text for row in why.top(3)))
