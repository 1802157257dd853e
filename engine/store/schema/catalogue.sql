-- The tables of quern.db, version 1. docs/formats/store.md says what their rows are.
CREATE TABLE queue (shard INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, settings TEXT NOT NULL, created INTEGER NOT NULL,
    quarantined INTEGER, oldest INTEGER) STRICT;
CREATE TABLE leftover (shard INTEGER PRIMARY KEY) STRICT;
CREATE TABLE secret (name TEXT NOT NULL UNIQUE, bytes BLOB NOT NULL) STRICT;
CREATE TABLE plugin_version (sha256 BLOB NOT NULL UNIQUE, name TEXT NOT NULL, version TEXT NOT NULL, state TEXT NOT NULL,
    reason TEXT NOT NULL, size INTEGER NOT NULL, manifest BLOB NOT NULL, report BLOB NOT NULL, created INTEGER NOT NULL,
    actor TEXT NOT NULL, module BLOB NOT NULL) STRICT;
CREATE TABLE plugin (name TEXT NOT NULL UNIQUE, revision INTEGER NOT NULL, active BLOB, active_config BLOB, previous BLOB,
    previous_config BLOB, shadow BLOB, shadow_config BLOB, canary BLOB, canary_config BLOB, percent INTEGER NOT NULL,
    settings BLOB NOT NULL, changed INTEGER NOT NULL, actor TEXT NOT NULL) STRICT;
CREATE TABLE token (id TEXT NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE, scopes TEXT NOT NULL, queues TEXT NOT NULL, meta_key TEXT,
    meta_value ANY, created INTEGER NOT NULL, expires INTEGER, used INTEGER, secret BLOB NOT NULL, previous BLOB,
    previous_until INTEGER, subject TEXT) STRICT;
CREATE UNIQUE INDEX token_subject ON token (subject) WHERE subject IS NOT NULL;
CREATE TABLE access (one INTEGER PRIMARY KEY CHECK (one = 1), required INTEGER NOT NULL) STRICT;
CREATE TABLE audit (shard INTEGER NOT NULL, number INTEGER NOT NULL, at INTEGER NOT NULL, queue TEXT NOT NULL,
    crc INTEGER NOT NULL, bytes BLOB NOT NULL) STRICT;
CREATE UNIQUE INDEX audit_number ON audit (shard, number);
CREATE INDEX audit_at ON audit (at, shard, number);
CREATE TABLE row_sum (tab TEXT NOT NULL, row INTEGER NOT NULL, crc INTEGER NOT NULL, UNIQUE (tab, row)) STRICT;
