-- +goose Up
CREATE TABLE meta_value (shard INTEGER NOT NULL, key TEXT NOT NULL, value ANY NOT NULL, most INTEGER, weight INTEGER, version INTEGER NOT NULL, changed INTEGER NOT NULL, UNIQUE (shard, key, value)) STRICT;
PRAGMA user_version = 3;
