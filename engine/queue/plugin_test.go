package queue

import (
	"reflect"
	"testing"

	"github.com/quern-queue/quern/sdk/api"
)

// Each field of a plugin's settings is declared, and one that is not allowed is refused with its name, the value, and what is allowed.
func TestPluginSettingsAreDeclared(t *testing.T) {
	t.Parallel()
	if declared, fields := len(PluginSettings()), reflect.TypeFor[api.PluginSettings]().NumField(); declared != fields {
		t.Errorf("%d settings of a plugin are declared, want %d", declared, fields)
	}
	for _, test := range []struct {
		settings api.PluginSettings
		want     string
	}{
		{api.PluginSettings{}, ""},
		{api.PluginSettings{Hold: "open", CPUShare: 64, RecordEvery: 1 << 30, LogLevel: 3}, ""},
		{api.PluginSettings{Hold: "ajar"}, "/hold must be empty, open or closed"},
		{api.PluginSettings{CPUShare: 64.5}, "/cpu_share is 64.5; 0 (the server's 0.25) to 64 are allowed"},
		{api.PluginSettings{RecordEvery: -1}, "/record_every is -1; 0 (the server's 10,000) to 1,073,741,824 are allowed"},
		{api.PluginSettings{LogLevel: 4}, "/log_level is 4; 0 to 3 are allowed"},
	} {
		got := ""
		for _, d := range PluginSettings() {
			if err := d.Valid(&test.settings); err != nil {
				got += err.Error()
			}
		}
		if want := test.want; want != "" && got != "invalid: The request is not valid.; "+want || want == "" && got != "" {
			t.Errorf("%+v: got %q, want %q", test.settings, got, want)
		}
	}
}
