"""Prompts of 8 to 10 words and of 8 sentences, all our own; the first half is for choosing, the second for reporting."""

WORDS = [
    "Lions roar, dogs bark, cats purr and cows",
    "The opposite of hot, burning and boiling is",
    "Anna from Spain and Maria from Madrid both speak fluent",
    "He was thirsty, so he drank a glass of",
    # reporting
    "Rain was falling, cold rain, so he opened his",
    "In Italy, not far from Rome, we ate a delicious",
    "Tokyo is in Japan, and Kyoto is also in",
    "She plays the piano, and her brother plays the",
]

SENTENCES = [
    "Peter moved to Norway. The summer was short. He bought a wooden boat. His boat is red. Norway has many fjords. "
    "He often eats fish. His sister writes every week. He lives in the capital,",
    "Our cat sleeps all day. It has green eyes. We bought milk. The cat likes milk. The neighbours have a parrot. "
    "The bowl is empty. My brother is at school. Every evening we give the cat some",
    # reporting
    "Maria is a doctor. She works at night. Her hospital is in Egypt. The garden is dry. She has seen the pyramids. "
    "Her car is blue. Her son learns to swim. Every morning she drives through the capital,",
    "Tom has a dog. The dog is called Rex. It rained on Monday. Rex barked all night. The bus was late. "
    "Tom wears a grey coat. The park is large. In the park Tom calls his dog",
]
