package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Bytes are opaque bytes: the content of a chunk, an output, an attachment. In JSON they are read from a bare string
// ("row 17", which means text), from {"text":"row 17"} or from {"base64":"cm93IDE3"} (padded standard alphabet), and
// written as {"text":...} when they are valid UTF-8, as {"base64":...} otherwise. Nil is null and means "none"; empty bytes
// are not nil.
type Bytes []byte

// MarshalJSON writes {"text":...}, {"base64":...} or null.
func (b Bytes) MarshalJSON() ([]byte, error) {
	if b == nil {
		return []byte("null"), nil
	}
	if !utf8.Valid(b) {
		dst := append(make([]byte, 0, 13+base64.StdEncoding.EncodedLen(len(b))), `{"base64":"`...)
		dst = base64.StdEncoding.AppendEncode(dst, b)
		return append(dst, `"}`...), nil
	}
	var buf bytes.Buffer
	buf.WriteString(`{"text":`)
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(string(b)); err != nil {
		return nil, err
	}
	buf.Truncate(buf.Len() - 1) // Encode ends with a newline
	buf.WriteByte('}')
	return buf.Bytes(), nil
}

// UnmarshalJSON reads the forms that Bytes describes. The error is a *FieldError whose pointer starts at the value.
func (b *Bytes) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*b = nil
		return nil
	}
	if len(data) > 0 && data[0] == '"' {
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return &FieldError{Detail: "is not a valid JSON string"}
		}
		*b = append(make(Bytes, 0, len(text)), text...)
		return nil
	}
	if len(data) == 0 || data[0] != '{' {
		return &FieldError{Detail: BytesDetail}
	}
	field, value, err := oneField(data)
	if err != nil {
		return err
	}
	if field == "text" {
		*b = append(make(Bytes, 0, len(value)), value...)
		return nil
	}
	decoded, fault := base64.StdEncoding.Strict().DecodeString(value)
	if fault != nil || strings.ContainsAny(value, "\r\n") { // Go skips line breaks, strict or not
		return &FieldError{Pointer: "/base64", Detail: Base64Detail}
	}
	*b = append(make(Bytes, 0, len(decoded)), decoded...)
	return nil
}

// The details of the two ways in which bytes can be wrong; sdk/wire reports them with the same words.
const (
	BytesDetail  = `must be a string, {"text":"..."} or {"base64":"..."}`
	Base64Detail = "must be padded base64 in the standard alphabet (A-Z a-z 0-9 + /), without line breaks"
)

// oneField reads an object with exactly one of the fields "text" and "base64", a string.
func oneField(data []byte) (field, value string, err error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if _, err := decoder.Token(); err != nil {
		return "", "", &FieldError{Detail: BytesDetail}
	}
	for decoder.More() {
		token, err := decoder.Token()
		name, ok := token.(string)
		if err != nil || !ok {
			return "", "", &FieldError{Detail: BytesDetail}
		}
		if name != "text" && name != "base64" {
			return "", "", UnknownField(name)
		}
		if name == field {
			return "", "", &FieldError{Pointer: "/" + name, Detail: DuplicateDetail}
		}
		if field != "" {
			return "", "", &FieldError{Detail: BytesDetail}
		}
		token, err = decoder.Token()
		text, ok := token.(string)
		if err != nil || !ok {
			return "", "", &FieldError{Pointer: "/" + name, Detail: "must be a string"}
		}
		field, value = name, text
	}
	if field == "" {
		return "", "", &FieldError{Detail: BytesDetail}
	}
	return field, value, nil
}

// Content is what a chunk carries: bytes, or the key of an object in object storage.
type Content struct {
	Key   string // when IsKey
	Bytes Bytes  // otherwise
	IsKey bool
}

type contentKey struct {
	Key string `json:"key"`
}

// MarshalJSON writes {"key":...}, {"text":...} or {"base64":...}.
func (c Content) MarshalJSON() ([]byte, error) {
	if c.IsKey {
		return json.Marshal(contentKey{c.Key})
	}
	if c.Bytes == nil {
		return []byte(`{"text":""}`), nil
	}
	return c.Bytes.MarshalJSON()
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Content) UnmarshalJSON(data []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err == nil {
		if raw, ok := fields["key"]; ok {
			var key string
			if err := json.Unmarshal(raw, &key); err != nil {
				return &FieldError{Pointer: "/key", Detail: "must be a string"}
			}
			*c = Content{Key: key, IsKey: true}
			return nil
		}
	}
	*c = Content{}
	return c.Bytes.UnmarshalJSON(data)
}
