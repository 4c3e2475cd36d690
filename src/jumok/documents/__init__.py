"""Documents: text with its markup to sentences, and their translations to a document of the same kind.

    document = documents.read_file("page.html", content, "en")
    [segment.text for segment in document.segments]
    document.render(translations)

Nothing here translates, waits or listens: engines and servers call it.  A format (formats.py) makes items (items.py); a
passage (passages.py) finds sentences in them (sentences.py), takes markup and placeholders out (reading.py), and puts
them back (placement.py, writing.py).  Also here: glossaries, jobs and corrections on disk, and checks of answers.

Level 4.  Read first: segments.py, passages.py.
"""

from jumok.documents.formats import FORMATS, File, Format, find_format, read_file
from jumok.documents.html import read_html
from jumok.documents.plain import read_text
from jumok.documents.segments import Document, Segment
from jumok.documents.sentences import Fits, Splitter, split_sentences
from jumok.documents.xml import read_xml

__all__ = [
    "FORMATS",
    "Document",
    "File",
    "Fits",
    "Format",
    "Segment",
    "Splitter",
    "find_format",
    "read_file",
    "read_html",
    "read_text",
    "read_xml",
    "split_sentences",
]
