"""Explanations for other tools, and from them.

attributions.py   numbers of another tool for pieces of a text, as an Explanation
alignment.py      where the pieces of another tool are in a text
common_units.py   several explanations of one text in common units
files.py          explanations in files, of reagent or of Inseq
shap.py           shap.Explanation
captum.py         LLMAttributionResult of captum
inseq.py          the JSON of Inseq
opentelemetry.py  spans, with the attributes of OpenInference

Exports need the tool where they build its objects. Imports need a model, which cuts the text into its tokens.
"""
