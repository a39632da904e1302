-- Rowid tables with a unique text key: WITHOUT ROWID costs an overflow page a row at this size.
-- `body` is the whole value as JSON; the other columns are what SQL has to compare or find.
CREATE TABLE record (
    key      INTEGER PRIMARY KEY,
    id       TEXT    NOT NULL UNIQUE,
    revision INTEGER NOT NULL,
    name     TEXT    NOT NULL,
    body     TEXT    NOT NULL
);

CREATE TABLE workspace (
    key      INTEGER PRIMARY KEY,
    id       TEXT    NOT NULL UNIQUE,
    revision INTEGER NOT NULL,
    name     TEXT    NOT NULL,
    body     TEXT    NOT NULL
);

CREATE TABLE tombstone (
    key  INTEGER PRIMARY KEY,
    id   TEXT    NOT NULL UNIQUE,
    body TEXT    NOT NULL
);

-- The oldest events are removed and never the newest, so a plain rowid never comes twice.
CREATE TABLE event (
    sequence INTEGER PRIMARY KEY,
    sandbox  TEXT,
    body     TEXT NOT NULL
);

CREATE TABLE meta (
    key  INTEGER PRIMARY KEY CHECK (key = 1),
    body TEXT NOT NULL
);

-- Holds zeros for a moment only: what it leaves on the free list is the space kept for a full disk.
CREATE TABLE filler (
    key  INTEGER PRIMARY KEY,
    body BLOB NOT NULL
);

-- How often the database was opened for writing: see life.rs.
CREATE TABLE opening (
    key    INTEGER PRIMARY KEY CHECK (key = 1),
    number INTEGER NOT NULL
);
