-- +goose Up
CREATE TABLE strategy (shard INTEGER NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL, text TEXT NOT NULL, created INTEGER NOT NULL, UNIQUE (shard, name, version)) STRICT;
PRAGMA user_version = 2;
