"""The printed form of a stamped document. Its amounts are read from the XML alone, so that it shows the stamped ones.

In reading order:

- `printable`: what a page shows, read from the XML. `notes`: what it shows beside. `catalogs`: the names of SAT's
  codes.
- `words`: labels, numbers and dates in Spanish and English; amounts in words.
- `render`: the whole PDF. `head`, `tables`, `totals`: its parts. `page`: a document while it is drawn. `canvas`: texts,
  colours and boxes.
- `file`: the file format, with embedded fonts and pictures. `fonts`: the outlines that a document embeds.
  `prepare_fonts`: made them from the files of DejaVu.
"""
