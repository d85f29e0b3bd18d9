"""Reads the printed documents back: objects, fonts and the texts on their pages, by the file format alone."""

import re
import zlib

_OBJECT = re.compile(rb"(?<=\n)(\d+) 0 obj\n(.*?)\nendobj(?=\n)", re.DOTALL)
_STREAM = re.compile(rb"(.*?) >>\nstream\n(.*)\nendstream\Z", re.DOTALL)


def objects(pdf: bytes) -> dict[int, bytes]:
    return {int(number): body for number, body in _OBJECT.findall(pdf)}


def stream(body: bytes) -> bytes:
    found = _STREAM.match(body)
    return b"" if found is None else zlib.decompress(found[2])


def referred(body: bytes, name: str) -> int:
    found = re.search(rf"/{name} \[?(\d+) 0 R".encode(), body)
    assert found is not None, f"{name} in {body[:200]!r}"
    return int(found[1])


def fonts(pdf: bytes) -> list[tuple[bytes, dict[int, str], bytes]]:
    """The descriptor, the characters by their codes, and the embedded program of each font."""
    parts, found = objects(pdf), []
    for body in parts.values():
        if b"/Subtype /Type0" in body:
            descriptor = parts[referred(parts[referred(body, "DescendantFonts")], "FontDescriptor")]
            pairs = re.findall(rb"<([0-9A-F]{4})> <([0-9A-F]+)>\n", stream(parts[referred(body, "ToUnicode")]))
            characters = {int(code, 16): bytes.fromhex(text.decode()).decode("utf-16-be") for code, text in pairs}
            found.append((descriptor, characters, stream(parts[referred(descriptor, "FontFile2")])))
    return found


def pages(pdf: bytes) -> list[bytes]:
    """The operators of each page."""
    parts = objects(pdf)
    return [stream(parts[referred(body, "Contents")]) for body in parts.values() if b"/Type /Page " in body]


def texts(pdf: bytes) -> list[str]:
    """The texts that a PDF shows, in the order in which they are drawn, by the maps that its fonts carry."""
    parts = objects(pdf)
    [resources] = {body for body in parts.values() if body.startswith(b"<< /Font <<")}
    maps = {}
    for name, number in re.findall(rb"/(\w+) (\d+) 0 R", resources.partition(b"/XObject")[0]):
        pairs = re.findall(
            rb"<([0-9A-F]{4})> <([0-9A-F]+)>\n", stream(parts[referred(parts[int(number)], "ToUnicode")])
        )
        maps[name] = {code: bytes.fromhex(text.decode()).decode("utf-16-be") for code, text in pairs}
    shown = re.findall(rb"/(\w+) [\d.]+ Tf [\d. -]+ Td <([0-9A-F]*)> Tj", b"\n".join(pages(pdf)))
    return ["".join(maps[font][codes[n : n + 4]] for n in range(0, len(codes), 4)) for font, codes in shown]
