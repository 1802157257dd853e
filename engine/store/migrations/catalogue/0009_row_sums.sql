-- +goose Up
CREATE TABLE row_sum (tab TEXT NOT NULL, row INTEGER NOT NULL, crc INTEGER NOT NULL, UNIQUE (tab, row)) STRICT;
-- The next open makes the checksums of the rows that are there, and takes this row away: see sums.go.
INSERT INTO row_sum (tab, row, crc) VALUES ('', 0, 0);
PRAGMA user_version = 9;
