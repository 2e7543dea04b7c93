-- Tables of a collection. Every item and every removal takes the next change number; an item keeps
-- its number.
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE items (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    text TEXT NOT NULL,
    labels TEXT NOT NULL,
    fields TEXT NOT NULL,
    encoded_from TEXT NOT NULL,
    code BLOB NOT NULL,
    checksum INTEGER NOT NULL
);
-- This index and that of thumbnails count items without reading them.
CREATE INDEX items_encoded_from ON items (encoded_from);
CREATE TABLE thumbnails (
    number INTEGER PRIMARY KEY REFERENCES items ON DELETE CASCADE,
    thumbnail BLOB NOT NULL,
    checksum INTEGER NOT NULL
);
CREATE INDEX thumbnails_by_checksum ON thumbnails (checksum);
CREATE TABLE tracked_files (
    number INTEGER PRIMARY KEY REFERENCES items ON DELETE CASCADE,
    folder TEXT NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (name, folder)
);
-- Tracked files whose items were removed. After a sync they keep the metadata, to restore it; after
-- a removal by people, the file alone (is_final).
CREATE TABLE tombstones (
    number INTEGER PRIMARY KEY,
    folder TEXT NOT NULL,
    name TEXT NOT NULL,
    sha256 TEXT NOT NULL,
    text TEXT NOT NULL,
    labels TEXT NOT NULL,
    fields TEXT NOT NULL,
    is_final INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    UNIQUE (folder, name, sha256)
);
CREATE TABLE removals (revision INTEGER PRIMARY KEY, number INTEGER NOT NULL);
-- Each label and field of an item, in the order of SQLite: numbers exactly, before texts. Other
-- values follow as bytes: null is empty, and a whole number that neither 64 bits nor a real number
-- can hold is its digits.
CREATE TABLE item_values (
    name TEXT NOT NULL,
    value NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (name, value, number)
) WITHOUT ROWID;
-- Metadata that acqh detected, as JSON.
CREATE TABLE detected (
    number INTEGER PRIMARY KEY REFERENCES items ON DELETE CASCADE,
    metadata TEXT NOT NULL,
    checksum INTEGER NOT NULL
);
