-- +goose Up
CREATE TABLE content_page (n INTEGER PRIMARY KEY, crc INTEGER NOT NULL, bytes BLOB NOT NULL) STRICT;
PRAGMA user_version = 7;
