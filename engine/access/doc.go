// Package access says who may do what: access tokens, the scopes they have, what they are restricted to and how much they may
// ask for at once. Nothing here reads a clock, a disk or the network; the engine keeps the tokens (engine/tokens.go) and the
// HTTP face enforces them (web/access.go).
package access
