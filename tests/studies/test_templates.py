"""Templates: their parts, their prompts, and one clear line for every bad one."""

import pytest

from reagent.errors import InputError
from reagent.templates import MOST_PARTS, PromptTemplate

HEADINGS = """Opening words.

# Task
Translate {{ text }} well.

```
# no heading
```

## Examples

Input: one
Output: un

Input: two
Output: deux

Input: {{text}}
Output:
"""


def names(source: str) -> list[tuple[str, str]]:
    return [(part.name, part.kind) for part in PromptTemplate.parse(source).parts]


def test_headings_examples_and_slots_are_parts() -> None:
    assert names(HEADINGS) == [
        ("Opening words.", "section"),
        ("Task", "section"),
        ("Examples", "example"),
        ("example 1", "example"),
        ("example 2", "example"),
        ("Input: … Output:", "section"),
        ("text", "slot"),
    ]


def test_tagged_blocks_and_paragraphs_are_parts() -> None:
    assert names("<rules>\n# Be kind.\n</rules>\n\nDo {{it}} now.") == [
        ("rules", "section"),
        ("Do … now.", "section"),
        ("it", "slot"),
    ]
    assert names("One two.\n\nThree {{x}}.") == [("One two.", "section"), ("Three ….", "section"), ("x", "slot")]


def test_with_marks_all_other_text_stays() -> None:
    template = PromptTemplate.parse("Keep. {# part: tone #}Be {{how}}. {# end #}{% raw %}{{x}}{% endraw %} {{text}}")
    assert [part.name for part in template.parts] == ["tone", "how", "text"]
    values = {"how": "kind", "text": "Hi"}
    assert template.render(values) == "Keep. Be kind. {{x}} Hi"
    assert template.render(values, without={0}) == "Keep. kind{{x}} Hi"
    assert template.render(values, without={0, 1, 2}) == "Keep. {{x}} "


def test_the_whole_prompt_is_what_jinja_makes_of_it() -> None:
    source = "# A\n{{- x }} and {{ x | upper -}}   end\n{% if y %}# B\n{{ y }}{% endif %}\n\n# C\nlast\n"
    template = PromptTemplate.parse(source)
    from jinja2 import Template

    for values in ({"x": "one", "y": "two"}, {"x": "one", "y": ""}):
        assert template.render(values) == Template(source).render(values)
    assert template.render({"x": "one", "y": "two"}, {template.index("x"), template.index("C")}) == (
        "# A and ONEend\n# B\ntwo\n\n"
    )


def test_line_ends_of_windows_are_line_ends() -> None:
    assert names("One two.\r\n\r\nThree {{x}}.") == names("One two.\n\nThree {{x}}.")


def test_values_are_plain_text() -> None:
    template = PromptTemplate.parse("Read {{text}} <b>")
    assert template.render({"text": "{{7*7}} <script> # x"}) == "Read {{7*7}} <script> # x <b>"


def test_equal_names_get_a_number() -> None:
    assert names("# A\nx\n# A\ny {{A}}") == [("A", "section"), ("A (2)", "section"), ("A (3)", "slot")]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        ("{{x}}", "no part besides its slots"),
        ("{{x", "line 1 cannot be used as a template"),
        ("a {% for %}", "line 1 cannot be used as a template"),
        ("a {{ x.__class__.__mro__ }}", "is unsafe"),
        ("a {{ ''.__class__ }}", "is unsafe"),
        ("a {{ 'a' * 10**9 }}", "SecurityError"),
        ("a {% for i in range(100000) %}{% for j in range(100000) %}xxxx{% endfor %}{% endfor %}", "characters"),
        ("a {% for i in range(10**9) %}{% endfor %}", "OverflowError"),
        ("a {% include '/etc/passwd' %}", "cannot be filled"),
        ("a {{ y }}", "a value that is missing: 'y' is undefined; the input has: x"),
        ("a {# part: #}b{# end #}", "has no name"),
        ("a {# part: x #}b", "not ended"),
        ("a {# end #}", "ends no part"),
        ("a {# part: x #}{# part: y #}{# end #}", "inside another"),
        ("a \ufdd0", "U+FDD0"),
        ("a \ud800", "not valid Unicode"),
        ("# A\nx\n" * (MOST_PARTS + 1), f"at most {MOST_PARTS}"),
        ("a" * 300_000, "characters"),
    ],
)
def test_each_attack_is_one_clear_line(source: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        PromptTemplate.parse(source).render({"x": "value"})
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_value_cannot_pretend_to_be_a_part() -> None:
    with pytest.raises(InputError, match="U\\+FDD0"):
        PromptTemplate.parse("a {{x}}").render({"x": "\ufdd00\ufdd1"})
