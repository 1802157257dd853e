package trace

import (
	"fmt"
	"net/textproto"
	"net/url"
	"strings"
)

// Header is one header of the requests to a collector. Its value may be a secret.
type Header struct{ Name, Value string }

// Bounds of the headers.
const (
	maxHeaders     = 16
	maxHeaderBytes = 8 << 10
)

// ParseHeaders reads NAME=VALUE pairs with commas between, as OTEL_EXPORTER_OTLP_HEADERS
// has them (https://opentelemetry.io/docs/specs/otel/protocol/exporter/): in values %2C is
// a comma. Its errors never have a value in them.
func ParseHeaders(text string) (list []Header, err error) {
	if len(text) > maxHeaderBytes {
		return nil, fmt.Errorf("is longer than %d bytes", maxHeaderBytes)
	}
	for n, pair := range strings.Split(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || !token(name) {
			return nil, fmt.Errorf("has no header's name and a '=' in its part %d; NAME=VALUE pairs with commas "+
				"between are wanted, and %%2C for a comma in a value", n+1)
		}
		if value, err = url.PathUnescape(value); err != nil {
			return nil, fmt.Errorf("has a %% in the value of %s that is no escape; write %%25 for one", name)
		}
		switch name = textproto.CanonicalMIMEHeaderKey(name); name {
		case "Content-Type", "Content-Length", "Content-Encoding", "Transfer-Encoding", "Host", "Connection":
			return nil, fmt.Errorf("has %s, which the server sets itself", name)
		}
		if value == "" || !printable(value) {
			return nil, fmt.Errorf("has a value of %s that is empty, or has bytes that a header may not have", name)
		}
		list = append(list, Header{name, value})
	}
	if len(list) > maxHeaders {
		return nil, fmt.Errorf("has %d headers; at most %d are sent", len(list), maxHeaders)
	}
	return list, nil
}

// token says whether a text may be a header's name.
func token(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	})
}
