"""Does the answer of a chat use the system message?"""

import reagent

CHAT = [
    {"role": "system", "content": "You are a pirate."},
    {"role": "user", "content": "Where is my ship?"},
]

model = reagent.load_model("smollm2")
why = reagent.explain(model, CHAT, max_new_tokens=5, units="sentence", probes=32)
print("answer:", why.completion)
for sentence in why.top(2):  # of the answer as a whole; the chat template is never removed
    role = next(message.role for message in why.messages if message.start <= sentence.token.start < message.end)
    print(f"{role:6} {sentence.effect:5.1f} nats: {sentence.token.text}")
