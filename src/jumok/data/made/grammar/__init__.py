"""The grammar of the phrasebook.  Each file imports only those before it:

endings      Korean particles and conjugation
words        nouns, places, verbs, adjectives     scenes       where things are
people       names, relatives, titles, jobs      numerals   numbers, prices, days, times, events
frames       which words fit which verb
draft        a sentence under construction, its two languages linked by bits
predicates   tense, mood, negation and respect in both languages
nouns        people, things, places          times   days, hours, dates
actions      the clause and its parts
statements   questions   appeals (requests, suggestions)
states       qualities, possession, places   comparisons   occasions   weather and calendar
greetings    causes       what people do for which reason
clauses      because, if, when   relatives    who, that
"""
