"""The parts of an HTML page that needs no other file."""

import base64
import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

from alphamepol.errors import InputError
from alphamepol.figures.style import page_colours_as_css, page_heat_map_colours
from alphamepol.files.json_files import escape_surrogates_in_json
from alphamepol.files.names import message_as_text
from alphamepol.files.reading import read_small_file

PNG = b"\x89PNG\r\n\x1a\n"
"""The first bytes of every PNG image."""
LARGEST_PICTURE = 2**24
"""The most bytes of a picture in a page."""
WIDGET = '<div class="widget"'
"""The beginning of a box in which `places.js` draws."""

_SOFT = " class='soft'"


class Html(str):
    """Text that is already HTML. All other text is escaped."""


def escape_html(text: str) -> str:
    """Return text as HTML that shows it, also in an attribute. Unprintable characters are shown as escapes."""
    return text if isinstance(text, Html) else escape(message_as_text(text))


def join_html(*parts: str) -> Html:
    """Join parts to HTML. Parts that are not `Html` are escaped."""
    return Html("".join(escape_html(part) for part in parts))


def html_paragraph(*parts: str, soft: bool = False) -> Html:
    """Return a paragraph; the text of a `soft` paragraph is grey."""
    return Html(f"<p{_SOFT if soft else ''}>{join_html(*parts)}</p>")


def html_heading(text: str) -> Html:
    """Return a heading inside a section."""
    return Html(f"<h3>{escape_html(text)}</h3>")


def html_strong(text: str) -> Html:
    return Html(f"<b>{escape_html(text)}</b>")


def html_emphasised(text: str) -> Html:
    return Html(f"<i>{escape_html(text)}</i>")


def html_code(text: str) -> Html:
    """Return code inside a line."""
    return Html(f"<code>{escape_html(text)}</code>")


def html_code_block(text: str) -> Html:
    """Return lines of code."""
    return Html(f"<pre>{escape_html(text)}</pre>")


def html_marked(kind: str, text: str) -> Html:
    """Return text with the CSS class `kind`, e.g. a verdict."""
    return Html(f'<span class="{escape_html(kind)}">{escape_html(text)}</span>')


def html_bullets(items: Iterable[str]) -> Html:
    return Html(f"<ul>{_html_list_items(items)}</ul>")


def html_numbered_list(items: Iterable[str]) -> Html:
    return Html(f"<ol>{_html_list_items(items)}</ol>")


def _html_list_items(items: Iterable[str]) -> str:
    return "".join(f"<li>{escape_html(item)}</li>" for item in items)


def html_details(summary: str, content: str) -> Html:
    """Return lines of code that are hidden below a summary until the reader opens them."""
    return Html(f"<details><summary>{escape_html(summary)}</summary>{html_code_block(content)}</details>")


def html_fold(summary: str, content: str, kind: str = "") -> Html:
    """Return HTML that is hidden below a summary until the reader opens it, or the page is printed.

    `kind` is its CSS class.
    """
    inside = f'<summary>{escape_html(summary)}</summary><div class="inside">{escape_html(content)}</div>'
    return Html(f'<details class="fold {escape_html(kind)}">{inside}</details>\n')


def html_page(title: str, sections: Iterable[tuple[str, str, str]], introduction: str) -> str:
    """Return the whole page; sections are (anchor, heading, content). Sections without content are left out."""
    sections = [section for section in sections if section[2]]
    links = "".join(f'<a href="#{escape_html(anchor)}">{escape_html(heading)}</a>' for anchor, heading, _ in sections)
    body = "".join(
        f'<section id="{escape_html(anchor)}"><h2>{escape_html(heading)}</h2>{content}</section>\n'
        for anchor, heading, content in sections
    )
    style = "\n".join([_html_colours(), _html_resource("page.css")])
    script = _html_resource("page.js")
    if WIDGET in body:
        script += f"const HEAT = {json.dumps(page_heat_map_colours())};\n{_html_resource('places.js')}"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{escape_html(title)}</title>
<style>
{style}</style>
</head>
<body>
<button type="button" id="mode" hidden>Dark</button>
<h1>{escape_html(title)}</h1>
{introduction}
<nav>{links}</nav>
{body}<script>
{script}</script>
</body>
</html>
"""


def _html_colours() -> str:
    """Return the CSS of the colours of figures: light, dark if the reader's system or the button says so, or print."""
    light, dark = page_colours_as_css("light"), page_colours_as_css("dark")
    return (
        f":root {{ {light} }}\n"
        f"@media (prefers-color-scheme: dark) {{ :root:not([data-mode=light]) {{ {dark} }} }}\n"
        f":root[data-mode=dark] {{ {dark} }}\n"
        f"@media print {{ :root:root[data-mode], :root:root {{ {light} }} }}"
    )


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> Html:
    """Return a table; the columns with the indices `numbers` are flush right. Columns without content are left out."""
    lines = [tuple(row) for row in rows]
    kept = [column for column in range(len(header)) if not lines or any(row[column] for row in lines)]

    def line(cells: Sequence[str], tag: str, scope: str = "") -> str:
        kinds = [' class="number"' if column in numbers else "" for column in range(len(header))]
        inside = (f"<{tag}{scope}{kinds[column]}>{escape_html(cells[column])}</{tag}>" for column in kept)
        return f"<tr>{''.join(inside)}</tr>"

    top, body = line(header, "th", ' scope="col"'), "\n".join(line(row, "td") for row in lines)
    return Html(f'<div class="wide"><table><thead>{top}</thead><tbody>\n{body}\n</tbody></table></div>\n')


def html_picture(path: Path, caption: str) -> Html:
    """Return a PNG image as a part of the page, with its caption.

    Raises an `InputError` if the file is not a PNG image, or is larger than `LARGEST_PICTURE`.
    """
    try:
        pixels = read_small_file(path, LARGEST_PICTURE)
        if not pixels.startswith(PNG):
            raise ValueError("it is not a PNG image")
    except (OSError, ValueError) as error:
        raise InputError(f"figure: {path} cannot be read ({error})") from error
    data = base64.b64encode(pixels).decode()
    return Html(
        f'<figure><img alt="{escape_html(caption)}" src="data:image/png;base64,{data}">'
        f"<figcaption>{escape_html(caption)}</figcaption></figure>\n"
    )


def html_figure(svg: str, caption: str) -> Html:
    """Return a figure that the package drew itself, as `svg_for_page` returns it, with its caption."""
    return Html(f"<figure>{svg}<figcaption>{escape_html(caption)}</figcaption></figure>\n")


def html_side_by_side(*parts: Html) -> Html:
    """Return figures side by side, where the page is wide enough."""
    return Html(f'<div class="beside">{join_html(*parts)}</div>\n')


def html_box(*parts: str) -> Html:
    """Return parts that stay together, e.g. the text beside a figure."""
    return Html(f"<div>{join_html(*parts)}</div>\n")


def html_widget(kind: str, data: dict[str, Any]) -> Html:
    """Return a box in which `places.js` draws the data: the kind is "maps" or "replay"."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    text = escape_surrogates_in_json(text)
    return Html(f"""{WIDGET} data-kind="{escape_html(kind)}">
<noscript>This picture needs JavaScript.</noscript>
<script type="application/json">{text}</script></div>
""")


def _html_resource(name: str) -> str:
    return files("alphamepol.pages").joinpath(name).read_text()
