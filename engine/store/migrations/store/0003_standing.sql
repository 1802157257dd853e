-- +goose Up
CREATE TABLE standing (name TEXT PRIMARY KEY, crc INTEGER NOT NULL, state BLOB NOT NULL) STRICT;
PRAGMA user_version = 3;
