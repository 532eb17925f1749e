package main

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

//go:embed expected/*.txt
var files embed.FS

// expected is the expected result of a package, from a file of these lines:
//
//	package PATH
//	passed TESTS CASES   how many tests pass, and how many subtests of any depth
//	skip NAME REASON     a test that is not run, or a subtest that skips itself; a name that ends with / is for all subtests that skip themselves
//	fail NAME REASON     a test or a subtest that fails; the tests that it is a part of fail with it
//
// A line that begins with # is a comment.
type expected struct {
	path         string
	tests, cases int
	skip, fail   map[string]string // reasons by name
}

// readExpected reads all files.
func readExpected() ([]expected, error) {
	names, err := fs.Glob(files, "expected/*.txt")
	if err != nil {
		return nil, err
	}
	var packages []expected
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		p, err := parseExpected(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		packages = append(packages, p)
	}
	return packages, nil
}

func parseExpected(text string) (expected, error) {
	p := expected{skip: map[string]string{}, fail: map[string]string{}}
	for n, line := range strings.Split(text, "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		kind, rest, _ := strings.Cut(line, " ")
		name, reason, _ := strings.Cut(rest, " ")
		switch {
		case kind == "package" && reason == "":
			p.path = name
		case kind == "passed":
			if _, err := fmt.Sscan(rest, &p.tests, &p.cases); err != nil {
				return p, fmt.Errorf("line %d: %w", n+1, err)
			}
		case kind == "skip" && reason != "":
			p.skip[name] = reason
		case kind == "fail" && reason != "":
			p.fail[name] = reason
		default:
			return p, fmt.Errorf("line %d: %q", n+1, line)
		}
	}
	if p.path == "" {
		return p, fmt.Errorf("no package is named")
	}
	return p, nil
}

// skipped returns the names of the tests that are not run.
func (p expected) skipped() (names []string) {
	for name := range p.skip {
		if !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// unknown returns an error for each test that the file names and the package does not have.
func (p expected) unknown(known []string) (problems []error) {
	for _, listed := range []map[string]string{p.skip, p.fail} {
		for name := range listed {
			if test, _, _ := strings.Cut(name, "/"); !slices.Contains(known, test) {
				problems = append(problems, fmt.Errorf("%s is listed, and there is no such test", name))
			}
		}
	}
	return problems
}

// maySkip returns the name under which a test that skips itself is listed, or nothing.
func (p expected) maySkip(name string) string {
	for listed := range p.skip {
		if name == listed || strings.HasSuffix(listed, "/") && strings.HasPrefix(name, listed) {
			return listed
		}
	}
	return ""
}

// mayFail says whether a failure of the named test is expected, because it is listed, or belongs to a listed one, or has a listed one.
func (p expected) mayFail(name string) bool {
	for listed := range p.fail {
		if name == listed || strings.HasPrefix(name, listed+"/") || strings.HasPrefix(listed, name+"/") {
			return true
		}
	}
	return false
}
