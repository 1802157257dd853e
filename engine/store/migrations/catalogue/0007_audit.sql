-- +goose Up
CREATE TABLE audit (shard INTEGER NOT NULL, number INTEGER NOT NULL, at INTEGER NOT NULL, queue TEXT NOT NULL, crc INTEGER NOT NULL, bytes BLOB NOT NULL) STRICT;
CREATE UNIQUE INDEX audit_number ON audit (shard, number);
CREATE INDEX audit_at ON audit (at, shard, number);
PRAGMA user_version = 7;
