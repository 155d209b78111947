"""Test the parts of HTML pages: text that is not HTML is escaped in every part."""

import pytest

from alphamepol.pages import html

pytestmark = pytest.mark.quick

NASTY = '<script>alert("x")</script> & <b>'


@pytest.mark.parametrize(
    "made",
    [
        html.html_paragraph(NASTY),
        html.html_paragraph(NASTY, soft=True),
        html.html_heading(NASTY),
        html.html_strong(NASTY),
        html.html_emphasised(NASTY),
        html.html_code(NASTY),
        html.html_code_block(NASTY),
        html.html_marked(NASTY, NASTY),
        html.html_bullets([NASTY, NASTY]),
        html.html_numbered_list([NASTY]),
        html.html_details(NASTY, NASTY),
        html.html_fold(NASTY, NASTY, NASTY),
        html.html_figure("<svg></svg>", NASTY),
        html.html_side_by_side(html.html_box(NASTY)),
        html.html_widget(NASTY, {"a": NASTY.replace("<b>", "")}),
        html.html_table([NASTY], [[NASTY]]),
        html.html_page(NASTY, [("a", NASTY, html.html_paragraph(NASTY))], html.html_paragraph(NASTY)),
    ],
)
def test_text_is_escaped(made: str) -> None:
    assert "<script>alert" not in made
    assert "<b>" not in made.replace("<b>&lt;script", "")
    assert "&lt;script&gt;" in made


def test_html_is_not_escaped_twice() -> None:
    inner = html.html_strong("a & b")
    assert html.html_paragraph("see ", inner) == "<p>see <b>a &amp; b</b></p>"
    assert html.html_bullets([inner, "c & d"]) == "<ul><li><b>a &amp; b</b></li><li>c &amp; d</li></ul>"
    assert html.join_html(inner, " & ") == "<b>a &amp; b</b> &amp; "


def test_a_page_leaves_out_empty_sections_and_needs_nothing_else() -> None:
    made = html.html_page("t", [("full", "Full", html.html_paragraph("x")), ("empty", "Empty", "")], "")
    assert 'id="full"' in made
    assert "Empty" not in made
    assert "<style>" in made
    assert "places.js" not in made
    assert "HEAT" not in made  # only heat-maps and replays need this script


def test_a_table_leaves_out_columns_without_content() -> None:
    made = html.html_table(("a", "b", "c"), [("1", "", "2"), ("3", "", "")], (2,))
    assert "<th" in made
    assert made.count("<td") == 4
    assert made.count('class="number"') == 3  # the third column keeps its kind
    assert ">b<" not in made


def test_nothing_in_a_page_is_taken_for_html(tmp_path) -> None:
    (tmp_path / "a.png").write_bytes(html.PNG)
    made = html.html_page(
        "<b>", [("a", "<i>", html.html_widget("replay", {"methods": ["</script><script>alert(1)</script>"]}))], ""
    )
    assert "<b>" not in made
    assert "<i>" not in made
    assert "<script>alert" not in made
    assert "<u>" not in html.html_picture(tmp_path / "a.png", '"><u>')
    cells = html.html_table(("a", "b"), [("1", "<u>"), (html.Html("<em>"), "2")], (1,))
    assert cells.count('class="number"') == 3
    assert "<u>" not in cells
    assert "<em>" in cells
