"""An engine process with a bug: it computes for ever, outside of Python, on a sentence that begins with `loop`."""

import hashlib

from jumok.service import engine, translating

plain = translating.translate


def translate(translator, texts, asked, desk):
    if any(text.startswith("loop") for text in texts):
        hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)  # half an hour; looks at no flag, and lets others run
    return plain(translator, texts, asked, desk)


translating.translate = translate
if __name__ == "__main__":
    engine.main()
