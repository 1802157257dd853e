package api

import "encoding/json"

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
