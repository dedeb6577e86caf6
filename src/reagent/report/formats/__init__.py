"""Render a report.

html.py         one HTML page, from assets/page.html
inline_svg.py   figures inside that page
markdown.py     Markdown: single tables, and the whole report
latex.py        LaTeX: single tables, shaded examples, and the whole report
"""
