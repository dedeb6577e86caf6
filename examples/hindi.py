"""Does it work in other languages, and with whole words?"""

import reagent

PROMPT = "सीता को आम पसंद है। राम को केला पसंद है। सीता को"  # Sita likes mangoes. Ram likes bananas. Sita likes

model = reagent.load_model("smollm2")
why = reagent.explain(model, PROMPT, target=" आम", contrast=" केला", units="word", probes=32)  # mangoes, not bananas
why.show()
