"""Messages to a chat model, for explanations from answers alone. All sentences are our own.

`choose` is for choosing settings; no explanation of a prompt of `report` was seen before the method was fixed.
"""

import re

WORDS = {
    "choose": [
        "Write one sentence about a lighthouse keeper who is afraid of the sea.",
        "My aunt moved to Japan to teach music. Which language does she hear in the shops?",
        "Suggest a name for a small bakery that sells only dark bread.",
        "Why do cats sleep during the day and hunt at night?",
        "The pump in our cellar is broken and water rises. What should we do first?",
        "Translate into French: The red bicycle stands behind the old church.",
        "Give me two reasons to learn the violin as an adult.",
        "Our train from Berlin to Hamburg was late by three hours. Write a short complaint.",
        "Explain to a child how bees make honey.",
        "Lena has four apples and buys six more. How many apples does she have?",
    ],
    "report": [
        "Describe in one sentence how a volcano forms an island.",
        "My brother works as a nurse in Madrid. Which food should he try there?",
        "Write a short greeting card for a teacher who retires in June.",
        "Why does bread become hard when it stays in dry air?",
        "The heating in my car does not work in winter. What may be the cause?",
        "Translate into German: The children play with a wooden ship near the river.",
        "Give me three ideas for a birthday party in a forest.",
        "Our hotel room in Lisbon was dirty and loud. Write a polite letter to the owner.",
        "Explain to a farmer why the moon changes its shape.",
        "A ticket costs eight euros and we are five people. How much do we pay?",
        "Invent a title for a novel about a doctor who collects clocks.",
        "My grandmother grew up in Egypt beside the river. Which river does she remember?",
        "List two dangers of swimming in a cold mountain lake.",
        "Write a slogan for a shop that repairs old umbrellas.",
        "How can a tired student remember long lists of words?",
        "The violin of my daughter sounds too quiet. How can we make it louder?",
        "Describe the smell of a library to someone who never reads.",
        "Which animal is larger, a blue whale or an elephant, and why?",
        "Recommend a warm drink for a cold evening without sugar or milk.",
        "Tell me a joke about a penguin who wants to become a pilot.",
    ],
}
# Sentences, and a question or request at the end. Which sentences matter is for the model to say.
SENTENCES = {
    "choose": [
        "Tom lives in a village near the sea. He repairs boats in a small harbour. His sister Anna studies law in "
        "Vienna. Their father keeps bees. Last week a storm broke the old pier. What is the job of Tom?",
        "The museum opens at nine. Tickets cost seven euros. On Monday it is closed. Children under six are free. "
        "Dogs must wait outside. How much does a ticket cost?",
        "We bought a tent and two warm blankets. The road to the lake was muddy. At night we heard owls. Paul "
        "burned the soup. On Sunday it rained until noon. Write a title for this story.",
        "The phone is light and looks good. Its battery lasts only four hours. The camera is sharp even at night. "
        "The speaker sounds thin. It costs more than others. What is the main weakness of this phone?",
        "Maria planted tomatoes in April. The soil was too wet. Snails ate the salad. In July she picked ten "
        "pumpkins. Her neighbour gave her plums. Which vegetable did she harvest in July?",
        "The ship left the port at dawn. Its captain was from Norway. It carried wool and tea. A sailor played the "
        "flute. After two days they saw an island. What did the ship carry?",
        "Our office has five rooms. The printer stands in the kitchen. Mr Lang has the key to the cellar. Lunch is "
        "at twelve. The lift is out of order. Who has the key to the cellar?",
        "I slept badly this week. My neighbour practises the drums every night. I drink tea instead of coffee. My "
        "bed is new. On Friday I have an exam. Give me one piece of advice.",
    ],
    "report": [
        "Clara works in a bakery in Lyon. Her shift starts at three in the morning. She owns a black dog. Her "
        "brother drives a taxi. In August they travel to Greece. When does the shift of Clara start?",
        "The swimming pool is behind the station. It has a slide and a cold bath. A day ticket costs nine euros. "
        "Students pay half. It closes at eight. Where is the swimming pool?",
        "Our cat vanished on Tuesday. We searched the garden and the roof. A boy heard it in a garage. It was thin "
        "and very dirty. Now it sleeps on the sofa. Write a title for this story.",
        "The hotel is close to the beach. The rooms are small but clean. Breakfast is cold and poor. The staff "
        "speaks four languages. Parking is free. What is the main weakness of this hotel?",
        "Peter built a shed in spring. The wood came from Finland. He painted the door green. His son helped him "
        "twice. A storm took the roof. What colour is the door?",
        "The caravan crossed the desert in nine days. Its guide was an old woman. The camels carried salt and "
        "dates. At night the tents froze. They reached the city on a market day. What did the camels carry?",
        "The school has a new garden. Mrs Berg teaches chemistry. The bell rings at eight. The library is on the "
        "second floor. In winter the gym is cold. Who teaches chemistry?",
        "My back hurts since Monday. I sit ten hours at a desk. I carry my daughter every evening. My chair is old. "
        "I like to swim. Give me one piece of advice.",
        "The concert begins at seven. The violinist comes from Korea. The hall has nine hundred seats. Coats cost "
        "two euros. There is no break. From which country does the violinist come?",
        "Nina inherited a mill. The wheel has been broken for years. Inside live many bats. A bank gave her a loan. "
        "She wants to open a restaurant. What does Nina want to do?",
        "The river rose during the night. The lower bridge is closed. The school remains open. The fire brigade "
        "brings sand. The mayor speaks at noon. Which bridge is closed?",
        "Jonas runs a small farm. He keeps sheep and two donkeys. His cheese won a prize in Bern. The tractor is "
        "from 1970. His wife paints. Where did the cheese win a prize?",
        "The laptop is fast and quiet. The screen is too dark outside. The keys feel soft. It weighs two kilos. The "
        "guarantee ends after one year. Should I buy it for work in the garden?",
        "We walked over the pass on Saturday. Snow lay on the north side. Eva lost a glove. In the hut we ate soup. "
        "On Sunday we took the bus. What did we eat in the hut?",
        "The letter was found in a wall. It is dated 1887. A soldier wrote it to his mother. He asks for socks. The "
        "ink is still blue. Who wrote the letter?",
        "The garden party starts at four. Bring a chair and a cup. Ali makes lamb. There is a tent against rain. "
        "The music stops at ten. Write a short invitation.",
        "The old cinema has one screen. It shows films without sound. A woman plays the piano. The seats are red. "
        "Popcorn is forbidden. Why is this cinema special?",
        "My train leaves at six. The taxi takes twenty minutes. I must still pack a suitcase. My passport is in the "
        "office. My phone is empty. What should I do first?",
        "The island has two villages. People live from olives and fish. A ferry comes on Thursday. The doctor is on "
        "the mainland. In summer water is scarce. When does the ferry come?",
        "Sophie restores clocks. Her shop is below a church. She never uses glue. A customer brought a clock from "
        "Prague. It had lost its hands. From where was the clock?",
    ],
}


def split_words(prompt: str) -> list[tuple[int, int]]:
    """The parts between spaces, each with the space before it."""
    return [match.span() for match in re.finditer(r"\s*\S+", prompt)]


def split_sentences(prompt: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(r"\s*[^.?!]+[.?!]+(?=\s|$)", prompt)]
