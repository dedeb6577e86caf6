"""Why did a model say that, if all I have is a function from a prompt to an answer?"""

import reagent


def answer(prompt: str) -> str:  # in place of a call to any service
    if "refund" in prompt and "broken" in prompt:
        return "We will send your money back."
    return "Thank you for your message."


why = reagent.explain(answer, "Hello! The lamp that I bought last week is broken. I would like a refund, please.")
for row in why.top(2):
    print(f"{row.token.text.strip():8} {row.effect:.2f} {why.effect_unit}")
print(f"{why.cost.requests} requests")
