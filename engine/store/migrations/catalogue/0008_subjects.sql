-- +goose Up
ALTER TABLE token ADD COLUMN subject TEXT;
CREATE UNIQUE INDEX token_subject ON token (subject) WHERE subject IS NOT NULL;
PRAGMA user_version = 8;
