-- +goose Up
CREATE TABLE plugin_version (sha256 BLOB NOT NULL UNIQUE, name TEXT NOT NULL, version TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL, size INTEGER NOT NULL, manifest BLOB NOT NULL, report BLOB NOT NULL, created INTEGER NOT NULL, actor TEXT NOT NULL, module BLOB NOT NULL) STRICT;
CREATE TABLE plugin (name TEXT NOT NULL UNIQUE, revision INTEGER NOT NULL, active BLOB, active_config BLOB, previous BLOB, previous_config BLOB, shadow BLOB, shadow_config BLOB, canary BLOB, canary_config BLOB, percent INTEGER NOT NULL, settings BLOB NOT NULL, changed INTEGER NOT NULL, actor TEXT NOT NULL) STRICT;
PRAGMA user_version = 4;
