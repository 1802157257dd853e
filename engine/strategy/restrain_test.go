package strategy

import "testing"

// A restrained plan has every limit at 0, says each alternative once, and is the plan itself when there is no limit.
func TestRestrained(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`MaxSimultaneous("a", 3, Random)`: "1 Random while a<0",
		`OrElse(MaxSimultaneous("a", 1, OldestFirst), MaxSimultaneous("a", 5, OldestFirst))`:            "1 OldestFirst while a<0",
		`PreferDistinct("a", 2, SelectOnly("b", 1, MaxSimultaneous("c", 4, NewestFirst)))`:              "1 NewestFirst where b=1 while a<0 and c<0\n2 NewestFirst where b=1 while c<0",
		`Fair("t", MaxSimultaneous("a", 3, Random))`:                                                    "1 Fair t Random while a<0",
		`Score(priority, MaxSimultaneous("a", 3, OldestFirst))`:                                         "1 Score priority (OldestFirst while a<0)\n2 OldestFirst while a<0 on fault",
		`Fair("t", OrElse(MaxSimultaneous("a", 1, OldestFirst), MaxSimultaneous("a", 2, OldestFirst)))`: "1 Fair t OldestFirst while a<0",
	} {
		parsed, err := Parse(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		plan := parsed.Plan()
		before := plan.String()
		if got := plan.Restrained().String(); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", text, got, want)
		}
		if plan.String() != before {
			t.Errorf("%s: the plan itself is now\n%s", text, plan)
		}
	}
	free, err := Parse(`OrElse(SelectOnly("a", 1, Random), Fair("t", Random))`)
	if err != nil {
		t.Fatal(err)
	}
	if free.Plan().Restrained() != free.Plan() {
		t.Error("a plan without limits is not its own")
	}
}
