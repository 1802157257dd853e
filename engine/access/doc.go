// Package access decides what callers may do: it has access tokens, their scopes, their restrictions, and their limits. It reads no clock,
// no disk and no network. The engine keeps the tokens (engine/tokens.go), and the HTTP face enforces them (web/access.go).
package access
