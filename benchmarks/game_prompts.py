"""Own prompts of 8 to 10 words and of 8 sentences, with targets: for choosing options, and for reporting."""

WORDS = {
    "choose": {
        "Anna from Spain and Maria from Madrid both speak fluent": " Spanish",
        "He was thirsty so he drank a glass of": " wine",
        "Monday is followed by Tuesday and Tuesday is followed by": " Wednesday",
        "The piano and the violin are both musical": " instruments",
        "Tokyo is in Japan and Kyoto is also in": " Japan",
        "The sun rises in the east and sets in the": " west",
        "The farmer milks his cows and sells their fresh": " milk",
        "Bread and butter are for breakfast, soup is for": " dinner",
        "Madrid is in Spain and Lisbon is the capital of": " Portugal",
        "At night the moon shines and by day shines the": " sun",
        "My father is a teacher and my mother is a": " nurse",
        "In spring the trees turn green and flowers begin to": " bloom",
        "She put sugar in her coffee and milk in her": " tea",
        "One plus one is two and two plus two is": " four",
        "The fisherman repaired his nets and sailed out to": " sea",
        "Snow is white, coal is black, and the sky is": " blue",
        "The student opened her book and began to": " read",
        "Fire is hot and ice is very": " cold",
        "Cairo lies in Egypt and Nairobi lies in": " Kenya",
        "The carpenter took a hammer and hit the": " nail",
        "January is the first month and February is the": " second",
        "The king lives in a castle with his beautiful": " queen",
        "Dogs bark, birds sing, and our old cat likes to": " sleep",
    },
    "report": {
        "Paris is in France and Lyon is also in": " France",
        "In winter it is cold and in summer it is": " hot",
        "Roses are red, violets are blue, the grass is": " green",
        "My brother plays the guitar and my sister plays the": " piano",
        "A week has seven days and a year has twelve": " months",
        "Bees make honey and the hens on our farm lay": " eggs",
        "Berlin is the capital of Germany and Rome is in": " Italy",
        "Doctors give us medicine and the dentist pulls a bad": " tooth",
    },
}

SENTENCES = {
    "choose": {
        "Peter moved to Norway. The summer was short. He bought a wooden boat. His boat is red. "
        "Norway has many fjords. He often eats fish. His sister writes every week. He lives in the capital,": " Oslo",
        "Our cat sleeps all day. It has green eyes. We bought milk. The cat likes milk. The neighbours have a parrot. "
        "The bowl is empty. My brother is at school. Every evening we give the cat some": " milk",
        "Maria is a doctor. She works at night. Her hospital is in Egypt. The garden is dry. "
        "She has seen the pyramids. Her car is blue. Her son learns to swim. "
        "Every morning she drives through the capital,": " Cairo",
        "Tom has a dog. The dog is called Rex. It rained on Monday. Rex barked all night. The bus was late. "
        "Tom wears a grey coat. The park is large. In the park Tom calls his dog": " Rex",
    },
    "report": {
        "Lena studies law. She comes from Poland. Her room is cold. She reads Polish novels. The lift is broken. "
        "She likes apples. Her uncle is a baker. At weekends she visits her parents in the capital,": " Warsaw",
        "We planted a tree. It is an apple tree. The fence is old. Last year it gave many apples. Our shed leaks. "
        "A blackbird sings. The cellar is dark. In autumn we fill our baskets with": " apples",
        "Karim flew to Kenya. His suitcase was lost. He filmed lions. The hotel was full. The Kenyan guide was kind. "
        "His phone fell into a river. The soup was cold. On the last day he drove to the capital,": " Nairobi",
        "Julia plays chess. Her clock stopped. She owns three violins. The street is being repaired. "
        "Her mother taught music. The windows are dirty. She eats little. Every evening she practises the": " violin",
        "The baker gets up early. His oven is hot. Rain fell all night. He kneads the dough. The cat is asleep. "
        "A tram passes. The flour comes from a mill. At six o'clock the shop smells of fresh": " bread",
        "Ivan was born in Russia. His coat is warm. He repairs watches. The lamp is broken. His wife is Russian too. "
        "They have two cats. The tea is strong. At home the whole family speaks": " Russian",
    },
}
