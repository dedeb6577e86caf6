"""Which parts of a program made the model continue it like this?"""

import reagent

CODE = "def area(width, height):\n    return width *"

model = reagent.load_model("smollm2")
why = reagent.explain(model, CODE, max_new_tokens=1, units="word", probes=32)
why.show()
