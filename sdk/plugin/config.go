package plugin

import "strconv"

// Number is the number under a key of the configuration, or otherwise when there is none. What this reads has been checked
// against ConfigSchema; for more than single values use a JSON parser, which makes the module 1.4 MB larger.
func (s *Setup) Number(key string, otherwise float64) float64 {
	if v, err := strconv.ParseFloat(member(s.Config, key), 64); err == nil {
		return v
	}
	return otherwise
}

// Text is the string under a key of the configuration, or otherwise when there is none.
func (s *Setup) Text(key, otherwise string) string {
	if v, err := strconv.Unquote(member(s.Config, key)); err == nil {
		return v
	}
	return otherwise
}

// Truth is the truth value under a key of the configuration, or otherwise when there is none.
func (s *Setup) Truth(key string, otherwise bool) bool {
	switch member(s.Config, key) {
	case "true":
		return true
	case "false":
		return false
	}
	return otherwise
}

// member is the text of the value under a key of the object that config is, "" when there is none. The key has no escapes.
func member(config []byte, key string) string {
	depth, from, wanted := 0, 0, false
	for at := 0; at < len(config); at++ {
		switch config[at] {
		case '"':
			start := at
			for at++; at < len(config) && config[at] != '"'; at++ {
				if config[at] == '\\' {
					at++
				}
			}
			if depth == 1 && from < 0 && at < len(config) {
				wanted = string(config[start+1:at]) == key
			}
		case '{', '[':
			if depth++; depth == 1 {
				from = -1
			}
		case ':':
			if depth == 1 {
				from = at + 1
			}
		case ',', '}', ']':
			if depth == 1 && wanted && from >= 0 {
				return trimmed(config[from:at])
			}
			if depth == 1 {
				from = -1
			}
			if config[at] != ',' {
				depth--
			}
		}
	}
	return ""
}

func trimmed(text []byte) string {
	space := func(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }
	for len(text) > 0 && space(text[0]) {
		text = text[1:]
	}
	for len(text) > 0 && space(text[len(text)-1]) {
		text = text[:len(text)-1]
	}
	return string(text)
}
