package wire

import "strings"

var reserveSeeds = []string{
	`{"max":10}`,
	`{"max":10,"strategy":"Random","consumer":"host-1","wait_ms":20000,"timeout_ms":600000,"context":{"zone":3,"model":"x"}}`,
	` { "max" : -0 , "strategy" : { "type" : [ 1 , -2.5e+3 , true , false , null , "\u00e9" ] } } `,
	`{"max":1,"strategy":null,"consumer":null,"wait_ms":null,"timeout_ms":null,"context":null}`,
	`{"max":1.0}`, `{"max":1e3}`, `{"max":01}`, `{"max":"1"}`, `{"max":null}`, `{}`, `{"max":9223372036854775808}`,
	`{"max":-9223372036854775808}`, `{"max":-9223372036854775809}`, `{"max":1,"max":2}`, `{"max":1,"Max":2}`, `{"ma\u0078":3}`,
	`{"max":1,"unknown/~field":2}`, `{"max":1,"consumer":"\ud83d\ude00 \ud83d x \ude00 \ud83d\ud83d\ude00"}`,
	"{\"max\":1,\"consumer\":\"\xff\xc3\x28 \xe2\x82\"}", `{"max":1,"consumer":"\b\f\n\r\t\/\\\""}`,
	"{\"max\":1,\"consumer\":\"a\nb\"}", `{"max":1,"consumer":"\x"}`, `{"max":1,"consumer":"\u12"}`,
	`{"max":1,"context":{"a":1.5}}`, `{"max":1,"context":{"a":true}}`, `{"max":1,"context":{"a":9223372036854775808}}`,
	`{"max":1,"context":{"a":1,"a":2}}`, `{"max":1,"context":{"a":null}}`, `{"max":1,"context":{"a/b":{}}}`, `{"max":1,"context":[]}`,
	`{"max":1,"context":{"":"","\ud800":"x","�":"y"}}`,
	`{"max":1,"strategy":` + strings.Repeat("[", 31) + strings.Repeat("]", 31) + `}`,
	`{"max":1,"strategy":` + strings.Repeat("[", 32) + strings.Repeat("]", 32) + `}`,
	`{"max":1,"context":{` + manyKeys(60) + `}}`, `{"max":1,"context":{` + manyKeys(60) + `,"k7":1}}`,
	`{"bad":1,"max":}`, `{"max":1} {}`, `{"max":1}x`, `{"` + strings.Repeat("long~", 50) + `":1}`, `{"` + strings.Repeat("€", 80) + `":1}`,
}

var completeSeeds = []string{
	`{"items":[]}`, `{"items":[{"token":"abc"}]}`, `{"items":[{"token":"abc","output":"text"},{"token":"","output":{"text":"a\"b"}},{"output":{"base64":"cm93"},"token":"x"}]}`,
	`{"items":[{"token":"abc","output":null},{"token":"d","output":""}]}`, `{"items":[{"output":"x"}]}`, `{"items":null}`, `{}`, `{"items":{}}`,
	`{"items":[null]}`, `{"items":[[]]}`, `{"items":[{"token":"a"},{"token":null}]}`, `{"items":[{"token":5}]}`, `{"items":[{"token":"a","token":"b"}]}`,
	`{"items":[{"token":"a","output":{}}]}`, `{"items":[{"token":"a","output":{"text":"a","base64":"YQ=="}}]}`, `{"items":[{"token":"a","output":{"base64":"!!","text":"a"}}]}`,
	`{"items":[{"token":"a","output":{"base64":"YQ"}}]}`, `{"items":[{"token":"a","output":{"base64":"YR=="}}]}`, `{"items":[{"token":"a","output":{"base64":"YW\nFh"}}]}`,
	`{"items":[{"token":"a","output":{"base64":"YQ==\n"}}]}`, `{"items":[{"token":"a","output":{"base64":""}}]}`, `{"items":[{"token":"a","output":{"text":null}}]}`,
	`{"items":[{"token":"a","output":{"text":1}}]}`, `{"items":[{"token":"a","output":{"key":"x"}}]}`, `{"items":[{"token":"a","output":{"text":"a","text":"b"}}]}`,
	`{"items":[{"token":"a","output":[1]}]}`, `{"items":[{"token":"a","output":7}]}`, `{"items":[{"token":"a","output":{"text":"\ud83d\ude00\u0000"}}]}`,
	`{"items":[{"token":"a","output":{"base64":"\u0059\u0051=="}}]}`, `{"items":[{"token":"a","extra":1}]}`, `{"items":[{"token":"a"},]}`, `{"items":[,]}`, `{"items":[{}]}`,
	`{"items":[{"token":"a"} {"token":"b"}]}`, `{"items":[` + strings.Repeat(`{"token":""},`, 10000) + `{"token":""}]}`,
	`{"items":[` + strings.Repeat(`{"token":""},`, 9999) + `{"token":""}]}`,
	`{"items":[{"token":"a","insert":[]},{"token":"b","insert":[{"chunks":{"count":1,"prefix":"x"}}, 7 ,"\u00e9",[[]],null]}]}`,
	`{"items":[{"token":"a","insert":null}]}`, `{"items":[{"token":"a","insert":{}}]}`, `{"items":[{"token":"a","insert":[{]}]}`, `{"items":[{"token":"a","insert":[1,]}]}`,
	`{"items":[{"token":"a","insert":[` + strings.Repeat(`{},`, 99) + `{}]}]}`, `{"items":[{"token":"a","insert":[` + strings.Repeat(`{},`, 100) + `{}]}]}`,
}

var exchangeSeeds = []string{
	`{}`, `{"complete":[{"token":"a","output":"x"}],"fail":[{"token":"b","error":"why","fatal":true,"retry_after_ms":50}],"extend":[{"token":"c","timeout_ms":60000}],"reserve":{"max":5,"strategy":{"type":"random"},"wait_ms":100}}`,
	`{"complete":null,"fail":null,"extend":null,"reserve":null}`, `{"reserve":{}}`, `{"reserve":{"max":1,"strategy":"a","context":{"a":"b","a":1}}}`, `{"reserve":[]}`,
	`{"fail":[{"token":"b","fatal":1}]}`, `{"fail":[{"token":"b","fatal":false,"retry_after_ms":null,"error":null}]}`, `{"fail":[{"token":"b","retry_after_ms":1.5}]}`,
	`{"fail":[{"token":"b","retry_at":"2026-02-28T10:00:00.123Z"},{"token":"c","retry_at":null}],"consumer":"host-1"}`, `{"fail":[{"token":"b","retry_at":5}]}`, `{"consumer":5}`, `{"consumer":"a","consumer":"b"}`,
	`{"extend":[{"token":"b","timeout_ms":"5"}]}`, `{"extend":[{"token":"b","progress":0.4,"note":"page 3"},{"token":"c","progress":1e-3},{"token":"d","progress":null,"note":null}]}`,
	`{"extend":[{"token":"b","progress":"0.4"}]}`, `{"extend":[{"token":"b","progress":1e999}]}`, `{"extend":[{"token":"b","progress":0.4.}]}`, `{"extend":[{"token":"b","note":7}]}`,
	`{"extend":[{"timeout_ms":-5}]}`, `{"complete":[],"complete":[]}`, `{"release":[]}`, `{"complete":[{"token":"a"}],"fail":[{"token":tru}]}`,
	`{"reserve":{"max":1,"strategy":` + strings.Repeat("[", 30) + strings.Repeat("]", 30) + `}}`, `{"reserve":{"max":1,"strategy":` + strings.Repeat("[", 31) + strings.Repeat("]", 31) + `}}`,
	`{"reserve":{"max":1,"consumer":"\u00e9"},"complete":[{"token":"\u0061","output":{"base64":"/w=="}}]}`,
}

var insertSeeds = []string{
	`{"chunks":{"count":1000,"prefix":"s3://bucket/x/"}}`, `{"chunks":{"inline":["a",{"text":"b"},{"base64":"/w=="},""]}}`, `{"chunks":{"count":5,"template":"row {index}"}}`,
	`{"meta":{"company":123,"mode":"preview"},"priority":-3,"chunks":{"count":1},"attachment":{"base64":"AAE="},"operations_per_chunk":1000,"run_at":"2026-02-28T10:00:00.123Z","dead_deadline":"2026-03-01T00:00:00+02:00","max_attempts":3,"on_exhausted":"skip","group":"g"}`,
	`{"chunks":{}}`, `{"chunks":null}`, `{}`, `{"chunks":[]}`, `{"chunks":{"count":-1}}`, `{"chunks":{"count":-0}}`, `{"chunks":{"count":4294967295}}`, `{"chunks":{"count":4294967296}}`,
	`{"chunks":{"inline":[]}}`, `{"chunks":{"inline":null}}`, `{"chunks":{"inline":[null]}}`, `{"chunks":{"inline":["a",5]}}`, `{"chunks":{"inline":["a",{"text":"b","x":1}]}}`,
	`{"chunks":{"count":1},"run_at":"2026-02-30T10:00:00Z"}`, `{"chunks":{"count":1},"run_at":"2026-02-28T10:00:60.000Z"}`, `{"chunks":{"count":1},"run_at":"2024-02-29T23:59:59.999Z"}`,
	`{"chunks":{"count":1},"run_at":"1969-12-31T23:59:59Z"}`, `{"chunks":{"count":1},"run_at":"0001-01-01T00:00:00Z"}`, `{"chunks":{"count":1},"run_at":"1970-01-01T00:00:00Z"}`, `{"chunks":{"count":1},"run_at":"1970-01-01T00:00:00.001Z"}`,
	`{"chunks":{"count":1},"run_at":"2026-01-01T00:00:00,5Z"}`, `{"chunks":{"count":1},"run_at":"2026-01-01t00:00:00z"}`, `{"chunks":{"count":1},"run_at":5}`, `{"chunks":{"count":1},"run_at":"2026-01-01T00:00:00.999999999Z"}`,
	`{"chunks":{"count":1},"run_at":"2026-\u00301-01T00:00:00.000Z","run_at":null}`, `{"chunks":{"count":1},"run_at":"9999-12-31T23:59:59.999Z"}`, `{"chunks":{"count":1},"run_at":"2026-01-01T24:00:00.000Z"}`,
	`{"chunks":{"count":1},"max_attempts":65536}`, `{"chunks":{"count":1},"operations_per_chunk":1.5}`, `{"chunks":{"count":1},"attachment":null,"meta":null}`, `{"chunks":{"count":1},"meta":{"a":-0,"b":-9223372036854775808}}`,
	`{"chunks":{"inline":[` + strings.Repeat(`"",`, 100000) + `""]}}`,
}

var brokenSeeds = []string{
	``, ` `, `null`, `[]`, `5`, `"x"`, `{`, `}`, `{"`, `{"max`, `{"max"`, `{"max":`, `{"max":1`, `{"max":1,`, `{"max":1,}`, `{,}`, `{"max" 1}`, `{max:1}`, `{'max':1}`, "\ufeff{}", "{}\x00", `{"items":[`,
	`{"items":[{"token":"a"`, `{"items":[{"token":"a"}`, `{"items":[{"token":"a"}]`, `{"items":[{"token":"a`, `{"items":[{"token":"a\`, `nul`, `{"items":nul}`, `{"strategy":tru}`, `{"strategy":-}`, `{"strategy":1.}`, `{"strategy":1e}`, `{"strategy":.5}`, `{"strategy":[1,]}`, `{"strategy":{"a":1,}}`, `{"strategy":{"a"}}`,
	"{\"\x01\":1}", "{\"\xff\":1}", `{"\ud800":1}`, strings.Repeat("[", 33), strings.Repeat("[", 33) + strings.Repeat("]", 33), strings.Repeat(`{"a":`, 40) + "1" + strings.Repeat("}", 40),
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"k` + string(rune('0'+i/10)) + string(rune('0'+i%10)) + `":1`)
	}
	return strings.ReplaceAll(b.String(), `"k0`, `"k`)
}
