-- +goose Up
CREATE TABLE schedule (name TEXT NOT NULL UNIQUE, crc INTEGER NOT NULL, bytes BLOB NOT NULL) STRICT;
PRAGMA user_version = 2;
