"""The options that several commands share, each written once."""

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
        help="Explain this continuation. Taken literally: begin it with a space where a word begins. "
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
Dtype = Annotated[str, typer.Option(help="auto, float32, bfloat16, float16.")]
Revision = Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub model.")]

# --- a server ---

Tokenizer = Annotated[
    str | None,
    typer.Option(metavar="T", help="Server: its tokenizer, where it does not tell its tokens: id or folder."),
]
Cache = Annotated[
    Path | None, typer.Option(metavar="F", help="Server: keep its replies in this file, and never pay for one twice.")
]
Concurrency = Annotated[int | None, typer.Option(metavar="N", help="Server: requests under way at once (8).")]
Rate = Annotated[float | None, typer.Option(metavar="R", help="Server: requests per second, at most.")]
Recover = Annotated[
    bool, typer.Option("--recover", help="Server: exact values of targets that it does not list, by logit_bias.")
]
ServerSettings = Annotated[
    list[str] | None,
    typer.Option("--server", metavar="NAME=VALUE", help="Server: timeout, retries, backoff, top, as --server top=5."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Only tell how many requests and tokens the explanation would take at most.")
]

# --- what is asked ---

Unit = Annotated[str, typer.Option(help="What is replaced and scored whole: token, word, sentence or paragraph.")]
Spans = Annotated[
    Path | None,
    typer.Option("--spans", metavar="F.json", help="Score these characters of the prompt, [[start, end], …]."),
]
Marked = Annotated[
    bool, typer.Option("--marked", help="Score the parts of the prompt that stand in ⟦ ⟧; all else stays as it is.")
]
Levels = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,…",
        help="fast: units from coarse to fine, as paragraph,sentence,word. By itself, a prompt of more than 400 "
        "tokens is explained by sentences first; --levels token does not.",
    ),
]
Phrase = Annotated[
    str | None, typer.Option("--span", metavar="TEXT", help="Explain this phrase of the output as a whole.")
]
Contrast = Annotated[
    str | None, typer.Option("--contrast", metavar="TEXT", help="Explain why the model did not say this instead.")
]
Chat = Annotated[
    bool, typer.Option("--chat", help="The prompt is a message to a chat model: use the model's own template.")
]
System = Annotated[str | None, typer.Option("--system", metavar="TEXT", help="Chat: a system message before it.")]
Messages = Annotated[
    Path | None,
    typer.Option(
        "--messages", metavar="F.json", help='Chat: earlier messages, [{"role": …, "content": …}, …], or all of it.'
    ),
]

# --- the replacer ---

ReplacerName = Annotated[str, typer.Option("--replacer", help="What stands in for a token. See: reagent replacers.")]
Candidates = Annotated[int | None, typer.Option(metavar="N", help="Replacer: how many proposals for each position.")]
MaskedLM = Annotated[
    str | None, typer.Option("--masked-lm", metavar="M", help="Replacer roberta: hub id or folder of a masked LM.")
]
Weighted = Annotated[
    bool | None, typer.Option("--weighted", help="Replacer: draw proposals by their probability, not uniformly.")
]
Seed = Annotated[int, typer.Option(help="The same seed gives the same explanation.")]

# --- where it goes ---

Json = Annotated[
    str | None, typer.Option("--json", metavar="F", help="Write JSON; - writes it, alone, to standard output.")
]
Html = Annotated[Path | None, typer.Option("--html", metavar="F", help="Write one self-contained HTML page.")]
Png = Annotated[Path | None, typer.Option("--png", metavar="F", help="Write a plot.")]
OutputToken = Annotated[
    int | None,
    typer.Option("--token", metavar="N", help="Show output token N in full, numbered as in the overview (from 0)."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress, no picture: only the files asked for.")]
