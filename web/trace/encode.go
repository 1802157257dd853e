package trace

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"
)

// A batch is an ExportTraceServiceRequest in the JSON of OTLP: ids are hexadecimal, numbers of 64 bits are strings,
// names are in lowerCamelCase, kinds and codes are numbers, and empty fields are left out. It is written by hand
// because the generated types of OTLP would be most of the program's dependencies, for one message.
//
//	{"resourceSpans":[{"resource":{...},"scopeSpans":[{"scope":{...},"spans":[   appendHead, once
//	  {span},{span},...                                                          appendSpan
//	]}]}]}                                                                       appendBatch

// errorCode is OTLP's STATUS_CODE_ERROR.
const errorCode = 2

// appendHead writes the part before the spans, which names their sender. appendBatch writes the rest.
func appendHead(b []byte, o *Options) []byte {
	b = append(b, `{"resourceSpans":[{"resource":{"attributes":`...)
	resource := []Attribute{Text("service.name", "quern")}
	if o.Version != "" {
		resource = append(resource, Text("service.version", o.Version))
	}
	if o.Instance != "" {
		resource = append(resource, Text("service.instance.id", o.Instance))
	}
	b = appendAttributes(b, resource)
	b = append(b, `},"scopeSpans":[{"scope":{"name":"github.com/quern-queue/quern"`...)
	if o.Version != "" {
		b = appendText(append(b, `,"version":`...), o.Version)
	}
	return append(b, `},"spans":[`...)
}

// appendBatch writes spans and closes what appendHead opened. The head is the same for all batches, so it is made
// once.
func appendBatch(b []byte, spans []*Span) []byte {
	for i, s := range spans {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendSpan(b, s)
	}
	return append(b, `]}]}]}`...)
}

// The order of the fields does not matter to a collector. A root span has no parent, and then no field for it.
func appendSpan(b []byte, s *Span) []byte {
	b = appendContext(append(b, '{'), &s.own)
	if s.parent != [8]byte{} {
		b = append(b, `,"parentSpanId":"`...)
		b = append(hex.AppendEncode(b, s.parent[:]), '"')
	}
	b = appendText(append(b, `,"name":`...), s.name)
	b = append(b, `,"kind":`...)
	b = strconv.AppendInt(b, int64(s.kind), 10)
	b = appendTime(append(b, `,"startTimeUnixNano":`...), s.start)
	b = appendTime(append(b, `,"endTimeUnixNano":`...), s.end)
	if len(s.attributes) > 0 {
		b = appendAttributes(append(b, `,"attributes":`...), s.attributes)
	}
	if len(s.links) > 0 {
		b = append(b, `,"links":[`...)
		for i := range s.links {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendContext(append(b, '{'), &s.links[i]), '}')
		}
		b = append(b, ']')
	}
	if s.linksDropped > 0 {
		b = append(b, `,"droppedLinksCount":`...)
		b = strconv.AppendInt(b, int64(s.linksDropped), 10)
	}
	if s.failed {
		b = append(b, `,"status":{"code":`...)
		b = strconv.AppendInt(b, errorCode, 10)
		b = append(appendText(append(b, `,"message":`...), s.detail), '}')
	}
	return append(b, '}')
}

// The ids are hexadecimal: the mapping of OTLP makes this one exception from base64 for bytes.
// appendContext writes the ids, the state and the flags.
func appendContext(b []byte, c *Context) []byte {
	b = append(b, `"traceId":"`...)
	b = hex.AppendEncode(b, c.Trace[:])
	b = append(b, `","spanId":"`...)
	b = append(hex.AppendEncode(b, c.Span[:]), '"')
	if c.State != "" {
		b = appendText(append(b, `,"traceState":`...), c.State)
	}
	b = append(b, `,"flags":`...)
	return strconv.AppendUint(b, uint64(c.Flags), 10)
}

// appendAttributes writes the two types of values that Quern has. Whole numbers are texts in JSON, as 64 bits do not
// fit into its numbers.
func appendAttributes(b []byte, list []Attribute) []byte {
	b = append(b, '[')
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(append(b, `{"key":`...), list[i].Key)
		if list[i].IsText {
			b = appendText(append(b, `,"value":{"stringValue":`...), list[i].Text)
		} else {
			b = append(b, `,"value":{"intValue":"`...)
			b = append(strconv.AppendInt(b, list[i].Number, 10), '"')
		}
		b = append(b, `}}`...)
	}
	return append(b, ']')
}

// appendTime writes nanoseconds since 1970, as a text for the same reason.
func appendTime(b []byte, at time.Time) []byte {
	b = strconv.AppendInt(append(b, '"'), at.UnixNano(), 10)
	return append(b, '"')
}

// appendText writes a JSON string. It replaces bytes that are no UTF-8.
func appendText(b []byte, text string) []byte {
	quoted, err := json.Marshal(text)
	if err != nil { // a string always can be written
		return append(b, `""`...)
	}
	return append(b, quoted...)
}
