"""The grammar behind the phrasebook.  Each file reads only those before it:

endings      Korean particles and conjugation
words        nouns, places, verbs, adjectives, people, numbers, times
frames       which words may stand around which verb
draft        a sentence in the making, its two languages linked by bits
predicates   tense, mood, negation and respect in both languages
nouns        people, things, places          times   days, hours, dates
actions      statements   questions   appeals (requests, suggestions)
states       qualities, possession, places   occasions   weather and calendar
"""
