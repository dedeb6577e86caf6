"""Which of several documents does the answer come from, and which sentence of it?"""

import reagent

documents = {
    "clocks": "The museum of clocks opens at nine in the morning. Tickets cost four crowns.",
    "mill": "The old mill stands by the river. It was built of stone.",
    "ferry": "The ferry crosses the lake every hour. Dogs travel free of charge.",
}
citations = reagent.cite(reagent.load_model("smollm2"), "When does the museum open?", documents, max_new_tokens=20)
citations.show()
print(citations.prune().documents)
