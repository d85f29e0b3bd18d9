"""The HTML of the pages for payers.

A page needs no other file: it contains its style and its script, and its policy allows no others. It works without the
script. Escape every value from outside.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from html import escape
from string import Template
from typing import Final

from msgspec import Struct
from starlette.types import Send

from api.fields.payer_language import VARIES
from api.response import Headers

_STYLE: Final = """
:root { color-scheme: light dark; --paper: #fff; --ground: #eef1f6; --ink: #16202e; --soft: #4a5568; --line: #cbd3df;
  --main: #0b5cad; --on-main: #fff; --note: #fff4d6; --on-note: #5b3d00;
  --bad: #b42318; }
@media (prefers-color-scheme: dark) { :root { --paper: #18212f; --ground: #0e141d; --ink: #f0f4fa; --soft: #b6c1d1;
  --line: #3b485b; --main: #7db8f7; --on-main: #08182b; --note: #3d2f08; --on-note: #ffe2a0;
  --bad: #ff9c8f; } }
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1rem; background: var(--ground);
  color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
main { width: 100%; max-width: 27rem; background: var(--paper); border: 1px solid var(--line); border-radius: .75rem;
  padding: 1.5rem; }
h1 { font-size: 1.375rem; line-height: 1.25; margin: 1rem 0 .5rem; }
p { margin: .5rem 0; }
dl { display: grid; gap: .375rem; margin: 1rem 0; padding: .75rem 0; border: solid var(--line); border-width: 1px 0; }
dl div { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1rem; }
dt { color: var(--soft); }
dd { margin: 0 0 0 auto; text-align: right; font-weight: 600; overflow-wrap: anywhere; }
form { display: grid; gap: .75rem; margin: 1rem 0 0; }
button { min-height: 2.75rem; padding: .5rem 1rem; border: 2px solid var(--main); border-radius: .5rem; font: inherit;
  font-weight: 600; color: var(--on-main); background: var(--main); cursor: pointer; }
button.other { color: var(--main); background: transparent; }
label { display: grid; gap: .25rem; font-weight: 600; }
input, select { width: 100%; min-height: 2.75rem; padding: .5rem .75rem; border: 1px solid var(--soft);
  border-radius: .5rem; font: inherit; font-weight: 400; color: var(--ink); background: var(--paper); }
[aria-invalid] { border: 2px solid var(--bad); }
small { color: var(--soft); font-weight: 400; }
.error { color: var(--bad); font-weight: 600; }
.links { display: grid; gap: .75rem; margin: 1rem 0 0; padding: 0; list-style: none; }
.links a { display: block; padding: .625rem 1rem; border: 2px solid var(--main); border-radius: .5rem; font-weight: 600;
  text-align: center; text-decoration: none; color: var(--on-main); background: var(--main); }
a:focus-visible, input:focus-visible, select:focus-visible { outline: 3px solid var(--main); outline-offset: 2px; }
button:focus-visible, summary:focus-visible { outline: 3px solid var(--main); outline-offset: 2px; }
.note { margin: 0; padding: .5rem .75rem; border-radius: .5rem; background: var(--note); color: var(--on-note);
  font-size: .875rem; }
details { margin-top: 1.25rem; color: var(--soft); font-size: .875rem; }
code { overflow-wrap: anywhere; }
"""

# Submits the form if the page requests that, and posts the page's notice to the page around it or the one that opened
# it.
_SCRIPT: Final = """
const page = document.body.dataset;
if (page.goOn) document.forms[0].requestSubmit();
if (page.returnTo && window.parent === window && !window.opener) location.replace(page.returnTo);
if (page.notice) {
  const message = JSON.parse(page.notice);
  for (const other of [window.parent, window.opener]) {
    if (other && other !== window) other.postMessage(message, "*");
  }
}
"""

_PAGE: Final = Template("""\
<!doctype html>
<html lang="$language">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<link rel="icon" href="data:,">
<style>$style</style>
</head>
<body$data>
<main>
$note<h1>$title</h1>
$content
</main>
<script>$script</script>
</body>
</html>
""")


def _allowed(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


_POLICY: Final = (
    f"default-src 'none'; style-src {_allowed(_STYLE)}; script-src {_allowed(_SCRIPT)}; img-src data:; "
    "form-action 'self'; base-uri 'none'"
)
_HEADERS: Final[Headers] = (
    (b"content-type", b"text/html; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    *VARIES,
)


class Html(Struct, frozen=True, kw_only=True):
    """A page. `content` is HTML; `notice` is JSON for the page around it; with `goes_on` its form submits itself. A
    page of its own window goes to `returns_to`, an address of http or https. `note` is shown above the title. With
    `is_framed` a merchant's page may show it in a frame.
    """

    language: str
    status: int = 200
    title: str
    content: str
    note: str | None = None
    is_framed: bool = False
    notice: str | None = None
    goes_on: bool = False
    returns_to: str | None = None

    def encode(self) -> bytes:
        data = f' data-notice="{escape(self.notice)}"' if self.notice else ""
        data += ' data-go-on="yes"' if self.goes_on else ""
        data += f' data-return-to="{escape(self.returns_to)}"' if self.returns_to else ""
        return _PAGE.substitute(
            language=self.language,
            note=f'<p class="note">{escape(self.note)}</p>\n' if self.note else "",
            title=escape(self.title),
            content=self.content,
            data=data,
            style=_STYLE,
            script=_SCRIPT,
        ).encode()


class Field(Struct, frozen=True, kw_only=True):
    """A field of a form: its name, its label, what was sent, what helps to fill it in, and what is wrong with it.

    A field with `groups` is a list to choose from: groups of values and names under a heading.
    """

    name: str
    label: str
    value: str = ""
    hint: str = ""
    error: str = ""
    length: int = 0
    autocomplete: str = "off"
    groups: Sequence[tuple[str, Mapping[str, str]]] = ()
    choose: str = ""


def paragraph(text: str) -> str:
    """Returns text as an HTML paragraph."""
    return f"<p>{escape(text)}</p>"


def alert(text: str) -> str:
    """Returns text about a failure as a paragraph, which screen readers read at once."""
    return f'<p class="error" role="alert">{escape(text)}</p>'


def links(pairs: Mapping[str, str]) -> str:
    """Returns names and addresses, which the service has made, as a list of links."""
    rows = "".join(f'<li><a href="{escape(to)}">{escape(name)}</a></li>' for name, to in pairs.items())
    return f'<ul class="links">{rows}</ul>'


def fields_form(fields: Sequence[Field], submit: str) -> str:
    """Returns a form that posts fields to the page's own address."""
    return f'<form method="post">{"".join(map(_labelled, fields))}<button>{escape(submit)}</button></form>'


def _labelled(field: Field) -> str:
    name = escape(field.name)
    notes = [(f"{name}-{kind}", kind, text) for kind, text in (("error", field.error), ("hint", field.hint)) if text]
    shared = f'id="{name}" name="{name}" required autocomplete="{escape(field.autocomplete)}"'
    if notes:
        shared += f' aria-describedby="{" ".join(each[0] for each in notes)}"'
    if field.error:
        shared += ' aria-invalid="true"'
    below = "".join(f'<small id="{at}" class="{kind}">{escape(text)}</small>' for at, kind, text in notes)
    if field.groups:
        control = f"<select {shared}>{_options(field)}</select>"
    else:
        control = f'<input {shared} maxlength="{field.length}" value="{escape(field.value)}">'
    return f"<label>{escape(field.label)}{control}{below}</label>"


def _options(field: Field) -> str:
    first = f'<option value="">{escape(field.choose)}</option>'
    return first + "".join(
        f'<optgroup label="{escape(heading)}">{"".join(_option(field, *each) for each in names.items())}</optgroup>'
        for heading, names in field.groups
    )


def _option(field: Field, value: str, name: str) -> str:
    chosen = " selected" if value == field.value else ""
    return f'<option value="{escape(value)}"{chosen}>{escape(value)} {escape(name)}</option>'


def facts(pairs: Mapping[str, str]) -> str:
    """Returns names and values as an HTML list. A value that does not fit beside its name is below it, in one piece."""
    rows = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in pairs.items())
    return f"<dl>{rows}</dl>"


def form(*buttons: tuple[str, str]) -> str:
    """Returns a form that posts a `decision` to the page's own address.

    The buttons are (value, label); the first one is shown as the main one.
    """
    first, *others = (
        f'<button name="decision" value="{escape(value)}"{{}}>{escape(label)}</button>' for value, label in buttons
    )
    choices = [first.format(""), *(button.format(' class="other"') for button in others)]
    return f'<form method="post">{"".join(choices)}</form>'


def link(address: str, text: str) -> str:
    """Returns a paragraph with a link. The caller has checked that the address is one of http or https."""
    return f'<p><a href="{escape(address)}">{escape(text)}</a></p>'


def for_developers(summary: str, text: str, code: str) -> str:
    """Returns a paragraph for the merchant's developer, with code."""
    content = f"<p>{escape(text)}</p><p><code>{escape(code)}</code></p>"
    return f"<details open><summary>{escape(summary)}</summary>{content}</details>"


async def send_html(page: Html, send: Send, headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Sends a page in one piece, with further headers."""
    body = page.encode()
    length = (b"content-length", b"%d" % len(body))
    language = (b"content-language", page.language.encode())
    policy = (
        b"content-security-policy",
        (_POLICY if page.is_framed else f"{_POLICY}; frame-ancestors 'none'").encode(),
    )
    own = [*_HEADERS, policy, length, language]
    await send({"type": "http.response.start", "status": page.status, "headers": [*own, *headers]})
    await send({"type": "http.response.body", "body": body})
