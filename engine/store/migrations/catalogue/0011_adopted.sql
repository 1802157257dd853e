-- +goose Up
-- What is set for values, and named strategies, go into the journals of their queues when these are opened next, and these tables stay
-- empty from then on. The settings of a queue are in its journal too; here is a copy, to open its files by and to show while it does not serve.
PRAGMA user_version = 11;
