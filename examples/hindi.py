"""Does it work in other languages, such as Hindi?"""

import reagent

PROMPT = "मेरा नाम राम है। उसका नाम सीता है। मेरा नाम"  # My name is Ram. Her name is Sita. My name

model = reagent.load_model("smollm2")
why = reagent.explain(model, PROMPT, target=" राम", units="word", probes=32)  # Ram: four tokens, one answer
for word in why.top(3):
    print(f"{word.score:.2f} {word.token.text.strip()}, {len(word.token.ids)} tokens")
