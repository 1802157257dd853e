-- +goose Up
-- The end of each journal. Every append changes its row, so there is room beside it for the next version of it.
CREATE TABLE journal (
	id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name text COLLATE "C" NOT NULL UNIQUE,
	tail bigint NOT NULL DEFAULT 0,
	sum bytea NOT NULL DEFAULT '\x00000000000000000000000000000000', -- of the chain up to the tail
	bytes bigint NOT NULL DEFAULT 0, -- of all batches that there ever were
	confirmed bigint NOT NULL DEFAULT 0 -- how often a batch of unknown outcome was found
) WITH (fillfactor = 50);

-- What is trimmed is in a row of its own: appends do not wait for trims.
CREATE TABLE trimmed (
	journal int PRIMARY KEY,
	upto bigint NOT NULL DEFAULT 0,
	sum bytea NOT NULL DEFAULT '\x00000000000000000000000000000000', -- of the chain up to there
	bytes bigint NOT NULL DEFAULT 0 -- of all batches that are gone
);

-- A batch is a row, or several when it is large: `rest` of them follow.
CREATE TABLE batch (
	journal int,
	n bigint,
	part int,
	rest int NOT NULL,
	sum bytea NOT NULL, -- of the chain with this batch
	bytes bytea NOT NULL,
	PRIMARY KEY (journal, n, part)
) WITH (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
ALTER TABLE batch ALTER COLUMN bytes SET STORAGE EXTERNAL; -- batches are compressed already

CREATE TABLE blob (
	key text COLLATE "C" PRIMARY KEY,
	sha256 bytea NOT NULL,
	bytes bytea NOT NULL
);
ALTER TABLE blob ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- One row, which is changed to have a commit behind others.
CREATE TABLE barrier (n bigint NOT NULL) WITH (fillfactor = 50);
INSERT INTO barrier VALUES (0);

CREATE TABLE node (
	name text COLLATE "C" PRIMARY KEY,
	url text NOT NULL,
	counter bigint NOT NULL, -- the bits of an unsigned number
	leaving boolean NOT NULL,
	note text NOT NULL,
	seen timestamptz NOT NULL
) WITH (fillfactor = 50);

CREATE TABLE owner (
	shard int PRIMARY KEY,
	epoch bigint NOT NULL,
	node text NOT NULL
) WITH (fillfactor = 50);
