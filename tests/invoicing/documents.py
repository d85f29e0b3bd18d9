"""Sealed CFDIs of a test issuer, built by satcfdi."""

import struct
import zlib
from base64 import b64encode
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from uuid import uuid4

from satcfdi.cfdi import CFDI
from satcfdi.create.cfd import cfdi40
from satcfdi.transform import MEXICO_TZ

from ledger.invoicing.certificates import generate_csd, locked_key


def png(width=120, height=80, colour=b"\x17\x4e\x61"):
    """A picture of one colour."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + colour * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


LOGO_BASE64 = b64encode(png()).decode()
RFC = "EKU9003173C9"
LEGAL_NAME = "ESCUELA KEMPER URGATE"
NUMBER = "30001000000500003416"


def local_now(**ago):
    return (datetime.now(MEXICO_TZ) - timedelta(**ago)).replace(tzinfo=None, microsecond=0)


def issuer():
    return cfdi40.Emisor(rfc=RFC, nombre=LEGAL_NAME, regimen_fiscal="601")


def receiver(use="G03"):
    return cfdi40.Receptor(
        rfc="URE180429TM6",
        nombre="UNIVERSIDAD ROBOTICA ESPAÑOLA",
        uso_cfdi=use,
        domicilio_fiscal_receptor="86991",
        regimen_fiscal_receptor="601",
    )


def vat(rate="0.160000"):
    return cfdi40.Impuestos(traslados=cfdi40.Traslado(impuesto="002", tipo_factor="Tasa", tasa_o_cuota=Decimal(rate)))


def concept(text="Servicio mensual", quantity="2", price="500.00", taxes=None, **more):
    return cfdi40.Concepto(
        clave_prod_serv="81112100",
        cantidad=Decimal(quantity),
        clave_unidad="E48",
        descripcion=text,
        valor_unitario=Decimal(price),
        impuestos=taxes or vat(),
        **more,
    )


def invoice(signer, *, method="PPD", folio="1001", concepts=None, fecha=None, form="99", currency="MXN", rate=None):
    """A sealed invoice, as bytes."""
    made = cfdi40.Comprobante(
        emisor=issuer(),
        lugar_expedicion="42501",
        receptor=receiver(),
        serie="A",
        folio=folio,
        moneda=currency,
        tipo_cambio=rate,
        metodo_pago=method,
        forma_pago=form,
        tipo_de_comprobante="I",
        conceptos=concepts or [concept()],
        fecha=fecha or local_now(minutes=1),
    )
    made.sign(signer)
    return made.xml_bytes()


def receipt(signer, parent: bytes, *, number=1, previous="1160.00", paid="400.00"):
    """A sealed payment receipt (Pagos 2.0) of a stamped invoice, as bytes."""
    made = cfdi40.Comprobante.pago_comprobantes(
        comprobantes=cfdi40.PagoComprobante(
            comprobante=CFDI.from_string(parent),
            num_parcialidad=number,
            imp_saldo_ant=Decimal(previous),
            imp_pagado=Decimal(paid),
        ),
        fecha_pago=local_now(minutes=2),
        forma_pago="03",
        serie="P",
        folio="1",
        emisor=issuer(),
        receptor=receiver("CP01"),
        lugar_expedicion="42501",
        fecha=local_now(minutes=1),
    )
    made.sign(signer)
    return made.xml_bytes()


def credit_note(signer, parent: bytes):
    """A sealed credit note (relation 01) of a stamped invoice, as bytes."""
    uuid = CFDI.from_string(parent)["Complemento"]["TimbreFiscalDigital"]["UUID"]
    made = cfdi40.Comprobante(
        emisor=issuer(),
        receptor=receiver("G02"),
        lugar_expedicion="42501",
        serie="NC",
        folio="1",
        metodo_pago="PUE",
        forma_pago="03",
        tipo_de_comprobante="E",
        cfdi_relacionados=cfdi40.CfdiRelacionados(tipo_relacion="01", cfdi_relacionado=uuid),
        conceptos=[concept("Devolución parcial", "1", "172.41")],
        fecha=local_now(minutes=1),
    )
    made.sign(signer)
    return made.xml_bytes()


PASSWORD = "12345678a"


@cache
def issuer_body():
    """The request that sets the test issuer with a certificate, as JSON's values."""
    return issuer_body_of(generate_csd(RFC, LEGAL_NAME, NUMBER))


def issuer_body_of(csd, **changes):
    return {
        "rfc": RFC,
        "taxSystem": "601",
        "zipCode": "42501",
        "certificate": b64encode(csd.certificate).decode(),
        "privateKey": b64encode(locked_key(csd, PASSWORD)).decode(),
        "password": PASSWORD,
    } | changes


def keys():
    """The merchant and the id of a new document."""
    return {"merchant_id": uuid4(), "document_id": uuid4()}
