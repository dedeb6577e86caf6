"""The options of the commands that explain, each declared once."""

from pathlib import Path
from typing import Annotated

import typer

Prompt = Annotated[str | None, typer.Argument(metavar="PROMPT", help="The prompt; - reads it from standard input.")]
File = Annotated[Path | None, typer.Option("--file", metavar="F", help="Read the prompt from a file.")]
Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        metavar="TEXT",
        help="Explain this continuation, taken literally: start it with a space if a word starts there. "
        "By default the model's own greedy continuation.",
    ),
]
MaxNewTokens = Annotated[
    int | None, typer.Option("--max-new-tokens", metavar="N", help="Tokens to generate and explain (10).")
]

# --- the model ---

ModelName = Annotated[
    str, typer.Option("--model", help="smollm2, a hub id, a model folder, a .gguf file, or a server as URL[#model].")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps; all spreads a model over all GPUs.")]
Dtype = Annotated[str, typer.Option(help="auto, float32, bfloat16, float16, mixed.")]
Revision = Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub model.")]
Languages = Annotated[
    str | None,
    typer.Option(metavar="A,B", help="Translation: source and target language, as the tokenizer names them."),
]

# --- a server ---

Tokenizer = Annotated[
    str | None,
    typer.Option(
        metavar="T", help="Server: its tokenizer (hub id or folder), if the server does not return token ids."
    ),
]
Cache = Annotated[Path | None, typer.Option(metavar="F", help="Server: cache its responses in this file.")]
Concurrency = Annotated[int | None, typer.Option(metavar="N", help="Server: concurrent requests (8).")]
Rate = Annotated[float | None, typer.Option(metavar="R", help="Server: requests per second, at most.")]
Recover = Annotated[
    bool, typer.Option("--recover", help="Server: recover the exact log-probability of unlisted targets by logit_bias.")
]
ServerSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--server",
        metavar="NAME=VALUE",
        help="Server: timeout, deadline, megabytes, retries, backoff, top, as --server top=5.",
    ),
]
Score = Annotated[
    str | None,
    typer.Option(
        "--score",
        metavar="S",
        help="Use only the text of answers and compare new ones with the original one: text (F1 and chrF), exact, "
        "label[:A,B,…], regex:PATTERN, embedding:MODEL (or URL#model), proxy:MODEL (likelihood under that model), or "
        "text+proxy:MODEL (both).",
    ),
]
Answers = Annotated[
    int | None, typer.Option("--answers", metavar="N", help="--score: answers for each probe (1; 3 if sampled).")
]
Temperature = Annotated[
    float | None,
    typer.Option("--temperature", metavar="T", help="--score: the server samples at this temperature (0)."),
]
Parts = Annotated[
    int | None,
    typer.Option(
        "--parts",
        metavar="N",
        help="--score text: divide the answer, and also ask for each part after the true beginning (1). For servers "
        "that complete texts or continue an answer.",
    ),
]
MaxRequests = Annotated[
    int | None, typer.Option("--max-requests", metavar="N", help="--score: requests for answers, at most.")
]
ProxyName = Annotated[
    str | None,
    typer.Option(
        "--proxy",
        metavar="M",
        help="Explain with this small model in place of --model; check on some texts that both agree, and stop if not.",
    ),
]
Price = Annotated[
    str | None,
    typer.Option(
        "--price", metavar="IN,OUT", help="--dry-run: price of a million tokens sent and received, to print the cost."
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only print an upper bound of the requests and tokens.")]

# --- the question ---

Unit = Annotated[
    str | None,
    typer.Option(
        "--unit",
        "--units",
        help="The unit that is removed and scored: token, word, sentence, paragraph, or message (of a chat). "
        "Default: token, shown as words.",
    ),
]
AttributeTarget = Annotated[
    bool,
    typer.Option(
        "--attribute-target",
        help="Also remove earlier output tokens, so that each output token is explained by its whole context.",
    ),
]
Spans = Annotated[
    Path | None,
    typer.Option(
        "--spans", "--prompt-spans", metavar="F.json", help="Score these characters of the prompt, [[start, end], …]."
    ),
]
Marked = Annotated[
    bool, typer.Option("--marked", help="Score the parts of the prompt inside ⟦ ⟧ and keep everything else.")
]
Levels = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,…",
        help="fast, leave-one-out: units from coarse to fine, as paragraph,sentence,word. By default a prompt of more "
        "than 400 tokens starts with sentences; --levels token does not.",
    ),
]
Phrase = Annotated[
    str | None,
    typer.Option("--span", "--target-span", metavar="TEXT", help="Explain this phrase of the output as a whole."),
]
Contrast = Annotated[
    str | None,
    typer.Option(
        "--contrast",
        metavar="TEXT",
        help="Explain why the model did not say this instead. A word gets a leading space if the output has one.",
    ),
]
AnswerSpan = Annotated[
    str | None,
    typer.Option(
        "--answer-span",
        metavar="TEXT",
        help="Trace this part of the output, at the last place where it occurs, through the text before it (the "
        "reasoning) to the prompt.",
    ),
]
CheckTraced = Annotated[
    int | None,
    typer.Option(
        "--check-traced",
        metavar="N",
        help="With --answer-span: delete each of the N strongest sentences of the prompt, generate the reasoning "
        "again, and see whether the answer is still given.",
    ),
]
Chat = Annotated[
    bool, typer.Option("--chat", help="The prompt is a message to a chat model: use the model's own template.")
]
System = Annotated[str | None, typer.Option("--system", metavar="TEXT", help="Chat: a system message before it.")]
Messages = Annotated[
    Path | None,
    typer.Option(
        "--messages",
        metavar="F.json",
        help='Chat: earlier messages, [{"role": …, "content": …}, …], or all of it; with tools, {"messages": […], '
        '"tools": […]}.',
    ),
]

ControlTokens = Annotated[
    str,
    typer.Option(
        "--control-tokens",
        metavar="HOW",
        help="Control tokens in your text, as <|im_end|>: keep reads them as such and warns, text reads their letters.",
    ),
]

WhatIf = Annotated[
    bool, typer.Option("--what-if", help="Also show the output of the model under the strongest replacement.")
]

NoScreen = Annotated[
    bool, typer.Option("--no-screen", help="Measure every unit of a long prompt in the whole text (many times slower).")
]

# --- the method ---

MethodName = Annotated[str, typer.Option("--method", help="See: reagent methods.")]
Preset = Annotated[str | None, typer.Option(help="Settings of the method by name. See: reagent methods.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Any option of the method, as --set steps=100. See: reagent methods."
    ),
]
Probes = Annotated[int | None, typer.Option(metavar="N", help="fast, leave-one-out: exactly N probes, no early stop.")]
Response = Annotated[
    str | None, typer.Option(help="leave-one-out: what is measured, logprob or g (the published response).")
]
Removal = Annotated[
    str | None,
    typer.Option(
        metavar="R",
        help="How units are removed: delete, mask or replace. fast and exact delete; lime, occlusion, shapley and "
        "greedy replace, and so does fast if a replacer is named.",
    ),
]
MaxSteps = Annotated[int | None, typer.Option(metavar="N", help="paper: steps after which a run ends.")]
Runs = Annotated[int | None, typer.Option(metavar="N", help="paper: independent runs to average.")]
Ratio = Annotated[
    float | None,
    typer.Option(
        metavar="R",
        help="paper, leave-one-out: share of tokens replaced in each step or probe (0.3; 6 / probes, at most 0.1).",
    ),
]
Keep = Annotated[
    float | None,
    typer.Option(metavar="K", help="paper: share (below 1) or number of tokens kept in the stopping test."),
]
TopK = Annotated[int | None, typer.Option(metavar="K", help="paper: stop when the target is among the top K.")]
Ahead = Annotated[int | None, typer.Option(metavar="N", help="paper: steps scored in one batch.")]

# --- the replacer ---

ReplacerName = Annotated[str, typer.Option("--replacer", help="The source of replacements. See: reagent replacers.")]
Candidates = Annotated[int | None, typer.Option(metavar="N", help="Replacer: the number of candidates for each token.")]
MaskedLM = Annotated[
    str | None, typer.Option("--masked-lm", metavar="M", help="Replacer roberta: hub id or folder of a masked LM.")
]
Weighted = Annotated[
    bool | None, typer.Option("--weighted", help="Replacer: sample candidates by their probability, not uniformly.")
]
Alternatives = Annotated[
    list[str] | None,
    typer.Option(
        "--alternatives",
        metavar="SLOT=A,B,…",
        help="Replace the value of this slot by these, as --alternatives city=Paris,Rome,Oslo; repeat for more slots.",
    ),
]
Seed = Annotated[int, typer.Option(help="The same seed gives the same explanation.")]

# --- output ---

Json = Annotated[
    str | None, typer.Option("--json", metavar="F", help="Write JSON; - writes only JSON to standard output.")
]
Html = Annotated[Path | None, typer.Option("--html", metavar="F", help="Write one self-contained HTML page.")]
Png = Annotated[Path | None, typer.Option("--png", metavar="F", help="Write a plot.")]
OutputToken = Annotated[
    int | None,
    typer.Option("--token", metavar="N", help="Show output token N in full, numbered as in the overview (from 0)."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no output, only the requested files.")]
