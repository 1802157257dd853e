-- +goose Up
CREATE TABLE aside (kind INTEGER NOT NULL, key INTEGER NOT NULL, crc INTEGER NOT NULL, bytes BLOB NOT NULL) STRICT;
CREATE UNIQUE INDEX aside_key ON aside (kind, key);
PRAGMA user_version = 4;
