package access

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// SubjectOf is the subject of a certificate, from its DER, as RFC 2253 writes it. It has every attribute in its order: pkix.Name keeps one
// of those that are there twice, so that CN=evil,CN=worker would pass for CN=worker.
func SubjectOf(raw []byte) (string, error) {
	var names pkix.RDNSequence
	if rest, err := asn1.Unmarshal(raw, &names); err != nil || len(rest) > 0 {
		return "", fmt.Errorf("access: the subject of a certificate cannot be read: %w", err)
	}
	return names.String(), nil
}

// attributes are the names that RFC 2253 and Go have for attributes; others are written as OID=#HEX.
var attributes = []struct {
	name string
	oid  asn1.ObjectIdentifier
}{
	{"CN", asn1.ObjectIdentifier{2, 5, 4, 3}}, {"SERIALNUMBER", asn1.ObjectIdentifier{2, 5, 4, 5}},
	{"C", asn1.ObjectIdentifier{2, 5, 4, 6}},
	{"L", asn1.ObjectIdentifier{2, 5, 4, 7}}, {"ST", asn1.ObjectIdentifier{2, 5, 4, 8}}, {"STREET", asn1.ObjectIdentifier{2, 5, 4, 9}},
	{"O", asn1.ObjectIdentifier{2, 5, 4, 10}}, {"OU", asn1.ObjectIdentifier{2, 5, 4, 11}},
	{"POSTALCODE", asn1.ObjectIdentifier{2, 5, 4, 17}},
}

// CheckSubject says why no certificate has this subject as SubjectOf writes it; nil: one can.
func CheckSubject(text string) error {
	var names pkix.RDNSequence
	var set pkix.RelativeDistinguishedNameSET
	for rest := text; ; {
		name, after, found := strings.Cut(rest, "=")
		if !found {
			return fmt.Errorf("has %q, which is not of the form NAME=VALUE", rest)
		}
		oid, err := attributeOf(strings.TrimSpace(name))
		if err != nil {
			return err
		}
		value, next, err := attributeValue(after)
		if err != nil {
			return fmt.Errorf("has for %s %w", strings.TrimSpace(name), err)
		}
		set = append(set, pkix.AttributeTypeAndValue{Type: oid, Value: value})
		if !strings.HasPrefix(next, "+") {
			names = append(pkix.RDNSequence{set}, names...) // the text has the last of them first
			set = nil
		}
		if next == "" {
			break
		}
		rest = next[1:]
	}
	if written := names.String(); written != text {
		return fmt.Errorf("is written %q by the server, with which it is compared", written)
	}
	return nil
}

func attributeOf(name string) (oid asn1.ObjectIdentifier, err error) {
	for _, a := range attributes {
		if strings.EqualFold(a.name, name) {
			return a.oid, nil
		}
	}
	for part := range strings.SplitSeq(name, ".") {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("has an attribute %q; known are CN, SERIALNUMBER, C, L, ST, STREET, O, OU and POSTALCODE, "+
				"and any other as its OID=#HEX of its DER", name)
		}
		oid = append(oid, int(n))
	}
	return oid, nil
}

// attributeValue reads a value up to the comma or plus sign behind it.
func attributeValue(text string) (value any, rest string, err error) {
	var out []byte
	keep := 0 // so many bytes are no spaces that end the value
	for i := 0; ; i++ {
		switch {
		case i == len(text) || text[i] == ',' || text[i] == '+':
			trimmed := string(out[:max(keep, len(strings.TrimRight(string(out), " ")))])
			if der, is := strings.CutPrefix(strings.TrimLeft(text[:i], " "), "#"); is {
				raw, wrong := hex.DecodeString(der)
				if tail, bad := asn1.Unmarshal(raw, &value); wrong != nil || bad != nil || len(tail) > 0 {
					return nil, "", fmt.Errorf("%q, which is not # and the DER of a value in hexadecimal", text[:i])
				}
				return value, text[i:], nil
			}
			if trimmed == "" {
				return nil, "", fmt.Errorf("no value")
			}
			return trimmed, text[i:], nil
		case text[i] == '\\' && i+2 < len(text) && isHex(text[i+1:i+3]):
			b, _ := hex.DecodeString(text[i+1 : i+3])
			out = append(out, b...)
			i += 2
			keep = len(out)
		case text[i] == '\\' && i+1 < len(text):
			out = append(out, text[i+1])
			i++
			keep = len(out)
		case text[i] == ' ' && len(out) == 0: // before the value
		default:
			out = append(out, text[i])
		}
	}
}

func isHex(text string) bool {
	_, err := hex.DecodeString(text)
	return err == nil
}
