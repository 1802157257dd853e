-- +goose Up
PRAGMA user_version = 8;
