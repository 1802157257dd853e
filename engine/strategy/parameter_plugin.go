package strategy

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	maxPluginName    = 64
	maxPluginVersion = 64
	maxConfigNesting = 8 // objects and arrays inside each other
)

// The rules for names and versions, for error texts.
const (
	nameRule    = `must be the name of a plugin: 1 to 64 lower-case letters, digits and '-', a letter first`
	versionRule = `must be a version as in 1.2.3 or 1.2.3-rc.1, or the first 8 to 64 hexadecimal digits of a sha256`
)

// readJSON is read for parameters whose argument may be more than one token.
func (p parameter) readJSON(v jsonValue) (arg argument, wrong string) {
	switch p.kind {
	case configParameter:
		arg.config, wrong = readConfig(v)
		return arg, wrong
	case valuesParameter:
		arg.values, wrong = readValues(v)
		return arg, wrong
	case formulaParameter:
		return arg, fmt.Sprintf(`must be a string with an expression, as in "priority*10 - attempts"; found %s`, v.describe())
	case pluginParameter:
		if v.kind == stringToken && strings.Contains(v.text, "@") {
			return arg, nameRule + fmt.Sprintf("; give the version in the field version; found %s", v)
		}
	}
	return p.read(v.token)
}

// readPlugin reads "name" or "name@version".
func readPlugin(t token) (name, version, wrong string) {
	name, version, hasVersion := strings.Cut(t.text, "@")
	if t.kind != stringToken || !isPluginName(name) {
		return "", "", fmt.Sprintf("%s, and maybe '@' and a version, in double quotes; found %s", nameRule, t)
	}
	if hasVersion {
		version, wrong = readVersion(token{kind: stringToken, text: version})
	}
	return name, version, wrong
}

func readVersion(t token) (version, wrong string) {
	if t.kind != stringToken || !isVersion(t.text) && !isDigest(t.text) {
		return "", fmt.Sprintf("%s; found %s", versionRule, t)
	}
	return t.text, ""
}

func isPluginName(text string) bool {
	return len(text) > 0 && len(text) <= maxPluginName && text[0] >= 'a' && text[0] <= 'z' &&
		strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// isVersion says whether a text is a version as in manifests: three numbers and maybe a suffix.
func isVersion(text string) bool {
	numbers, suffix, hasSuffix := strings.Cut(text, "-")
	parts := strings.Split(numbers, ".")
	for _, part := range parts {
		if whole, rest := digits(part); whole == 0 || whole > 9 || rest != "" || whole > 1 && part[0] == '0' {
			return false
		}
	}
	if hasSuffix && (suffix == "" || strings.Trim(strings.ToLower(suffix), "abcdefghijklmnopqrstuvwxyz0123456789.-") != "") {
		return false
	}
	return len(parts) == 3 && len(text) <= maxPluginVersion
}

func isDigest(text string) bool {
	return len(text) >= 8 && len(text) <= 64 && strings.Trim(text, "0123456789abcdef") == ""
}

// readSetting reads the number of a setting.
func (p parameter) readSetting(t token) (arg argument, wrong string) {
	n, err := strconv.ParseUint(t.text, 10, 32)
	if t.kind != numberToken || err != nil || uint32(n) < p.low || uint32(n) > p.high {
		return arg, fmt.Sprintf("must be a whole number from %d to %d; found %s", p.low, p.high, t)
	}
	if uint32(n) == p.usual {
		return arg, ""
	}
	return argument{max: uint32(n), given: true}, ""
}

// outOfPlace says that a token in the place of the parameter is one of the settings, which have a fixed order.
func (d *definition) outOfPlace(p parameter, t token) (wrong string) {
	if p.kind != blockParameter {
		return ""
	}
	at := slices.IndexFunc(d.parameters, func(q parameter) bool { return q.optional && q.opens(t) })
	if at < 0 || d.parameters[at].kind == costParameter {
		return ""
	}
	return fmt.Sprintf("%s is given twice or out of its place; expected it as in %s", d.parameters[at].field, d.usage())
}

// readConfig brings a JSON object into canonical form: fields sorted, no white space, numbers in their shortest form.
func readConfig(v jsonValue) (config, wrong string) {
	if !v.isObject() {
		return "", fmt.Sprintf(`must be a JSON object, as in {"weight": 3}; found %s`, v.describe())
	}
	dst, wrong := appendConfig(nil, v, 1)
	return string(dst), wrong
}

func appendConfig(dst []byte, v jsonValue, nesting int) (_ []byte, wrong string) {
	list := v.isObject() || v.isArray()
	switch {
	case list && nesting > maxConfigNesting:
		return dst, fmt.Sprintf("nests deeper than %d objects and arrays; make it flatter", maxConfigNesting)
	case v.kind == stringToken:
		return appendQuoted(dst, v.text), ""
	case v.kind == numberToken:
		return appendConfigNumber(dst, v.text)
	case !list:
		return append(dst, v.text...), ""
	}
	order := make([]int, len(v.items))
	for i := range order {
		order[i] = i
	}
	if v.isObject() {
		slices.SortFunc(order, func(a, b int) int { return strings.Compare(v.names[a], v.names[b]) })
	}
	dst = append(dst, v.text...)
	for i, at := range order {
		if i > 0 {
			dst = append(dst, ',')
		}
		if v.isObject() {
			dst = append(appendQuoted(dst, v.names[at]), ':')
		}
		if dst, wrong = appendConfig(dst, v.items[at], nesting+1); wrong != "" {
			return dst, wrong
		}
	}
	return append(dst, v.text[0]+2), "" // '{' and '}', '[' and ']' are two apart
}

// appendConfigNumber keeps whole numbers whole, 1.0 and 1e3 included.
func appendConfigNumber(dst []byte, text string) (_ []byte, wrong string) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return strconv.AppendInt(dst, n, 10), ""
	}
	x, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil:
		return dst, fmt.Sprintf("has the number %s, which is too large", clip(text))
	case x == math.Trunc(x) && math.Abs(x) <= 1<<53:
		return strconv.AppendInt(dst, int64(x), 10), ""
	}
	return appendNumber(dst, x), ""
}
