package main

import (
	"fmt"
	"strings"
	"testing"
)

const file = `package k8s.io/kubernetes/test/integration/auth
passed 1 1

# A comment.
skip TestHooks replaces the server
skip TestCases/itself is only for Windows
fail TestCases/wrong turns a gate off
`

// events are those of a run as the file expects it.
var events = []string{
	"run TestGood", "pass TestGood",
	"run TestCases", "pass TestCases/right", "skip TestCases/itself", "output TestCases/wrong", "fail TestCases/wrong", "fail TestCases",
}

// Each change of a run, or of what is expected, is found.
func TestDifferences(t *testing.T) {
	for _, c := range []struct {
		name     string
		file     string
		events   []string
		complete bool
		want     string
	}{
		{"as expected", file, events, true, ""},
		{"a part of the tests", file, events[:2], false, ""},
		{"another test fails", file, append(events, "fail TestNew"), true, "TestNew failed"},
		{"another subtest fails", file, append(events, "fail TestCases/new"), true, "TestCases/new failed"},
		{"a subtest of a listed one fails", strings.Replace(file, "TestCases/wrong", "TestCases", 1), events, true, ""},
		{"a listed test passes", strings.Replace(file, "skip TestHooks", "fail TestGood", 1), events, true, "TestGood passes, and is listed to fail: replaces the server"},
		{"a listed subtest is not there", strings.Replace(file, "itself", "another", 1), events, true,
			"TestCases/itself skips itself, and is not listed\n\nTestCases/another is listed, and did not skip itself"},
		{"all subtests that skip themselves", strings.Replace(file, "TestCases/itself", "TestCases/", 1), events, true, ""},
		{"a test does not end", file, append(events, "run TestHangs"), true, "TestHangs did not end"},
		{"fewer tests", file, events[2:], true, "passed 0 1, where passed 1 1 is expected"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := parseExpected(c.file)
			if err != nil {
				t.Fatal(err)
			}
			r, err := parseReport(strings.NewReader(asJSON(c.events)))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, problem := range r.differences(p, c.complete, false) {
				got = append(got, strings.TrimSpace(problem.Error()))
			}
			if got, want := strings.Join(got, "\n"), strings.ReplaceAll(c.want, "\n\n", "\n"); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// asJSON writes events as test2json does.
func asJSON(events []string) string {
	var text strings.Builder
	for _, event := range events {
		action, test, _ := strings.Cut(event, " ")
		fmt.Fprintf(&text, "{\"Action\":%q,\"Test\":%q}\n", action, test)
	}
	return text.String()
}

// A listed test that the package does not have is found before the run.
func TestUnknown(t *testing.T) {
	p, err := parseExpected(file)
	if err != nil {
		t.Fatal(err)
	}
	if problems := p.unknown([]string{"TestHooks", "TestCases"}); len(problems) > 0 {
		t.Error(problems)
	}
	if problems := p.unknown([]string{"TestCases"}); len(problems) != 1 || problems[0].Error() != "TestHooks is listed, and there is no such test" {
		t.Error(problems)
	}
}

// The counts are those of the last line of a run.
func TestCounts(t *testing.T) {
	p, err := parseExpected(file)
	if err != nil {
		t.Fatal(err)
	}
	r, err := parseReport(strings.NewReader(asJSON(events)))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := r.counts(p), "passed 1 tests, 1 cases; failed 1; skipped 2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Every file of the directory is about a package of a module whose files are replaced, and gives its reasons.
func TestExpectedFiles(t *testing.T) {
	packages, err := readExpected()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range packages {
		if module, _, ok := strings.Cut(p.path, "/test/integration"); !ok || replaced[module] == nil {
			t.Errorf("%s belongs to no module whose files are replaced", p.path)
		}
		if p.tests == 0 {
			t.Errorf("%s: no test is expected to pass", p.path)
		}
	}
}

// A line that says nothing is refused.
func TestLines(t *testing.T) {
	for _, line := range []string{"skip TestWithoutReason", "passed some", "pass TestX"} {
		if _, err := parseExpected("package p\n" + line); err == nil {
			t.Errorf("%s: no error", line)
		}
	}
}
