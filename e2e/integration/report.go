package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// result is what became of a test or a subtest: pass, fail, skip, or "" if it did not end.
type result struct {
	action string
	output []string
}

// report has the results of a run by the names of tests and subtests.
type report map[string]*result

// readReport reads the events of test2json.
func readReport(file string) (report, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return parseReport(bytes.NewReader(text))
}

func parseReport(events io.Reader) (report, error) {
	r := report{}
	for decoder := json.NewDecoder(events); ; {
		var event struct{ Action, Test, Output string }
		if err := decoder.Decode(&event); err == io.EOF {
			return r, nil
		} else if err != nil {
			return nil, err
		}
		if event.Test == "" {
			continue
		}
		at := r[event.Test]
		if at == nil {
			at = &result{}
			r[event.Test] = at
		}
		switch event.Action {
		case "pass", "fail", "skip":
			at.action = event.Action
		case "output":
			at.output = append(at.output, event.Output)
		}
	}
}

// passed returns how many tests and how many of their subtests have passed.
func (r report) passed() (tests, cases int) {
	for name, at := range r {
		switch {
		case at.action != "pass":
		case strings.Contains(name, "/"):
			cases++
		default:
			tests++
		}
	}
	return tests, cases
}

// counts says how many tests and cases passed, failed and were skipped.
func (r report) counts(p expected) string {
	tests, cases := r.passed()
	failed, skipped := 0, len(p.skipped())
	for name, at := range r {
		switch {
		case at.action == "skip":
			skipped++
		case at.action != "pass" && at.action != "skip" && !r.hasFailed(name):
			failed++
		}
	}
	return fmt.Sprintf("passed %d tests, %d cases; failed %d; skipped %d", tests, cases, failed, skipped)
}

// hasFailed says whether a subtest of the named one has failed.
func (r report) hasFailed(name string) bool {
	for other, at := range r {
		if strings.HasPrefix(other, name+"/") && at.action != "pass" && at.action != "skip" {
			return true
		}
	}
	return false
}

// differences returns an error for each result that is not the expected one. Of an incomplete run, what was not run is no error.
func (r report) differences(p expected, complete, all bool) (problems []error) {
	skipped := map[string]bool{} // by the listed name
	for name, at := range r {
		if at.action == "skip" {
			skipped[p.maySkip(name)] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r)) {
		switch at := r[name]; {
		case at.action == "pass" && p.fail[name] != "":
			problems = append(problems, fmt.Errorf("%s passes, and is listed to fail: %s", name, p.fail[name]))
		case at.action == "skip" && p.maySkip(name) == "":
			problems = append(problems, fmt.Errorf("%s skips itself, and is not listed\n%s", name, at.text()))
		case at.action == "fail" && !p.mayFail(name) && !(all && p.skip[name] != "") && !r.hasFailed(name):
			problems = append(problems, fmt.Errorf("%s failed\n%s", name, at.text()))
		case at.action == "":
			problems = append(problems, fmt.Errorf("%s did not end\n%s", name, at.text()))
		}
	}
	if !complete {
		return problems
	}
	for _, name := range slices.Sorted(maps.Keys(p.fail)) {
		if r[name] == nil {
			problems = append(problems, fmt.Errorf("%s is listed, and was not run", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.skip)) {
		if strings.Contains(name, "/") && !skipped[name] {
			problems = append(problems, fmt.Errorf("%s is listed, and did not skip itself", name))
		}
	}
	if tests, cases := r.passed(); !all && (tests != p.tests || cases != p.cases) {
		problems = append(problems, fmt.Errorf("passed %d %d, where passed %d %d is expected", tests, cases, p.tests, p.cases))
	}
	return problems
}

// text returns the end of what a test has printed.
func (at *result) text() string {
	const most = 6 << 10
	text := strings.Join(at.output, "")
	return strings.TrimRight(text[max(0, len(text)-most):], "\n")
}
