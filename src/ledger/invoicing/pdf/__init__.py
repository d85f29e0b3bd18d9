"""The printed form of a stamped document. It is made from the XML alone, so that it shows exactly the stamped values.

In reading order:

- `printable`: what a page shows, read from the XML. `catalogs`: the names of SAT's codes.
- `words`: labels, numbers and dates in Spanish and English; amounts in words.
- `render`: the whole PDF. `head`, `tables`, `totals`: its parts. `page`: a document while it is drawn. `canvas`: fonts,
  colours and boxes.
"""
