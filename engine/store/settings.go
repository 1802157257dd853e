package store

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/quern-queue/quern/engine/queue"
)

// SettingsState is settings as the audit log shows them: with the names that they have in the catalogue.
func SettingsState(s queue.Settings) any { return settingsRow(s) }

// settingsRow is settings as they are in the catalogue: a JSON object in the order of their declaration, every duration in milliseconds.
type settingsRow queue.Settings

func (r settingsRow) MarshalJSON() ([]byte, error) {
	settings := queue.Settings(r)
	text := []byte{'{'}
	for _, d := range queue.AllSettings() {
		if d.LeftOut(&settings) {
			continue
		}
		value := d.Value(&settings)
		switch v := d.Pointer(&settings).(type) {
		case *time.Duration:
			value = v.Milliseconds()
		case *queue.Backoff:
			value = backoffRow{v.Base.Milliseconds(), v.Factor, v.Cap.Milliseconds()}
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

// settingsOf reads a row. What an older version did not know is as in a new queue.
func settingsOf(text string) (queue.Settings, error) {
	s := queue.DefaultSettings()
	var row map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &row); err != nil {
		return s, err
	}
	for _, d := range queue.AllSettings() {
		if value, ok := row[d.RowName()]; ok {
			if err := readSetting(d, &s, value); err != nil {
				return s, fmt.Errorf("%s: %w", d.RowName(), err)
			}
		}
	}
	return s, nil
}

func readSetting(d *queue.Setting, s *queue.Settings, value json.RawMessage) (err error) {
	switch to := d.Pointer(s).(type) {
	case *time.Duration:
		var n int64
		err = json.Unmarshal(value, &n)
		*to = milliseconds(n)
	case *queue.Backoff:
		var b backoffRow
		err = json.Unmarshal(value, &b)
		*to = queue.Backoff{Base: milliseconds(b.BaseMs), Factor: b.Factor, Cap: milliseconds(b.CapMs)}
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

type backoffRow struct {
	BaseMs int64   `json:"base_ms"`
	Factor float64 `json:"factor"`
	CapMs  int64   `json:"cap_ms"`
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
