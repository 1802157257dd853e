// Package api holds the requests and answers of Quern's HTTP interface, exactly as they stand in JSON: snake_case names,
// ids and tokens as strings, times in RFC 3339 (UTC, milliseconds), durations as integers with the unit in the name.
// In a request type, a field without omitempty, omitzero or the tag `required:"false"` is required; every other one may be absent or null.
// The tags of a field have its limits, see Limit; `schema` names the schema of JSON that this package does not look into.
// The comment of a field becomes the description of the property in the server's OpenAPI document, so it names other fields as in JSON.
// The package imports only the standard library, so that any program can import it.
//
//quern:tests pure
package api
