package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Texts that identify a permissive licence, and texts of licences with obligations for redistribution of the binary.
var (
	permissive = regexp.MustCompile(`(?i)Apache License,?\s+Version 2\.0|` +
		`Permission is hereby granted, free of charge|` + // MIT
		`Redistribution and use in source and binary forms|` + // BSD
		`Permission to use, copy, modify, and(/or)? distribute this software|` + // ISC
		`This is free and unencumbered software released into the public domain|` +
		`has been dedicated to the public\s+domain`) // SQLite
	binding = regexp.MustCompile(`(?i)Mozilla Public License|GNU (Lesser |Affero |Library )?General Public License|` +
		`Eclipse Public License|Common Development and Distribution License|Business Source License|Server Side Public License|` +
		`European Union Public Licence|Creative Commons Attribution-ShareAlike`)
	licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)`)
)

// notOfTheCode are licences of parts of a module that are not in the binary, by the path of the module.
var notOfTheCode = map[string]string{
	"github.com/opencontainers/go-digest": "LICENSE.docs", // of its documentation
	"modernc.org/memory":                  "LICENSE-LOGO", // of a picture
	// These are the licences of what its tests and its generator need. The linked part of that is a module of its own
	// here, which is checked as such.
	"modernc.org/sqlite": "LICENSE-3RD-PARTY.md",
}

// classify returns the problem of a licence's text.
func classify(text string) string {
	switch {
	case binding.MatchString(text):
		return binding.FindString(text)
	case !permissive.MatchString(text):
		return "unknown licence"
	}
	return ""
}

// licencesOf returns the files that may have the licence of a package: those in its directory and in the directories
// above it, up to the root of its module.
func licencesOf(t *testing.T, dir, root string) []string {
	t.Helper()
	var found []string
	for {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if licenceFile.MatchString(e.Name()) && !e.IsDir() && filepath.Ext(e.Name()) != ".go" {
				found = append(found, filepath.Join(dir, e.Name()))
			}
		}
		if dir == root || len(dir) < len(root) {
			return found
		}
		dir = filepath.Dir(dir)
	}
}

// TestLinkedLicences checks that all modules linked into the binary have permissive licences.
func TestLinkedLicences(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{$.ImportPath}} {{$.Dir}} {{.Dir}} {{.Path}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := 0
	seen := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		packages++
		files := licencesOf(t, fields[1], fields[2])
		if len(files) == 0 {
			t.Errorf("%s: no licence", fields[0])
		}
		for _, file := range files {
			if seen[file] || notOfTheCode[fields[3]] == filepath.Base(file) {
				continue
			}
			seen[file] = true
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if wrong := classify(string(text)); wrong != "" {
				t.Errorf("%s: %s in %s", fields[0], wrong, file)
			}
		}
	}
	if packages < 500 || len(seen) < 50 {
		t.Errorf("only %d packages and %d licences", packages, len(seen))
	}
}

func TestClassify(t *testing.T) {
	for text, want := range map[string]string{
		"Apache License\n    Version 2.0, January 2004":                                         "",
		"Permission is hereby granted, free of charge, to any person":                           "",
		"Mozilla Public License Version 2.0":                                                    "Mozilla Public License",
		"GNU LESSER GENERAL PUBLIC LICENSE":                                                     "GNU LESSER GENERAL PUBLIC LICENSE",
		"All rights reserved.":                                                                  "unknown licence",
		"Permission is hereby granted, free of charge, or under the GNU General Public License": "GNU General Public License",
	} {
		if got := classify(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
