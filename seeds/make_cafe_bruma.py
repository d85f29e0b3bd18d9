"""Writes `cafe_bruma.jsonl`: five months of a coffee roaster in Coatepec, Veracruz, with a web shop, a club and cafés to supply.

Keep its output the same on any Python and on any day. Chance comes from `random()` alone, whose sequence is guaranteed,
and no function reads the present date.

    python seeds/make_cafe_bruma.py            # write the scenario
    python seeds/make_cafe_bruma.py --check    # exit 1 if the file differs from what would be written

All persons and companies are invented. E-mail addresses end with example.com, telephone numbers and IP addresses come
from ranges that are never assigned, and the cards are the published test cards.
"""

# ruff: noqa: INP001 - a script, not a package

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import date, datetime, timedelta
from datetime import time as clock
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeVar
from zoneinfo import ZoneInfo

from stdnum.mx import rfc

T = TypeVar("T")
Body = dict[str, Any]

SCENARIO = Path(__file__).with_name("cafe_bruma.jsonl")
MERCHANT = "Café Bruma Alta"
ZONE = ZoneInfo("America/Mexico_City")
FIRST_DAY, LAST_DAY = date(2026, 6, 15), date(2026, 11, 15)
BUEN_FIN = date(2026, 11, 13)
MONTHS = {6: "junio", 7: "julio", 8: "agosto", 9: "septiembre", 10: "octubre", 11: "noviembre"}


class Product(NamedTuple):
    """What is sold. `price` in centavos with its tax; roasted coffee bears IVA at 0 %, as food does."""

    sku: str
    name: str
    price: int
    iva: float
    product_key: str
    unit: tuple[str, str] = ("H87", "Pieza")


COFFEE, MAKER, CUP, TOOL, COURSE, PARCEL = "50201706", "52141526", "52152100", "52151600", "86101700", "78102200"
SERVICE = ("E48", "Unidad de servicio")
KILO = ("KGM", "Kilogramo")

BEANS = [
    Product("BA-COA-340", "Café Coatepec lavado, tueste medio, 340 g, grano", 21900, 0, COFFEE),
    Product("BA-COA-340M", "Café Coatepec lavado, tueste medio, 340 g, molido para prensa", 21900, 0, COFFEE),
    Product("BA-COA-1K", "Café Coatepec lavado, tueste medio, 1 kg, grano", 56500, 0, COFFEE),
    Product("BA-HUA-340", "Café Huatusco honey, tueste claro, 340 g, grano", 25900, 0, COFFEE),
    Product("BA-PLU-340", "Café Pluma Hidalgo, tueste medio, 340 g, grano", 24500, 0, COFFEE),
    Product("BA-CHI-340", "Café Jaltenango orgánico, tueste oscuro, 340 g, grano", 22900, 0, COFFEE),
    Product("BA-GEI-200", "Microlote Geisha, finca El Equimite, 200 g, grano", 48900, 0, COFFEE),
    Product("BA-DES-340", "Café descafeinado al agua, 340 g, grano", 26900, 0, COFFEE),
    Product("BA-ESP-1K", "Mezcla Neblina para espresso, 1 kg, grano", 49800, 0, COFFEE),
]
MUERTOS = Product("BA-MUE-340", "Mezcla Cempasúchil, edición Día de Muertos, 340 g", 27900, 0, COFFEE)
TOOLS = [
    Product("AC-V60-02", "Cono de goteo de cerámica, 02", 54900, 0.16, MAKER),
    Product("AC-FIL-100", "Filtros de papel para cono 02, 100 piezas", 18900, 0.16, TOOL),
    Product("AC-PRE-600", "Prensa francesa de 600 ml", 74900, 0.16, MAKER),
    Product("AC-MOL-MAN", "Molino manual de muelas cónicas", 164900, 0.16, TOOL),
    Product("AC-TAZ-BAR", "Taza de barro de Los Reyes Metzontla, 250 ml", 23900, 0.16, CUP),
    Product("AC-TER-350", "Termo de acero, 350 ml", 45900, 0.16, CUP),
]
SHIPPING = Product("EN-STD", "Envío nacional, 3 a 5 días", 11900, 0.16, PARCEL, SERVICE)
CLUB_BOX = Product("CL-CAJA", "Club Bruma, caja mensual de dos cafés", 42900, 0, COFFEE)
TASTING = Product("CU-CATA", "Cata guiada de cinco orígenes, por persona", 45000, 0.16, COURSE, SERVICE)
BARISTA = Product("CU-BAR1", "Curso de barismo, nivel 1, por persona", 325000, 0.16, COURSE, SERVICE)
WHOLESALE = [
    Product("MY-ESP", "Mezcla Neblina para espresso, a granel", 36800, 0, COFFEE, KILO),
    Product("MY-COA", "Café Coatepec lavado, a granel", 39500, 0, COFFEE, KILO),
    Product("MY-DES", "Café descafeinado al agua, a granel", 45200, 0, COFFEE, KILO),
]
MACHINE = Product("EQ-GS2", "Máquina de espresso de dos grupos, reacondicionada", 8450000, 0.16, MAKER)
GRINDER = Product("EQ-MOL64", "Molino para espresso, muelas de 64 mm", 2190000, 0.16, MAKER)
FITTING = Product("EQ-INST", "Instalación y capacitación en sitio", 640000, 0.16, COURSE, SERVICE)
GREEN_USD = [  # in US cents
    Product("EX-COA-G", "Green coffee, Coatepec washed SHG, EP", 985, 0, COFFEE, KILO),
    Product("EX-HUA-G", "Green coffee, Huatusco honey microlot", 1240, 0, COFFEE, KILO),
]

PLACES = [  # city, state, postal code, streets
    ("Coatepec", "Veracruz", "91500", ["Jiménez del Campillo", "Miguel Lerdo", "Zaragoza"]),
    ("Xalapa", "Veracruz", "91000", ["Xalapeños Ilustres", "Primo Verdad", "Úrsulo Galván"]),
    ("Veracruz", "Veracruz", "91700", ["Independencia", "Arista", "Mario Molina"]),
    ("Ciudad de México", "Ciudad de México", "06700", ["Álvaro Obregón", "Orizaba", "Colima", "Tonalá"]),
    ("Ciudad de México", "Ciudad de México", "04100", ["Francisco Sosa", "Malintzin", "Centenario"]),
    ("Ciudad de México", "Ciudad de México", "03100", ["Adolfo Prieto", "Gabriel Mancera", "Pilares"]),
    ("Puebla", "Puebla", "72000", ["5 de Mayo", "16 de Septiembre", "Reforma"]),
    ("Oaxaca de Juárez", "Oaxaca", "68000", ["Macedonio Alcalá", "Porfirio Díaz", "Reforma"]),
    ("Guadalajara", "Jalisco", "44160", ["Chapultepec", "Libertad", "Lerdo de Tejada"]),
    ("Monterrey", "Nuevo León", "64000", ["Padre Mier", "Zaragoza", "Matamoros"]),
    ("Querétaro", "Querétaro", "76000", ["Corregidora", "Madero", "Pasteur"]),
    ("Mérida", "Yucatán", "97000", ["Calle 60", "Calle 47", "Paseo de Montejo"]),
]
GIVEN_NAMES = [
    "Ana", "Lucía", "Ximena", "Mariana", "Fernanda", "Itzel", "Carmen", "Regina", "Paola", "Jimena", "Citlali", "Rosa",
    "Diego", "Emiliano", "Rodrigo", "Santiago", "Arturo", "Iván", "Gerardo", "Mateo", "Raúl", "Óscar", "Joaquín", "Luis",
]  # fmt: skip
SURNAMES = [
    "Hernández", "García", "Martínez", "López", "González", "Rodríguez", "Pérez", "Sánchez", "Ramírez", "Cruz", "Flores",
    "Gómez", "Morales", "Vázquez", "Reyes", "Jiménez", "Torres", "Díaz", "Gutiérrez", "Mendoza", "Aguilar", "Ortiz",
    "Castillo", "Ruiz", "Domínguez", "Xicoténcatl", "Zamora", "Lagunes", "Utrera", "Viveros",
]  # fmt: skip
COMPANIES = [  # short name, legal name, letters of the tax number, days to pay
    ("La Parroquia Nueva", "Cafeterías La Parroquia Nueva", "CPN", 30),
    ("Pan y Nube", "Panadería Artesanal Pan y Nube", "PPN", 15),
    ("Hotel Mesón de Niebla", "Operadora Hotelera Mesón de Niebla", "OHM", 30),
    ("Casa Jacaranda", "Restaurante Casa Jacaranda", "RCJ", 15),
    ("Librería El Faro", "Librería y Café El Faro", "LCF", 15),
    ("Cowork Araucarias", "Espacios Compartidos Araucarias", "ECA", 30),
    ("Tostada y Media", "Desayunos Tostada y Media", "DTM", 15),
    ("El Trapiche", "Comercializadora El Trapiche", "CTR", 30),
    ("Café Umbral", "Cafés Umbral de Puebla", "CUP", 30),
    ("Gelatería Volcán", "Helados Artesanales Volcán", "HAV", 15),
]
EXPORT = [  # name, mail, street, city, state, postal code, country
    ("Lone Star Green Importers", "purchasing", "1200 E 6th St", "Austin", "TX", "78702", "US"),
    ("Cascadia Roasting Co.", "green", "845 NE Alberta St", "Portland", "OR", "97211", "US"),
    ("Laurentide Torréfaction", "achats", "55 Rue Saint-Viateur O", "Montréal", "QC", "H2T2L1", "CA"),
]
CARDS = [
    "4242424242424242", "4111111111111111", "5555555555554444", "4000056655665556", "5200828282828210",
    "2223003122003222", "5105105105105100", "378282246310005", "4000004840008001", "5062210000000009",
]  # fmt: skip
COMPANY_CARDS = ["5555555555554444", "378282246310005", "4000056655665556"]
NO_FUNDS, NO_REASON, EXPIRED, WRONG_CVC = "4000000000009995", "4000000000000002", "4000000000000069", "4000000000000127"
CHALLENGE, DEVICE_DATA, DEVICE_THEN_CHALLENGE = "4000000000003220", "4000000000003055", "4000000000003063"
LOST, RISKY, NO_ISSUER, SILENT, HALF = (
    "4000000000009987", "4100000000000019", "4000000000009235", "4000000000000119", "4000000000000010",
)  # fmt: skip
AGENTS = [
    "Mozilla/5.0 (iPhone; CPU iPhone OS 19_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Mobile/15E148",
    "Mozilla/5.0 (Linux; Android 16; SM-A556E) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/137.0 Mobile Safari/537.36",
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/137.0 Safari/537.36",
    "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/19.0 Safari/605.1.15",
]
SCREENS = [("390", "844"), ("412", "915"), ("1920", "1080"), ("1512", "982")]
NOTES = ["Es regalo, sin precio en la caja", "Dejar con el vigilante", "Moler para moka, por favor", "Timbre 2"]


class Chance:
    """Dice that fall the same way on every Python."""

    def __init__(self, seed: int) -> None:
        self._next = Random(seed).random

    def happens(self, probability: float) -> bool:
        return self._next() < probability

    def whole(self, least: int, most: int) -> int:
        return least + int(self._next() * (most - least + 1))

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self._next() * len(options))]

    def regular(self, options: Sequence[T]) -> T:
        """One of them, the first ones far more often: the way customers come back."""
        return options[int(self._next() ** 2.4 * len(options))]


class Payer(NamedTuple):
    """A customer with what stays the same from order to order."""

    customer: Body
    address: Body
    card: str
    expiry: tuple[str, str]
    holder: str
    fiscal: Body
    days_to_pay: int = 0


def plain(text: str) -> str:
    """A text in the letters of a mail address or a tax number."""
    return text.lower().translate(str.maketrans("áéíóúüñ ", "aeiouun."))


def mexican(dice: Chance) -> Body:
    city, state, code, streets = dice.pick(PLACES)
    address = f"{dice.pick(streets)} {dice.whole(3, 480)}"
    return {"address": address, "city": city, "state": state, "postalCode": code, "country": "MX"}


def tax_number(dice: Chance, letters: str, oldest: int, youngest: int) -> str:
    """A tax number that has the right form and a right check digit, and belongs to nobody that we know of."""
    alphabet = "ABCDEFGHJKLMNPQRSTUVWXYZ123456789"
    while True:
        day = f"{dice.whole(oldest, youngest) % 100:02}{dice.whole(1, 12):02}{dice.whole(1, 28):02}"
        number = letters + day + dice.pick(alphabet) + dice.pick(alphabet)
        number += rfc.calc_check_digit(number)
        if rfc.is_valid(number, validate_check_digits=True):
            return number
        letters = letters[:-1] + "X"  # some letters spell words that are never given


def expiry(dice: Chance) -> tuple[str, str]:
    return f"{dice.whole(1, 12):02}", str(dice.whole(2031, 2036))


def person(dice: Chance, number: int) -> Payer:
    given, one, two = dice.pick(GIVEN_NAMES), dice.pick(SURNAMES), dice.pick(SURNAMES)
    address = mexican(dice)
    vowel = next(letter for letter in plain(one)[1:] if letter in "aeiou")
    letters = f"{plain(one)[0]}{vowel}{plain(two)[0]}{plain(given)[0]}".upper()
    system = dice.pick(["612", "626", "605"])
    mail = f"{plain(given)}.{plain(one)}{number}@example.com"
    return Payer(
        customer={
            "externalId": f"CLI-{number:04}",
            "firstName": given,
            "lastName": f"{one} {two}",
            "email": mail,
            "phoneNumber": f"+522280000{number:03}",
        },
        address=address,
        card=dice.regular(CARDS),
        expiry=expiry(dice),
        holder=plain(f"{given} {one}").replace(".", " ").upper(),
        fiscal={
            "taxId": tax_number(dice, letters, 1958, 1999),
            "legalName": f"{given} {one} {two}".upper(),
            "taxSystem": system,
            "cfdiUse": "S01" if system == "605" else "G03",  # who earns wages has nothing to deduct it from
            "zipCode": address["postalCode"],
            "email": mail,
        },
    )


def company(dice: Chance, number: int) -> Payer:
    short, legal, letters, days = COMPANIES[number]
    mail = f"compras@{plain(short).replace('.', '-')}.example.com"
    address = mexican(dice)
    given, surname = dice.pick(GIVEN_NAMES), dice.pick(SURNAMES)
    return Payer(
        customer={
            "externalId": f"MAY-{number + 1:03}",
            "firstName": given,
            "lastName": f"{surname} ({short})",
            "email": mail,
            "phoneNumber": f"+522280001{number:03}",
        },
        address=address,
        card=dice.pick(COMPANY_CARDS),
        expiry=expiry(dice),
        holder=plain(short).replace(".", " ").upper(),
        fiscal={
            "taxId": tax_number(dice, letters, 2002, 2021),
            "legalName": legal.upper(),
            "taxSystem": "601",
            "cfdiUse": "G01",
            "zipCode": address["postalCode"],
            "email": mail,
            "paymentForm": "04",
        },
        days_to_pay=days,
    )


def importer(dice: Chance, number: int) -> Payer:
    name, box, address, city, state, code, country = EXPORT[number]
    domain = plain(name.split()[0])
    return Payer(
        customer={
            "externalId": f"EXP-{number + 1:03}",
            "firstName": "Green",
            "lastName": name,
            "email": f"{box}@{domain}.example.com",
        },
        address={"address": address, "city": city, "state": state, "postalCode": code, "country": country},
        card=COMPANY_CARDS[number],
        expiry=expiry(dice),
        holder=name.upper().rstrip("."),
        fiscal={},
    )


def line(product: Product, quantity: float, price: int | None = None) -> Body:
    unit_key, unit_name = product.unit
    return {
        "sku": product.sku,
        "description": product.name,
        "quantity": quantity,
        "unitPrice": product.price if price is None else price,
        "productKey": product.product_key,
        "unitKey": unit_key,
        "unitName": unit_name,
        "taxIncluded": True,
        "taxes": [{"type": "IVA", "rate": product.iva}],
    }


def total(lines: Sequence[Body]) -> int:
    return int(sum(item["quantity"] * item["unitPrice"] for item in lines))


def by_card(payer: Payer, number: str | None = None) -> Body:
    number = number or payer.card
    month, year = payer.expiry
    return {
        "type": "card",
        "cardDetails": {
            "number": number,
            "expiryMonth": month,
            "expiryYear": year,
            "cvc": "1234" if number.startswith("37") else "123",
            "cardholderName": payer.holder,
        },
    }


class Scenario:
    """Collects the lines with their times; `number` counts each kind of order separately."""

    def __init__(self, dice: Chance) -> None:
        self.dice = dice
        self.lines: list[tuple[datetime, Body]] = []
        self._numbers: dict[str, int] = {}

    def number(self, kind: str, first: int) -> int:
        self._numbers[kind] = self._numbers.get(kind, first - 1) + 1
        return self._numbers[kind]

    def add(self, at: datetime, do: str, body: Body, **more: str) -> None:
        if at.date() <= LAST_DAY:
            self.lines.append((at, {"as": MERCHANT, "do": do, "at": at.isoformat(), **more, "body": body}))

    def create(self, payer: Payer, lines: Sequence[Body], **fields: Any) -> Body:
        """Returns an order as it is sent; the caller adds the payment method."""
        return {
            "externalId": fields.pop("externalId"),
            "amount": total(lines),
            "currency": fields.pop("currency", "MXN"),
            "customer": payer.customer,
            "billingAddress": payer.address,
            **fields,
            "lineItems": list(lines),
        }


def moment(dice: Chance, day: date, opens: int, closes: int) -> datetime:
    """A time of that day, by the clock on the shop's wall."""
    seconds = dice.whole(opens * 3600, closes * 3600 - 1)
    return datetime.combine(day, clock(), ZONE) + timedelta(seconds=seconds)


def later(dice: Chance, at: datetime, least_minutes: int, most_minutes: int) -> datetime:
    return at + timedelta(minutes=dice.whole(least_minutes, most_minutes), seconds=dice.whole(0, 59))


def device(dice: Chance) -> Body:
    which = dice.whole(0, len(AGENTS) - 1)
    return {
        "ipAddress": f"203.0.113.{dice.whole(1, 254)}",
        "userAgent": AGENTS[which],
        "httpBrowserLanguage": "es-MX",
        "httpBrowserScreenWidth": SCREENS[which][0],
        "httpBrowserScreenHeight": SCREENS[which][1],
    }


def cart(dice: Chance, day: date) -> list[Body]:
    products: dict[str, Product] = {}
    quantities: dict[str, int] = {}
    for _ in range(dice.whole(1, 3)):
        product = dice.regular(BEANS)
        products[product.sku] = product
        quantities[product.sku] = quantities.get(product.sku, 0) + dice.whole(1, 2)
    if date(2026, 10, 19) <= day <= date(2026, 11, 2) and dice.happens(0.6):
        products[MUERTOS.sku], quantities[MUERTOS.sku] = MUERTOS, dice.whole(1, 3)
    if dice.happens(0.55 if day >= BUEN_FIN else 0.3):
        tool = dice.regular(TOOLS)
        products[tool.sku], quantities[tool.sku] = tool, 1
    lines = [line(product, quantities[sku]) for sku, product in products.items()]
    return lines if total(lines) >= 90000 else [*lines, line(SHIPPING, 1)]


# What goes wrong at the till: how often, by which card, whether and after how many minutes people try again.
TROUBLES: list[tuple[float, str, float, tuple[int, int]]] = [
    (0.050, NO_FUNDS, 0.7, (3, 25)),
    (0.022, WRONG_CVC, 0.9, (1, 4)),
    (0.018, EXPIRED, 0.8, (2, 9)),
    (0.018, NO_REASON, 0.5, (4, 40)),
    (0.012, LOST, 0.0, (0, 0)),
    (0.010, RISKY, 0.0, (0, 0)),
    (0.010, NO_ISSUER, 1.0, (45, 90)),
]


def trouble(dice: Chance) -> tuple[str | None, float, tuple[int, int]]:
    """The card that is refused, or None; the chance of another try; and when that is."""
    for probability, card, again, minutes in TROUBLES:
        if dice.happens(probability):
            return card, again, minutes
    return None, 0, (0, 0)


def web_order(scenario: Scenario, payer: Payer, at: datetime) -> None:
    """Somebody orders coffee in the web shop, and tries again if the card is refused."""
    dice, day = scenario.dice, at.date()
    metadata: Body = {"canal": "web", "carrito": f"c-{dice.whole(0, 16**6):06x}"}
    if day >= BUEN_FIN:
        metadata["campania"] = "buen-fin-2026"
    if dice.happens(0.15):
        metadata["nota"] = dice.pick(NOTES)
    lines = cart(dice, day)
    fields: Body = {
        "externalId": f"WEB-{scenario.number('web', 20417)}",
        "description": f"Pedido en línea, {len(lines)} conceptos",
        "metadata": metadata,
    }
    if dice.happens(0.5):
        fields["deviceInformation"] = device(dice)
    if dice.happens(0.22):
        fields["customerFiscalData"] = payer.fiscal
        fields["invoiceNumber"] = f"B-{scenario.number('b', 3011)}"
    order = scenario.create(payer, lines, **fields)
    refused, again, minutes = trouble(dice)
    scenario.add(at, "create", {**order, "paymentMethod": by_card(payer, refused)})
    if refused is not None and dice.happens(again):
        at = later(dice, at, *minutes)
        if refused == NO_FUNDS and dice.happens(0.25):  # twice unlucky
            scenario.add(at, "create", {**order, "paymentMethod": by_card(payer, NO_REASON)})
            at = later(dice, at, *minutes)
        scenario.add(at, "create", {**order, "paymentMethod": by_card(payer)})


def club_boxes(scenario: Scenario, members: Sequence[Payer]) -> None:
    """The club charges its members once a month, each on the day on which they joined."""
    dice = scenario.dice
    for member in members:
        joined, day = dice.whole(6, 8), dice.whole(1, 27)
        for month in range(joined, 12):
            due = date(2026, month, day)
            if not FIRST_DAY <= due < LAST_DAY or dice.happens(0.04):
                continue
            at = datetime.combine(due, clock(6, 5), ZONE) + timedelta(seconds=dice.whole(0, 900))
            order = scenario.create(
                member,
                [line(CLUB_BOX, 1)],
                externalId=f"CLUB-2026{month:02}-{member.customer['externalId'][4:]}",
                description=f"Club Bruma, caja de {MONTHS[month]}",
                virtualTerminal=True,
                metadata={"canal": "club", "periodo": f"2026-{month:02}"},
            )
            tries = dice.whole(1, 3) if dice.happens(0.12) else 0
            for _ in range(tries):
                scenario.add(at, "create", {**order, "paymentMethod": by_card(member, NO_FUNDS)})
                at += timedelta(days=2)
            if tries < 3:
                scenario.add(at, "create", {**order, "paymentMethod": by_card(member)})


def wholesale_order(scenario: Scenario, cafe: Payer, day: date) -> None:
    """A café orders by the kilo, gets an invoice, and pays before it is due, after that, or not yet."""
    dice = scenario.dice
    at = moment(dice, day, 9, 14)
    lines = [line(WHOLESALE[0], dice.whole(8, 40) / 2)]
    lines += [line(product, dice.whole(2, 12)) for product in WHOLESALE[1:] if dice.happens(0.4)]
    due = datetime.combine(day + timedelta(days=cafe.days_to_pay), clock(23, 59, 59), ZONE)
    number = f"A-{scenario.number('a', 1042)}"
    order = scenario.create(
        cafe,
        lines,
        externalId=f"MAYOREO-{number[2:]}",
        description=f"Pedido de mayoreo, {cafe.days_to_pay} días de crédito",
        invoiceNumber=number,
        dueDate=due.isoformat(),
        customerFiscalData=cafe.fiscal,
        metadata={"canal": "mayoreo", "ruta": dice.pick(["Xalapa-Coatepec", "Puebla", "Puerto", "CDMX"])},
        pending=True,
    )
    scenario.add(at, "create", order)
    if dice.happens(0.07):
        return  # still owed when the scenario ends
    days = dice.whole(2, cafe.days_to_pay - 1) if dice.happens(0.8) else cafe.days_to_pay + dice.whole(1, 18)
    paid = moment(dice, day + timedelta(days=days), 9, 18)
    if dice.happens(0.1):
        scenario.add(paid, "charge", pay(cafe, dice.pick([NO_FUNDS, NO_REASON])), order=order["externalId"])
        paid += timedelta(days=1)
    scenario.add(paid, "charge", pay(cafe), order=order["externalId"])


def pay(payer: Payer, card: str | None = None, **fields: Any) -> Body:
    """The body of a charge."""
    return {"paymentMethod": by_card(payer, card), "billingAddress": payer.address, **fields}


def equipment_order(scenario: Scenario, cafe: Payer, day: date, parts: Sequence[tuple[int, int, str | None]]) -> None:
    """A machine on instalments. `parts` are days after the order, percent of the amount (0 for the rest), and the card."""
    dice = scenario.dice
    at = moment(dice, day, 10, 14)
    lines = [line(GRINDER, 1)]
    if dice.happens(0.5):
        lines = [line(MACHINE, 1), *lines, line(FITTING, 1)]
    number = f"A-{scenario.number('a', 1042)}"
    order = scenario.create(
        cafe,
        lines,
        externalId=f"EQUIPO-{number[2:]}",
        description="Equipo de espresso, pago en parcialidades",
        invoiceNumber=number,
        dueDate=datetime.combine(day + timedelta(days=90), clock(23, 59, 59), ZONE).isoformat(),
        customerFiscalData=cafe.fiscal,
        metadata={"canal": "mayoreo", "plazo": f"{len(parts)} parcialidades"},
        pending=True,
        allowPartials=True,
    )
    scenario.add(at, "create", order)
    for ordinal, (days, percent, card) in enumerate(parts, start=1):
        paid = moment(dice, day + timedelta(days=days), 10, 17)
        part: Body = {"amount": order["amount"] * percent // 100} if percent else {}
        named = {"externalId": f"{order['externalId']}-{ordinal}", **part}
        scenario.add(paid, "charge", pay(cafe, card, **named), order=order["externalId"])


def export_order(scenario: Scenario, buyer: Payer, day: date) -> None:
    """Green coffee for a roaster abroad, in US dollars."""
    dice = scenario.dice
    at = moment(dice, day, 10, 16)
    number = scenario.number("export", 311)
    order = scenario.create(
        buyer,
        [line(dice.pick(GREEN_USD), 69 * dice.whole(1, 4))],
        externalId=f"EXP-2026-{number}",
        currency="USD",
        description="Green coffee, bags of 69 kg, FOB Veracruz",
        invoiceNumber=f"E-{number}",
        metadata={"canal": "exportacion", "incoterm": "FOB"},
    )
    if dice.happens(0.2):
        scenario.add(at, "create", {**order, "paymentMethod": by_card(buyer, NO_REASON)})
        at = later(dice, at, 20, 180)
    scenario.add(at, "create", {**order, "paymentMethod": by_card(buyer)})


def course_order(scenario: Scenario, payer: Payer, day: date, product: Product) -> None:
    """A place in a course, taken over the counter or by telephone."""
    dice = scenario.dice
    at = moment(dice, day, 11, 19 if day < LAST_DAY else 17)
    order = scenario.create(
        payer,
        [line(product, dice.whole(1, 3))],
        externalId=f"TALLER-{scenario.number('taller', 88)}",
        description=product.name.partition(",")[0],
        virtualTerminal=True,
        metadata={"canal": "mostrador", "sede": "Coatepec"},
        paymentMethod=by_card(payer),
    )
    scenario.add(at, "create", order)


def reserved_lot(scenario: Scenario, payer: Payer, day: date) -> None:
    """A microlot that is reserved on the card and captured when it is shipped."""
    at = moment(scenario.dice, day, 9, 17)
    order = scenario.create(
        payer,
        [line(BEANS[6], scenario.dice.whole(2, 6))],
        externalId=f"APARTADO-{scenario.number('apartado', 7)}",
        description="Apartado de microlote, se cobra al enviar",
        captureMethod="MANUAL",
        metadata={"canal": "web", "entrega": "2026-11-20"},
        paymentMethod=by_card(payer),
    )
    scenario.add(at, "create", order)


def odd_order(scenario: Scenario, payer: Payer, day: date, card: str, *, rest: bool) -> None:
    """An order whose card answers in an unusual way; `rest` pays by another card what is left."""
    dice = scenario.dice
    at = moment(dice, day, 9, 16)
    order = scenario.create(
        payer,
        cart(dice, day),
        externalId=f"WEB-{scenario.number('web', 20417)}",
        description="Pedido en línea",
        metadata={"canal": "web"},
        paymentMethod=by_card(payer, card),
    )
    scenario.add(at, "create", order)
    if rest:
        scenario.add(later(dice, at, 5, 50), "charge", pay(payer), order=order["externalId"])


def by_reference(kind: str, payer: Payer, **fields: Any) -> Body:
    """The body of a charge or a part by transfer or in a store."""
    return {"paymentMethod": {"type": kind}, "billingAddress": payer.address, **fields}


def waiting_order(scenario: Scenario, payer: Payer, day: date, **fields: Any) -> tuple[datetime, Body]:
    """An order of the web shop that is made before it is paid; when, and its body."""
    dice = scenario.dice
    at = moment(dice, day, 8, 18)
    order = scenario.create(
        payer,
        cart(dice, day),
        externalId=f"WEB-{scenario.number('web', 20417)}",
        description="Pedido en línea",
        metadata={"canal": "web"},
        pending=True,
        **fields,
    )
    scenario.add(at, "create", order)
    return at, order


def referenced_order(
    scenario: Scenario, payer: Payer, day: date, kind: str, hours: int | None, *, back: bool = False
) -> None:
    """Somebody pays by transfer or in a store, so many hours later or never; `back` gives a part of it back."""
    dice = scenario.dice
    at, order = waiting_order(scenario, payer, day)
    name = order["externalId"]
    scenario.add(later(dice, at, 1, 9), "charge", by_reference(kind, payer), order=name)
    if hours is None:
        return
    paid = at + timedelta(hours=hours, minutes=dice.whole(10, 50))
    scenario.add(paid, "deposit", {}, order=name)
    if back:
        refund = {"amount": order["amount"] // 3, "reason": "faltó un paquete"}
        scenario.add(paid + timedelta(days=3), "refund", refund, order=name)


def authenticated_order(scenario: Scenario, payer: Payer, day: date, card: str, *, accepted: bool | None) -> None:
    """A bank that wants to know who pays: the payer accepts, refuses, or (None) closes the window."""
    dice = scenario.dice
    at, order = waiting_order(scenario, payer, day)
    name = order["externalId"]
    at = later(dice, at, 1, 5)
    scenario.add(at, "charge", pay(payer, card), order=name)
    if card != CHALLENGE:
        at += timedelta(seconds=dice.whole(2, 9))
        scenario.add(at, "device-data", {"deviceInformation": device(dice)}, order=name)
    if card != DEVICE_DATA and accepted is not None:
        scenario.add(later(dice, at, 1, 4), "validate", {"accepted": accepted}, order=name)


def shared_order(scenario: Scenario, payers: Sequence[Payer], day: date) -> None:
    """Two who share a parcel: one pays by card, the other by transfer on the next day."""
    dice = scenario.dice
    at, order = waiting_order(scenario, payers[0], day, allowPartials=True)
    name, half = order["externalId"], order["amount"] // 2
    card = pay(payers[0], amount=half, externalId=f"{name}-1")
    transfer = by_reference("spei", payers[1], amount=order["amount"] - half, externalId=f"{name}-2")
    scenario.add(later(dice, at, 2, 9), "payment", card, order=name)
    scenario.add(later(dice, at, 20, 50), "payment", transfer, order=name)
    scenario.add(later(dice, at, 900, 1500), "deposit", {}, order=name)


def returned_order(scenario: Scenario, payer: Payer, day: date, percent: Sequence[int]) -> None:
    """A parcel that comes back, in part or as a whole, after some days."""
    dice = scenario.dice
    at, order = waiting_order(scenario, payer, day)
    name = order["externalId"]
    scenario.add(later(dice, at, 1, 9), "charge", pay(payer), order=name)
    for ordinal, part in enumerate(percent, start=1):
        amount = order["amount"] * part // 100
        refund = {"amount": amount, "reason": dice.pick(["llegó abierto", "devolución", "retraso en la entrega"])}
        returned = moment(dice, day + timedelta(days=4 * ordinal), 10, 17)
        scenario.add(returned, "refund", {**refund, "externalId": f"{name}-D{ordinal}"}, order=name)


def contested_order(scenario: Scenario, payer: Payer, day: date, end: str) -> None:
    """Adds an order whose payer disputes the payment, and the outcome of the dispute."""
    dice = scenario.dice
    at, order = waiting_order(scenario, payer, day)
    name = order["externalId"]
    scenario.add(later(dice, at, 1, 9), "charge", pay(payer), order=name)
    scenario.add(moment(dice, day + timedelta(days=12), 9, 17), "dispute", {"outcome": "OPENED"}, order=name)
    scenario.add(moment(dice, day + timedelta(days=40), 9, 17), "dispute", {"outcome": end}, order=name)


def abandoned_order(scenario: Scenario, payer: Payer, day: date) -> None:
    """Somebody who changes their mind before paying."""
    at, order = waiting_order(scenario, payer, day)
    cancel = {"reason": "el cliente se arrepintió"}
    scenario.add(later(scenario.dice, at, 30, 600), "cancel", cancel, order=order["externalId"])


def shipped_lot(scenario: Scenario, payer: Payer, day: date) -> None:
    """A microlot that was reserved on the card and is captured when it is shipped, three days later."""
    at = moment(scenario.dice, day, 9, 17)
    order = scenario.create(
        payer,
        [line(BEANS[6], 4)],
        externalId=f"APARTADO-{scenario.number('apartado', 7)}",
        description="Apartado de microlote, se cobra al enviar",
        captureMethod="MANUAL",
        metadata={"canal": "web"},
        paymentMethod=by_card(payer),
    )
    scenario.add(at, "create", order)
    scenario.add(moment(scenario.dice, day + timedelta(days=3), 9, 17), "capture", {}, order=order["externalId"])


def what_else_happens(scenario: Scenario, people: Sequence[Payer]) -> None:
    """Transfers and cash, banks that ask who pays, shared parcels, returns, disputes, and people who change their minds."""
    for ordinal, (day, kind, hours, back) in enumerate(REFERENCES):
        referenced_order(scenario, people[50 + ordinal], day, kind, hours, back=back)
    for ordinal, (day, card, accepted) in enumerate(AUTHENTICATIONS):
        authenticated_order(scenario, people[70 + ordinal], day, card, accepted=accepted)
    for ordinal, day in enumerate([date(2026, 8, 4), date(2026, 9, 29), date(2026, 11, 3)]):
        shared_order(scenario, people[80 + 2 * ordinal : 82 + 2 * ordinal], day)
    for ordinal, (day, percent) in enumerate(RETURNS):
        returned_order(scenario, people[90 + ordinal], day, percent)
    contested_order(scenario, people[100], date(2026, 8, 11), "LOST")
    contested_order(scenario, people[101], date(2026, 9, 2), "WON")
    contested_order(scenario, people[102], date(2026, 10, 30), "LOST")  # still open when the scenario ends
    for ordinal, day in enumerate([date(2026, 7, 30), date(2026, 10, 21)]):
        abandoned_order(scenario, people[105 + ordinal], day)
    shipped_lot(scenario, people[108], date(2026, 10, 6))


# Who pays by transfer or in a store: when, how, after how many hours (None: never), and whether a part goes back.
REFERENCES: list[tuple[date, str, int | None, bool]] = [
    (date(2026, 7, 2), "spei", 3, False),
    (date(2026, 7, 21), "paycash", 26, False),
    (date(2026, 8, 13), "spei", 1, True),
    (date(2026, 8, 27), "cie_cash_net", 20, False),
    (date(2026, 9, 10), "paycash", None, False),
    (date(2026, 9, 22), "spei", 200, False),
    (date(2026, 10, 8), "paycash", 44, True),
    (date(2026, 10, 27), "spei", None, False),
    (date(2026, 11, 5), "cie_cash_net", 5, False),
    (date(2026, 11, 14), "spei", 2, False),
]
AUTHENTICATIONS: list[tuple[date, str, bool | None]] = [
    (date(2026, 7, 9), CHALLENGE, True),
    (date(2026, 8, 6), DEVICE_DATA, True),
    (date(2026, 9, 3), DEVICE_THEN_CHALLENGE, True),
    (date(2026, 10, 1), CHALLENGE, False),
    (date(2026, 10, 29), CHALLENGE, None),
    (date(2026, 11, 13), DEVICE_THEN_CHALLENGE, True),
]
RETURNS: list[tuple[date, list[int]]] = [
    (date(2026, 7, 14), [100]),
    (date(2026, 8, 20), [30]),
    (date(2026, 9, 17), [25, 75]),
    (date(2026, 10, 15), [100]),
    (date(2026, 11, 6), [50]),
]


def days(first: date, last: date) -> Iterator[date]:
    for ordinal in range(first.toordinal(), last.toordinal() + 1):
        yield date.fromordinal(ordinal)


def web_shop(scenario: Scenario, people: Sequence[Payer]) -> None:
    """A web shop that grows: one order a day in June, three in November, and many more on the Buen Fin weekend."""
    for day in days(FIRST_DAY, LAST_DAY):
        grown = (day - FIRST_DAY).days / (LAST_DAY - FIRST_DAY).days
        orders = 9 if day >= BUEN_FIN else int(0.8 + 1.3 * grown + scenario.dice.whole(0, 100) / 100)
        known = people[: int(24 + grown * (len(people) - 24))]
        for at in sorted(moment(scenario.dice, day, 7, 23 if day < LAST_DAY else 17) for _ in range(orders)):
            web_order(scenario, moved(scenario.dice.regular(known), day), at)


# Machines on instalments: which café, when, and its parts as `equipment_order` takes them.
EQUIPMENT: list[tuple[int, date, list[tuple[int, int, str | None]]]] = [
    (1, date(2026, 7, 6), [(0, 40, None), (30, 30, None), (61, 0, None)]),
    (4, date(2026, 9, 21), [(1, 50, None), (31, 30, NO_FUNDS), (33, 30, None)]),
    (8, date(2026, 10, 12), [(2, 25, None), (30, 25, None)]),
]


def supply(scenario: Scenario, cafes: Sequence[Payer]) -> None:
    """Every café orders once or twice a month; invoices are numbered day by day over all of them."""
    visits: list[tuple[date, Payer]] = []
    for cafe in cafes:
        day = FIRST_DAY + timedelta(days=scenario.dice.whole(0, 13))
        while day < LAST_DAY:
            visits.append((day, cafe))
            day += timedelta(days=scenario.dice.whole(14, 30))
    machines = {day: (cafes[cafe], parts) for cafe, day, parts in EQUIPMENT}
    for day in days(FIRST_DAY, LAST_DAY):
        for cafe in [cafe for visited, cafe in visits if visited == day]:
            wholesale_order(scenario, cafe, day)
        if day in machines:
            cafe, parts = machines[day]
            equipment_order(scenario, cafe, day, parts)


def moved(payer: Payer, day: date) -> Payer:
    """Some people get another telephone in September."""
    number = int(payer.customer["externalId"][4:])
    if number % 9 or day < date(2026, 9, 1):
        return payer
    return payer._replace(customer={**payer.customer, "phoneNumber": f"+522280002{number:03}"})


def the_story() -> list[Body]:
    """Every line, in the order of time."""
    dice = Chance(20260615)
    people = [person(dice, number) for number in range(1, 141)]
    cafes = [company(dice, number) for number in range(len(COMPANIES))]
    buyers = [importer(dice, number) for number in range(len(EXPORT))]
    scenario = Scenario(dice)
    opening = datetime.combine(FIRST_DAY, clock(5, 30), ZONE)
    settings = {"timeZone": ZONE.key, "requestsPerMinute": 1200, "requestsPerSecond": 100}
    scenario.add(opening, "register", settings)
    web_shop(scenario, people)
    club_boxes(scenario, people[2:30:2])
    supply(scenario, cafes)
    for ordinal in range(9):
        export_order(scenario, buyers[ordinal % 3], FIRST_DAY + timedelta(days=9 + 16 * ordinal))
    for week in range(2, 21):
        product = BARISTA if week % 3 == 0 else TASTING
        course_order(scenario, dice.regular(people), FIRST_DAY + timedelta(days=7 * week + 5), product)
    for ordinal, day in enumerate([date(2026, 11, 10), date(2026, 11, 12), date(2026, 11, 14)]):
        reserved_lot(scenario, people[5 + ordinal], day)
    odd_order(scenario, people[40], date(2026, 8, 19), HALF, rest=True)
    odd_order(scenario, people[41], date(2026, 10, 3), HALF, rest=False)
    odd_order(scenario, people[42], date(2026, 9, 9), SILENT, rest=False)
    what_else_happens(scenario, people)
    return [body for _, body in sorted(scenario.lines, key=lambda line: line[0])]


def main() -> None:
    lines = [json.dumps(body, ensure_ascii=False, separators=(",", ":")) + "\n" for body in the_story()]
    content = "".join(lines).encode()
    if "--check" in sys.argv:
        sys.exit(0 if SCENARIO.read_bytes() == content else f"{SCENARIO} is not what this script writes")
    SCENARIO.write_bytes(content)


if __name__ == "__main__":
    main()
