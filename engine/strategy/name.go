package strategy

import "slices"

// ParseName reads the form in which a strategy is asked for by its name: an object with the field "name" and without
// "type". It says ok false, and nothing more, of everything else, which ParseJSON reads or refuses. A mistake in the form
// itself is a *queue.Error of CodeInvalid that points at the wrong field. Whether there is such a name is not looked up here.
func ParseName(raw []byte) (name string, ok bool, err error) {
	if len(raw) > MaxBytes {
		return "", false, nil
	}
	v, err := readJSON(string(raw))
	if err != nil || !v.isObject() || !slices.Contains(v.names, "name") || slices.Contains(v.names, "type") {
		return "", false, nil // also what is not JSON: ParseJSON says what is wrong with it
	}
	for _, field := range v.names {
		if field != "name" {
			return "", true, invalid(pointer+"/"+escapePointer(field),
				"cannot be combined with name: give the name alone")
		}
	}
	found, _ := v.find("name")
	if found.kind != stringToken {
		return "", true, invalid(pointer+"/name", "must be a string; found %s", found.describe())
	}
	return found.text, true, nil
}
