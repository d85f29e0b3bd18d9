"""A local server that answers as the providers of stamps document it."""

import json
import threading
from collections.abc import Callable
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.sax.saxutils import escape

from msgspec import Struct

_SOAP = (
    '<?xml version="1.0" encoding="UTF-8"?><senv:Envelope xmlns:senv="http://schemas.xmlsoap.org/soap/envelope/" '
    'xmlns:tns="http://facturacion.finkok.com/stamp" xmlns:s0="apps.services.soap.core.views"><senv:Body>'
    "<tns:result>{}</tns:result></senv:Body></senv:Envelope>"
)


class Asked(Struct):
    """A request that arrived."""

    path: str
    headers: dict[str, str]
    body: bytes


class ProviderServer:
    """`answer` decides how the next requests are answered: a status and a body, or None to close without an answer."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.answer: Callable[[Asked], tuple[int, bytes] | None] = lambda _: (404, b"")
        self.released = threading.Event()
        self.url = ""

    def says(self, status: int, body: str | bytes | dict) -> None:
        body = json.dumps(body) if isinstance(body, dict) else body
        self.answer = lambda _: (status, body.encode() if isinstance(body, str) else body)

    def holds(self) -> None:
        """Answers only once the test ends."""

        def wait(_: Asked) -> None:
            self.released.wait(60)

        self.answer = wait


@contextmanager
def running():
    provider = ProviderServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            asked = Asked(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            provider.asked.append(asked)
            answered = provider.answer(asked)
            if answered is None:
                self.close_connection = True
                return
            status, content = answered
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.send_header("location", "http://127.0.0.1:1/elsewhere")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    provider.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield provider
    finally:
        provider.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


def finkok_stamped(xml: bytes, uuid: str, *incidences: tuple[str, str]) -> str:
    status = "Comprobante timbrado previamente" if incidences else "Comprobante timbrado satisfactoriamente"
    return _SOAP.format(
        f"<s0:xml>{escape(xml.decode())}</s0:xml><s0:UUID>{uuid}</s0:UUID><s0:CodEstatus>{status}</s0:CodEstatus>"
        f"{_incidences(incidences)}"
    )


def finkok_refused(*incidences: tuple[str, str]) -> str:
    return _SOAP.format(f"<s0:xml/>{_incidences(incidences)}")


def finkok_cancelled(uuid: str, code: str, words: str = "", status: str = "") -> str:
    """The answer about one document. `status` is CodEstatus, which only errors have."""
    if status:
        return _SOAP.format(f"<s0:CodEstatus>{status}</s0:CodEstatus>")
    return _SOAP.format(
        f"<s0:Folios><s0:Folio><s0:UUID>{uuid}</s0:UUID><s0:EstatusUUID>{code}</s0:EstatusUUID>"
        f"<s0:EstatusCancelacion>{words}</s0:EstatusCancelacion></s0:Folio></s0:Folios>"
        "<s0:Acuse>&lt;Acuse/&gt;</s0:Acuse><s0:RfcEmisor>EKU9003173C9</s0:RfcEmisor>"
    )


def _incidences(pairs: tuple[tuple[str, str], ...]) -> str:
    listed = "".join(
        f"<s0:Incidencia><s0:CodigoError>{code}</s0:CodigoError><s0:MensajeIncidencia>{escape(words)}"
        "</s0:MensajeIncidencia></s0:Incidencia>"
        for code, words in pairs
    )
    return f"<s0:Incidencias>{listed}</s0:Incidencias>"


def sat_report(**facts: str) -> str:
    inside = "".join(f"<a:{name}>{value}</a:{name}>" for name, value in facts.items())
    return (
        '<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><ConsultaResponse '
        'xmlns="http://tempuri.org/"><ConsultaResult xmlns:a="http://schemas.datacontract.org/2004/07/Sat">'
        f"{inside}</ConsultaResult></ConsultaResponse></s:Body></s:Envelope>"
    )
