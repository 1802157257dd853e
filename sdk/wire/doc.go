// Package wire reads and writes the JSON of Quern's hot calls by hand: insert, reserve, complete, fail, extend, release and
// exchange, requests and answers. encoding/json costs more than the whole engine there. Everything else goes through
// Decode, the strict reader built on encoding/json, which is also what the hand-written readers are fuzzed against.
//
// # Reading requests
//
//	func (r *InsertRequest) Decode(data []byte) error       // application/json
//	func (r *InsertRequest) DecodeLines(data []byte) error  // application/x-ndjson
//	func (r *ReserveRequest) Decode(data []byte) error
//	func (r *CompleteRequest) Decode(data []byte) error     // FailRequest, ExtendRequest, ReleaseRequest likewise
//	func (r *ExchangeRequest) Decode(data []byte) error
//	func Decode(data []byte, v any) error                   // any other request type
//
// A request is refused with an *Error that has the JSON pointer of the first thing wrong, in the order of the document:
// bad syntax, an unknown field (names are compared exactly), a field given twice, a value of the wrong kind or out of its
// type's range, a missing required field, anything after the value, nesting deeper than MaxDepth. null means "left out".
//
// The values are reused: Decode forgets what the value held and keeps its memory. Byte slices point into data or into the
// value's own scratch memory, so they are valid until data changes or the value is decoded again, whichever comes first.
//
// # Writing answers
//
//	func (r *ReserveResponse) Append(dst []byte) []byte
//	func (r *ResultsResponse) Append(dst []byte) []byte
//	func (r *ExchangeResponse) Append(dst []byte) []byte
//	func (s *Submission) Append(dst []byte) []byte
//	func AppendMetaEntry(dst []byte, key string, value api.MetaValue) []byte
//	func AppendString, AppendBytes, AppendTime
//
// The client's half (writing requests, reading answers) mirrors this. Readers of answers skip fields they do not know,
// because the server may add some.
package wire
