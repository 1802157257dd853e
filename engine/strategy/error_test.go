package strategy

import (
	"errors"
	"strings"
	"testing"

	"github.com/quern-queue/quern/engine/queue"
)

// errorCase is an input that must be refused, where, and with which words among others.
type errorCase struct{ input, pointer, detail string }

var longKey, longValue = strings.Repeat("k", queue.MaxMetaKeyBytes+1), strings.Repeat("v", queue.MaxMetaValueBytes+1)

var textErrors = []errorCase{
	{"", "/strategy", "line 1, column 1: expected a block (CustomPriority, "},
	{" \n\t ", "/strategy", "line 2, column 3: expected a block"},
	{"Randm", "/strategy", "line 1, column 1: unknown block Randm; expected one of CustomPriority, Except, Fair, MaxRate, MaxSimultaneous, NewestFirst, OldestFirst, OrElse, Plugin, PreferDistinct, Random, Score, SelectAny, SelectOnly"},
	{"random", "/strategy", "line 1, column 1: unknown block random"},
	{`Fare("company", Random)`, "/strategy", "line 1, column 1: unknown block Fare"},
	{`Fair("$company", Random)`, "/strategy", "column 6: the key of Fair(key, [cost], underlying) must be a meta key; this has the key \"$company\""},
	{`Fair("$company", Random)`, "/strategy", `or "$submission", which makes every submission a tenant of its own`},
	{`Fair(7, Random)`, "/strategy", "must be a meta key, a string in double quotes; found 7"},
	{`Fair("company", minute, Random)`, "/strategy", "column 17: the cost of Fair(key, [cost], underlying) must be chunk or time: what is shared out, chunks or the time that they are held; found minute"},
	{`Fair("company", time)`, "/strategy", "column 21: expected ','"},
	{`Fair("company", time Random)`, "/strategy", "column 22: expected ','"},
	{strings.Repeat("x", 300), "/strategy", "unknown block " + strings.Repeat("x", 40) + "...;"},
	{"Random()", "/strategy", "column 7: Random has no arguments; expected it without parentheses"},
	{"Random Random", "/strategy", "column 8: expected nothing more after the strategy, found Random"},
	{"Random)", "/strategy", "column 7: expected nothing more after the strategy, found ')'"},
	{"SelectOnly", "/strategy", "column 11: expected '(' as in SelectOnly(key, value, underlying), found the end"},
	{"SelectOnly(", "/strategy", "column 12: the key of SelectOnly(key, value, underlying) must be a meta key, a string in double quotes; found the end"},
	{"SelectOnly(mode, 1, Random)", "/strategy", "column 12: the key of SelectOnly(key, value, underlying) must be a meta key, a string in double quotes; found mode"},
	{"SelectOnly(7, 1, Random)", "/strategy", "column 12: the key of"},
	{`SelectOnly("", 1, Random)`, "/strategy", "column 12: the key of SelectOnly(key, value, underlying) must be a meta key; this has a key of 0 bytes"},
	{`SelectOnly("` + longKey + `", 1, Random)`, "/strategy", "must be a meta key; this has a key of 65 bytes"},
	{`SelectOnly("a b", 1, Random)`, "/strategy", `must be a meta key; this has the key "a b"; letters, digits`},
	{`SelectOnly("$submission", 1, Random)`, "/strategy", "must be a meta key"},
	{`SelectOnly("mode", Random, Random)`, "/strategy", "column 20: the value of SelectOnly(key, value, underlying) must be a string in double quotes or a whole number; found Random"},
	{`SelectOnly("mode", true, Random)`, "/strategy", "found true"},
	{`SelectOnly("mode", NaN, Random)`, "/strategy", "found NaN"},
	{`SelectOnly("mode", 1.0, Random)`, "/strategy", "whole number from -2^63 to 2^63-1, without point or exponent; found 1.0"},
	{`SelectOnly("mode", 1e3, Random)`, "/strategy", "found 1e3"},
	{`SelectOnly("mode", 9223372036854775808, Random)`, "/strategy", "found 9223372036854775808"},
	{`SelectOnly("mode", -9223372036854775809, Random)`, "/strategy", "found -9223372036854775809"},
	{`SelectOnly("mode", "` + longValue + `", Random)`, "/strategy", "must be at most 256 bytes long; found 257"},
	{`SelectOnly("mode", 007, Random)`, "/strategy", "column 20: expected a number as JSON writes it (no leading zeros, digits on both sides of a point), found 007"},
	{`SelectOnly("mode", -, Random)`, "/strategy", "column 20: expected a number"},
	{`SelectOnly("mode", 1., Random)`, "/strategy", "column 20: expected a number"},
	{`SelectOnly("mode", 1.5e, Random)`, "/strategy", "column 20: expected a number"},
	{`SelectOnly("mode", 1x, Random)`, "/strategy", "column 20: expected a number"},
	{`SelectOnly("mode", +1, Random)`, "/strategy", "column 20: unexpected character '+'"},
	{`MaxSimultaneous("k", "20", Random)`, "/strategy", `column 22: the max of MaxSimultaneous(key, max, [missing], underlying) must be a whole number, or a share of the chunks in flight from "1%" to "99%"; found the string "20"`},
	{`MaxSimultaneous("k", "0%", Random)`, "/strategy", `found the string "0%"`},
	{`MaxSimultaneous("k", "100%", Random)`, "/strategy", `found the string "100%"`},
	{`MaxSimultaneous("k", "05%", Random)`, "/strategy", `found the string "05%"`},
	{`MaxSimultaneous("k", "%", Random)`, "/strategy", `found the string "%"`},
	{`MaxSimultaneous("k", "-5%", Random)`, "/strategy", `found the string "-5%"`},
	{`MaxSimultaneous("k", "999999999999%", Random)`, "/strategy", `found the string "999999999999%"`},
	{`MaxRate("k", "20%", "1m", Random)`, "/strategy", "must be a whole number from 1 to 2147483647"},
	{`PreferDistinct("k", "20%", Random)`, "/strategy", "must be a whole number from 1 to 2147483647"},
	{`Fair("k", MaxSimultaneous("k", "20%", Random))`, "/strategy", "has a MaxSimultaneous of 20% beside Fair, which is not supported; give a number, or leave Fair out"},
	{`MaxSimultaneous("k", "20%", Fair("k", Random))`, "/strategy", "has a MaxSimultaneous of 20% beside Fair"},
	{`Score(priority, MaxSimultaneous("k", "20%", Fair("k", Random)))`, "/strategy", "has a MaxSimultaneous of 20% beside Fair"},
	{`MaxSimultaneous("k", "20%", PreferDistinct("k", Random))`, "/strategy", "beside a PreferDistinct without a number, which is not supported; use one of the two"},
	{`MaxSimultaneous("k", "20%", MaxSimultaneous("l", 3, Random))`, "/strategy", `beside a limit of another key or rate (missing=one is one, too), which is not supported; give a number, or a limit of "k" only`},
	{`MaxSimultaneous("k", "20%", missing=one, Random)`, "/strategy", "beside a limit of another key or rate"},
	{`MaxRate("k", 5, "1m", MaxSimultaneous("k", "20%", Random))`, "/strategy", "beside a limit of another key or rate"},
	{`SelectOnly("mode" "preview", Random)`, "/strategy", `column 19: expected ',' as in SelectOnly(key, value, underlying), found the string "preview"`},
	{`SelectOnly("mode", "preview")`, "/strategy", "column 29: expected ','"},
	{`SelectOnly("mode", "preview", Random, Random)`, "/strategy", "column 37: expected ')'"},
	{`SelectOnly("mode", "preview", "Random")`, "/strategy", "column 31: expected a block"},
	{`SelectOnly("mode", "preview", Random`, "/strategy", "column 37: expected ')' as in SelectOnly(key, value, underlying), found the end"},
	{"SelectOnly(\"mode\",\r\n  \"é😀\", Randm)", "/strategy", "line 2, column 9: unknown block Randm"},
	{`SelectOnly("mode", "preview, Random)`, "/strategy", `column 20: string without end; expected a closing '"'`},
	{"SelectOnly(\"mode\", \"a\nb\", Random)", "/strategy", `line 1, column 22: control character in a string; expected the escape \u000a`},
	{`SelectOnly("mode", "a\xb", Random)`, "/strategy", "column 22: unknown escape"},
	{`SelectOnly("mode", "\u12g4", Random)`, "/strategy", "column 21: unknown escape"},
	{`SelectOnly("mode", "\u12`, "/strategy", "column 21: unknown escape"},
	{`SelectOnly("mode", "\`, "/strategy", "column 21: unknown escape"},
	{`SelectOnly("mode", "\ud83d", Random)`, "/strategy", "column 21: half a surrogate pair"},
	{`SelectOnly("mode", "\ude00\ud83d", Random)`, "/strategy", "column 21: half a surrogate pair"},
	{`SelectOnly("mode", "\ud83dx", Random)`, "/strategy", "column 21: half a surrogate pair"},
	{`Plugin(deadline, Random)`, "/strategy", "column 8: the name@version of Plugin(name@version, [config], [window=N], [explore=N], underlying) must be the name of a plugin: 1 to 64 lower-case letters, digits and '-', a letter first, and maybe '@' and a version, in double quotes; found deadline"},
	{`Plugin("Deadline", Random)`, "/strategy", "must be the name of a plugin"},
	{`Plugin("9x", Random)`, "/strategy", "must be the name of a plugin"},
	{`Plugin("` + strings.Repeat("x", 65) + `", Random)`, "/strategy", "must be the name of a plugin"},
	{`Plugin("p@", Random)`, "/strategy", "must be a version as in 1.2.3 or 1.2.3-rc.1, or the first 8 to 64 hexadecimal digits of a sha256; found the string \"\""},
	{`Plugin("p@1.2", Random)`, "/strategy", `must be a version as in 1.2.3 or 1.2.3-rc.1, or the first 8 to 64 hexadecimal digits of a sha256; found the string "1.2"`},
	{`Plugin("p@1.02.3", Random)`, "/strategy", "must be a version"},
	{`Plugin("p@1.2.3-", Random)`, "/strategy", "must be a version"},
	{`Plugin("p@0badcaf", Random)`, "/strategy", "must be a version"},
	{`Plugin("p@0BADCAFE", Random)`, "/strategy", "must be a version"},
	{`Plugin("p", window=15, Random)`, "/strategy", "column 20: the window=N of Plugin(name@version, [config], [window=N], [explore=N], underlying) must be a whole number from 16 to 4096; found 15"},
	{`Plugin("p", window=4097, Random)`, "/strategy", "found 4097"},
	{`Plugin("p", window=1e3, Random)`, "/strategy", "found 1e3"},
	{`Plugin("p", window 64, Random)`, "/strategy", "column 20: expected '=' as in Plugin(name@version"},
	{`Plugin("p", explore=1025, Random)`, "/strategy", "must be a whole number from 0 to 1024; found 1025"},
	{`Plugin("p", explore=-1, Random)`, "/strategy", "found -1"},
	{`Plugin("p", explore=4, window=64, Random)`, "/strategy", "column 24: window is given twice or out of its place; expected it as in Plugin(name@version, [config], [window=N], [explore=N], underlying)"},
	{`Plugin("p", window=64, {}, Random)`, "/strategy", "column 24: config is given twice or out of its place"},
	{`Plugin("p", size=64, Random)`, "/strategy", "column 13: unknown block size"},
	{`Plugin("p", [1], Random)`, "/strategy", "column 13: expected a block"},
	{`Plugin("p", {"a":1,"a":2}, Random)`, "/strategy", "column 20: this is given twice; give each field once"},
	{`Plugin("p", {"a":1e999}, Random)`, "/strategy", "column 13: the config of Plugin(name@version, [config], [window=N], [explore=N], underlying) has the number 1e999, which is too large"},
	{`Plugin("p", ` + strings.Repeat(`{"a":`, 9) + "1" + strings.Repeat("}", 9) + ", Random)", "/strategy", "nests deeper than 8 objects and arrays; make it flatter"},
	{`Plugin("p", {"a" 1}, Random)`, "/strategy", "column 18: expected ':', found 1"},
	{`Plugin("p")`, "/strategy", "column 11: expected ','"},
	{`Fair("a", SelectOnly("b", 1, Plugin("p", Random)))`, "/strategy", "column 30: the strategy has Plugin inside of Fair, which is not supported; put Fair inside, as in Plugin(..., Fair(...))"},
	{`Score(id, OrElse(Random, Plugin("p", Random)))`, "/strategy", "column 26: the strategy has Plugin inside of Score, which is not supported"},
	{`Score("priority", Random)`, "/strategy", "column 7: the score must be a number; found a string"},
	{`Score(priority Random)`, "/strategy", "column 16: expected ',' as in Score(expression, [window=N], [explore=N], underlying), found Random"},
	{"Score(priority *\n prio, Random)", "/strategy", "line 2, column 2: unknown name prio"},
	{`Score(priority, window=8, Random)`, "/strategy", "from 16 to 4096; found 8"},
	{`Score(, Random)`, "/strategy", "column 7: expected a number, a column or a function"},
	{`Score(priority`, "/strategy", "column 15: expected ',' as in Score(expression"},
	{`Score priority`, "/strategy", "column 7: expected '(' as in Score(expression"},
	{"Rand\xffom", "/strategy", "column 5: expected UTF-8, found the byte 0xff"},
	{`SelectOnly("mode", 'preview', Random)`, "/strategy", `column 20: unexpected character '\''`},
	{"\ufeffRandom", "/strategy", `column 1: unexpected character '\ufeff'`},
	{"OrElse()", "/strategy", "column 8: expected a block"},
	{"OrElse(Random)", "/strategy", "column 14: expected ',' as in OrElse(first, second, ...), found ')'"},
	{"OrElse(Random,)", "/strategy", "column 15: expected a block"},
	{"OrElse(Random, Random,)", "/strategy", "column 23: expected a block"},
	{"OrElse(Random; Random)", "/strategy", "column 14: unexpected character ';'"},
	{`MaxSimultaneous("company", 0, Random)`, "/strategy", "column 28: the max of MaxSimultaneous(key, max, [missing], underlying) must be a whole number from 1 to 2147483647, without point or exponent; found 0"},
	{`MaxSimultaneous("company", -1, Random)`, "/strategy", "found -1"},
	{`MaxSimultaneous("company", 2147483648, Random)`, "/strategy", "found 2147483648"},
	{`MaxSimultaneous("company", 99999999999999999999, Random)`, "/strategy", "found 99999999999999999999"},
	{`PreferDistinct("company", 3.0, Random)`, "/strategy", "found 3.0"},
	{`PreferDistinct("company", "3", Random)`, "/strategy", `the max of PreferDistinct(key, [max], [missing], underlying) must be a whole number from 1 to 2147483647, without point or exponent; found the string "3"`},
	{`PreferDistinct("company", three, Random)`, "/strategy", "found three"},
	{`{"type":"random"}`, "/strategy", "column 1: expected a block"},
}

var jsonErrors = []errorCase{
	{"", "/strategy", "is not valid JSON at line 1, column 1: expected a value, found the end"},
	{"null", "/strategy", `must be a strategy: an object with a "type", or a string such as`},
	{"17", "/strategy", "found 17"},
	{"[]", "/strategy", "found an array"},
	{"Random", "/strategy", "is not valid JSON at line 1, column 1: expected a value, found Random"},
	{`"Randm"`, "/strategy", "is wrong at line 1, column 1: unknown block Randm"},
	{`""`, "/strategy", "is wrong at line 1, column 1: expected a block"},
	{`" random"`, "/strategy", "is wrong at line 1, column 2: unknown block random"},
	{`"select_only"`, "/strategy", "must have the arguments of select_only: an object with the fields type, meta_field, value, underlying, or a string with SelectOnly(key, value, underlying)"},
	{`"random" "random"`, "/strategy", "is not valid JSON at line 1, column 10: expected nothing more after the strategy"},
	{`{"type":"random"}]`, "/strategy", "column 18: expected nothing more after the strategy, found ']'"},
	{`{}`, "/strategy/type", "is missing; expected one of custom_priority, except, fair, max_rate, max_simultaneous, newest_first, oldest_first, or_else, plugin, prefer_distinct, random, score, select_any, select_only"},
	{`{"name":"nightly"}`, "/strategy/type", "is missing"},
	{`{"type":7}`, "/strategy/type", "must be a string, one of custom_priority"},
	{`{"type":{"type":"random"}}`, "/strategy/type", "found an object"},
	{`{"type":"fare"}`, "/strategy/type", `names the unknown block "fare"; expected one of custom_priority`},
	{`{"type":"fair","underlying":"random"}`, "/strategy/meta_field", "is missing; the fields of fair are"},
	{`{"type":"fair","meta_field":"$x","underlying":"random"}`, "/strategy/meta_field", "must be a meta key; this has the key"},
	{`{"type":"plugin","name":"p@1.2.3","underlying":"random"}`, "/strategy/name", "a letter first; give the version in the field version; found the string \"p@1.2.3\""},
	{`{"type":"plugin","underlying":"random"}`, "/strategy/name", "is missing; the fields of plugin are type, name, version (optional), config (optional), window (optional), explore (optional), underlying"},
	{`{"type":"plugin","name":"p","version":"1","underlying":"random"}`, "/strategy/version", "must be a version"},
	{`{"type":"plugin","name":"p","version":null,"underlying":"random"}`, "/strategy/version", "must be a version as in 1.2.3 or 1.2.3-rc.1, or the first 8 to 64 hexadecimal digits of a sha256; found null"},
	{`{"type":"plugin","name":"p","config":[],"underlying":"random"}`, "/strategy/config", `must be a JSON object, as in {"weight": 3}; found an array`},
	{`{"type":"plugin","name":"p","config":{"a":{"b":1,"b":2}},"underlying":"random"}`, "/strategy/config/a/b", "is given twice"},
	{`{"type":"plugin","name":"p","window":"64","underlying":"random"}`, "/strategy/window", `must be a whole number from 16 to 4096; found the string "64"`},
	{`{"type":"plugin","name":"p","explore":2000,"underlying":"random"}`, "/strategy/explore", "must be a whole number from 0 to 1024; found 2000"},
	{`{"type":"plugin","name":"p","take":"all","underlying":"random"}`, "/strategy/take", "is not a field of plugin"},
	{`{"type":"score","expression":5,"underlying":"random"}`, "/strategy/expression", `must be a string with an expression, as in "priority*10 - attempts"; found 5`},
	{`{"type":"score","expression":"id + prio","underlying":"random"}`, "/strategy/expression", "is wrong at line 1, column 6: unknown name prio"},
	{`{"type":"score","expression":"id, Random","underlying":"random"}`, "/strategy/expression", "column 3: expected an operator or the end of the expression, found ','"},
	{`{"type":"fair","meta_field":"a","underlying":{"type":"score","expression":"id","underlying":"random"}}`, "/strategy/underlying", "has Score inside of Fair"},
	{`{"type":"Random"}`, "/strategy/type", `names the unknown block "Random"`},
	{`{"type":"random","speed":9}`, "/strategy/speed", "is not a field of random"},
	{`{"type":"select_only","meta_field":"a","value":1,"underlying":"random","a/b~c":9}`, "/strategy/a~1b~0c", "is not a field of select_only; its fields are type, meta_field, value, underlying"},
	{`{"type":"random","type":"random"}`, "/strategy/type", "is given twice"},
	{`{"type":"or_else","branches":["random",{"type":"random","\u0074ype":"random"}]}`, "/strategy/branches/1/type", "is given twice"},
	{`{"type":"select_only","value":"preview","underlying":"random"}`, "/strategy/meta_field", "is missing; the fields of select_only are"},
	{`{"type":"select_only","meta_field":"mode","underlying":"random"}`, "/strategy/value", "is missing"},
	{`{"type":"select_only","meta_field":"mode","value":"preview"}`, "/strategy/underlying", "is missing"},
	{`{"type":"select_only","meta_field":"mode","value":"preview","underlying":null}`, "/strategy/underlying", "must be a strategy"},
	{`{"type":"select_only","meta_field":7,"value":"preview","underlying":"random"}`, "/strategy/meta_field", "must be a meta key, a string in double quotes; found 7"},
	{`{"type":"select_only","meta_field":"a b","value":"preview","underlying":"random"}`, "/strategy/meta_field", `must be a meta key; this has the key "a b"`},
	{`{"type":"select_only","meta_field":"mode","value":true,"underlying":"random"}`, "/strategy/value", "must be a string in double quotes or a whole number; found true"},
	{`{"type":"select_only","meta_field":"mode","value":null,"underlying":"random"}`, "/strategy/value", "found null"},
	{`{"type":"select_only","meta_field":"mode","value":["x"],"underlying":"random"}`, "/strategy/value", "found '['"},
	{`{"type":"select_only","meta_field":"mode","value":1.0,"underlying":"random"}`, "/strategy/value", "without point or exponent; found 1.0"},
	{`{"type":"select_only","meta_field":"mode","value":1E2,"underlying":"random"}`, "/strategy/value", "found 1E2"},
	{`{"type":"select_only","meta_field":"mode","value":NaN,"underlying":"random"}`, "/strategy", "is not valid JSON at line 1, column 51: expected a value, found NaN"},
	{`{"type":"select_only","meta_field":"mode","value":"` + longValue + `","underlying":"random"}`, "/strategy/value", "must be at most 256 bytes long; found 257"},
	{`{"type":"select_only","meta_field":"mode","value":1,"underlying":"SelectOnly(\"a\",\n1, Randm)"}`, "/strategy/underlying", "is wrong at line 2, column 4: unknown block Randm"},
	{`{"type":"max_simultaneous","meta_field":"a","max":0,"underlying":"random"}`, "/strategy/max", "must be a whole number from 1 to 2147483647, without point or exponent; found 0"},
	{`{"type":"max_simultaneous","meta_field":"a","max":2147483648,"underlying":"random"}`, "/strategy/max", "found 2147483648"},
	{`{"type":"prefer_distinct","meta_field":"a","max":-5,"underlying":"random"}`, "/strategy/max", "found -5"},
	{`{"type":"prefer_distinct","meta_field":"a","max":"5","underlying":"random"}`, "/strategy/max", `found the string "5"`},
	{`{"type":"prefer_distinct","meta_field":"a","max":{},"underlying":"random"}`, "/strategy/max", "found '{'"},
	{`{"type":"or_else"}`, "/strategy/try_first", "is missing; the fields of or_else are type, branches (or try_first and fallback)"},
	{`{"type":"or_else","try_first":"random"}`, "/strategy/fallback", "is missing"},
	{`{"type":"or_else","fallback":"random"}`, "/strategy/try_first", "is missing"},
	{`{"type":"or_else","branches":["random","random"],"fallback":"random"}`, "/strategy/fallback", "cannot be combined with branches; give one or the other"},
	{`{"type":"or_else","branches":[]}`, "/strategy/branches", "must be an array of at least two strategies; found 0"},
	{`{"type":"or_else","branches":["random"]}`, "/strategy/branches", "found 1"},
	{`{"type":"or_else","branches":"random"}`, "/strategy/branches", `must be an array of at least two strategies; found the string "random"`},
	{`{"type":"or_else","branches":["random",{"type":"rnd"}]}`, "/strategy/branches/1/type", `names the unknown block "rnd"`},
	{`{"type":"or_else","try_first":"random","fallback":{"type":"or_else","branches":["random","newest"]}}`, "/strategy/fallback/branches/1", "column 1: unknown block newest"},
	{`{"type":"random",}`, "/strategy", "column 18: expected the name of a field in double quotes, found '}'"},
	{`{"type"}`, "/strategy", "column 8: expected ':', found '}'"},
	{`{"type":"random"`, "/strategy", "column 17: expected ',' or '}', found the end"},
	{`{"type":"random" "x":1}`, "/strategy", "column 18: expected ',' or '}'"},
	{`{type:"random"}`, "/strategy", "column 2: expected the name of a field in double quotes, found type"},
	{`["random",]`, "/strategy", "column 11: expected a value, found ']'"},
	{"{\n \"type\": \"ran", "/strategy", "line 2, column 10: string without end"},
	{`{"type":"random","x":"\ud800"}`, "/strategy", "column 23: half a surrogate pair"},
	{"\"Rand\xc3om\"", "/strategy", "column 6: expected UTF-8, found the byte 0xc3"},
}

// Every mistake is CodeInvalid with one problem, which points at the mistake and names the expected
// input.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, c := range textErrors {
		_, err := Parse(c.input)
		c.check(t, "Parse", err)
	}
	for _, c := range jsonErrors {
		_, err := ParseJSON([]byte(c.input))
		c.check(t, "ParseJSON", err)
	}
}

func (c errorCase) check(t *testing.T, function string, err error) {
	t.Helper()
	var got *queue.Error
	if !errors.As(err, &got) {
		t.Errorf("%s(%q): got %v, want a *queue.Error about %s: %s", function, c.input, err, c.pointer, c.detail)
		return
	}
	if got.Code != queue.CodeInvalid || len(got.Problems) != 1 || got.Problems[0].Pointer != c.pointer || !strings.Contains(got.Problems[0].Detail, c.detail) {
		t.Errorf("%s(%q)\n got %q %+v\nwant %q {Pointer:%s Detail:...%s...}", function, c.input, got.Code, got.Problems, queue.CodeInvalid, c.pointer, c.detail)
	}
	if len(got.Error()) > 1000 {
		t.Errorf("%s(%q): the error has %d bytes, want at most 1000: %s", function, clip(c.input), len(got.Error()), got)
	}
}
