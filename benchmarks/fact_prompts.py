"""Own prompts about facts other than countries and their capitals: `develop` is for choosing, `blind` for reporting.

Each fact has a sentence that states it, two that repeat its words, and one that says the same in other words.
[Brackets] mark the mentions. A prompt ends with a distractor, further mentions and a sentence that leads to the answer.

A prompt is used if the model predicts the answer, and if the mentions are what they are meant to be: without all of
them the answer loses at least 2 nats, and with any one of them at most half of that. The splits were fixed by a hash of
the answer before any explanation of these prompts was seen.
"""

import hashlib
import re
from itertools import combinations
from typing import NamedTuple

import numpy as np

from reagent.case import Case
from reagent.data.base import Example
from reagent.models.base import Model
from reagent.removal import Delete
from reagent.segmentation import Span

FACT_SPLITS = ("develop", "blind")
MENTION = re.compile(r"\[(.+?)\]")
LEAST_DROP, ENOUGH = 2.0, 0.5


class Fact(NamedTuple):
    """A fact that leads to an answer."""

    stated: str
    repeated: tuple[str, str]
    paraphrased: str
    distractor: str
    question: str
    answer: str


def choose_facts(model: Model, kind: str, split: str, size: int) -> list[Example]:
    """Up to `size` prompts of a kind."""
    examples = (_example(model, fact, kind) for fact in FACTS if split_of(fact) == split)
    return [example for example in examples if example is not None][:size]


def split_of(fact: Fact) -> str:
    return FACT_SPLITS[hashlib.sha256(fact.answer.encode()).digest()[0] % 2]


def _sentences(fact: Fact, kind: str) -> list[str]:
    first, second = fact.repeated
    return {
        "once": [fact.stated, fact.distractor],
        "twice": [fact.stated, fact.distractor, first],
        "three": [fact.stated, first, fact.distractor, second],
        "paraphrase": [fact.stated, fact.distractor, fact.paraphrased],
    }[kind]


def _example(model: Model, fact: Fact, kind: str) -> Example | None:
    """The prompt with the spans of its mentions; None if it is not used."""
    prompt, spans = strip_marks(" ".join([*_sentences(fact, kind), fact.question]))
    case = model.case(prompt, max_new_tokens=1)
    predicted, name = case.output[0].text, MENTION.findall(fact.stated)[0].replace(" ", "_")
    if not predicted.strip() or not fact.answer.startswith(predicted) or not _are_used(model, case, spans):
        return None
    return Example(f"facts/{fact.answer.strip()}-{name}/{kind}", prompt, predicted, kind, spans)


def _are_used(model: Model, case: Case, spans: tuple[Span, ...]) -> bool:
    """Whether the answer needs the mentions, and any one of them is enough."""
    case = case.with_logprobs(model)
    remover = Delete(model, case)
    subsets = [spans, *(combinations(spans, len(spans) - 1) if len(spans) > 1 else ())]
    removed = np.array(
        [[any(_overlaps(case, int(i), span) for span in some) for i in remover.free] for some in subsets]
    )
    drops = (case.values - remover.score(removed).value)[:, 0]
    return bool(drops[0] >= LEAST_DROP and (drops[1:] <= ENOUGH * drops[0]).all())


def _overlaps(case: Case, unit: int, span: Span) -> bool:
    return case.units[unit].start < span[1] and case.units[unit].end > span[0]


def strip_marks(text: str) -> tuple[str, tuple[Span, ...]]:
    """The text without brackets, and the spans that they marked.

    >>> strip_marks("He left [Rome]. I like [Rome].")
    ('He left Rome. I like Rome.', ((8, 12), (21, 25)))
    """
    spans: list[Span] = []
    for match in MENTION.finditer(text):
        start = match.start() - 2 * len(spans)
        spans.append((start, start + len(match[1])))
    return MENTION.sub(r"\1", text), tuple(spans)


FACTS = (
    Fact(
        "My uncle raises cattle in [Texas].",
        ("He has never left [Texas].", "All his songs are about [Texas]."),
        "He also owns a small house near [Houston].",
        "(My sister collects stamps).",
        "Once a month he drives to the state capital,",
        " Austin",
    ),
    Fact(
        "Our cousin surfs all year in [California].",
        ("Her husband was born in [California].", "Her dog was found in [California]."),
        "She used to work in [Hollywood].",
        "(The printer is out of paper).",
        "Tomorrow she has to speak in the state capital,",
        " Sacramento",
    ),
    Fact(
        "They spent their honeymoon in [Hawaii].",
        ("The weather in [Hawaii] was perfect.", "Everyone in [Hawaii] was kind."),
        "They learned a [Hawaiian] dance.",
        "(Our washing machine is loud).",
        "Their plane landed in the state capital,",
        " Honolulu",
    ),
    Fact(
        "Her grandfather fished off the coast of [Massachusetts].",
        ("He loved the winters in [Massachusetts].", "He is buried in [Massachusetts]."),
        "His son taught at [Harvard].",
        "(The bread was stale).",
        "She still has a flat in the state capital,",
        " Boston",
    ),
    Fact(
        "He builds wooden houses in [Georgia].",
        ("The peaches from [Georgia] are sweet.", "His wife is also from [Georgia]."),
        "His brother lives by the harbour in [Savannah].",
        "(The radio plays too loud).",
        "His office is in the state capital,",
        " Atlanta",
    ),
    Fact(
        "We went skiing in [Colorado].",
        ("The snow in [Colorado] was deep.", "My aunt has a cabin in [Colorado]."),
        "Our cabin was high up in the [Rocky Mountains].",
        "(Tom forgot his umbrella).",
        "On the way back we stopped in the state capital,",
        " Denver",
    ),
    Fact(
        "She studies music in [Tennessee].",
        ("The summers in [Tennessee] are hot.", "Her best friend is from [Tennessee]."),
        "She visited the house of [Elvis Presley].",
        "(The lamp is broken).",
        "On Fridays she plays in a bar in the state capital,",
        " Nashville",
    ),
    Fact(
        "The class is reading [Hamlet].",
        ("Every pupil has a copy of [Hamlet].", "The exam is about [Hamlet]."),
        "Last year they read [Romeo and Juliet].",
        "(The heating does not work).",
        "The pupils admire the author, William",
        " Shakespeare",
    ),
    Fact(
        "My daughter loves [Harry Potter].",
        ("She has a poster of [Harry Potter].", "Her cat is called [Harry Potter]."),
        "She dreams of going to [Hogwarts].",
        "(We ran out of coffee).",
        "For her birthday she wrote a letter to the author, J",
        ".",
    ),
    Fact(
        "Our neighbour keeps [bees].",
        ("He talks to his [bees].", "His wife paints [bees]."),
        "His [hives] are behind the barn.",
        "(The bus was late again).",
        "Every autumn he gives us a jar of",
        " honey",
    ),
    Fact(
        "My grandparents have ten [cows].",
        ("The [cows] stand in the meadow.", "My sister is afraid of [cows]."),
        "They run a small [dairy] farm.",
        "(The tram is full).",
        "Every morning they sell fresh",
        " milk",
    ),
    Fact(
        "She grew up in [Brazil].",
        ("Her parents still live in [Brazil].", "She dreams of [Brazil]."),
        "Her brother plays football in [Rio de Janeiro].",
        "(The lift is being repaired).",
        "At home they speak her native language,",
        " Portuguese",
    ),
    Fact(
        "The nurse comes from [Mexico].",
        ("She flies to [Mexico] every year.", "Her sons live in [Mexico]."),
        "She often cooks [Mexican] food.",
        "(The window does not close).",
        "With her children she speaks her native language,",
        " Spanish",
    ),
    Fact(
        "Our guide was born in [Austria].",
        ("He sends postcards from [Austria].", "The mountains of [Austria] are his home."),
        "He studied in [Vienna].",
        "(My shoes are wet).",
        "On the phone he speaks his native language,",
        " German",
    ),
    Fact(
        "The engineer is from the [Netherlands].",
        ("He flies to the [Netherlands] at Easter.", "His bicycle was made in the [Netherlands]."),
        "He used to live in [Amsterdam].",
        "(The soup is cold).",
        "With his wife he speaks his native language,",
        " Dutch",
    ),
    Fact(
        "He takes pictures of lions in [Kenya].",
        ("He met his wife in [Kenya].", "His third book is about [Kenya]."),
        "He rents a room in [Nairobi].",
        "(The postman rang twice).",
        "He says that there is no better place than the continent of",
        " Africa",
    ),
    Fact(
        "Last spring we travelled through [Egypt].",
        ("The museums of [Egypt] are full.", "The nights in [Egypt] were cold."),
        "We bought a carpet in [Cairo].",
        "(My watch has stopped).",
        "For three days we sailed on the river",
        " Nile",
    ),
    Fact(
        "We spent a week in [Paris].",
        ("The cafes in [Paris] were full.", "My aunt has a flat in [Paris]."),
        "We practised our [French] every day.",
        "(The cat is asleep).",
        "On the last day we climbed the famous",
        " Eiffel",
    ),
    Fact(
        "The children are excited about [Christmas].",
        ("They have sung about [Christmas] all day.", "Grandma comes for [Christmas]."),
        "It is the end of [December].",
        "(The car needs oil).",
        "They have written a long letter to",
        " Santa",
    ),
    Fact(
        "The whole street celebrates [Halloween].",
        ("Ben has waited for [Halloween] all year.", "Our school is closed on [Halloween]."),
        "The children have dressed up as [ghosts].",
        "(The tap is dripping).",
        "In front of every door there is a carved",
        " pumpkin",
    ),
    Fact(
        "We all look forward to [Easter].",
        ("Our aunt visits us at [Easter].", "The shops are closed at [Easter]."),
        "Ben has dressed up as a [bunny].",
        "(The key does not fit).",
        "In the garden the children look for",
        " eggs",
    ),
    Fact(
        "My mother is a [nurse].",
        ("She has always wanted to be a [nurse].", "Her best friend is a [nurse] too."),
        "She takes care of the [patients] at night.",
        "(The parrot can whistle).",
        "Every evening she takes the bus to the",
        " hospital",
    ),
    Fact(
        "Mr Hill is a [teacher].",
        ("His wife is a [teacher] as well.", "His father was a [teacher]."),
        "His [pupils] like him.",
        "(The milk has gone off).",
        "Every morning he cycles to the",
        " school",
    ),
    Fact(
        "Julia plays the [piano].",
        ("She bought a new [piano].", "The [piano] stands in the hall."),
        "Her fingers fly over the [keyboard].",
        "(The door is green).",
        "She wants to become a famous",
        " pianist",
    ),
    Fact(
        "Leo plays the [drums].",
        ("His [drums] are very loud.", "He has sold his old [drums]."),
        "He always carries two wooden [sticks].",
        "(The fridge is empty).",
        "In our band he is the",
        " drummer",
    ),
    Fact(
        "The boy admires [LeBron James].",
        ("He has met [LeBron James] once.", "He wears the shirt of [LeBron James]."),
        "He watches every game of the [NBA].",
        "(His room is small).",
        "After school he plays",
        " basketball",
    ),
    Fact(
        "The boys admire [Lionel Messi].",
        ("They have a picture of [Lionel Messi].", "Their dog is called [Lionel Messi]."),
        "They watch every match of the [World Cup].",
        "(The stairs are steep).",
        "After school they play",
        " soccer",
    ),
    Fact(
        "The girls admire [Serena Williams].",
        ("They have a picture of [Serena Williams].", "They wrote a song about [Serena Williams]."),
        "They watch every match at [Wimbledon].",
        "(The stairs are steep).",
        "After school they play",
        " tennis",
    ),
    Fact(
        "The family next door is [Muslim].",
        ("The baker is [Muslim] too.", "Many families here are [Muslim]."),
        "They read the [Quran] together.",
        "(Our roof is leaking).",
        "On Fridays they pray in the",
        " mosque",
    ),
    Fact(
        "The family upstairs is [Catholic].",
        ("The baker is [Catholic] too.", "Many families here are [Catholic]."),
        "They read the [Bible] together.",
        "(Our roof is leaking).",
        "On Sundays they go to",
        " church",
    ),
    Fact(
        "The family downstairs is [Jewish].",
        ("The baker is [Jewish] too.", "Many families here are [Jewish]."),
        "They read the [Torah] together.",
        "(Our roof is leaking).",
        "On Saturdays they go to the",
        " synagogue",
    ),
    Fact(
        "Our [cat] had a hard night.",
        ("Everybody likes our [cat].", "The [cat] sleeps in a box."),
        "She [meows] a lot.",
        "(The bell rang).",
        "She has given birth to five",
        " kittens",
    ),
    Fact(
        "Our [dog] had a hard night.",
        ("Everybody likes our [dog].", "The [dog] sleeps in a basket."),
        "She [barks] a lot.",
        "(The bell rang).",
        "She has given birth to five",
        " puppies",
    ),
    Fact(
        "My brother is a [baker].",
        ("He is the only [baker] in the village.", "His son is also a [baker]."),
        "The oven in his [bakery] is always hot.",
        "(It is raining).",
        "Every morning he sells fresh",
        " bread",
    ),
    Fact(
        "Anna is a [vegetarian].",
        ("Her husband is a [vegetarian] as well.", "She met another [vegetarian] at work."),
        "She loves [animals] too much.",
        "(The clock is slow).",
        "For many years she has not eaten any",
        " meat",
    ),
    Fact(
        "The museum tells the story of [Microsoft].",
        ("My cousin has shares in [Microsoft].", "The first office of [Microsoft] was small."),
        "All its computers run [Windows].",
        "(The queue was long).",
        "In the last room there is a statue of the founder,",
        " Bill",
    ),
    Fact(
        "The film tells the story of [Apple].",
        ("My cousin works for [Apple].", "The first office of [Apple] was small."),
        "We all have an [iPhone].",
        "(The popcorn was salty).",
        "The main role is that of the founder,",
        " Steve",
    ),
    Fact(
        "The book tells the story of [Facebook].",
        ("My cousin works for [Facebook].", "The first office of [Facebook] was small."),
        "We all use [Instagram].",
        "(The tea was cold).",
        "Most of it is about the founder,",
        " Mark",
    ),
    Fact(
        "The film tells the story of [Tesla].",
        ("My cousin works for [Tesla].", "The first factory of [Tesla] was small."),
        "We also saw a rocket of [SpaceX].",
        "(The seats were hard).",
        "Most of it is about the founder,",
        " Elon",
    ),
    Fact(
        "The article is about [Amazon].",
        ("My cousin works for [Amazon].", "The first office of [Amazon] was small."),
        "I read it on my [Kindle].",
        "(The tea was cold).",
        "There is a long interview with the founder,",
        " Jeff",
    ),
    Fact(
        "The boy reads a comic about [Batman].",
        ("He has a poster of [Batman].", "He draws [Batman] every day."),
        "He wants to live in [Gotham].",
        "(The bath is cold).",
        "He knows the real name of his hero,",
        " Bruce",
    ),
    Fact(
        "The girl reads a comic about [Superman].",
        ("She has a poster of [Superman].", "She draws [Superman] every day."),
        "She wants to fly to [Krypton].",
        "(The bath is cold).",
        "She knows the real name of her hero,",
        " Clark",
    ),
    Fact(
        "The girl reads a comic about [Spider-Man].",
        ("She has a poster of [Spider-Man].", "She draws [Spider-Man] every day."),
        "She can climb like a [spider].",
        "(The bath is cold).",
        "She knows the real name of her hero,",
        " Peter",
    ),
    Fact(
        "My father collects books about [Sherlock Holmes].",
        ("He has seen every film about [Sherlock Holmes].", "He dresses like [Sherlock Holmes]."),
        "He has visited [Baker Street].",
        "(The kettle is hot).",
        "He calls his best friend Dr.",
        " Watson",
    ),
    Fact(
        "Yesterday was the last day of [March].",
        ("It rained on every day of [March].", "I do not like [March]."),
        "It was the end of the [third] month.",
        "(The shop is closed).",
        "Today is the first day of",
        " April",
    ),
    Fact(
        "Yesterday was the last day of [August].",
        ("It was hot on every day of [August].", "I was ill in [August]."),
        "It was the end of the [summer] holidays.",
        "(The shop is closed).",
        "Today is the first day of",
        " September",
    ),
    Fact(
        "Yesterday was [Monday].",
        ("I hate [Monday].", "The museum is closed on [Monday]."),
        "It was the [first] working day of the week.",
        "(The shop is closed).",
        "Therefore today is",
        " Tuesday",
    ),
    Fact(
        "They walked through the forests of [India].",
        ("The food in [India] is spicy.", "Their son was born in [India]."),
        "They started in [Delhi].",
        "(My phone is old).",
        "At the end they bathed in the holy river",
        " Gang",
    ),
    Fact(
        "She hiked through [Peru].",
        ("The markets in [Peru] are colourful.", "Her husband is from [Peru]."),
        "She has read every book about the [Incas].",
        "(My phone is old).",
        "After four days she reached the famous ruins of",
        " Machu",
    ),
    Fact(
        "The zoo has a house for animals from [Australia].",
        ("The trees there come from [Australia].", "The keeper is from [Australia]."),
        "The keeper grew up near [Sydney].",
        "(The ice cream melted).",
        "My son liked the animal with the pouch, the",
        " kangaroo",
    ),
    Fact(
        "He worked at a station in [Antarctica].",
        ("The nights in [Antarctica] are long.", "He has written a book about [Antarctica]."),
        "It was close to the [South Pole].",
        "(The sofa is old).",
        "From his window he saw a large colony of",
        " penguins",
    ),
    Fact(
        "He ran a hotel in [Scotland].",
        ("The rain in [Scotland] never ends.", "He misses [Scotland]."),
        "His [Scottish] wife is a singer.",
        "(The sofa is old).",
        "In the evening he drinks a glass of",
        " whis",
    ),
    Fact(
        "The soldier grew up in [Russia].",
        ("The winters in [Russia] are long.", "He writes letters to [Russia]."),
        "His sister works in [Moscow].",
        "(The sofa is old).",
        "At weddings he drinks a lot of",
        " vodka",
    ),
    Fact(
        "My sister is a [photographer].",
        ("She has always wanted to be a [photographer].", "Her husband is a [photographer] too."),
        "She takes [pictures] of birds.",
        "(The cheese is old).",
        "For her birthday she got a new",
        " camera",
    ),
    Fact(
        "My cousin is a [dentist].",
        ("He shares the house with another [dentist].", "His mother was a [dentist]."),
        "He has a big [drill].",
        "(The cheese is old).",
        "He tells every child to brush its",
        " teeth",
    ),
    Fact(
        "Her father is a [pilot].",
        ("Her uncle is a [pilot] too.", "He is the oldest [pilot] of all."),
        "He works at the [airport].",
        "(The cheese is old).",
        "This morning he had to land his",
        " plane",
    ),
    Fact(
        "My grandfather was a [fisherman].",
        ("His brother was a [fisherman] too.", "He married the daughter of a [fisherman]."),
        "He was at [sea] every night.",
        "(The cheese is old).",
        "In the morning he came home with a basket full of",
        " fish",
    ),
    Fact(
        "The poster shows the planet [Saturn].",
        ("The lecture was about [Saturn].", "She painted [Saturn] on the wall."),
        "It is the [sixth] planet from the sun.",
        "(The cheese is old).",
        "The children like its beautiful",
        " rings",
    ),
    Fact(
        "Our village is deep in [snow].",
        ("There is [snow] on the roofs.", "My boots are full of [snow]."),
        "It is the coldest [winter] for years.",
        "(The dog is asleep).",
        "In the garden the children have built a",
        " snow",
    ),
    Fact(
        "They bought a house in [Venice].",
        ("Her mother loves [Venice].", "The bridges of [Venice] are old."),
        "They learned [Italian] at school.",
        "(The paint is dry).",
        "Every evening they ride through the canals in a",
        " gond",
    ),
    Fact(
        "The play is about [Julius Caesar].",
        ("My father admires [Julius Caesar].", "The book is also about [Julius Caesar]."),
        "Its hero was killed by [Brutus].",
        "(The paint is dry).",
        "It takes place in the ancient city of",
        " Rome",
    ),
    Fact(
        "The documentary is about [Mozart].",
        ("She named her son after [Mozart].", "The shop sells dolls of [Mozart]."),
        "Most of it was filmed in [Salzburg].",
        "(The paint is dry).",
        "It tells the life of a famous",
        " composer",
    ),
    Fact(
        "The exhibition is about [Picasso].",
        ("She named her dog after [Picasso].", "The shop sells dolls of [Picasso]."),
        "It shows the beginning of [cubism].",
        "(The paint is dry).",
        "It tells the life of a famous",
        " painter",
    ),
    Fact(
        "He drives a [taxi].",
        ("His father drives a [taxi] too.", "His [taxi] is yellow."),
        "He works for [Uber] as well.",
        "(The paint is dry).",
        "Last night he drove a drunk",
        " passenger",
    ),
    Fact(
        "She is a [judge].",
        ("Her husband is a [judge] too.", "She is the youngest [judge] in town."),
        "She studied [law] in London.",
        "(The paint is dry).",
        "Every day she has to decide in",
        " court",
    ),
    Fact(
        "He is a [farmer].",
        ("His wife is the daughter of a [farmer].", "He knows every [farmer] in the valley."),
        "He drives a [tractor].",
        "(The paint is dry).",
        "In spring he sows wheat in his",
        " field",
    ),
    Fact(
        "His aunt grows oranges in [Arizona].",
        ("The desert of [Arizona] is red.", "She was married in [Arizona]."),
        "She has often seen the [Grand Canyon].",
        "(The stove is hot).",
        "Every winter he visits her in the state capital,",
        " Phoenix",
    ),
    Fact(
        "My boss was born in [Ohio].",
        ("His mother lives in [Ohio].", "He bought land in [Ohio]."),
        "He studied in [Cleveland].",
        "(The stove is hot).",
        "Next week he has to go to the state capital,",
        " Columbus",
    ),
    Fact(
        "She sells old books in [Utah].",
        ("The lakes of [Utah] are salty.", "Her uncle died in [Utah]."),
        "Her husband is a [Mormon].",
        "(The stove is hot).",
        "Her shop is in the middle of the state capital,",
        " Salt",
    ),
    Fact(
        "The painter lives in [London].",
        ("He sold his house in [London].", "The rain in [London] is cold."),
        "From his window he can see [Big Ben].",
        "(The egg is boiled).",
        "In the morning he walks along the river",
        " Thames",
    ),
    Fact(
        "The painter lives in [Vienna].",
        ("He sold his house in [Vienna].", "The coffee in [Vienna] is strong."),
        "His sister lives further down the river in [Budapest].",
        "(The egg is boiled).",
        "In the morning he walks along the river",
        " Danube",
    ),
    Fact(
        "The painter lives in [New Orleans].",
        ("He sold his house in [New Orleans].", "The jazz in [New Orleans] is loud."),
        "He was born in [Louisiana].",
        "(The egg is boiled).",
        "In the morning he walks along the river",
        " Mississippi",
    ),
    Fact(
        "My aunt keeps [hens].",
        ("She feeds her [hens] twice a day.", "The fox has taken two [hens]."),
        "Her [chickens] run through the yard.",
        "(The train was late).",
        "Every morning she fills a basket with fresh",
        " eggs",
    ),
    Fact(
        "The old man keeps [sheep].",
        ("He counts his [sheep] every night.", "A wolf has killed two [sheep]."),
        "His [lambs] run through the meadow.",
        "(The train was late).",
        "In spring he sells bags full of",
        " wool",
    ),
    Fact(
        "Her husband is a [surgeon].",
        ("Her brother is a [surgeon] too.", "He is the best [surgeon] in town."),
        "He performs three [operations] a day.",
        "(The carpet is red).",
        "At night he often has to drive to the",
        " hospital",
    ),
    Fact(
        "Her brother is a [priest].",
        ("Her uncle is a [priest] too.", "He is the youngest [priest] in town."),
        "He preaches about the [gospel].",
        "(The carpet is red).",
        "On Sundays he stands in front of the",
        " church",
    ),
    Fact(
        "Her son is in [prison].",
        ("He has been in [prison] before.", "She dreams of the [prison]."),
        "He shares a [cell] with a thief.",
        "(The carpet is red).",
        "Every Friday she brings a cake for the other",
        " prisoners",
    ),
    Fact(
        "My niece studies [biology].",
        ("Her friends study [biology] as well.", "She has always loved [biology]."),
        "She spends whole days with [plants and animals].",
        "(The carpet is red).",
        "One day she wants to be a famous",
        " biologist",
    ),
    Fact(
        "My nephew studies [physics].",
        ("His friends study [physics] as well.", "He has always loved [physics]."),
        "He admires [Albert Einstein].",
        "(The carpet is red).",
        "One day he wants to be a famous",
        " physicist",
    ),
    Fact(
        "Our son loves [dinosaurs].",
        ("He draws [dinosaurs] every day.", "His room is full of [dinosaurs]."),
        "He has seen [Jurassic Park] three times.",
        "(The carpet is red).",
        "For his birthday he wants a big plastic",
        " dinosaur",
    ),
    Fact(
        "She teaches in [Argentina].",
        ("Her pupils love [Argentina].", "The beef from [Argentina] is famous."),
        "She dances tango in [Buenos Aires].",
        "(The carpet is red).",
        "All her lessons are in the national language,",
        " Spanish",
    ),
    Fact(
        "She teaches in [Iran].",
        ("Her pupils love [Iran].", "The carpets from [Iran] are famous."),
        "She rents a room in [Tehran].",
        "(The ladder is long).",
        "All her lessons are in the national language,",
        " Persian",
    ),
    Fact(
        "He writes songs in [Jamaica].",
        ("The beaches of [Jamaica] are white.", "His wife is from [Jamaica]."),
        "He was a friend of [Bob Marley].",
        "(The ladder is long).",
        "His favourite kind of music is",
        " reggae",
    ),
    Fact(
        "He rides horses in [Spain].",
        ("The summers in [Spain] are dry.", "His wife is from [Spain]."),
        "His first flat was in [Seville].",
        "(The ladder is long).",
        "On Sundays he watches the fight of a man against a",
        " bull",
    ),
    Fact(
        "She has a small shop in [Germany].",
        ("The winters in [Germany] are dark.", "Her husband loves [Germany]."),
        "Her son studies in [Munich].",
        "(The ladder is long).",
        "In October everyone drinks large glasses of",
        " beer",
    ),
    Fact(
        "She works on a plantation in [Colombia].",
        ("The birds of [Colombia] are colourful.", "Her husband loves [Colombia]."),
        "Her son studies in [Bogota].",
        "(The ladder is long).",
        "Every day she fills ten bags with beans of",
        " coffee",
    ),
)
