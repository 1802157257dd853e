package queue

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// SettingsRow is settings as files and the audit log have them: a JSON object in the order of their declaration, every duration in
// milliseconds.
type SettingsRow Settings

// MarshalJSON leaves out what is new since the first version and at zero, so that a row that needs nothing new is as that wrote it.
func (r SettingsRow) MarshalJSON() ([]byte, error) {
	settings := Settings(r)
	text := []byte{'{'}
	for _, d := range AllSettings() {
		if d.LeftOut(&settings) {
			continue
		}
		value := d.Value(&settings)
		if v, is := d.Pointer(&settings).(*time.Duration); is {
			value = v.Milliseconds()
		}
		written, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		if len(text) > 1 {
			text = append(text, ',')
		}
		text = fmt.Appendf(text, "%q:%s", d.RowName(), written)
	}
	return append(text, '}'), nil
}

// Row is the settings in one text.
func (s Settings) Row() string {
	text, err := SettingsRow(s).MarshalJSON()
	if err != nil {
		panic(err) // numbers, names and durations always can be written
	}
	return string(text)
}

// SettingsOf reads a row. What an older version did not know is as in a new queue.
func SettingsOf(text string) (Settings, error) {
	s := DefaultSettings()
	var row map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &row); err != nil {
		return s, err
	}
	for _, d := range AllSettings() {
		if value, ok := row[d.RowName()]; ok {
			if err := readSetting(d, &s, value); err != nil {
				return s, fmt.Errorf("%s: %w", d.RowName(), err)
			}
		}
	}
	return s, nil
}

func readSetting(d *Setting, s *Settings, value json.RawMessage) (err error) {
	switch to := d.Pointer(s).(type) {
	case *time.Duration:
		var n int64
		err = json.Unmarshal(value, &n)
		*to = ofMilliseconds(n)
	default:
		if d.Names == nil {
			return json.Unmarshal(value, to)
		}
		var name string
		if err = json.Unmarshal(value, &name); err == nil {
			err = d.Set(s, name)
		}
	}
	return err
}

func ofMilliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// ETag names a version of what an operator set under a name, for the header If-Match. The digest of what it says keeps apart a version and
// the one of the same number after the name was deleted and set again.
func ETag(version uint32, says []byte) string {
	digest := sha256.Sum256(says)
	return fmt.Sprintf(`"%d-%s"`, version, hex.EncodeToString(digest[:8]))
}
