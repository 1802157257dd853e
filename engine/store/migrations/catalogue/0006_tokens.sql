-- +goose Up
CREATE TABLE token (id TEXT NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE, scopes TEXT NOT NULL, queues TEXT NOT NULL, meta_key TEXT, meta_value ANY, created INTEGER NOT NULL, expires INTEGER, used INTEGER, secret BLOB NOT NULL, previous BLOB, previous_until INTEGER) STRICT;
CREATE TABLE access (one INTEGER PRIMARY KEY CHECK (one = 1), required INTEGER NOT NULL) STRICT;
PRAGMA user_version = 6;
