package queue

import (
	"net/url"
	"strings"
	"testing"
)

// A value that is written as an address is read as the same value, and its text is one step of the path.
func TestValueAddress(t *testing.T) {
	t.Parallel()
	for _, value := range []MetaValue{
		IntValue(7), IntValue(-1 << 63), StringValue("acme"), StringValue("7"), StringValue("007"), StringValue("+7"), StringValue("-"),
		StringValue("99999999999999999999"), StringValue("s:x"), StringValue(""), StringValue("."), StringValue(".."), StringValue("a/b?c#d%2f"),
		StringValue("_other"), StringValue("\xff\x00"), StringValue("größe"),
	} {
		address := ValueAddress("q", MetaEntry{Key: "company", Value: value})
		step, found := strings.CutPrefix(address, "/v1/queues/q/meta-keys/company/values/")
		text, err := url.PathUnescape(step)
		if !found || err != nil || strings.Contains(step, "/") || strings.Trim(step, ".") == "" {
			t.Errorf("the address of %q is %s (%v)", value.Quoted(), address, err)
			continue
		}
		if read, err := ReadValue("/path/value", text); err != nil || read != value {
			t.Errorf("%s is read as %q (%v), want %q", address, read.Quoted(), err, value.Quoted())
		}
	}
}
