"""The grammar behind the phrasebook: words and endings, constituents, sentences about actions and states."""
