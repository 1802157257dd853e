-- +goose Up
-- When a queue whose files are damaged was set aside, and the oldest start that its files may be of when it is back; NULL: it serves.
ALTER TABLE queue ADD COLUMN quarantined INTEGER;
ALTER TABLE queue ADD COLUMN oldest INTEGER;
PRAGMA user_version = 10;
