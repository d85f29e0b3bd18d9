"""The HTML of the sandbox's pages for payers.

A page needs no other file: it contains its style and its script, and its policy allows no others. Escape every value
from outside. A merchant's page may show it in a frame.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from hashlib import sha256
from html import escape
from string import Template
from typing import Final

from msgspec import Struct
from starlette.types import Send

from api.fields.payer_language import VARIES
from api.response import Headers
from api.sandbox.payer_texts import PayerTexts

_STYLE: Final = """
:root { color-scheme: light dark; --paper: #fff; --ground: #eef1f6; --ink: #16202e; --soft: #4a5568; --line: #cbd3df;
  --main: #0b5cad; --on-main: #fff; --note: #fff4d6; --on-note: #5b3d00; }
@media (prefers-color-scheme: dark) { :root { --paper: #18212f; --ground: #0e141d; --ink: #f0f4fa; --soft: #b6c1d1;
  --line: #3b485b; --main: #7db8f7; --on-main: #08182b; --note: #3d2f08; --on-note: #ffe2a0; } }
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1rem; background: var(--ground);
  color: var(--ink); font: 1rem/1.5 system-ui, sans-serif; }
main { width: 100%; max-width: 27rem; background: var(--paper); border: 1px solid var(--line); border-radius: .75rem;
  padding: 1.5rem; }
h1 { font-size: 1.375rem; line-height: 1.25; margin: 1rem 0 .5rem; }
p { margin: .5rem 0; }
dl { display: grid; grid-template-columns: auto 1fr; gap: .375rem 1rem; margin: 1rem 0; padding: .75rem 0;
  border: solid var(--line); border-width: 1px 0; }
dt { color: var(--soft); }
dd { margin: 0; text-align: right; font-weight: 600; overflow-wrap: anywhere; }
form { display: grid; gap: .75rem; margin: 1rem 0 0; }
button { min-height: 2.75rem; padding: .5rem 1rem; border: 2px solid var(--main); border-radius: .5rem; font: inherit;
  font-weight: 600; color: var(--on-main); background: var(--main); cursor: pointer; }
button.other { color: var(--main); background: transparent; }
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
<p class="note">$note</p>
<h1>$title</h1>
$content
</main>
<script>$script</script>
</body>
</html>
""")


def _allowed(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


_HEADERS: Final[Headers] = (
    (b"content-type", b"text/html; charset=utf-8"),
    (
        b"content-security-policy",
        f"default-src 'none'; style-src {_allowed(_STYLE)}; script-src {_allowed(_SCRIPT)}; img-src data:; "
        "form-action 'self'; base-uri 'none'".encode(),
    ),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    *VARIES,
)


class Html(Struct, frozen=True, kw_only=True):
    """A page. `content` is HTML; `notice` is JSON for the page around it; with `goes_on` its form submits itself. A
    page of its own window goes to `returns_to`, an address of http or https.

    `texts` has the language of the page.
    """

    texts: PayerTexts
    status: int = 200
    title: str
    content: str
    notice: str | None = None
    goes_on: bool = False
    returns_to: str | None = None

    def encode(self) -> bytes:
        data = f' data-notice="{escape(self.notice)}"' if self.notice else ""
        data += ' data-go-on="yes"' if self.goes_on else ""
        data += f' data-return-to="{escape(self.returns_to)}"' if self.returns_to else ""
        return _PAGE.substitute(
            language=self.texts.language,
            note=escape(self.texts.sandbox),
            title=escape(self.title),
            content=self.content,
            data=data,
            style=_STYLE,
            script=_SCRIPT,
        ).encode()


def paragraph(text: str) -> str:
    """Returns text as an HTML paragraph."""
    return f"<p>{escape(text)}</p>"


def facts(pairs: Mapping[str, str]) -> str:
    """Returns names and values as an HTML list."""
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs.items())
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
    language = (b"content-language", page.texts.language.encode())
    await send(
        {"type": "http.response.start", "status": page.status, "headers": [*_HEADERS, length, language, *headers]}
    )
    await send({"type": "http.response.body", "body": body})
