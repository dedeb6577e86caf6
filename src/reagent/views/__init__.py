"""Views of explanations, comparisons, evaluations, citations and studies. They import only these results.

text.py        readable forms of tokens: running text and labels
display.py     what a view shows: words in place of tokens, the whole answer first
summary.py     texts that every view shows: provenance, questions, warnings, ranks and notes
groups.py      sentences and marks about groups of units and the sufficiency test
shading.py     running text in the terminal, shaded by importance
fitted_label.py  a label in the terminal that fits into its column
terminal.py    an explanation in the terminal
tracing.py     an answer traced through the reasoning: terminal and page
html.py        an explanation as an HTML page or a notebook fragment
plots.py       an explanation as a PNG figure
latex.py       running text for LaTeX
dataframe.py   an explanation, a comparison or citations as a pandas table
interactions.py  an explanation as interaction values of shapiq
comparison.py  several explanations side by side: terminal, HTML, LaTeX
evaluation.py  one or several evaluations in the terminal
record.py      a statement of record as Markdown and as an HTML page
citations.py   citations in the terminal and as Markdown
citations_page.py  citations as an HTML page or a notebook fragment
studies.py     a prompt study in the terminal, and the sentences about it
data_summary.py  the words of many prompts: terminal and page
studies_page.py  a prompt study as an HTML page or a notebook fragment
assets/        the HTML templates, the styles and the scripts of the HTML views
"""
