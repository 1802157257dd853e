// Package web is the HTTP API of the engine. It turns requests into calls of the engine's use cases, and
// results into JSON. It contains no rule of the queue itself.
//
// Read routes.go first: it has the resources, and handlers.go, which has what their handlers
// share. A resource is a small type in a file of its own, with a line for each of its operations.
// Calls that carry the load (insert, reserve, complete, fail, extend, release, exchange) are plain
// handlers that scan and write JSON by hand with package wire; the others are plain functions from
// an input struct to an output struct, which huma decodes, checks and documents. Both kinds appear
// in the OpenAPI document, which is generated from the code and kept in testdata/openapi.json.
//
//quern:tests mixed
package web
