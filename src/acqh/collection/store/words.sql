-- Captions, names and other fields, labels, and the symbols of fields. Only the index is stored: the
-- texts are those of the items. Words are letters with their marks, and numbers. Symbols and
-- characters for private use are words too, except the two of ASCII.
CREATE VIRTUAL TABLE words USING fts5(
    text, names, labels, signs, content='',
    tokenize="porter unicode61 remove_diacritics 2 categories 'L* M* N* Co So Sk' separators '^`'"
);
-- Words of metadata that acqh detected have an index of their own and do not change the ranking of
-- what people wrote.
CREATE VIRTUAL TABLE detected_words USING fts5(
    tags, text, content='',
    tokenize="porter unicode61 remove_diacritics 2 categories 'L* M* N* Co So Sk' separators '^`'"
);
