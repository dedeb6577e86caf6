"""Prompts of several lengths, and prompts whose cause is known. All sentences are our own."""

DEMO = (
    "My aunt moved to Japan to teach music. (Her old piano is still standing in our garage). "
    "She rents a small flat in the capital,"
)

SHORT = [
    "The baker opened the oven, and the whole street smelled of fresh",
    "We missed the last train, so we had to walk all the way",
    "He planted three apple trees in the garden behind his",
    "The doctor looked at the X-ray and said that the arm was",
]
MEDIUM = [
    DEMO,
    "Marta has been learning the violin since she was six years old. Every Sunday her grandfather listens to her "
    "and closes his eyes. Tonight she will give her first",
    "The expedition reached the island in March, when the nights were already cold. They built a shelter from "
    "driftwood, and in the evening they lit a small",
    "The library closes at eight, but the reading room stays open until midnight during the exams. Students bring "
    "coffee and blankets, and nobody is allowed to",
]
# 42 tokens of the embedded model.
FORTY_TWO = (
    "The old lighthouse on the northern cape was sold last year to a couple from Norway. (The roof of the school has "
    "been leaking since March). They want to turn it into a hotel for people who like"
)
# Also 42 tokens, built like the paper's prompt: a country, a distractor, the capital.
JAPAN = (
    "My aunt moved to Japan last autumn to teach music in a school for girls. (Her old piano is still standing in our "
    "garage under a grey blanket). She rents a small and sunny flat in the capital,"
)
LONG = [
    "The village lies at the end of a long valley in the mountains, and in winter the road is often closed for weeks. "
    "People keep enough flour, wood and candles in their houses to last until the snow melts. When the first bus "
    "arrives in spring, the children run down to the bridge, because the driver always brings a bag of",
    "Our company makes small pumps for fish tanks, and for many years nobody outside the trade had heard of us. Then a "
    "film director bought forty of them to make artificial rain in a studio, and he named us in an interview. "
    "Since that day the telephone has not stopped ringing, and we had to hire two more people to answer the",
]
LENGTHS = {"short": SHORT, "medium": MEDIUM, "forty": [FORTY_TWO], "long": LONG}

# A country in the first sentence, a distractor in parentheses, the capital as the answer.
CAPITALS = {
    "Japan": "Tokyo", "France": "Paris", "Germany": "Berlin", "Italy": "Rome", "Spain": "Madrid", "Russia": "Moscow",
    "China": "Beijing", "Egypt": "Cairo", "Greece": "Athens", "England": "London", "Austria": "Vienna",
    "Ireland": "Dublin", "Portugal": "Lisbon", "Norway": "Oslo", "Cuba": "Havana", "Thailand": "Bangkok",
    "Hungary": "Budapest", "Poland": "Warsaw", "Sweden": "Stockholm", "Kenya": "Nairobi", "Peru": "Lima",
    "Iran": "Tehran", "Iraq": "Baghdad", "Belgium": "Brussels", "Finland": "Helsinki", "Denmark": "Copenhagen",
}  # fmt: skip
TEMPLATES = [
    "My aunt moved to {country} to teach music. (Her old piano is still standing in our garage). "
    "She rents a small flat in the capital,",
    "Last summer we travelled through {country} by train. (The dog stayed at home with a neighbour). "
    "Most of the time we were in the capital,",
    "He has worked as a cook in {country} for ten years. (His brother prefers to sell bicycles). "
    "His restaurant is in the middle of the capital,",
]
