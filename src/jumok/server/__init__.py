"""HTTP: the translator as a server that existing clients can use.

    jumok serve runs/tiny

One file per API (libretranslate, deepl, immersive, google, completions, own), each a small adapter over one path from
texts to translations (translating.py).  Everything that is common to them happens once, in app.py: hosts, origins,
keys, limits, errors, metrics and logs.  What a request and an answer look like is a pydantic model, from which the
OpenAPI description is made.  The front never loads torch.

Level 11.  Read first: app.py, then libretranslate.py.  Engines, queues and models by name are in service/, formats and
glossaries in documents/.
"""
