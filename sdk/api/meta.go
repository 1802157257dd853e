package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"
)

// MetaValue is a string or an int64; "7" and 7 are different values. The zero value is the empty string.
type MetaValue struct {
	text    string
	number  int64
	numeric bool
}

// Text makes a string value.
func Text(text string) MetaValue { return MetaValue{text: text} }

// Int makes an integer value.
func Int(n int64) MetaValue { return MetaValue{number: n, numeric: true} }

// IsInt says which of the two kinds v is.
func (v MetaValue) IsInt() bool { return v.numeric }

// Int is the number of an integer value, 0 for a string.
func (v MetaValue) Int() int64 { return v.number }

// Text is the text of a string value, "" for an integer.
func (v MetaValue) Text() string { return v.text }

// String is the value for a person: the bare number or the bare text.
func (v MetaValue) String() string {
	if v.numeric {
		return strconv.FormatInt(v.number, 10)
	}
	return v.text
}

// Quoted is the value within a sentence: the number, or the text in quotes.
func (v MetaValue) Quoted() string {
	if v.numeric {
		return v.String()
	}
	return strconv.Quote(v.text)
}

// Compare orders values: integers by number before strings by bytes.
func (v MetaValue) Compare(w MetaValue) int {
	if v.numeric != w.numeric {
		if v.numeric {
			return -1
		}
		return 1
	}
	if v.numeric {
		return cmp.Compare(v.number, w.number)
	}
	return cmp.Compare(v.text, w.text)
}

// MarshalJSON writes a number or a string.
func (v MetaValue) MarshalJSON() ([]byte, error) {
	if v.numeric {
		return strconv.AppendInt(nil, v.number, 10), nil
	}
	return json.Marshal(v.text)
}

// UnmarshalJSON reads a string or a whole number of at most 64 bits. Everything else, fractions and exponents included,
// is refused with a *FieldError.
func (v *MetaValue) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return &FieldError{Detail: MetaDetail}
		}
		*v = Text(text)
		return nil
	}
	n, err := strconv.ParseInt(string(data), 10, 64)
	if err != nil {
		return &FieldError{Detail: MetaDetail}
	}
	*v = Int(n)
	return nil
}

// Meta is a submission's strategic metadata (what strategies see): at most 32 keys of at most 64 bytes.
type Meta map[string]MetaValue

// UnmarshalJSON reads an object of strings and whole numbers; a key that is given twice is refused. null leaves m nil.
func (m *Meta) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*m = nil
		return nil
	}
	if len(data) == 0 || data[0] != '{' {
		return &FieldError{Detail: ObjectDetail}
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	if _, err := decoder.Token(); err != nil {
		return &FieldError{Detail: ObjectDetail}
	}
	meta := make(Meta)
	for decoder.More() {
		token, err := decoder.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return &FieldError{Detail: ObjectDetail}
		}
		pointer := "/" + EscapePointer(key)
		if _, twice := meta[key]; twice {
			return &FieldError{Pointer: pointer, Detail: DuplicateDetail}
		}
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			return &FieldError{Pointer: pointer, Detail: MetaDetail}
		}
		var value MetaValue
		if err := value.UnmarshalJSON(raw); err != nil {
			return &FieldError{Pointer: pointer, Detail: MetaDetail}
		}
		meta[key] = value
	}
	*m = meta
	return nil
}
